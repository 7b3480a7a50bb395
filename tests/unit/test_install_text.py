"""The TOML table, the marked lines and the skill: put once, taken whole, nothing else touched."""

from __future__ import annotations

import tomllib

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from server.install import marked, skill, toml_entry
from server.install.agents import AGENTS
from server.install.refusal import Refused

CODEX = next(agent for agent in AGENTS if agent.name == "codex").server
OURS = {"command": "plait", "args": ["mcp"]}


def round_trip(text: str) -> str:
    there = toml_entry.put(text, CODEX, "plait")
    assert toml_entry.put(there, CODEX, "plait") == there
    assert tomllib.loads(there.removeprefix("\ufeff"))["mcp_servers"]["plait"] == OURS
    assert toml_entry.take(there, CODEX) == text
    return there


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "\n\n",
        "# only a comment",
        'model = "x"',
        'model = "x"\n',
        'model = "x"\r\n\r\n[a]\r\nb = 1',
        "a = nan\n",
        '[mcp_servers.other]\ncommand = "y"\n\n[projects."/a b"]\ntrust_level = "trusted"\n\n\n',
        '[mcp_servers.a]\ncommand = "y"\n[z]\n[mcp_servers.b]\ncommand = "y"\n# end',
        'mcp_servers.x.command = "y"\n',
        'a = """\n[mcp_servers.plait]\ncommand = "no"\n"""\n',
        "\ufeffa = 1\n",
        "[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = 'command'\n",
    ],
)
def test_a_table_put_and_taken_is_the_identity(text: str) -> None:
    round_trip(text)


def test_a_new_toml_file_is_gone_again() -> None:
    there = toml_entry.put(None, CODEX, "plait")
    assert there == '[mcp_servers.plait]\ncommand = "plait"\nargs = ["mcp"]\n'
    assert toml_entry.take(there, CODEX) is None


def test_what_codex_adds_behind_and_below_our_table_is_told_apart() -> None:
    there = toml_entry.put('model = "x"\n', CODEX, "plait")
    later = (
        there
        + '\n[mcp_servers.plait.tools.recall]\napproval_mode = "approve"\n'
        + '\n[projects."/p"]\ntrust_level = "trusted"\n'
    )
    assert (
        toml_entry.take(later, CODEX) == 'model = "x"\n\n[projects."/p"]\ntrust_level = "trusted"\n'
    )


def test_an_entry_in_another_shape_is_taken_too() -> None:
    text = 'a = 1 # mine\nmcp_servers = { x = { command = "y" }, plait = { command = "plait", args = ["mcp"] } }\n'
    left = toml_entry.take(text, CODEX)
    assert left is not None
    assert "# mine" in left
    assert tomllib.loads(left) == {"a": 1, "mcp_servers": {"x": {"command": "y"}}}


def test_another_place_of_this_installation_is_brought_up_to_date() -> None:
    old = toml_entry.put("a = 1 # mine\n", CODEX, "/old/plait")
    new = toml_entry.put(old, CODEX, "plait")
    assert tomllib.loads(new)["mcp_servers"]["plait"] == OURS
    assert toml_entry.take(new, CODEX) == "a = 1 # mine\n"


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a = 1\nb = \n", "not valid TOML", 2),
        ("a = 1\na = 2\n", "not valid TOML", 2),
        ("mcp_servers = 3\n", "must be a table", 0),
        ("\nmcp_servers = { x = {} }\n", "by hand", 2),
        ('\n[mcp_servers.plait]\ncommand = "other"\n', "Plait did not write", 2),
        ("a = " + "[" * 100_000, "nested too deeply", 0),
    ],
)
def test_what_cannot_be_edited_is_refused_with_its_line(text: str, message: str, line: int) -> None:
    with pytest.raises(Refused, match=message) as caught:
        toml_entry.put(text, CODEX, "plait")
    assert caught.value.line == line


KEYS = st.sampled_from(["a", "b", "mcp_servers", "x y", "plait"])
LEAVES = st.one_of(st.integers(-9, 9), st.booleans(), st.text("ab \"'#[]\n=", max_size=6))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(LEAVES, max_size=2),
        st.dictionaries(st.sampled_from(["c", "d", "plait"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(KEYS.filter(lambda k: k != "mcp_servers"), TREES, max_size=4),
    st.lists(st.sampled_from(["", "# note", "   "]), max_size=3),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_any_toml_document_is_the_same_after_install_and_uninstall(
    tree: dict[str, object], notes: list[str], eol: str, cut: bool
) -> None:
    rows = [*notes, *tomlkit.dumps(tree).split("\n"), *notes]
    text = eol.join(rows)
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    round_trip(text.rstrip() if cut else text)


# -- marked lines ---------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from("ab\n\r \ufeff#"), max_size=8)


@settings(max_examples=100, deadline=None)
@given(TEXTS, TEXTS)
def test_marked_lines_leave_the_text_as_it_was(text: str, later: str) -> None:
    there = marked.put(text)
    assert marked.put(there) == there
    assert marked.take(there) == text
    left = marked.take(there + later + "mine") or ""
    assert left.startswith(text)
    assert left.endswith(later + "mine")
    assert left[len(text) : len(left) - len(later + "mine")] in ("", "\n", "\r\n", "\r")


def test_four_lines_between_marks() -> None:
    rows = marked.put(None).splitlines()
    assert (rows[0], rows[-1], len(rows)) == (marked.BEGIN, marked.END, 6)
    assert marked.take(marked.put(None)) is None
    for tool in ("recall", "search", "graph", "remember", 'plait recall "'):
        assert any(tool in row for row in rows)


def test_older_lines_of_ours_are_renewed_in_place() -> None:
    text = f"# Mine\n\n{marked.BEGIN}\nan older line\n{marked.END}\n\nmore of mine\n"
    new = marked.put(text)
    assert "older" not in new
    assert new.startswith("# Mine\n\n<!--")
    assert new.endswith("-->\n\nmore of mine\n")
    assert marked.take(new) == "# Mine\n\nmore of mine\n"


@pytest.mark.parametrize(
    "text",
    [
        marked.BEGIN,
        marked.END,
        marked.END + marked.BEGIN,
        (marked.BEGIN + marked.END) * 2,
    ],
)
def test_broken_marks_are_left_alone(text: str) -> None:
    for edit in (marked.put, marked.take):
        with pytest.raises(Refused, match="once each"):
            edit(text)


# -- the skill ------------------------------------------------------------------------------------


def test_the_skill_is_ours_until_it_is_edited() -> None:
    text = skill.put(None)
    assert skill.put(text) == text
    assert skill.take(text) is None
    for edit in (skill.put, skill.take):
        with pytest.raises(Refused, match="edited"):
            edit(text.replace("Plait", "Plaited", 1))
    with pytest.raises(Refused, match="not written by Plait"):
        skill.put("---\nname: plait\n---\n")
    assert skill.take("---\nname: plait\n---\n") == "---\nname: plait\n---\n"


def test_the_skills_head_is_what_clients_accept() -> None:
    import yaml

    head = yaml.safe_load(skill.BODY.split("---\n")[1])
    assert head["name"] == "plait"
    assert 0 < len(head["description"]) <= 1024
