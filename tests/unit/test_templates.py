"""Templates of code: names, rows, orders, limits and errors, over a small package."""

from __future__ import annotations

import itertools
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import pytest

from plait.domain.answers.graph import GraphResult
from plait.domain.errors import (
    AmbiguousSymbol,
    InvalidInput,
    ResultTooLarge,
    UnknownSymbol,
    UnknownTemplate,
)
from plait.domain.graph import Edge, Node, encode_edges, encode_nodes
from plait.domain.memory import AsOf
from plait.ports import CodeGraph
from plait.retrieval.code_graph.templates import answers
from plait.retrieval.code_graph.templates.catalogue import CATALOGUE, find
from plait.retrieval.code_graph.templates.cells import Limits
from tests.unit.code_graphs import graph
from vector.search import codegraph

REPO = "pkg"
_THEN = datetime(2026, 1, 1, tzinfo=UTC)
CART, USER, TESTS = "src/shop/cart.py", "src/shop/user.py", "tests/test_cart.py"


def node(name: str, label: str, path: str, line: int = 1, **more: Any) -> Node:
    values = {"qualified_name": name.removeprefix("/"), "kind": label.lower(), **more}
    short = values["qualified_name"].rpartition("/" if label == "File" else ".")[2]
    return Node(
        f"{REPO}:{name}", label, short, values["qualified_name"], path, line, line + 1, "python",
        values["kind"],
    )  # fmt: skip


def edge(relation: str, source: str, target: str, *lines: int, resolver: str = "") -> Edge:
    confidence = 0.9 if resolver else 1.0
    return Edge(relation, f"{REPO}:{source}", f"{REPO}:{target}", lines, resolver, confidence)


NODES = [
    node(f"/{CART}", "File", CART),
    node(f"/{USER}", "File", USER),
    node("shop.cart", "Module", CART),
    node("shop.user", "Module", USER),
    node("shop.cart.Cart", "Class", CART, 5),
    node("shop.cart.Cart.add", "Function", CART, 7, kind="method"),
    node("shop.cart.Cart.total", "Function", CART, 9, kind="method"),
    node("shop.user.BigCart", "Class", USER, 3),
    node("shop.user.BigCart.add", "Function", USER, 4, kind="method"),
    node("shop.user.buy", "Function", USER, 9),
    node("shop.user.buy@src/other.py", "Function", USER, 30, qualified_name="shop.user.buy"),
    node("tests.test_cart.test_add", "Test", TESTS),
    node("tests.test_cart.test_buy", "Test", TESTS),
]
EDGES = [
    Edge("CONTAINS", f"{REPO}:", f"{REPO}:/{CART}"),
    edge("CONTAINS", f"/{CART}", "shop.cart"),
    edge("CONTAINS", f"/{USER}", "shop.user"),
    edge("CONTAINS", "shop.cart", "shop.cart.Cart"),
    edge("CONTAINS", "shop.cart.Cart", "shop.cart.Cart.add"),
    edge("CONTAINS", "shop.cart.Cart", "shop.cart.Cart.total"),
    edge("CONTAINS", "shop.user", "shop.user.BigCart"),
    edge("CONTAINS", "shop.user.BigCart", "shop.user.BigCart.add"),
    edge("CONTAINS", "shop.user", "shop.user.buy"),
    edge("IMPORTS", "shop.user", "shop.cart.Cart"),
    edge("INHERITS", "shop.user.BigCart", "shop.cart.Cart"),
    edge("OVERRIDES", "shop.user.BigCart.add", "shop.cart.Cart.add"),
    edge("CALLS", "shop.user.buy", "shop.cart.Cart.add", 11, 12, resolver="import"),
    edge("CALLS", "shop.user.buy", "shop.cart.Cart.total", 13, resolver="local"),
    edge("CALLS", "shop.cart.Cart.total", "shop.cart.Cart.add", 10, resolver="local"),
    edge("CALLS", "tests.test_cart.test_buy", "shop.user.buy", 4, resolver="local"),
    edge("CALLS", "tests.test_cart.test_add", "shop.cart.Cart.add", 8, resolver="local"),
    edge("VALIDATED_BY", "shop.cart.Cart.add", "tests.test_cart.test_add", 8),
    edge("VALIDATED_BY", "shop.user.buy", "tests.test_cart.test_buy", 4),
]


def built(nodes: list[Node], edges: list[Edge]) -> CodeGraph:
    """Each node's and edge's part is that of the node's, or of the source's, file."""
    of = {one.id: one.path for one in nodes}
    mine, out = defaultdict(list), defaultdict(list)
    for one in nodes:
        mine[one.path].append(one)
    for way in edges:
        out[of.get(way.source, CART)].append(way)
    names = codegraph.Names()
    parts = [
        codegraph.part(REPO, path, encode_nodes(mine[path]), encode_edges(out[path]), names)
        for path in sorted(mine)
    ]
    return codegraph.build(REPO, 1, parts, names)


