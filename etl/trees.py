"""Trees and contents that were indexed before, taken up from the store: nothing of them is parsed again."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from etl.changed import decode, renamed
from etl.facts import FACTS_VERSION
from etl.languages import is_code
from etl.parsing.pool import Job, hash_files
from etl.run import FEW_FILES, Run, Truth
from plait.domain.values import Revision
from plait.ports import Draft, KeptFile, Sibling, StoredFile

# Files by which a sibling is found.
SAMPLE = 64


async def sibling_of(
    run: Run, draft: Draft, truth: Truth, changed: Sequence[str]
) -> Sibling | None:
    """Another repository that holds much of `changed`, paths that are new or have another content; it is looked for
    where many are. None when there is none. With one, the hash of each file is in `run.hashes`."""
    if draft.base and len(changed) <= FEW_FILES:
        return None
    step = -(-len(changed) // SAMPLE)
    sample = await _hashes(run, changed[::step])
    sibling = await truth.index.sibling(draft, sample, FACTS_VERSION)
    if sibling is not None:
        await _hashes(run, list(run.jobs))
    return sibling


async def _hashes(run: Run, paths: Sequence[str]) -> dict[str, bytes]:
    """The content hashes of `paths` that can be read, which `run` then has."""
    missing = [path for path in paths if path not in run.hashes]
    root = Path(run.walk.root)
    run.hashes |= await asyncio.to_thread(hash_files, root, missing, run.rules.digest())
    return {path: run.hashes[path] for path in paths if path in run.hashes}


async def take_tree(
    run: Run, draft: Draft, truth: Truth, branch: str, sibling: Sibling | None
) -> Revision | None:
    """Publish a tree that is kept, or that a sibling publishes, as it was: nothing is parsed or bound. None when this
    one is not there."""
    with run.phase("write"):
        tree = await asyncio.to_thread(tree_of, run)
        if not tree:
            return None
        stats = await truth.index.restore_tree(draft, tree) if draft.base else None
        if stats is None and sibling is not None and not draft.base:
            stats = await truth.index.copy_tree(draft, sibling, tree)
        if stats is None:
            return None
        run.nodes, run.symbols, run.restored = stats.nodes, stats.symbols, stats.files
        run.edges, run.unresolved = Counter(stats.relations), Counter(stats.causes)
        run.skipped += sorted(stats.unread.items())
        return await truth.index.publish(draft, stats, tree=tree, branch=branch)


def tree_of(run: Run) -> bytes:
    """The digest by which a later run takes this one's revision up; b"" where another run might find more."""
    if run.timed_out or any(path in run.jobs for path, _ in run.skipped):
        return b""
    missing = [path for path in run.jobs if path not in run.hashes]
    run.hashes |= hash_files(Path(run.walk.root), missing, run.rules.digest())
    return tree_digest(run.jobs, run.hashes)


async def restore(
    run: Run,
    draft: Draft,
    truth: Truth,
    changed: list[str],
    stored: dict[str, StoredFile],
    sibling: Sibling | None,
) -> None:
    """Take the contents out of `changed` that are stored since an earlier revision, or by `sibling`, as facts and
    chunks."""
    wanted = {
        path: digest
        for path in changed
        if (digest := run.hashes.get(path))
        and (path not in stored or stored[path].content_hash != digest)
    }
    if draft.base and wanted:
        files = _usable(run, await truth.index.kept_files(draft, wanted))
        await truth.index.restore(draft, files)
        _take(run, files, wanted)
    if sibling is not None and wanted:
        found = await truth.index.sibling_files(sibling, wanted)
        files = await asyncio.to_thread(_usable, run, found)
        copied = await truth.index.copy_files(draft, sibling, files)
        _take(run, [file for file in files if file.path in copied], wanted)
    changed[:] = [path for path in changed if path not in run.rows]


def _usable(run: Run, files: Mapping[str, KeptFile]) -> list[KeptFile]:
    """Those that parsing would give again."""
    usable = []
    for path, file in files.items():
        job, facts = run.jobs[path], decode(file.facts)
        if file.language != job.language or (facts is None and is_code(job.language)):
            continue
        if facts is None or not renamed(facts, job):
            usable.append(file)
    return usable


def _take(run: Run, files: Sequence[KeptFile], wanted: dict[str, bytes]) -> None:
    """Note what is in the draft by now, which is not wanted any more."""
    for file in files:
        facts = decode(file.facts)
        if facts is not None:
            run.facts[file.path] = facts
        run.lines[file.path] = file.lines
        run.rows[file.path] = StoredFile(
            file.path, file.content_hash, file.language, b"", file.lines
        )
        del wanted[file.path]
    run.restored += len(files)


def tree_digest(jobs: Mapping[str, Job], hashes: Mapping[str, bytes]) -> bytes:
    """16 bytes; equal for two runs that would find the same. Over each file's path, content, language, module and
    whether it is a test; `hashes` are by path, without the files that can't be read."""
    digest = hashlib.blake2b(f"{FACTS_VERSION}\0".encode(), digest_size=16)
    for path in sorted(jobs):
        job = jobs[path]
        shape = f"{path}\0{job.language}\0{job.module}\0{job.is_test:d}\0"
        digest.update(shape.encode("utf-8", "surrogateescape"))
        digest.update(hashes.get(path, b"").rjust(64, b"\0"))
    return digest.digest()
