"""What an agent pays for before it calls anything, and how calls are read and answered."""

from __future__ import annotations

import json
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from plait.domain.errors import PlaitError, UnknownSymbol
from plait.text import token_count
from server.mcp import answer, graph, paths, tools
from server.mcp.answer import Answer, Refused
from server.mcp.calls import MAX_ATTACHED_BYTES, MAX_QUERY_BYTES
from server.mcp.tools import INSTRUCTIONS, KINDS, TOOLS, Graph, Recall, Search

# -- the list ----------------------------------------------------------------------------------------------


def test_four_tools_in_a_fixed_order_cost_at_most_600_tokens() -> None:
    assert [tool.name for tool in TOOLS] == ["recall", "search", "graph", "remember"]
    listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in TOOLS]
    # Whole, annotations too, as no client sends more of it to a model.
    assert token_count.counter().count(json.dumps(listed)) <= 600
    assert all(tool.output_schema is None for tool in TOOLS)


def test_the_instructions_begin_with_when_and_are_not_cut_off() -> None:
    assert INSTRUCTIONS.startswith("Use Plait before you search")
    assert len(INSTRUCTIONS.encode()) <= 2048
    assert all(len((tool.description or "").encode()) <= 2048 for tool in TOOLS)


def test_only_remember_writes_and_nothing_leaves_the_machine() -> None:
    for tool in TOOLS:
        hints = tool.annotations
        assert hints is not None
        assert hints.read_only_hint is (tool.name != "remember")
        assert (hints.idempotent_hint, hints.open_world_hint) == (True, False)
        assert not hints.destructive_hint


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_schema_says_what_is_read(tool: Any) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(KINDS[tool.name])}
    properties = tool.input_schema["properties"]
    assert properties.keys() == fields.keys()
    assert set(tool.input_schema.get("required", ())) == {
        name for name, field in fields.items() if field.required
    }
    for name, schema in properties.items():
        if "default" in schema:
            assert schema["default"] == fields[name].default
        if "enum" in schema:
            assert tuple(schema["enum"]) == typing.get_args(fields[name].type)


# -- arguments ---------------------------------------------------------------------------------------------


def test_arguments_take_null_and_numbers_as_text() -> None:
    assert tools.read(Search, {"query": "x", "paths": None, "k": "3"}) == Search(query="x", k=3)
    assert tools.read(Recall, None) == Recall()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "missing required field `symbol`.*`graph` takes repo, symbol, ask, to"),
        ({"symbol": "x", "ask": "nope"}, "Invalid enum value 'nope' - at `ask`.*one of callers,"),
        ({"symbol": 1, "ask": "callers"}, "Expected `str`, got `int` - at `symbol`"),
        ({"symbol": "x", "ask": "callers", "depth": 1}, "unknown field `depth`"),
    ],
)
def test_a_wrong_call_is_told_what_to_write(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        tools.read(Graph, given)


def test_limits_are_the_services_own() -> None:
    from plait.retrieval.query import analysis

    assert (MAX_QUERY_BYTES, MAX_ATTACHED_BYTES) == (
        analysis.MAX_QUERY_BYTES,
        analysis.MAX_ATTACHED_BYTES,
    )


# -- paths -------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src" / "pkg").mkdir(parents=True)
    (tmp_path / "src" / "pkg" / "a.py").write_text("")
    (tmp_path / "setup").write_text("")
    return tmp_path.resolve()


def test_a_folder_is_a_glob_of_all_in_it(root: Path) -> None:
    for text in ("src", "./src/", "src/**", f"{root}/src", f"{root}/src/"):
        assert paths.glob(text, root) == "src/**"
    assert paths.glob("src/pkg/a.py", root) == "src/pkg/a.py"
    assert paths.glob("**/*.py", root) == "**/*.py"
    assert [paths.glob(text, root) for text in ("", ".", "**", str(root))] == [""] * 4


@pytest.mark.parametrize("text", ["..", "../x", "src/../../x", "/etc/passwd", "/etc/**", "a\0b"])
def test_a_path_outside_the_repository_is_refused(root: Path, text: str) -> None:
    with pytest.raises(Refused, match="outside the repository"):
        paths.glob(text, root)
    if "\0" not in text and "/" in text:
        with pytest.raises(Refused, match="outside the repository"):
            paths.about(text, root)


def test_a_sibling_whose_name_begins_alike_is_outside(root: Path) -> None:
    with pytest.raises(Refused, match="outside"):
        paths.glob(f"{root}-two/src", root)


def test_a_note_is_about_a_path_or_a_symbol(root: Path) -> None:
    assert paths.about("src/pkg/a.py:10-20", root) == ("src/pkg/a.py", "")
    assert paths.about("setup", root) == ("setup", "")
    assert paths.about("pkg.a.f", root) == ("", "pkg.a.f")
    assert paths.about(" ", root) == ("", "")
    with pytest.raises(Refused, match="there is no"):
        paths.about("src/gone.py", root)


def test_a_place_as_answers_write_it_is_a_question_too(root: Path) -> None:
    for symbol in ("src/pkg/a.py:97", f"{root}/src/pkg/a.py:1-20"):
        asked = Graph(symbol=symbol, ask="outline")
        assert graph.question(asked, root) == ("outline", {"file": "src/pkg/a.py"})


# -- answers -----------------------------------------------------------------------------------------------


def test_text_and_json_say_the_same() -> None:
    found = Answer(
        ["a.py:1 f"], {"hits": [{"at": "a.py:1"}]}, ["", "3 left out"], {"x": 1}
    ).result()
    assert found.content[0].text == "a.py:1 f\n(3 left out)"  # type: ignore[union-attr]
    assert found.structured_content == {"hits": [{"at": "a.py:1"}], "note": "3 left out"}
    assert found.meta == {answer.META: {"x": 1}}


def test_an_error_says_what_to_do_next() -> None:
    def said(exc: PlaitError) -> str:
        result = answer.failed(exc)
        assert result.is_error
        return str(result.content[0].text)  # type: ignore[union-attr]

    unknown = said(UnknownSymbol("nothing is called 'x'; `plait search` finds symbols by words"))
    assert unknown.endswith("`search` finds symbols by words. [UNKNOWN_SYMBOL]")
    assert "plait doctor" in said(PlaitError("the store is gone"))


def test_a_repositorys_text_stays_in_one_plain_line() -> None:
    assert answer.one_line("a\x1b[31m\nb\u202e c") == "a\ufffd[31m b\ufffd c"
    assert len(answer.one_line("x" * 1000)) == answer.MAX_LINE
