"""From files' parts of the graph, as `file_graph` keeps them, to one compact `CodeGraph`. Pure; no SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec
import numpy as np
import numpy.typing as npt

from plait.domain.graph import Edge, Label, Relation, decode_nodes
from plait.ports import CodeGraph, Sites

RELATIONS = (
    Relation.CONTAINS.value,
    Relation.CALLS.value,
    Relation.IMPORTS.value,
    Relation.INHERITS.value,
    Relation.OVERRIDES.value,
    Relation.VALIDATED_BY.value,
)
LABELS = (
    Label.FILE.value,
    Label.MODULE.value,
    Label.CLASS.value,
    Label.FUNCTION.value,
    Label.TEST.value,
)
_CODE = {relation: code for code, relation in enumerate(RELATIONS)}
_LABEL = {label: code for code, label in enumerate(LABELS)}
_TEST = _LABEL[Label.TEST.value]

Ints = npt.NDArray[np.int32]
_NONE = -1


class _Ends(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An `Edge` whose call sites stay unread: a tuple for each would make the collector of cycles stop
    everybody for 50 ms."""

    relation: str
    source: str
    target: str
    lines: msgspec.Raw = msgspec.Raw(b"\x90")
    resolver: str = ""
    confidence: float = 1.0


assert _Ends.__struct_fields__ == Edge.__struct_fields__
_ends = msgspec.msgpack.Decoder(list[_Ends])
_lines = msgspec.msgpack.Decoder(tuple[int, ...])


class Names:
    """Numbers of one repository's texts, over all its revisions: of its node ids, and of the `words` that
    nodes' own names, their kinds and languages, and rules are. They only grow."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.words: list[str] = []
        self.word_numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def word(self, text: str) -> int:
        known = self.word_numbers.get(text)
        if known is None:
            known = self.word_numbers[text] = len(self.words)
            self.words.append(text)
        return known

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, slots=True)
class Part:
    """One file's part: nodes as columns, edges as columns of `Names`' numbers. `qualified`: where it is
    not the id. `sites`: the edges' lines one behind another as they are stored, `site_end` where each ends."""

    path: str
    ids: Sequence[str]
    qualified: dict[int, str]
    paths: Sequence[str]
    nodes: Ints  # (6, n): first and last lines, label, kind, language, name
    source: Ints  # (m,)
    target: Ints  # (m,)
    relation: npt.NDArray[np.int8]  # (m,)
    weight: npt.NDArray[np.float32]  # (m,)
    resolver: Ints  # (m,)
    sites: bytes
    site_end: Ints  # (m,)


def part(repo: str, path: str, nodes: bytes, edges: bytes, names: Names) -> Part:
    """Decode one file's blobs. The repository's own node is left out: it is next to everything."""
    cut, number, word = len(repo) + 1, names.number, names.word
    found = decode_nodes(nodes)
    ids = [node.id[cut:] for node in found]
    for id_ in ids:
        number(id_)
    known = [e for e in _ends.decode(edges) if e.relation in _CODE and len(e.source) > cut]
    sites = [e.lines for e in known]
    columns = (
        [node.start_line for node in found],
        [node.end_line for node in found],
        [_LABEL[node.label] for node in found],
        [word(node.kind) for node in found],
        [word(node.language) for node in found],
        [word(node.name) for node in found],
    )
    return Part(
        path,
        ids,
        {
            row: node.qualified_name
            for row, (node, id_) in enumerate(zip(found, ids, strict=True))
            if node.qualified_name != id_
        },
        [path if node.path == path else node.path for node in found],
        np.array(columns, np.int32),
        np.array([number(e.source[cut:]) for e in known], np.int32),
        np.array([number(e.target[cut:]) for e in known], np.int32),
        np.array([_CODE[e.relation] for e in known], np.int8),
        np.array([e.confidence for e in known], np.float32),
        np.array([word(e.resolver) for e in known], np.int32),
        b"".join(sites),
        np.cumsum([len(site) for site in sites], dtype=np.int32),
    )


