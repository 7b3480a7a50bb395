"""One entry put into JSON with comments and taken out again: no other byte changes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.install import entry, hooks, jsonc, splice
from server.install.agents import AGENTS, Form, Hook, Paths, Server
from server.install.refusal import Refused

SERVER = Server(Paths(), "mcpServers", Form.STDIO)
CLAUDE = next(agent for agent in AGENTS if agent.name == "claude-code")
CURSOR = next(agent for agent in AGENTS if agent.name == "cursor")


def parsed(text: str) -> Any:
    """What a client reads: comments and trailing commas are no part of it."""
    return json.loads(jsonc.parse(text).strict)


def round_trip(text: str) -> str:
    """The text with our entry, after it was shown that taking it out gives the text back."""
    there = entry.put(text, SERVER, "plait")
    assert entry.put(there, SERVER, "plait") == there
    assert parsed(there)["mcpServers"]["plait"] == {
        "type": "stdio",
        "command": "plait",
        "args": ["mcp"],
    }
    assert entry.take(there, SERVER) == text
    return there


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "\ufeff",
        " \r\n",
        "{}",
        "{}\n",
        "{ }",
        "{\n}\n",
        "{ // nothing yet\n}",
        "{ /* c */ }",
        '{"a": 1}',
        '{"a": 1,}',
        '{"a": 1 // c\n}',
        '{"a": 1 /* x */ /* y */ , /* z */ }',
        '{\n  "a": 1\n}\n',
        '{\n\t"a": 1, // one\n\t"b": [1, 2,],\n}\n',
        '{\r\n    "a": "}",\r\n    // last\r\n}\r\n',
        '\ufeff{\n  "a": {}\n}',
        '{"mcpServers": {}}',
        '{\n  "mcpServers": {}\n}\n',
        '{\n  "mcpServers": {\n  }\n}\n',
        '{\n  "mcpServers": {\n    "x": {"command": "y"}\n  },\n  "z": 1\n}\n',
        '{"mcpServers": {"x": {}, // last\n}}',
        '{"mcpServers": {"x": {} /* a\nb */}}',
        '{"a": "// no comment", "b": "/* nor this", "c": "\\"", "d": ",]"}',
        '{"mcpServers": { // note\n }}',
    ],
)
def test_putting_and_taking_is_the_identity(text: str) -> None:
    round_trip(text)


def test_a_new_file_is_gone_again() -> None:
    there = entry.put(None, SERVER, "plait")
    assert there.endswith("}\n")
    assert entry.take(there, SERVER) is None


def test_the_entry_takes_its_neighbours_style() -> None:
    text = '{\r\n\t"mcpServers": {\r\n\t\t"x": {}, // mine\r\n\t},\r\n}\r\n'
    assert entry.put(text, SERVER, "plait") == (
        '{\r\n\t"mcpServers": {\r\n\t\t"x": {}, // mine\r\n\t\t"plait": {\r\n\t\t\t"type": "stdio",'
        '\r\n\t\t\t"command": "plait",\r\n\t\t\t"args": ["mcp"]\r\n\t\t},\r\n\t},\r\n}\r\n'
    )


def test_what_a_user_changed_meanwhile_stays() -> None:
    there = entry.put('{\n  "a": 1\n}\n', SERVER, "plait")
    edited = there.replace('"a": 1', '"a": 2, // new').replace(
        '"mcpServers": {\n', '"mcpServers": {\n    // mine\n    "x": {},\n'
    )
    assert entry.take(edited, SERVER) == (
        '{\n  "a": 2, // new,\n  "mcpServers": {\n    // mine\n    "x": {}\n  }\n}\n'
    )


def test_a_comment_before_the_entry_never_swallows_what_follows() -> None:
    text = '{"mcpServers": { // mine\n "plait": {"command": "plait", "args": ["mcp"]}, "x": {}}}'
    left = entry.take(text, SERVER)
    assert left is not None
    assert parsed(left) == {"mcpServers": {"x": {}}}


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("null", "top level must be an object", 1),
        ("[\n1]", "top level must be an object", 1),
        ('{\n"a": 1\n"b": 2}', "not valid JSON", 3),
        ('{"a": 1} {}', "more text after", 1),
        ('{"a": 1,,}', "not valid JSON", 1),
        ("{,}", "not valid JSON", 1),
        ("{\n/* open", "a comment is not closed", 2),
        ('{"a": "open', "not valid JSON", 1),
        ("{a: 1}", "not valid JSON", 1),
        ('{"mcpServers": []}', "must be an object", 1),
        ('{\n"mcpServers": null}', "must be an object", 2),
        ('{"mcpServers": {},\n"mcpServers": {}}', "written twice", 2),
        ('{"mcpServers":\n{"plait": {"command": "other"}}}', "Plait did not write", 2),
        ('{"a": ' * 100_000, "nested too deeply", 0),
    ],
)
def test_what_cannot_be_edited_is_refused_with_its_line(text: str, message: str, line: int) -> None:
    with pytest.raises(Refused, match=message) as caught:
        entry.put(text, SERVER, "plait")
    assert caught.value.line == line


@pytest.mark.parametrize(
    "text", ["/*" * 300_000, '"' * 300_001, "{" + "," * 300_000, "{ " * 300_000]
)
def test_hostile_text_is_read_once(text: str) -> None:
    with pytest.raises(Refused):
        jsonc.parse(text)


def test_another_place_of_this_installation_is_brought_up_to_date() -> None:
    old = entry.put('{"a": 1}', SERVER, "/old/bin/plait").replace(
        '"args"', '"env": {"PLAIT_HOME": "/data"}, "args"'
    )
    new = entry.put(old, SERVER, "plait")
    assert parsed(new)["mcpServers"]["plait"] == {
        "type": "stdio",
        "command": "plait",
        "env": {"PLAIT_HOME": "/data"},
        "args": ["mcp"],
    }
    with pytest.raises(Refused, match="environment variables"):
        entry.take(new, SERVER)


def test_an_entry_with_arguments_of_the_users_own_is_left_alone() -> None:
    own = (
        '{"mcpServers": {"plait": {"command": "plait", "args": ["mcp", "--server", "team:50051"]}}}'
    )
    with pytest.raises(Refused, match="did not write"):
        entry.put(own, SERVER, "plait")
    assert entry.take(own, SERVER) == own


# -- hooks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", [a for a in AGENTS if a.hooks], ids=lambda a: a.name)
@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{}",
        '{"version": 1}\n',
        '{\n  "version": 1\n}\n',
        '{\n  "hooks": {}\n}\n',
        '{\n  "hooks": {\n    "SessionStart": [],\n    "sessionStart": []\n  }\n}\n',
        '{"hooks": {"SessionEnd": [{"hooks": [{"type": "command", "command": "x"}]}], // c\n}}',
    ],
)
def test_hooks_are_put_once_and_taken_whole(agent: Any, text: str | None) -> None:
    there = hooks.put(text, agent, "plait", frozenset(Hook))
    assert hooks.put(there, agent, "plait", frozenset(Hook)) == there
    assert there is not None
    assert there.count(f"--agent {agent.name}") == len(agent.hooks.events)
    assert hooks.take(there, agent) == text


def test_one_hook_is_switched_off_alone() -> None:
    there = hooks.put(None, CLAUDE, "plait", frozenset(Hook))
    fewer = hooks.put(there, CLAUDE, "plait", frozenset(Hook) - {Hook.BEFORE_SEARCH})
    assert fewer is not None
    assert set(parsed(fewer)["hooks"]) == {"SessionStart", "PostToolUse", "SessionEnd"}
    assert hooks.take(fewer, CLAUDE) is None


def test_a_users_command_in_our_group_stays() -> None:
    there = hooks.put(None, CLAUDE, "plait", {Hook.SESSION_START})
    assert there is not None
    mine = re.sub(r'(\{\s+"type")', r'{"type": "command", "command": "mine"}, \1', there, count=1)
    left = hooks.take(mine, CLAUDE)
    assert left is not None
    assert parsed(left) == {
        "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "mine"}]}]}
    }


def test_a_moved_installation_replaces_its_hooks() -> None:
    old = hooks.put(None, CLAUDE, "/old place/plait", frozenset(Hook))
    new = hooks.put(old, CLAUDE, "plait", frozenset(Hook))
    assert new is not None
    assert "/old place" not in new
    assert new.count("plait hook") == 4
    assert hooks.take(new, CLAUDE) is None


# -- any document ---------------------------------------------------------------------------------

SPACES = st.sampled_from(["", " ", "\n", "\n  ", "\r\n\t", "/* c */", " // x\n", "\n// ,]}\n  "])
TRAILING = st.booleans()
STRINGS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), STRINGS)
NAMES = st.one_of(STRINGS, st.sampled_from(["mcpServers", "hooks", "x", "SessionStart", "version"]))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
ROOTS = st.dictionaries(
    NAMES.filter(lambda n: n not in ("mcpServers", "hooks")), VALUES, max_size=3
).flatmap(
    lambda root: st.fixed_dictionaries(
        {},
        optional={
            "mcpServers": st.dictionaries(
                STRINGS.filter(lambda s: s != "plait"), VALUES, max_size=2
            ),
            "hooks": st.dictionaries(
                st.sampled_from(["SessionStart", "SessionEnd", "Stop"]),
                st.lists(LEAVES, max_size=2),
                max_size=2,
            ),
        },
    ).map(lambda more: {**root, **more})
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A JSON text of an object, with comments, trailing commas and blanks wherever they may stand."""

    def written(value: Any) -> str:
        rows: list[str]
        if isinstance(value, dict):
            rows = [
                f"{json.dumps(k, ensure_ascii=False)}{draw(SPACES)}:{draw(SPACES)}{written(v)}"
                for k, v in value.items()
            ]
        elif isinstance(value, list):
            rows = [written(v) for v in value]
        else:
            return json.dumps(value, ensure_ascii=False)
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        inner = ",".join(f"{draw(SPACES)}{row}{draw(SPACES)}" for row in rows)
        blank, comma = draw(SPACES), draw(TRAILING)
        tail = blank if not rows else "," + blank if comma else ""
        return opening + inner + tail + closing

    bom = draw(st.sampled_from(["", "", "\ufeff"]))
    return bom + draw(SPACES) + written(draw(ROOTS)) + draw(SPACES)


@settings(max_examples=60, deadline=None)
@given(documents())
def test_any_document_is_the_same_after_install_and_uninstall(text: str) -> None:
    there = round_trip(text)
    for agent in (CLAUDE, CURSOR):
        full = hooks.put(there, agent, "/opt/plait/bin/plait", frozenset(Hook))
        assert hooks.put(full, agent, "/opt/plait/bin/plait", frozenset(Hook)) == full
        assert hooks.take(full, agent) == there


@settings(max_examples=40, deadline=None)
@given(documents(), NAMES, VALUES)
def test_an_entry_added_meanwhile_is_all_that_is_left(text: str, name: str, value: Any) -> None:
    there = entry.put(text, SERVER, "plait")
    key = f"{name}-later"
    changed = splice.add(there, [key], value)
    left = entry.take(changed, SERVER)
    assert left is not None
    assert parsed(left) == {**parsed(text), key: value}
