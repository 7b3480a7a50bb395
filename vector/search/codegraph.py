"""From files' parts of the graph, as `file_graph` keeps them, to one compact `CodeGraph`. Pure; no SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec
import numpy as np
import numpy.typing as npt

from plait.domain.graph import Edge, Label, Relation, decode_nodes
from plait.ports import CodeGraph

RELATIONS = (
    Relation.CONTAINS.value,
    Relation.CALLS.value,
    Relation.IMPORTS.value,
    Relation.INHERITS.value,
    Relation.OVERRIDES.value,
    Relation.VALIDATED_BY.value,
)
_CODE = {relation: code for code, relation in enumerate(RELATIONS)}

Ints = npt.NDArray[np.int32]
_NONE = -1


class _Ends(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An `Edge` whose call sites stay unread: a tuple for each would make the collector of cycles stop
    everybody for 50 ms."""

    relation: str
    source: str
    target: str
    lines: msgspec.Raw = msgspec.Raw()
    resolver: msgspec.Raw = msgspec.Raw()
    confidence: float = 1.0


assert _Ends.__struct_fields__ == Edge.__struct_fields__
_ends = msgspec.msgpack.Decoder(list[_Ends])


class Names:
    """A number for each node id of one repository, over all its revisions; it only grows."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, slots=True)
class Part:
    """One file's part: nodes as columns, edges as columns of `Names`' numbers."""

    path: str
    ids: Sequence[str]
    names: Sequence[str]
    paths: Sequence[str]
    lines: Sequence[int]
    is_test: Sequence[bool]
    source: Ints  # (m,)
    target: Ints  # (m,)
    relation: npt.NDArray[np.int8]  # (m,)
    weight: npt.NDArray[np.float32]  # (m,)


def part(repo: str, path: str, nodes: bytes, edges: bytes, names: Names) -> Part:
    """Decode one file's blobs. The repository's own node is left out: it is next to everything."""
    cut, number = len(repo) + 1, names.number
    found = decode_nodes(nodes)
    ids = [node.id[cut:] for node in found]
    for id_ in ids:
        number(id_)
    known = [e for e in _ends.decode(edges) if e.relation in _CODE and len(e.source) > cut]
    return Part(
        path,
        ids,
        [node.name for node in found],
        [path if node.path == path else node.path for node in found],
        [node.start_line for node in found],
        [node.label == Label.TEST for node in found],
        np.array([number(e.source[cut:]) for e in known], np.int32),
        np.array([number(e.target[cut:]) for e in known], np.int32),
        np.array([_CODE[e.relation] for e in known], np.int8),
        np.array([e.confidence for e in known], np.float32),
    )


def build(repo: str, revision: int, parts: Iterable[Part], names: Names) -> CodeGraph:
    """The graph of `parts`, which are in the order of their paths: of two that hold the same node or edge
    the first counts, as in the graph's deltas. Edges to what is not there are left out."""
    held = list(parts)
    ids, first = _first(list(chain.from_iterable(p.ids for p in held)))
    rows = np.full(len(names), _NONE, np.int32)
    numbers = names.numbers
    rows[np.fromiter((numbers[id_] for id_ in ids), np.int64, len(ids))] = np.arange(len(ids))
    source, target, relation, weight = _edges(held, rows)
    outward = _sides(source, target, relation, weight, len(ids))
    inward = _sides(target, source, relation, weight, len(ids))
    lines = np.array(list(chain.from_iterable(p.lines for p in held)), np.int32)
    tests = np.array(list(chain.from_iterable(p.is_test for p in held)), np.bool_)
    return CodeGraph(
        repo,
        revision,
        RELATIONS,
        ids,
        {id_: row for row, id_ in enumerate(ids)},
        _taken(list(chain.from_iterable(p.names for p in held)), first),
        _taken(list(chain.from_iterable(p.paths for p in held)), first),
        lines if first is None else lines[first],
        tests if first is None else tests[first],
        *outward,
        *inward,
    )


def _first(ids: list[str]) -> tuple[list[str], list[int] | None]:
    """`ids` without repeats, and which of them stay; None for all."""
    unique = dict.fromkeys(ids)
    if len(unique) == len(ids):
        return ids, None
    seen: dict[str, int] = {}
    for place, id_ in enumerate(ids):
        seen.setdefault(id_, place)
    return list(seen), list(seen.values())


def _taken(values: list[str], which: list[int] | None) -> list[str]:
    return values if which is None else [values[n] for n in which]


def _edges(
    parts: Sequence[Part], rows: Ints
) -> tuple[Ints, Ints, npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """All edges between nodes that are there, as rows, each (relation, source, target) once."""
    if not parts:
        empty = np.zeros(0, np.int32)
        return empty, empty, empty.astype(np.int8), empty.astype(np.float32)
    source = rows[np.concatenate([p.source for p in parts])]
    target = rows[np.concatenate([p.target for p in parts])]
    relation = np.concatenate([p.relation for p in parts])
    weight = np.concatenate([p.weight for p in parts])
    there = (source != _NONE) & (target != _NONE)
    source, target = source[there], target[there]
    relation, weight = relation[there], weight[there]
    count = np.int64(max(1, int(rows.max(initial=0)) + 1))
    key = (source.astype(np.int64) * len(RELATIONS) + relation) * count + target
    _, once = np.unique(key, return_index=True)  # the first of each; sorted by source
    return source[once], target[once], relation[once], weight[once]


def _sides(
    near: Ints,
    far: Ints,
    relation: npt.NDArray[np.int8],
    weight: npt.NDArray[np.float32],
    n: int,
) -> tuple[npt.NDArray[np.int64], Ints, npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """CSR by `near`: start, other, relation, weight; read-only, since they are shared."""
    order = np.argsort(near, kind="stable")
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(near, minlength=n), out=start[1:])
    sides = (start, far[order], relation[order], weight[order])
    for array in sides:
        array.setflags(write=False)
    return sides
