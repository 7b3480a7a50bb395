"""What a run has to read, and what it can take from the revision that it starts from."""

from __future__ import annotations

import asyncio
from pathlib import Path

from etl import facts as facts_codec
from etl.facts import FACTS_VERSION, FileFacts
from etl.kept import KeptRepository
from etl.languages import is_code
from etl.languages.registry import Naming, language
from etl.parsing.pool import TIMED_OUT, Job, hash_files
from etl.run import MOST_REMEMBERED, Run, Truth
from plait.ports import Draft, StoredFile

TIMED_OUT_BEFORE = "timed out before"


def taken_up(run: Run, draft: Draft) -> KeptRepository | None:
    """What is kept of the draft's base; None when nothing is, and then every file is looked at."""
    kept = run.kept
    if kept is None:
        return None
    holds = kept.number and kept.number == draft.base and draft.facts_version == FACTS_VERSION
    if not holds or kept.bindings is None or kept.repo != draft.repo:
        kept.forget()
        run.touched = None
        return None
    return kept


async def changes(
    run: Run, draft: Draft, stored: dict[str, StoredFile], limit_s: float
) -> tuple[list[str], list[str]]:
    """`(changed or new, removed)` paths. With nothing stored, all is new and nothing is hashed here.

    A content that timed out before, with no shorter a limit and the same extractors, is not tried again.
    """
    if not stored:
        return list(run.jobs), []
    jobs = run.jobs
    if run.touched is not None:
        # What a run before could not read, and nobody has touched, is as it was.
        unread = run.jobs.keys() - stored.keys() - run.touched
        run.skipped += [(path, TIMED_OUT_BEFORE) for path in sorted(unread)]
        run.timed_out.update(draft.timed_out)
        jobs = {path: run.jobs[path] for path in sorted(run.touched & run.jobs.keys())}
    hashes = await asyncio.to_thread(
        hash_files, Path(run.walk.root), list(jobs), run.rules.digest()
    )
    run.hashes = {
        path: stored[path].content_hash for path in run.jobs if path not in jobs and path in stored
    } | hashes
    known = draft.timed_out if draft.facts_version == FACTS_VERSION else {}
    changed: list[str] = []
    for path, job in jobs.items():
        digest = hashes.get(path)
        before = known.get(digest.hex()) if digest else None
        same = (
            path in stored
            and stored[path].content_hash == digest
            and stored[path].language == job.language
        )
        if digest and before is not None and before >= limit_s:
            run.timed_out[digest.hex()] = before
            if not same:  # one whose text is indexed stays as it is
                run.skipped.append((path, TIMED_OUT_BEFORE))
        elif not same or before is not None:
            changed.append(path)
    gone = {path for path, _ in run.skipped} | (stored.keys() - run.jobs.keys())
    return changed, [path for path in stored if path in gone]


async def remember_slow(run: Run, limit_s: float) -> None:
    """Note the contents that timed out, so that the next run does not wait for them again."""
    slow = [path for path, cause in (*run.skipped, *run.unparsed) if cause == TIMED_OUT]
    hashes = await asyncio.to_thread(hash_files, Path(run.walk.root), slow, run.rules.digest())
    for digest in hashes.values():
        if len(run.timed_out) < MOST_REMEMBERED:
            run.timed_out[digest.hex()] = limit_s


async def load_unchanged(
    run: Run,
    draft: Draft,
    truth: Truth,
    kept: KeptRepository | None,
    changed: list[str],
    removed: list[str],
) -> None:
    """Load the facts of unchanged files into `run`; what can't be reused joins `changed`.

    A Python file's module name depends on its neighbours (`__init__.py`), and old facts may have an
    older shape: both make it parse again, as does an older version that knew no symbols of the language.
    Java and Go name their modules in the source.
    """
    skip = {*changed, *removed}
    if kept is not None:
        for path, facts in kept.facts.items():
            if path in skip:
                continue
            if renamed(facts, run.jobs[path]):
                changed.append(path)
            else:
                run.facts[path] = facts
        return
    async for path, blob in truth.index.facts(draft):
        if path in skip:
            continue
        read = decode(blob)
        moved = read is not None and renamed(read, run.jobs[path])
        if (blob or is_code(run.jobs[path].language)) and (read is None or moved):
            changed.append(path)
        elif read is not None:
            run.facts[path] = read


def renamed(facts: FileFacts, job: Job) -> bool:
    """True when neighbours have changed the name of a module that is named by the packages round it."""
    named_by_neighbours = language(facts.language).naming is Naming.PACKAGES
    return named_by_neighbours and facts.module != job.module


def decode(blob: bytes) -> FileFacts | None:
    if not blob:
        return None
    try:
        facts = facts_codec.decode(blob)
    except ValueError:  # msgspec.DecodeError: written by a version with another shape
        return None
    return facts if facts.version == FACTS_VERSION else None
