"""The names in what is searched for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.hooks.payload import read
from server.hooks.searches import Search, globbed, identifiers, search


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("handle_exception", ["handle_exception"]),
        (r"def handle_exception\(|class Flask\b", ["handle_exception", "Flask"]),
        (r"\bself\.dispatch_request\(", ["dispatch_request"]),
        (r"Flask\.route", ["Flask.route"]),
        ("Flask.route", ["Flask.route"]),
        ("^parse_rule$", ["parse_rule"]),
        ("(load|dump)s?_json", []),  # parts of names
        (r"get_\w+", []),
        ("[Ff]oobar", []),
        ("colou?r_of", []),
        ("foo.*barrier", ["barrier"]),
        ("barrier.*", []),
        ("TODO: fix the bug", ["TODO", "fix", "bug"]),
        ("return None", []),
        ("if", []),
        ("", []),
        ("\\", []),
        ("[", []),
        ("日本語", []),
    ],
)
def test_a_pattern_has_the_names_that_it_spells_whole(pattern: str, names: list[str]) -> None:
    assert identifiers(pattern) == names


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("**/*Blueprint*.py", ["Blueprint"]),
        ("src/**/sessions.py", ["sessions"]),
        ("**/*.py", []),
        ("**/*", []),
        (".gitignore", []),
    ],
)
def test_a_glob_has_the_names_of_its_last_part(pattern: str, names: list[str]) -> None:
    assert globbed(pattern) == names


def asked(tool: str, **given: object) -> Search | None:
    said = {"session_id": "s", "cwd": "/src/app", "tool_name": tool, "tool_input": given}
    return search(read(json.dumps(said).encode()))


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("grep -rn 'def area' src/", ("area",)),
        ("rg -n --type py -A 3 'class Blueprint' | head -5", ("Blueprint",)),
        ("git grep -n -E 'foo_bar|baz_qux' -- '*.py'", ("foo_bar", "baz_qux")),
        ("rg -e first_name -g '*.ts'", ("first_name",)),
        ("LC_ALL=C grep -r wsgi_app .", ("wsgi_app",)),
        ("pytest -q | grep FAILED", ()),  # a filter of what another program prints
        ("make test && echo wsgi_app", ()),
        ("grep 'unclosed", ()),
        ("cat a.py; rg make_response", ("make_response",)),
    ],
)
def test_a_shell_command_is_read_for_its_greps(command: str, names: tuple[str, ...]) -> None:
    found = asked("Bash", command=command)
    assert (found.names if found else ()) == names


def test_where_is_the_tools_path_or_the_shells_folder() -> None:
    assert str(asked("Grep", pattern="wsgi_app", path="src").folder) == "/src/app/src"  # type: ignore[union-attr]
    assert str(asked("Bash", command="cd lib && rg wsgi_app").folder) == "/src/app/lib"  # type: ignore[union-attr]
    assert asked("Bash", command=["bash", "-lc", "rg wsgi_app"]).names == ("wsgi_app",)  # type: ignore[union-attr]


@given(st.text(max_size=200))
def test_any_text_is_a_pattern_and_a_command(text: str) -> None:
    for name in identifiers(text):
        assert 3 <= len(name) <= 100
        assert name in text or "\\." in text
    globbed(text)
    asked("Bash", command=text)
