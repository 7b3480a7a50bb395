"""Trees and contents that were indexed before, taken up from the store: nothing of them is parsed again."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from etl.changed import decode, renamed
from etl.facts import FACTS_VERSION
from etl.languages import is_code
from etl.parsing.pool import Job, hash_files
from etl.run import Run, Truth
from plait.domain.values import Revision
from plait.ports import Draft, StoredFile


async def take_tree(run: Run, draft: Draft, truth: Truth, branch: str) -> Revision | None:
    """Publish a tree that is kept as it was: nothing is parsed or bound. None when this one is not kept."""
    with run.phase("write"):
        tree = await asyncio.to_thread(tree_of, run)
        if not tree:
            return None
        stats = await truth.index.restore_tree(draft, tree)
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
    run: Run, draft: Draft, truth: Truth, changed: list[str], stored: dict[str, StoredFile]
) -> None:
    """Take the contents out of `changed` that are stored since an earlier revision, as facts and chunks."""
    wanted = {
        path: digest
        for path in changed
        if (digest := run.hashes.get(path))
        and (path not in stored or stored[path].content_hash != digest)
    }
    if not draft.base or not wanted:
        return
    kept = []
    for path, file in (await truth.index.kept_files(draft, wanted)).items():
        job, facts = run.jobs[path], decode(file.facts)
        if file.language != job.language or (facts is None and is_code(job.language)):
            continue
        if facts is not None:
            if renamed(facts, job):
                continue
            run.facts[path] = facts
        run.lines[path] = file.lines
        run.rows[path] = StoredFile(path, file.content_hash, file.language, b"", file.lines)
        kept.append(file)
    await truth.index.restore(draft, kept)
    run.restored = len(kept)
    again = {file.path for file in kept}
    changed[:] = [path for path in changed if path not in again]


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