def build(repo: str, revision: int, parts: Iterable[Part], names: Names) -> CodeGraph:
    """The graph of `parts`, which are in the order of their paths: of two that hold the same node or edge
    the first counts, as in the graph's deltas. Edges to what is not there are left out."""
    held = list(parts)
    ids, first = _first(list(chain.from_iterable(p.ids for p in held)))
    rows = np.full(len(names), _NONE, np.int32)
    numbers = names.numbers
    rows[np.fromiter((numbers[id_] for id_ in ids), np.int64, len(ids))] = np.arange(len(ids))
    source, target, relation, weight, number = _edges(held, rows)
    outward = _sides(source, target, relation, weight, number, len(ids))
    inward = _sides(target, source, relation, weight, number, len(ids))
    nodes = np.concatenate([p.nodes for p in held], axis=1) if held else np.zeros((6, 0), np.int32)
    if first is not None:
        nodes = nodes[:, first]
    start, end, label, kind, language, name = nodes
    words = names.words
    return CodeGraph(
        repo,
        revision,
        RELATIONS,
        LABELS,
        words,
        names.word_numbers,
        ids,
        {id_: row for row, id_ in enumerate(ids)},
        [words[number] for number in name.tolist()],
        _qualified(held, first),
        _taken(list(chain.from_iterable(p.paths for p in held)), first),
        start.copy(),
        end.copy(),
        label.astype(np.int8),
        kind.copy(),
        language.copy(),
        name.copy(),
        label == _TEST,
        _SitesOf(held, words),
        *outward,
        *inward,
    )


class _SitesOf:
    """The `Sites` of an edge by its number: its place in the edges of all parts, one part behind another."""

    def __init__(self, parts: Sequence[Part], words: Sequence[str]) -> None:
        self._parts = parts
        self._words = words
        self._ends = np.cumsum([len(p.source) for p in parts], dtype=np.int64)

    def __call__(self, edge: int) -> Sites:
        which = int(np.searchsorted(self._ends, edge, side="right"))
        part = self._parts[which]
        at = edge - (int(self._ends[which - 1]) if which else 0)
        begin = int(part.site_end[at - 1]) if at else 0
        lines = _lines.decode(part.sites[begin : int(part.site_end[at])])
        return Sites(lines, self._words[part.resolver[at]])


def _qualified(parts: Sequence[Part], first: list[int] | None) -> dict[int, str]:
    """By the rows of the whole graph."""
    starts = np.cumsum([0, *(len(p.ids) for p in parts)]).tolist()
    found = {
        start + row: name
        for start, p in zip(starts, parts, strict=False)
        for row, name in p.qualified.items()
    }
    if first is None:
        return found
    return {row: found[place] for row, place in enumerate(first) if place in found}


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
) -> tuple[Ints, Ints, npt.NDArray[np.int8], npt.NDArray[np.float32], Ints]:
    """All edges between nodes that are there, as rows, each (relation, source, target) once, and their
    numbers."""
    if not parts:
        empty = np.zeros(0, np.int32)
        return empty, empty, empty.astype(np.int8), empty.astype(np.float32), empty
    source = rows[np.concatenate([p.source for p in parts])]
    target = rows[np.concatenate([p.target for p in parts])]
    relation = np.concatenate([p.relation for p in parts])
    weight = np.concatenate([p.weight for p in parts])
    there = np.flatnonzero((source != _NONE) & (target != _NONE))
    source, target = source[there], target[there]
    relation, weight = relation[there], weight[there]
    count = np.int64(max(1, int(rows.max(initial=0)) + 1))
    key = (source.astype(np.int64) * len(RELATIONS) + relation) * count + target
    _, once = np.unique(key, return_index=True)  # the first of each; sorted by source
    number = there[once].astype(np.int32)
    return source[once], target[once], relation[once], weight[once], number


def _sides(
    near: Ints,
    far: Ints,
    relation: npt.NDArray[np.int8],
    weight: npt.NDArray[np.float32],
    number: Ints,
    n: int,
) -> tuple[npt.NDArray[np.int64], Ints, npt.NDArray[np.int8], npt.NDArray[np.float32], Ints]:
    """CSR by `near`: start, other, relation, weight, edge; read-only, since they are shared."""
    order = np.argsort(near, kind="stable")
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(near, minlength=n), out=start[1:])
    sides = (start, far[order], relation[order], weight[order], number[order])
    for array in sides:
        array.setflags(write=False)
    return sides
