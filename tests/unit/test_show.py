"""What a terminal gets: readable, and never steered by what a repository holds."""

from __future__ import annotations

import io
import unicodedata
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from plait.domain.answers.graph import GraphEdge, GraphNode, GraphPath
from plait.domain.recall import StageRank
from plait.domain.values import Collection, Hit, Item, ItemId
from server.commands.output import show


def hit(content: str, **changes: Any) -> Hit:
    fields: dict[str, Any] = {
        "id": ItemId(UUID(int=1)),
        "collection": Collection.FILES,
        "repo": "r",
        "kind": "function",
        "path": "a/b.py",
        "symbol": "a.b.f",
        "language": "python",
        "start_line": 10,
        "end_line": 20,
        "content": content,
        "ts": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return Hit(Item(**(fields | changes)), 0.876, {"lexical": 3.2})


def shown(hits: list[Hit], query: str = "find", *, explain: bool = False) -> str:
    out = Console(file=io.StringIO(), highlight=False, markup=False, soft_wrap=True, width=80)
    ranks = {h.item.id: (StageRank("fetch", 4, 0.5), StageRank("score", 1, 0.9)) for h in hits}
    show.hits(hits, query, ranks=ranks if explain else None, out=out)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_a_hit_shows_place_symbol_score_and_the_lines_that_match() -> None:
    content = "def f():\n    x = 1\n    y = 2\n    z = 3\n    return find_it(x)\n"
    text = shown([hit(content)])
    assert "a/b.py:10-20" in text
    assert "a.b.f" in text
    assert "0.88" in text
    assert "    10 │ def f():" in text
    assert "    14 │     return find_it(x)" in text
    assert "z = 3" not in text


def test_explain_shows_the_arms_and_the_rank_after_each_stage() -> None:
    text = shown([hit("x")], explain=True)
    assert "lexical 3.200" in text
    assert "fetch #4 0.500 → score #1 0.900" in text
    assert "fetch" not in shown([hit("x")])


def test_repositories_are_named_when_there_are_two() -> None:
    text = shown([hit("x"), hit("y", repo="other")])
    assert "other" in text


def test_an_item_without_a_file_shows_its_collection() -> None:
    text = shown([hit("a plan", path="", start_line=0, end_line=0, collection=Collection.PLANS)])
    assert f"plans {UUID(int=1)}" in text


@pytest.mark.parametrize(
    "hostile", ["\x1b[2Jgone", "\x1b]0;title\x07", "a\rb", "\u202edrowssap", "\x9b31m", "\u2066x"]
)
def test_nothing_in_a_repository_steers_the_terminal(hostile: str) -> None:
    text = shown([hit(hostile, path=hostile, symbol=hostile, kind=hostile)])
    assert not {"\x1b", "\x07", "\r", "\u202e", "\x9b", "\u2066"} & set(text)
    assert "\ufffd" in text


@given(st.text())
def test_clean_text_is_printable_and_keeps_the_rest(text: str) -> None:
    out = show.clean(text)
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs") for c in out)
    kept = [c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp", "Cs")]
    assert [c for c in out if c not in ("\ufffd", " ")] == [
        c for c in kept if c not in ("\ufffd", " ")
    ]


@given(st.text(), st.integers(0, 1000))
def test_a_snippet_has_a_few_lines_in_order(content: str, start: int) -> None:
    lines = show.snippet(content, start, {"abc"})
    assert len(lines) <= show.SNIPPET_LINES
    assert lines == sorted(lines)
    assert all(text in content for _, text in lines)


NODE = GraphNode("r:m.f", ("Function",), {"qualified_name": "m.f", "path": "m.py", "start_line": 3})
EDGE = GraphEdge("CALLS", "r:m.f", "r:m.g", {"lines": [4, 9]})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (3, "3"),
        (0.5, "0.5"),
        ("a\tb", "a    b"),
        (b"\x00\xff", "00ff"),
        ([1, "x"], "1, x"),
        ({"a": None, "b": 2}, "a: , b: 2"),
        (NODE, "m.f (m.py:3)"),
        (GraphNode("r:", ("Repo",), {}), "r:"),
        (EDGE, "r:m.f -CALLS-> r:m.g (line 4, 9)"),
        (GraphPath((NODE, NODE), (EDGE,)), "m.f (m.py:3) → m.f (m.py:3)"),
    ],
)
def test_a_cell_is_one_line(value: Any, text: str) -> None:
    assert show.cell(value) == text


def test_cells_become_json() -> None:
    import json

    value = {"n": NODE, "e": [EDGE, GraphPath((NODE,), ())], "b": b"\x01", "f": float("nan")}
    assert json.loads(json.dumps(show.plain(value)))["n"]["id"] == "r:m.f"


def test_piped_rows_are_tab_separated() -> None:
    out = Console(file=io.StringIO(), width=20, soft_wrap=True)
    show.rows(("a", "b"), [("x" * 50, 1), ("y", None)], out)
    assert isinstance(out.file, io.StringIO)
    assert out.file.getvalue() == f"a\tb\n{'x' * 50}\t1\ny\t\n"


def test_milliseconds_are_shown_as_times() -> None:
    out = Console(file=io.StringIO(), width=20, soft_wrap=True)
    at = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
    cells = [(1, int(at.timestamp() * 1000)), (2, None)]
    show.rows(("n", "recorded_from"), cells, out, ("recorded_from",))
    assert isinstance(out.file, io.StringIO)
    assert out.file.getvalue() == f"n\trecorded_from\n1\t{show.local(at)}\n2\t\n"
