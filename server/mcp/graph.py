"""Questions to the graph: an `ask` as a template, and its rows as places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plait.domain.answers.graph import GraphEdge, GraphNode
from server.mcp import paths
from server.mcp.answer import Refused, one_line, place
from server.mcp.tools import Graph

if TYPE_CHECKING:
    from plait.domain.answers.graph import GraphAnswer

# `ask` → the template, and its parameter that `symbol` is.
_TEMPLATES = {
    "callers": ("callers", "symbol"),
    "callees": ("callees", "symbol"),
    "impact": ("impact", "symbol"),
    "tests": ("tests_of", "symbol"),
    "path": ("path", "source"),
    "history": ("history", "thing"),
    "outline": ("outline", "file"),
}
_NOTHING = {
    "callers": "nothing is known to call it; calls that could not be bound for certain are not counted, so "
    "grep for its name before you remove it",
    "callees": "it calls nothing that is in this repository",
    "impact": "nothing is known to reach it; grep for its name before you remove it",
    "tests": "no test is known to exercise it",
    "path": "no chain of calls leads from one to the other",
    "history": "no diff, run or note is about it",
    "outline": "the file defines nothing that is indexed",
}
MAX_SHOWN = 30
MAX_ASKED = 300


@dataclass(frozen=True, slots=True)
class Rows:
    """`shown`: place, symbol, and what connects it to what was asked about ("" where nothing does)."""

    shown: Sequence[Sequence[str]]
    note: str
    paths: frozenset[str]


def question(query: Graph, root: Path) -> tuple[str, dict[str, str]]:
    """The template and its parameters. Raises: Refused."""
    symbol = paths.without_lines(query.symbol.strip())
    if not symbol:
        raise Refused("`symbol` is empty: give a name, a qualified name or, for outline, a file.")
    template, parameter = _TEMPLATES[query.ask]
    if query.ask == "outline" or "/" in symbol:
        symbol = paths.inside(symbol, root, "symbol") or symbol
    given = {parameter: symbol}
    if query.ask == "path":
        if not query.to.strip():
            raise Refused(
                "`path` needs two symbols: `symbol` is the caller, `to` what it calls in the end."
            )
        given["target"] = query.to.strip()
    return template, given


def rows(query: Graph, found: GraphAnswer) -> Rows:
    """The first rows, and how many more there are."""
    records = found.records()
    if query.ask == "path" and records:
        nodes = {node.id: node for node in found.nodes}
        lines = [_node(nodes[id_]) for id_ in records[0]["ids"] if id_ in nodes]
    else:
        lines = [_LINES[query.ask](record) for record in records]
    note = ""
    if not lines:
        note = _NOTHING[query.ask]
    elif len(lines) > MAX_SHOWN:
        plus = "+" if found.truncated else ""
        note = f"{len(lines) - MAX_SHOWN}{plus} more left out; ask about one of these"
    shown_paths = frozenset(str(node.properties.get("path") or "") for node in found.nodes) - {""}
    return Rows(lines[:MAX_SHOWN], note, shown_paths)


def _node(node: GraphNode, line: int = 0, why: str = "") -> list[str]:
    properties = node.properties
    name = properties.get("qualified_name") or properties.get("name") or ""
    path = str(properties.get("path") or "")
    at = place(path, line or int(properties.get("start_line") or 0)) if path else ""
    return [at, one_line(str(name or (node.id if not path else ""))), why]


def _caller(record: Mapping[str, Any]) -> list[str]:
    """A caller at the line of its call; further lines of calls behind it."""
    first, *rest = _lines(record["call"]) or [0]
    also = ", ".join(str(line) for line in rest[:5])
    return _node(record["caller"], first, f"also {also}" if also else "")


def _callee(record: Mapping[str, Any]) -> list[str]:
    called = ", ".join(str(line) for line in _lines(record["call"])[:6])
    return _node(record["callee"], why=f"called at {called}" if called else "")


def _reached(record: Mapping[str, Any]) -> list[str]:
    first, *_ = _lines(record["call"]) or [0]
    hops = record.get("depth")
    why = f"{hops} calls away" if isinstance(hops, int) and hops > 1 else ""
    return _node(record["caller"], first, why)


def _test(record: Mapping[str, Any]) -> list[str]:
    return _node(record["test"])


def _event(record: Mapping[str, Any]) -> list[str]:
    when = record.get("recorded_from")
    day = f"{datetime.fromtimestamp(when / 1000, UTC):%Y-%m-%d}" if isinstance(when, int) else ""
    return _node(record["what"], why=f"{str(record.get('relation') or '').lower()} {day}".strip())


def _symbol(record: Mapping[str, Any]) -> list[str]:
    node: GraphNode = record["symbol"]
    start = int(node.properties.get("start_line") or 0)
    end = int(node.properties.get("end_line") or 0)
    name = node.properties.get("qualified_name") or node.properties.get("name") or node.id
    kind = str(node.properties.get("kind") or (node.labels[0] if node.labels else "")).lower()
    return [f"{start}-{end}" if end > start else str(start), one_line(str(name)), kind]


_LINES = {
    "callers": _caller,
    "callees": _callee,
    "impact": _reached,
    "tests": _test,
    "history": _event,
    "outline": _symbol,
}


def _lines(edge: GraphEdge) -> list[int]:
    return [int(line) for line in edge.properties.get("lines") or ()]
