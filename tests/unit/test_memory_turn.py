"""What of a turn becomes a memory, and what is noise, filler or an echo."""

from __future__ import annotations

import pytest

from plait.domain.errors import MemoryInvalid
from plait.domain.memory import MemoryEntry, MemorySource, MemoryType
from plait.memory.recalled import paragraphs, without_recalled
from plait.memory.turn import (
    COMMAND,
    MAX_STATEMENTS,
    RECALLED,
    TRIVIAL,
    ToolOutcome,
    Turn,
    check_turn,
    memories,
    reduced,
    statements,
    trivial,
    without_paragraphs,
)


def of(*said: str, **fields: object) -> tuple[list[MemoryEntry], str]:
    turn = Turn(*said, **fields)  # type: ignore[arg-type]
    return memories("r", "a", "s", turn)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("ok", TRIVIAL),
        ("Thanks!", TRIVIAL),
        ("yes, please go ahead", TRIVIAL),
        ("LGTM 👍", TRIVIAL),
        ("", TRIVIAL),
        ("/clear", COMMAND),
        ("/model opus 4", COMMAND),
        ("/etc/hosts is wrong", ""),
        ("fix the login", ""),
        ("no, use tabs", ""),
        ("спасибо за помощь с сервером", ""),
        ("yes " * 100, ""),
    ],
)
def test_trivial(text: str, cause: str) -> None:
    assert trivial(text) == cause


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Always run make check before you push.", "instruction"),
        ("Please never commit to main.", "instruction"),
        ("From now on, write tests first.", "instruction"),
        ("When you edit the API, always regenerate the stubs.", "instruction"),
        ("We use uv, not pip.", "convention"),
        ("This repo uses tabs.", "convention"),
        ("I prefer small commits.", "convention"),
        ("Our convention is snake_case for columns.", "convention"),
        ("Remember that staging is on port 8443.", "remember"),
        ("keep in mind: the CI has no network", "remember"),
        ("Do we always run the tests?", None),
        ("Fix the failing login test.", None),
        ("It has always been slow.", None),
        ("> Always quote mail", None),
        ("```\nalways = True\n```", None),
    ],
)
def test_statements(text: str, rule: str | None) -> None:
    assert [s.rule for s in statements(text)] == ([rule] if rule else [])


def test_a_statement_is_found_among_other_things() -> None:
    text = "The login fails on Safari. Always test with src/app.py open. Can you look?\n\n- We use pnpm here."
    found = statements(text)
    assert [s.text for s in found] == ["Always test with src/app.py open.", "We use pnpm here."]
    assert all(s.type is MemoryType.PROCEDURAL and s.importance > 0.5 for s in found)


def test_a_turn_becomes_one_memory_for_each_who_spoke() -> None:
    entries, note = of(
        "The login fails. We use pnpm here.",
        "The cookie is not sent because SameSite is strict.",
        outcomes=(ToolOutcome("bash", "1 failed", "pnpm test", succeeded=False),),
    )
    told = [(e.metadata.source, e.type, e.kind, e.content) for e in entries]
    user, episodic = MemorySource.USER, MemoryType.EPISODIC
    assert told == [
        (user, episodic, "turn", "The login fails. We use pnpm here."),
        (user, MemoryType.PROCEDURAL, "memory", "We use pnpm here."),
        (
            MemorySource.AGENT,
            episodic,
            "turn",
            "The cookie is not sent because SameSite is strict.",
        ),
        (MemorySource.SYSTEM, episodic, "turn", "bash pnpm test → failed\n1 failed"),
    ]
    assert note == ""
    assert {e.metadata.session_key for e in entries} == {"s"}


def test_a_message_that_is_one_statement_is_one_memory() -> None:
    entries, _ = of("Always run make check.")
    assert [(e.content, e.kind) for e in entries] == [("Always run make check.", "memory")]


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (("ok",), TRIVIAL),
        (("/clear",), COMMAND),
        (("## Relevant Memories\n- [score: 0.85] Use tabs",), RECALLED),
        (("thanks", "## Relevant Memories\n\n- [score: 0.9] x"), TRIVIAL),
    ],
)
def test_why_nothing_is_kept(said: tuple[str, ...], cause: str) -> None:
    assert of(*said) == ([], cause)


def test_a_success_without_output_or_command_says_nothing() -> None:
    assert of(outcomes=(ToolOutcome("edit", ""),)) == ([], TRIVIAL)
    (entry,), _ = of(outcomes=(ToolOutcome("edit", "", succeeded=False),))
    assert entry.content == "edit → failed"


