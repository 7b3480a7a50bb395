"""The tree that a revision is made from: a digest of all that decides its chunks and its graph."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from etl.facts import FACTS_VERSION
from etl.parsing.pool import Job


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
