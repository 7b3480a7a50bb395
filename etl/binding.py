"""Bind a run's facts to files' parts of the graph, and keep for the next run what was bound."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from etl.changed import decode, load_unchanged
from etl.kept import Counts, KeptRepository
from etl.resolve import Bindings, FilePart, OtherFile, collector_off, other_part
from etl.run import Run, Truth
from plait.domain.graph import encode_edges, encode_nodes, part_digest
from plait.ports import Draft, FileGraph, StoredFile

# Of the parts that are made before they are written.
PORTION_BYTES = 4_000_000


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
    """What binding gave: of which files the part may differ from the base's, and of those looked at its digest."""

    repo: str
    bindings: Bindings
    counts: Counts
    paths: list[str] = field(default_factory=list)
    others: list[OtherFile] = field(default_factory=list)
    digests: dict[str, bytes] = field(default_factory=dict)


def bind(
    run: Run, repo: str, stored: dict[str, StoredFile], kept: KeptRepository | None
) -> BoundRun:
    """Bind the facts; with `kept`, only what differs from its facts and what that can touch."""
    if kept is not None and kept.bindings is not None:
        bound = BoundRun(repo, kept.bindings, kept.counts)
        kept.number = 0  # it holds for no revision until this one is published
        before = kept.facts
        changed = {p: f for p, f in run.facts.items() if before.get(p) is not f}
        gone = before.keys() - run.facts.keys()
        # What is known to the graph, and neither in the facts nor read now, is as it was.
        others = [other for other in other_files(run, stored) if other.path in run.lines]
        bound.counts.drop(stored.keys() - run.jobs.keys())
        bound.counts.drop({path for path, _ in run.skipped})
    else:
        track = run.kept is not None
        bound = BoundRun(repo, Bindings(repo, track=track), Counts(track=track))
        changed, gone, others = run.facts, set(), other_files(run, stored)
    bound.paths = sorted(bound.bindings.update(changed, gone))
    bound.others = sorted(others, key=attrgetter("path"))
    return bound


def portions(
    run: Run, bound: BoundRun, stored: dict[str, StoredFile], most: int
) -> Iterator[list[FileGraph]]:
    """The parts that differ from the base's, made as they are asked for: at most `most` at a time, so that memory
    holds no more of the graph than is being written. At the end `run` has its counts.
    """
    parts = _parts(bound)
    while True:
        portion: list[FileGraph] = []
        size = 0
        with collector_off():
            for part in parts:
                row = _row(bound, part)
                before = stored.get(part.path)
                if before is None or before.graph_hash != row.graph_hash:
                    portion.append(row)
                    size += len(row.nodes) + len(row.edges)
                if len(portion) == most or size > PORTION_BYTES:
                    break
        if not portion:
            break
        yield portion
    run.nodes = bound.counts.nodes
    run.edges = +bound.counts.edges
    run.unresolved = +bound.counts.unresolved


def _parts(bound: BoundRun) -> Iterator[FilePart]:
    for path in bound.paths:
        yield bound.bindings.part(path)
    for other in bound.others:
        yield other_part(bound.repo, other)


def _row(bound: BoundRun, part: FilePart) -> FileGraph:
    nodes, edges = encode_nodes(part.nodes), encode_edges(part.edges)
    digest = part_digest(nodes, edges)
    bound.counts.put(part)
    bound.digests[part.path] = digest
    return FileGraph(part.path, nodes, edges, digest)


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
        bound = await asyncio.to_thread(_bound_and_counted, run, draft.repo, stored, None)
        keep(run, kept, bound, stored, [])
        kept.number = draft.base


async def keep_taken(
    run: Run,
    kept: KeptRepository,
    draft: Draft,
    truth: Truth,
    changed: Sequence[str],
    removed: Sequence[str],
) -> None:
    """A tree was taken up whole and is published: bring to it what is kept of the base, whose files differ in `changed`
    and `removed`; of what is not kept, bind all. The runs that follow go on from there."""
    published = replace(draft, base=draft.number)
    stored = await truth.index.stored_files(published)
    if kept.bindings is None:
        await keep_base(run, kept, published, truth, stored)
        return
    run.facts = {path: f for path, f in kept.facts.items() if path not in {*changed, *removed}}
    run.lines = {path: stored[path].lines for path in changed if path in stored}
    async for path, blob in truth.index.facts(published, run.lines):
        if facts := decode(blob):
            run.facts[path] = facts
    kept.counts.drop(removed)
    bound = await asyncio.to_thread(_bound_and_counted, run, draft.repo, stored, kept)
    keep(run, kept, bound, stored, [])


def _bound_and_counted(
    run: Run, repo: str, stored: dict[str, StoredFile], kept: KeptRepository | None
) -> BoundRun:
    bound = bind(run, repo, stored, kept)
    for _ in portions(run, bound, stored, len(stored)):
        pass  # what is stored is as it should be
    return bound


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