PACKAGE = built(NODES, EDGES)


def told(name: str, /, max_rows: int = 1000, max_bytes: int = 1 << 20, **given: Any) -> GraphResult:
    template = find(name)
    return answers.answer(PACKAGE, name, template.check(given), Limits(max_rows, max_bytes))


def ids(result: GraphResult, column: str) -> list[str]:
    at = result.columns.index(column)
    return [row[at].id.partition(":")[2] for row in result.rows]


def test_callers_have_their_call_sites() -> None:
    result = told("callers", symbol="shop.cart.Cart.add")
    assert result.columns == ("caller", "call", "lines")
    assert ids(result, "caller") == [
        "shop.cart.Cart.total",
        "shop.user.buy",
        "tests.test_cart.test_add",
    ]
    assert [row[2] for row in result.rows] == [[10], [11, 12], [8]]
    caller, call, _ = result.rows[1]
    assert caller.properties == {
        "id": "pkg:shop.user.buy",
        "name": "buy",
        "qualified_name": "shop.user.buy",
        "path": USER,
        "start_line": 9,
        "end_line": 10,
        "language": "python",
        "kind": "function",
        "repo": REPO,
    }
    assert (call.relation, call.source, call.target) == (
        "CALLS",
        "pkg:shop.user.buy",
        "pkg:shop.cart.Cart.add",
    )
    assert call.properties == {"lines": [11, 12], "resolver": "import", "confidence": 0.9}
    assert {one.id for one in result.nodes} == {row[0].id for row in result.rows}
    assert list(result.edges) == [row[1] for row in result.rows]
    assert result.rows[2][0].labels == ("Function", "Test")


def test_callees() -> None:
    result = told("callees", symbol="pkg:shop.user.buy")
    assert ids(result, "callee") == ["shop.cart.Cart.add", "shop.cart.Cart.total"]


def test_impact_is_each_caller_once_at_its_nearest() -> None:
    result = told("impact", symbol="Cart.add")
    with pytest.raises(AmbiguousSymbol):
        told("impact", symbol="add")
    assert [(row[0], row[1].id.partition(":")[2]) for row in result.rows] == [
        (1, "shop.cart.Cart.total"),
        (1, "shop.user.buy"),
        (1, "tests.test_cart.test_add"),
        (2, "tests.test_cart.test_buy"),
    ]
    assert [row[0] for row in told("impact", symbol="Cart.add", depth=1).rows] == [1, 1, 1]
    cut = told("impact", max_rows=2, symbol="Cart.add")
    assert (len(cut.rows), cut.truncated) == (2, True)
    assert not told("impact", max_rows=4, symbol="Cart.add").truncated


def test_impact_of_a_cycle_ends() -> None:
    ring = [("CALLS", f"m.f{n}", f"m.f{(n + 1) % 5}") for n in range(5)]
    given = find("impact").check({"symbol": "m.f0", "depth": 8})
    found = answers.answer(graph(ring), "impact", given, Limits(100, 1 << 20))
    assert [(row[0], row[1].id) for row in found.rows] == [
        (n, f"r:m.f{5 - n}") for n in range(1, 5)
    ]


def test_path_is_a_shortest_one() -> None:
    result = told("path", source="tests.test_cart.test_buy", target="shop.cart.Cart.add")
    ((found, chain, hops),) = result.rows
    assert found == [
        "pkg:tests.test_cart.test_buy",
        "pkg:shop.user.buy",
        "pkg:shop.cart.Cart.add",
    ]
    assert [one.id for one in chain.nodes] == found
    assert [(e.source, e.target) for e in chain.edges] == list(itertools.pairwise(found))
    assert hops == 2
    back = told("path", source="shop.cart.Cart.add", target="pkg:shop.user.buy")
    assert (back.columns, list(back.rows)) == (("ids", "chain", "hops"), [])
    assert not told(
        "path", source="tests.test_cart.test_buy", target="shop.cart.Cart.add", depth=1
    ).rows


def test_path_of_a_function_to_itself_is_the_way_round() -> None:
    ring = graph([("CALLS", "m.a", "m.b"), ("CALLS", "m.b", "m.a"), ("CALLS", "m.c", "m.a")])

    def way(name: str) -> list[Any]:
        given = find("path").check({"source": name, "target": name})
        rows = answers.answer(ring, "path", given, Limits(9, 1 << 20)).rows
        return [row[0] for row in rows]

    assert way("m.a") == [["r:m.a", "r:m.b", "r:m.a"]]
    assert way("m.c") == []


