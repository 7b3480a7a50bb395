"""Which tool calls look something up, and by what."""

from __future__ import annotations

import pytest

from etl.ingest.importers.costs.look_ups import of_command, of_tool, pushed_by_plait
from plait.domain.savings import Looked

PLAIT, SEARCH, READ = Looked.PLAIT, Looked.SEARCH, Looked.READ

COMMANDS = [
    ("rg -n retry src", SEARCH),
    ("cd src && rg -n 'a|b' | head -5", SEARCH),
    ('grep -rn "def foo" --include=*.py .', SEARCH),
    ("find . -name '*.py' | xargs grep -l foo", SEARCH),
    ("find . -name '*.py' -exec grep -l foo {} +", SEARCH),
    ("ls -la && git grep retry", SEARCH),
    ("bash -lc 'rg foo src'", SEARCH),
    ("timeout 5 rg x 2>/dev/null || echo none", SEARCH),
    ("wc -l $(git ls-files '*.py')", SEARCH),
    ("cat a.py", READ),
    ("sed -n '1,40p' a.py", READ),
    ("head -50 a; tail -3 b", READ),
    ("for f in a b; do cat $f; done", READ),
    ("cat a 2>&1", READ),
    ("plait recall 'retry the download' --budget 300 | head", PLAIT),
    ("./.venv/bin/plait search x", PLAIT),
    ("uv run plait graph callers x", PLAIT),
    ("cat a.py && plait recall x && pytest -q", PLAIT),  # in doubt Plait costs more
    ("sed -i 's/a/b/' a.py", None),
    ("sed -E -i.bak s/a/b/ a.py", None),
    ("find . -name '*.pyc' -delete", None),
    ("find . -name '*.py' -exec rm {} +", None),
    ("rg -l foo | xargs sed -i s/a/b/", None),
    ("cat > x.py <<'EOF'\nrm\nEOF", None),
    ("rg foo > found.txt", None),
    ("cat a.py | python -", None),
    ("make && cat build.log", None),
    ("ls && pytest -q", None),
    ("git log -5", None),
    ("echo plait recall", None),
    ("echo 'plait recall'", None),
    ("plaited x", None),
    ("", None),
    ("'", None),
]


@pytest.mark.parametrize(("command", "kind"), COMMANDS)
def test_a_shell_command_looks_something_up_when_it_does_nothing_else(
    command: str, kind: Looked | None
) -> None:
    assert of_command(command) is kind
    assert of_tool("Bash", {"command": command}) is kind


TOOLS = [
    ("Read", READ),
    ("Grep", SEARCH),
    ("Glob", SEARCH),
    ("LS", SEARCH),
    ("mcp__plait__recall", PLAIT),
    ("mcp__plugin_plait_plait__graph", PLAIT),
    ("mcp__plaited__recall", None),
    ("mcp__github__search_code", None),
    ("Edit", None),
    ("Bash", None),
    ("", None),
]


@pytest.mark.parametrize(("name", "kind"), TOOLS)
def test_a_tool_is_told_by_its_name(name: str, kind: Looked | None) -> None:
    assert of_tool(name, {}) is kind


def test_the_skill_of_plait_is_an_answer_of_plait() -> None:
    assert of_tool("Skill", {"skill": "plait"}) is PLAIT
    assert of_tool("Skill", {"skill": "plait:plait"}) is PLAIT
    assert of_tool("Skill", {"skill": "pdf"}) is None


@pytest.mark.parametrize("command", ["sed " + "-a " * 9_000, "find " * 5_000, "(" * 30_000])
def test_a_hostile_command_is_read_in_bounded_work(command: str) -> None:
    assert of_command(command) in (None, READ, SEARCH)


@pytest.mark.parametrize(
    ("said", "mine"),
    [
        ("Plait: shop is indexed, revision 4", True),
        ("[plait] 3 tests to run", True),
        ("\nFrom Plait's index:\n- a.py", True),
        ("Run the tests.\nPlait knows them", False),
        ("## Relevant Memories\n- x", True),
        ("Remember the tests", False),
        ("plaited hair", False),
        ("", False),
    ],
)
def test_a_hook_of_plait_names_it_in_its_first_line(said: str, mine: bool) -> None:
    assert pushed_by_plait(said) is mine
