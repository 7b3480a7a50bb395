"""Small code graphs for tests: files of `name: callee callee`, as the store would read them."""

from __future__ import annotations

from collections.abc import Sequence

from plait.domain.graph import Edge, Label, Node, encode_edges, encode_nodes
from plait.ports import CodeGraph
from vector.search import codegraph

Edges = Sequence[tuple[str, str, str]]  # relation, source, target; names without `r:`


def node(name: str, path: str, label: Label = Label.FUNCTION) -> Node:
    return Node(f"r:{name}", label, name.rpartition(".")[2], name, path, 1, 9, "toy")


def graph(edges: Edges, repo: str = "r", number: int = 1) -> CodeGraph:
    """One file; each end of an edge is a function, `test…` a test, `/…` a file."""
    ends = sorted({end for _, source, target in edges for end in (source, target)})
    nodes = [node(end, "a.py", _label(end)) for end in ends]
    names = codegraph.Names()
    given = [Edge(relation, f"r:{s}", f"r:{t}") for relation, s, t in edges]
    parts = [codegraph.part("r", "a.py", encode_nodes(nodes), encode_edges(given), names)]
    return codegraph.build(repo, number, parts, names)


def _label(name: str) -> Label:
    if name.startswith("/"):
        return Label.FILE
    return Label.TEST if name.startswith("test") else Label.FUNCTION
