"""Bind a run's facts to files' parts of the graph, and keep for the next run what was bound."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from etl.changed import load_unchanged
from etl.kept import Counts, KeptRepository
from etl.resolve import Bindings, FilePart, OtherFile, collector_off, other_part
from etl.run import Run, Truth
from plait.domain.graph import encode_edges, encode_nodes
from plait.ports import Draft, FileGraph, StoredFile


def other_files(run: Run, stored: dict[str, StoredFile]) -> list[OtherFile]:
    """The files that are indexed as text only: nodes without symbols."""
    unparsed = {path for path, _ in run.skipped}
    return [
        OtherFile(path, job.language, run.lines[path] if path in run.lines else stored[path].lines)
        for path, job in run.jobs.items()
        if path not in run.facts and path not in unparsed and (path in run.lines or path in stored)
    ]


@dataclass(slots=True)
class BoundRun:
    """What binding gave: the parts that differ from the base's, and the digest of each part looked at."""

    bindings: Bindings
    counts: Counts
    parts: list[FileGraph] = field(default_factory=list)
    digests: dict[str, bytes] = field(default_factory=dict)


def bind(
    run: Run, repo: str, stored: dict[str, StoredFile], kept: KeptRepository | None
) -> BoundRun:
    """Bind the facts; with `kept`, only what differs from its facts and what that can touch."""
    if kept is not None and kept.bindings is not None:
        bound = BoundRun(kept.bindings, kept.counts)
        kept.number = 0  # it holds for no revision until this one is published
        before = kept.facts
        changed = {p: f for p, f in run.facts.items() if before.get(p) is not f}
        gone = before.keys() - run.facts.keys()
        # What is known to the graph, and neither in the facts nor read now, is as it was.
        others = [other for other in other_files(run, stored) if other.path in run.lines]
        bound.counts.drop(stored.keys() - run.jobs.keys())
        bound.counts.drop({path for path, _ in run.skipped})
    else:
        bound = BoundRun(Bindings(repo, track=run.kept is not None), Counts())
        changed, gone, others = run.facts, set(), other_files(run, stored)
    with collector_off():
        again = bound.bindings.update(changed, gone)
        for path in sorted(again):
            _add_part(run, bound, stored, bound.bindings.part(path))
        for other in sorted(others, key=attrgetter("path")):
            _add_part(run, bound, stored, other_part(repo, other))
    run.nodes = bound.counts.nodes
    run.edges = +bound.counts.edges
    run.unresolved = +bound.counts.unresolved
    return bound


def _add_part(run: Run, bound: BoundRun, stored: dict[str, StoredFile], part: FilePart) -> None:
    nodes, edges = encode_nodes(part.nodes), encode_edges(part.edges)
    digest = hashlib.blake2b(nodes + edges, digest_size=16).digest()
    bound.counts.put(part)
    bound.digests[part.path] = digest
    before = stored.get(part.path)
    if before is None or before.graph_hash != digest:
        bound.parts.append(FileGraph(part.path, nodes, edges, digest))


async def keep_base(
    run: Run,
    kept: KeptRepository,
    draft: Draft,
    truth: Truth,
    stored: dict[str, StoredFile],
) -> None:
    """Nothing changed: bind the base for the runs that will follow."""
    changed: list[str] = []
    await load_unchanged(run, draft, truth, None, changed, [])
    if not changed:
        bound = await asyncio.to_thread(bind, run, draft.repo, stored, None)
        keep(run, kept, bound, stored, [])
        kept.number = draft.base


def keep(
    run: Run,
    kept: KeptRepository,
    bound: BoundRun,
    stored: dict[str, StoredFile],
    removed: Sequence[str],
) -> None:
    """Leave for the next run what this one knows of its revision."""
    gone = set(removed)
    now = {path: file for path, file in stored.items() if path not in gone} | run.rows
    for path, digest in bound.digests.items():
        if path in now:
            now[path] = replace(now[path], graph_hash=digest)
    kept.stored, kept.bindings, kept.counts = now, bound.bindings, bound.counts
