"""What an index run would read, before anything is opened for it."""

from __future__ import annotations

import posixpath
import time
from dataclasses import dataclass
from pathlib import Path

from etl.languages import is_code, language_of
from etl.languages.names import is_test_path, module_name
from etl.parsing.pool import Job
from etl.source.walk import Walk, walk
from plait.domain.errors import InvalidInput
from plait.secrets import rules as secret_rules
from plait.secrets.rules import Rules
from plait.settings import Settings

MAX_NAME = 128


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The walk, and a job for each of its files, by path."""

    walk: Walk
    jobs: dict[str, Job]
    took_s: float
    rules: Rules  # of secrets


def make_plan(root: Path, settings: Settings) -> IndexPlan:
    """Walk `root` and name each file's language and module.

    Raises: NotARepository, EmptyRepository, BadSettings.
    """
    start = time.perf_counter()
    rules = secret_rules.load(settings.secrets.rules)
    found = walk(root, max_file_bytes=settings.index.max_file_bytes, rules=rules)
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
    return IndexPlan(found, jobs, time.perf_counter() - start, rules)


def repository_name(root: Path, given: str = "") -> str:
    """The name to index `root` under: `given`, else the folder's own.

    Raises: InvalidInput, for a name that ids (`name:symbol`), terminals or stores can't carry.
    """
    name = given or root.name
    if not name or len(name) > MAX_NAME or not name.isprintable() or ":" in name:
        shown = ascii(name[:40])
        raise InvalidInput(
            f"{shown} is no name for a repository: it needs 1 to {MAX_NAME} printable characters "
            "without `:`; choose another with --repo NAME",
            name=shown,
        )
    if not str(root).isprintable():
        raise InvalidInput(
            f"the path {str(root)!a} has characters that can't be printed or are not UTF-8; "
            "rename the folder, or index it through a symbolic link with another name",
            path=ascii(str(root)),
        )
    return name