@pytest.mark.parametrize(
    ("symbol", "tests"),
    [
        ("shop.cart.Cart.add", ["test_add"]),
        ("shop.cart.Cart", ["test_add"]),
        ("shop.user", ["test_buy"]),
        (USER, ["test_buy"]),
        ("shop.cart.Cart.total", []),
    ],
)
def test_tests_of_a_symbol_or_of_what_holds_it(symbol: str, tests: list[str]) -> None:
    result = told("tests_of", symbol=symbol)
    assert [id_.rpartition(".")[2] for id_ in ids(result, "test")] == tests


def test_outline_is_in_source_order() -> None:
    result = told("outline", file="shop/cart.py")
    assert [(row[0].properties["name"], row[1]) for row in result.rows] == [
        ("cart", f"pkg:/{CART}"),
        ("Cart", "pkg:shop.cart"),
        ("add", "pkg:shop.cart.Cart"),
        ("total", "pkg:shop.cart.Cart"),
    ]
    with pytest.raises(UnknownSymbol, match=r"near it: cart\.py"):
        told("outline", file="shop/cat.py")
    with pytest.raises(UnknownSymbol):
        told("outline", file="shop.cart")


@pytest.mark.parametrize("symbol", ["shop.cart", CART, "shop.cart.Cart"])
def test_importers(symbol: str) -> None:
    result = told("importers", symbol=symbol)
    assert ids(result, "importer") == ["shop.user"]
    assert result.rows[0][1].properties == {}, "no rule bound it"


def test_subclasses_and_overrides() -> None:
    assert ids(told("subclasses", symbol="shop.cart.Cart"), "subclass") == ["shop.user.BigCart"]
    overrides = told("overrides", symbol="shop.cart.Cart.add")
    assert ids(overrides, "method") == ["shop.user.BigCart.add"]


@pytest.mark.parametrize(
    "name", ["pkg:shop.cart.Cart.total", "shop.cart.Cart.total", "Cart.total", "total"]
)
def test_a_symbol_goes_by_its_id_its_name_or_the_end_of_it(name: str) -> None:
    assert ids(told("callers", symbol=name), "caller") == ["shop.user.buy"]


def test_an_exact_name_wins_over_one_that_ends_alike() -> None:
    assert ids(told("callers", symbol="shop.user.buy"), "caller") == ["tests.test_cart.test_buy"]
    with pytest.raises(AmbiguousSymbol, match="buy@src/other"):
        told("callers", symbol="user.buy")


def test_an_ambiguous_name_lists_what_it_can_be() -> None:
    with pytest.raises(AmbiguousSymbol) as caught:
        told("callers", symbol="add")
    for id_ in ("pkg:shop.cart.Cart.add", "pkg:shop.user.BigCart.add"):
        assert id_ in str(caught.value)
    assert not told("callers", symbol="BigCart.add").rows


def test_an_unknown_name_lists_what_is_near() -> None:
    with pytest.raises(UnknownSymbol, match="repository 'pkg'; near it: BigCart"):
        told("callers", symbol="BigCrt")
    with pytest.raises(UnknownSymbol, match="plait search"):
        told("callers", symbol="zzz'}) DETACH DELETE n //")


def test_bytes_are_capped() -> None:
    with pytest.raises(ResultTooLarge, match="passes 300 bytes after 1 rows"):
        told("callers", symbol="Cart.add", max_bytes=300)


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("callers", {}, "'symbol' of the template 'callers' is missing"),
        ("callers", {"symbol": 7}, "must be text"),
        ("callers", {"symbol": "x\0"}, "printable"),
        ("callers", {"symbol": "x" * 2000}, "at most 1000"),
        ("callers", {"symbol": "x", "deep": 1}, "no parameter 'deep'"),
        ("impact", {"symbol": "x", "depth": 9}, r"must be in 1\.\.8"),
        ("impact", {"symbol": "x", "depth": 0}, r"must be in 1\.\.8"),
        ("impact", {"symbol": "x", "depth": "3) DELETE"}, "whole number"),
        ("impact", {"symbol": "x", "depth": True}, "whole number"),
        ("outline", {}, "'file' of the template 'outline' is missing"),
    ],
)
def test_bad_parameters_are_named(name: str, given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        find(name).check(given)


def test_numbers_may_come_as_text() -> None:
    """Command lines and MCP send text, JSON sends floats."""
    assert find("impact").check({"symbol": "x", "depth": "1"})["depth"] == 1
    assert find("impact").check({"symbol": "x", "depth": 2.0})["depth"] == 2


def test_an_unknown_template_lists_those_there_are() -> None:
    with pytest.raises(UnknownTemplate, match=r"did you mean 'callers'\?.*impact"):
        find("caller")


def test_templates_of_code_take_no_time() -> None:
    for template in CATALOGUE.values():
        if template.memory:
            template.check_time(AsOf())
        else:
            with pytest.raises(InvalidInput, match="as_of"):
                template.check_time(AsOf(recorded=_THEN))