# -- tools ----------------------------------------------------------------------------------------------


def test_long_output_is_reduced_to_what_tells() -> None:
    lines = [f"compiled module {i}" for i in range(500)]
    lines[250] = "src/app.py:12: error: name 'x' is not defined"
    out = reduced("\n".join(lines)).split("\n")
    assert out[:6] == lines[:6]
    assert out[-12:] == lines[-12:]
    assert lines[250] in out
    assert len(out) == 6 + 12 + 1 + 2
    assert "[… 244 lines]" in out


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("10%\r50%\r100% done", ""),
        ("a\rb\rlast", "last"),
        ("\x1b[31mred\x1b[0m text", "red text"),
        ("Downloading wheels\nInstalling x\nERROR: no match", "ERROR: no match"),
        ("=====\n\n-----", ""),
        ("windows\r\nlines\r\n", "windows\nlines"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_noise_goes(raw: str, expected: str) -> None:
    assert reduced(raw) == expected


# -- what was recalled --------------------------------------------------------------------------------------

BLOCK = """## Relevant Memories

- [score: 0.85] Use tabs
  over two lines
- [score: 0.40] Other
"""


@pytest.mark.parametrize(
    ("title", "text", "left"),
    [
        ("a block at the end", f"Fix it.\n\n{BLOCK}", "Fix it.\n"),
        ("one's own words after it", f"{BLOCK}\nFix the login.\n- and this", "Fix the login.\n- and this"),
        ("a lazy line is of its bullet", "## Relevant Memories\n- [score: 1] a\nb\n\nmine", "mine"),
        ("text right under the heading is of it", "## Relevant Memories\nThese were found:\n\nmine", "mine"),
        ("a block before the next heading", f"{BLOCK}\n## Task\nFix it.", "## Task\nFix it."),
        ("a deeper heading is of the block", f"{BLOCK}### More\nx\n# Task\ny", "# Task\ny"),
        ("bullets alone", "Do:\n- [score: 0.9] x\n  more\n- mine", "Do:\n- mine"),
        ("quoted bullets", "> - [score: 0.9] x\nmine", "mine"),
        ("any case", "# relevant memories #\nx", ""),
        ("a plain list stays", "- score 0.9\n- [x] done", "- score 0.9\n- [x] done"),
        ("a heading in a fence is code", "```\n## Relevant Memories\n```\nx", "```\n## Relevant Memories\n```\nx"),
        ("nothing recalled", "Relevant Memories are good", "Relevant Memories are good"),
    ],
)  # fmt: skip
def test_recalled_text_goes(title: str, text: str, left: str) -> None:
    assert without_recalled(text) == left


def test_paragraphs_keep_fences_whole() -> None:
    assert paragraphs("a\nb\n\n\n```\nx\n\ny\n```\n\nc\n") == ["a\nb", "```\nx\n\ny\n```", "c"]


def test_known_paragraphs_go_and_the_rest_stays() -> None:
    entries, _ = of("We ship on Mondays at noon\n\nFix the login\n\nand the logout", "known")
    left = without_paragraphs(entries, {"Fix the login", "known"})
    assert [e.content for e in left] == ["We ship on Mondays at noon\n\nand the logout"]


# -- hostile input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        Turn(),
        Turn(" \n"),
        Turn("x\0"),
        Turn("\ud800"),
        Turn("x" * (2**20 + 1)),
        Turn("x", outcomes=(ToolOutcome("t", "r"),) * 101),
        Turn("x", outcomes=(ToolOutcome(" ", "r"),)),
        Turn("x", outcomes=(ToolOutcome("t" * 257, "r"),)),
        Turn("x", outcomes=(ToolOutcome("t", "r" * 2**20),) * 5),
    ],
)
def test_a_turn_that_breaks_a_rule_is_refused(bad: Turn) -> None:
    with pytest.raises(MemoryInvalid):
        check_turn(bad)


@pytest.mark.parametrize(
    "text",
    ["." * 10**6, "a." * 500_000, "\n" * 10**6, "- [score: 0" * 90_000, "#" * 10**6, "\x1b]" * 500_000,
     "always " * 140_000, "we " * 350_000, "`" * 10**6, "\r" * 10**6, "you we " * 150_000, "é!" * 350_000],
)  # fmt: skip
def test_megabytes_of_anything_end_soon(text: str) -> None:
    """Quadratic work would take hours."""
    entries, _ = of(text, text, outcomes=(ToolOutcome("t", text, text),))
    assert len(entries) <= 3 + MAX_STATEMENTS
