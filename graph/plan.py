"""A delta cut into batches: pure, so that a repeat after a crash cuts it at the same places."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any

import msgspec

from plait.domain.errors import InvalidInput
from plait.domain.graph import Edge, Label, Link, Node, Relation, encode_edges, encode_nodes
from plait.ports import GraphDelta

# "Write both stores in 500-item transactions": the stated contract. Larger ones gain nothing here
# (5,000 edges a transaction: the same server CPU, 0.3 s less client CPU on Django).
BATCH_ITEMS = 500
PROPERTY = re.compile(r"[a-z][a-z0-9_]{0,63}")
CORE_PROPERTIES = frozenset(Node.__struct_fields__) - {"label"} | {"repo"}


class Step(StrEnum):
    DROP_EDGES = "drop edges"
    DROP_LINKS = "drop links"
    DROP_NODES = "drop nodes"
    CREATE_NODES = "create nodes"
    UPSERT_NODES = "upsert nodes"
    CREATE_EDGES = "create edges"
    WRITE_LINKS = "write links"


@dataclass(frozen=True, slots=True)
class Batch:
    """Up to `BATCH_ITEMS` items of one step. `kind`: their label or relation; "" for ids."""

    step: Step
    kind: str
    items: Sequence[Any]


def batches(delta: GraphDelta) -> list[Batch]:
    """`delta` in the order its docstring demands, one label or relation a batch (neither can be a
    parameter in Cypher), edges sorted by source so that each source is matched once.

    Raises: InvalidInput, for a label, relation or property the graph does not have.
    """
    _check(delta)
    out: list[Batch] = []
    for relation, edges in _grouped(delta.drop_edges, "relation"):
        out += _cut(Step.DROP_EDGES, relation, edges)
    for relation, links in _grouped(delta.drop_links, "relation"):
        out += _cut(Step.DROP_LINKS, relation, links)
    out += _cut(Step.DROP_NODES, "", delta.drop_nodes)
    step = Step.CREATE_NODES if delta.fresh and delta.number else Step.UPSERT_NODES
    for label, nodes in _grouped(delta.nodes, "label"):
        out += _cut(step, label, nodes)
    for relation, edges in _grouped(delta.edges, "relation"):
        edges.sort(key=attrgetter("source"))
        out += _cut(Step.CREATE_EDGES, relation, edges)
    for relation, links in _grouped(delta.links, "relation"):
        out += _cut(Step.WRITE_LINKS, relation, links)
    return out


def transactions(parts: Sequence[Batch]) -> list[list[Batch]]:
    """`parts` in order, up to `BATCH_ITEMS` items together; at least one, which may be empty. A delta
    of the memory layer is many small batches, and a round trip or a commit each is what it would cost."""
    out: list[list[Batch]] = [[]]
    size = 0
    for batch in parts:
        if out[-1] and size + len(batch.items) > BATCH_ITEMS:
            out.append([])
            size = 0
        out[-1].append(batch)
        size += len(batch.items)
    return out


def digest(delta: GraphDelta) -> str:
    """Tells whether a recorded batch number belongs to this very delta: another truth store may
    number its events alike. About 0.1 s for Django.

    A revision's links are left out: they hold the current state, which a retry may find changed, and are
    always written again.
    """
    links = () if delta.number else (*delta.links, *delta.drop_links)
    parts = (
        f"{delta.repo}\0{delta.number}\0{delta.fresh}\0{delta.remove_repo}".encode(),
        encode_edges(delta.drop_edges),
        msgspec.msgpack.encode(delta.drop_nodes),
        encode_nodes(delta.nodes),
        encode_edges(delta.edges),
        msgspec.msgpack.encode(delta.properties),
        msgspec.msgpack.encode(links),
    )
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.hexdigest()


def _check(delta: GraphDelta) -> None:
    labels, relations = set(Label), set(Relation)
    seen: set[str] = set()
    for node in delta.nodes:
        if node.id in seen:
            raise InvalidInput(f"node {node.id!r} is in the delta twice", id=node.id)
        seen.add(node.id)
        if node.label not in labels:
            raise InvalidInput(f"node {node.id!r} has the unknown label {node.label!r}", id=node.id)
    every: Iterable[Edge | Link] = itertools.chain(
        delta.drop_edges, delta.edges, delta.links, delta.drop_links
    )
    for edge in every:
        if edge.relation not in relations:
            raise InvalidInput(
                f"edge {edge.source!r} → {edge.target!r} has the unknown relation {edge.relation!r}",
                relation=edge.relation,
            )
    for properties in delta.properties.values():
        for key in properties:
            if not PROPERTY.fullmatch(key) or key in CORE_PROPERTIES:
                raise InvalidInput(f"{key!r} cannot be an extra property of a node", key=key)


def _grouped(items: Iterable[Any], field: str) -> Iterator[tuple[str, list[Any]]]:
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    kind = attrgetter(field)
    for item in items:
        groups[kind(item)].append(item)
    yield from sorted(groups.items())


def _cut(step: Step, kind: str, items: Sequence[Any]) -> Iterator[Batch]:
    for start in range(0, len(items), BATCH_ITEMS):
        yield Batch(step, kind, items[start : start + BATCH_ITEMS])


def node_row(node: Node) -> list[Any]:
    """In the order of `NODE_COLUMNS`. Lists travel cheaper than maps: no key is repeated."""
    return [
        node.id,
        node.name,
        node.qualified_name,
        node.path,
        node.start_line,
        node.end_line,
        node.language,
        node.kind,
    ]


NODE_COLUMNS = (
    "id",
    "name",
    "qualified_name",
    "path",
    "start_line",
    "end_line",
    "language",
    "kind",
)
# A Memory's times and version, as one number that grows: see `_SET_NODES` in `graph/writer.py`.
STATE = "state"
# `r` is a row of `node_row`.
NODE_MAP = (
    "{" + ", ".join(f"{key}: r[{i}]" for i, key in enumerate(NODE_COLUMNS)) + ", repo: $repo}"
)


def is_bare(edges: Sequence[Edge]) -> bool:
    """No edge of the batch says how it was bound: CONTAINS and the like."""
    return not any(edge.lines or edge.resolver or edge.confidence != 1.0 for edge in edges)


def edge_rows(edges: Sequence[Edge], ids: Mapping[str, str]) -> tuple[list[list[Any]], list[Edge]]:
    """Rows `[source, [[target, lines, resolver, confidence], …]]` in server ids, and the edges
    whose ends are not in `ids`. `edges` sorted by source."""
    rows: list[list[Any]] = []
    missing: list[Edge] = []
    bare = is_bare(edges)
    source, targets = "", list[list[Any]]()
    for edge in edges:
        if edge.source != source:
            source, targets = edge.source, []
            if (start := ids.get(source)) is not None:
                rows.append([start, targets])
        end = ids.get(edge.target)
        if end is None or source not in ids:
            missing.append(edge)
        elif bare:
            targets.append([end])
        else:  # a list: the driver packs tuples five times slower
            targets.append([end, list(edge.lines), edge.resolver, edge.confidence])
    return [row for row in rows if row[1]], missing


# -- where a node of an id is found ---------------------------------------------------------------------

_LAYER = {
    "episode/": (Label.EPISODE,),
    "memory/": (Label.MEMORY,),
    "diff/": (Label.DIFF,),
    "issue/": (Label.ISSUE,),
    "commit/": (Label.COMMIT,),
}
_FILE, _ROOT = (Label.FILE,), (Label.REPO,)
_SYMBOL = (Label.FUNCTION, Label.CLASS, Label.MODULE)
_ANY = tuple(label for label in Label if label is not Label.TEST)


def labels_of(repo: str, id_: str) -> tuple[Label, ...]:
    """The labels under which a node of this id may be, the likeliest first: each is a look-up."""
    if not id_.startswith(f"{repo}:"):
        return _ANY
    name = id_[len(repo) + 1 :]
    if not name:
        return _ROOT
    if name.startswith("/"):
        return _FILE
    head, slash, _ = name.partition("/")
    return _LAYER.get(head + slash, _SYMBOL)
