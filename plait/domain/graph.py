"""The code graph's values, and the one encoding in which the truth store keeps them.

PostgreSQL keeps each file's part of the graph as two msgpack blobs (`encode_nodes`, `encode_edges`);
the graph store is a projection of those blobs. Equal parts encode to equal bytes, so a file whose
part did not change is found by comparing bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec


class Label(StrEnum):
    REPO = "Repo"
    MODULE = "Module"
    FILE = "File"
    CLASS = "Class"
    FUNCTION = "Function"
    TEST = "Test"  # a Function that is a test: carries both labels
    ISSUE = "Issue"
    COMMIT = "Commit"
    EPISODE = "Episode"
    DIFF = "Diff"  # one file's part of an episode's diff
    MEMORY = "Memory"


class Relation(StrEnum):
    CONTAINS = "CONTAINS"
    CALLS = "CALLS"
    IMPORTS = "IMPORTS"
    INHERITS = "INHERITS"
    OVERRIDES = "OVERRIDES"
    VALIDATED_BY = "VALIDATED_BY"  # code → test that exercises it
    CAUSES = "CAUSES"
    FIXES = "FIXES"
    TOUCHES = "TOUCHES"
    MENTIONS = "MENTIONS"
    SUPERSEDES = "SUPERSEDES"  # memory → the one whose place it took
    SIMILAR_TO = "SIMILAR_TO"  # near-duplicates
    DERIVED_FROM = "DERIVED_FROM"  # summary → what it was made of


class Node(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A graph node. `id` is stable: `repo:qualified_name` (files: `repo:/path`, the repository: `repo:`).

    `label` is the one of the export; `kind` is finer (method, interface, struct …). Lines are 1-based;
    `start_line` is the line of `def`/`class`, not of a decorator.
    """

    id: str
    label: str
    name: str
    qualified_name: str
    path: str
    start_line: int
    end_line: int
    language: str
    kind: str = ""


class Edge(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A graph edge, one a (relation, source, target). `lines` are the call sites', ascending, with repeats."""

    relation: str
    source: str
    target: str
    lines: tuple[int, ...] = ()
    resolver: str = ""  # the rule that bound it
    confidence: float = 1.0


class Link(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An edge that episodes and memories make, with its two times in ms since 1970, half-open.

    `valid_to` and `recorded_to` None: still. There may be several of one (relation, source, target),
    told apart by `id`, which is stable (`memory_edge.id`). A closed link stays in the graph.
    """

    id: int
    relation: str
    source: str
    target: str
    resolver: str = ""
    confidence: float = 1.0
    valid_from: int | None = None
    valid_to: int | None = None
    recorded_from: int = 0
    recorded_to: int | None = None


# -- what is compared between the truth and the graph -------------------------------------------------


def node_digest(labels: Iterable[str], properties: Mapping[str, Any]) -> bytes:
    """16 bytes that identify the state of a node. Empty values are left out: servers differ
    in whether they keep it."""
    return _digest(["n", *sorted(labels)], properties)


def edge_digest(properties: Mapping[str, Any]) -> bytes:
    """As `node_digest`, of an edge's properties without the time at which it was written. Full
    confidence is left out: edges that no rule bound are stored without it."""
    stored = {k: v for k, v in properties.items() if k != "confidence" or v != 1}
    return _digest(["e"], stored)


def stored_node(node: Node, repo: str, more: Mapping[str, Any]) -> bytes:
    """The digest of `node` as the graph has to hold it."""
    labels = [Label.FUNCTION, Label.TEST] if node.label == Label.TEST else [node.label]
    properties = {f: getattr(node, f) for f in Node.__struct_fields__ if f != "label"}
    return node_digest(labels, {**more, **properties, "repo": repo})


def stored_edge(edge: Edge) -> bytes:
    return edge_digest(
        {"lines": edge.lines, "resolver": edge.resolver, "confidence": edge.confidence}
    )


def stored_link(link: Link) -> bytes:
    return edge_digest(link_properties(link))


def link_properties(link: Link) -> dict[str, Any]:
    """What an edge of the graph carries of `link`; what is None is not there."""
    found = {
        "link_id": link.id,
        "resolver": link.resolver,
        "confidence": round(link.confidence, 6),
        "valid_from": link.valid_from,
        "valid_to": link.valid_to,
        "recorded_from": link.recorded_from,
        "recorded_to": link.recorded_to,
    }
    return {key: value for key, value in found.items() if value is not None}


def _digest(head: list[str], properties: Mapping[str, Any]) -> bytes:
    parts = [
        (key, _plain(value))
        for key, value in sorted(properties.items())
        if value is not None and value != "" and value != [] and value != ()
    ]
    return hashlib.blake2b(_encoder.encode((head, parts)), digest_size=16).digest()


def _plain(value: Any) -> Any:
    """Whole numbers are equal whether a server keeps them as integers or not."""
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else round(value, 6)
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


_encoder = msgspec.msgpack.Encoder()
_nodes = msgspec.msgpack.Decoder(list[Node])
_edges = msgspec.msgpack.Decoder(list[Edge])


def encode_nodes(nodes: Sequence[Node]) -> bytes:
    """msgpack of `nodes` in the order given; sort before when bytes are to be compared."""
    return _encoder.encode(nodes)


def decode_nodes(blob: bytes) -> list[Node]:
    return _nodes.decode(blob)


def encode_edges(edges: Sequence[Edge]) -> bytes:
    """msgpack of `edges` in the order given; sort before when bytes are to be compared."""
    return _encoder.encode(edges)


def decode_edges(blob: bytes) -> list[Edge]:
    return _edges.decode(blob)


def part_digest(nodes: bytes, edges: bytes) -> bytes:
    """16 bytes that identify a file's encoded part of the graph."""
    return hashlib.blake2b(nodes + edges, digest_size=16).digest()


def renamed(nodes: bytes, edges: bytes, before: str, after: str) -> tuple[bytes, bytes]:
    """A file's encoded part of the graph as the repository `after` has it, given that of `before`.

    Each id begins with the repository's name, so the order stays.
    """
    cut, name = len(before), after
    moved_nodes = [
        Node(
            name + n.id[cut:], n.label, n.name, n.qualified_name, n.path, n.start_line, n.end_line,
            n.language, n.kind,
        )
        for n in _nodes.decode(nodes)
    ]  # fmt: skip
    moved_edges = [
        Edge(
            e.relation, name + e.source[cut:], name + e.target[cut:], e.lines, e.resolver,
            e.confidence,
        )
        for e in _edges.decode(edges)
    ]  # fmt: skip
    return _encoder.encode(moved_nodes), _encoder.encode(moved_edges)
