"""The compact graph: CSR both ways, first part counts, nothing to what is not there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.graph import Edge, Label, Node, encode_edges, encode_nodes
from plait.ports import CodeGraph
from tests.unit.code_graphs import graph, node
from vector.search import codegraph


def edges_of(found: CodeGraph) -> set[tuple[str, str, str]]:
    """Read from the sources' side."""
    return {
        (found.relations[found.out_relation[at]], found.ids[row], found.ids[found.out_other[at]])
        for row in range(len(found.ids))
        for at in range(int(found.out_start[row]), int(found.out_start[row + 1]))
    }


def edges_into(found: CodeGraph) -> set[tuple[str, str, str]]:
    """Read from the targets' side."""
    return {
        (found.relations[found.in_relation[at]], found.ids[found.in_other[at]], found.ids[row])
        for row in range(len(found.ids))
        for at in range(int(found.in_start[row]), int(found.in_start[row + 1]))
    }


NAMES = st.sampled_from(["a", "b", "c", "d", "test_e", "/f"])
EDGES = st.sets(st.tuples(st.sampled_from(codegraph.RELATIONS), NAMES, NAMES), min_size=1)


@given(EDGES)
def test_both_sides_hold_exactly_the_edges_given(edges: set[tuple[str, str, str]]) -> None:
    found = graph(sorted(edges))
    assert edges_of(found) == edges
    assert edges_into(found) == edges
    assert len(found.out_other) == len(edges) == len(found.in_other)
    assert {found.ids[row]: row for row in range(len(found.ids))} == dict(found.row)


def test_what_nodes_carry_is_kept() -> None:
    found = graph([("CALLS", "test_x", "a.b"), ("CONTAINS", "/a.py", "a.b")])
    row = found.row["a.b"]
    assert (found.names[row], found.paths[row], found.lines[row]) == ("b", "a.py", 1)
    assert [found.ids[r] for r in np.flatnonzero(found.is_test).tolist()] == ["test_x"]


def test_of_two_files_with_one_node_or_edge_the_first_counts() -> None:
    names = codegraph.Names()
    parts = []
    for path, confidence in (("a.py", 0.25), ("b.py", 1.0)):
        nodes = [node("x", path), node(f"only.{path[0]}", path)]
        edges = [Edge("CALLS", "r:x", "r:only.a", (1,), "rule", confidence)]
        parts.append(codegraph.part("r", path, encode_nodes(nodes), encode_edges(edges), names))
    found = codegraph.build("r", 1, parts, names)
    assert sorted(found.ids) == ["only.a", "only.b", "x"]
    assert found.paths[found.row["x"]] == "a.py"
    assert found.out_weight.tolist() == [0.25]


def test_edges_to_what_is_gone_and_the_repository_itself_are_left_out() -> None:
    names = codegraph.Names()
    edges = [
        Edge("CALLS", "r:x", "r:gone"),
        Edge("CONTAINS", "r:", "r:x"),
        Edge("TOUCHES", "r:x", "r:x"),
    ]
    parts = [
        codegraph.part("r", "a.py", encode_nodes([node("x", "a.py")]), encode_edges(edges), names)
    ]
    found = codegraph.build("r", 1, parts, names)
    assert list(found.ids) == ["x"]
    assert edges_of(found) == set()


def test_nothing_is_a_graph_too() -> None:
    found = codegraph.build("r", 1, [], codegraph.Names())
    assert (list(found.ids), found.out_start.tolist(), len(found.in_other)) == ([], [0], 0)


def test_arrays_are_shared_and_read_only() -> None:
    found = graph([("CALLS", "a", "b")])
    for array in (found.out_start, found.out_other, found.in_weight, found.in_relation):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_nodes_of_another_label_are_no_tests() -> None:
    names = codegraph.Names()
    nodes = [Node("r:T", Label.CLASS, "T", "T", "test_a.py", 1, 2, "toy")]
    part = codegraph.part("r", "test_a.py", encode_nodes(nodes), encode_edges([]), names)
    assert not codegraph.build("r", 1, [part], names).is_test.any()
