"""What an index run would read, before anything is opened for it."""

from __future__ import annotations

import posixpath
import time
from dataclasses import dataclass
from pathlib import Path

from etl.languages import is_code, language_of
from etl.languages.names import is_test_path, module_name
from etl.parse import Job
from etl.walk import Walk, walk
from plait.settings import Settings


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The walk, and a job for each of its files, by path."""

    walk: Walk
    jobs: dict[str, Job]
    took_s: float


def make_plan(root: Path, settings: Settings) -> IndexPlan:
    """Walk `root` and name each file's language and module.

    Raises: NotARepository, EmptyRepository.
    """
    start = time.perf_counter()
    found = walk(root, max_file_bytes=settings.index.max_file_bytes)
    packages = frozenset(
        posixpath.dirname(file.path)
        for file in found.files
        if posixpath.basename(file.path) == "__init__.py"
    )
    jobs = {}
    for file in found.files:
        language = language_of(file.path)
        module = module_name(file.path, language, packages) if is_code(language) else ""
        test = is_test_path(file.path, language)
        jobs[file.path] = Job(file.path, language, module, test, file.size)
    return IndexPlan(found, jobs, time.perf_counter() - start)
