"""What an index run would read, before anything is opened for it."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from etl.languages import is_code, language_of
from etl.languages.names import is_test_path, module_name
from etl.parsing.pool import Job
from etl.source.walk import Walk, look_again, walk
from plait.domain.errors import InvalidInput
from plait.secrets import rules as secret_rules
from plait.secrets.rules import Rules
from plait.settings import Settings

MAX_NAME = 128
_DECIDES = frozenset({".gitignore", ".plaitignore"})  # over other files


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The walk, and a job for each of its files, by path."""

    walk: Walk
    jobs: dict[str, Job]
    took_s: float
    rules: Rules  # of secrets
    begun_at: datetime  # of the walk, or of the last look at what changed since


def make_plan(root: Path, settings: Settings) -> IndexPlan:
    """Walk `root` and name each file's language and module.

    Raises: NotARepository, EmptyRepository, BadSettings.
    """
    start, begun_at = time.perf_counter(), datetime.now(UTC)
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
    return IndexPlan(found, jobs, time.perf_counter() - start, rules, begun_at)


def replan(plan: IndexPlan, touched: Collection[str], settings: Settings) -> IndexPlan | None:
    """The plan after changes of `touched` paths alone, without a walk; None when only a walk can tell.

    That is so when a path is new and not in a folder that is left out, when a file was left out before, when a
    folder is gone, and when what changed decides over other files: an ignore file, git's own files, a package's
    `__init__.py` that is gone or can't be read any more.
    """
    start, begun_at = time.perf_counter(), datetime.now(UTC)
    root = plan.walk.root
    left_out = {path for path, _ in plan.walk.skipped}
    again = []
    for path in touched:
        if posixpath.basename(path) in _DECIDES or path.split("/", 1)[0] == ".git":
            return None
        full = Path(root, path)
        if path in plan.jobs:
            if full.is_symlink() or full.is_dir():
                return None
            again.append(path)
        elif (
            path in left_out
            or (not _inside(path, left_out) and full.exists())
            or any(known.startswith(f"{path}/") for known in plan.jobs)
        ):
            return None
    found, skipped = look_again(
        root, again, max_file_bytes=settings.index.max_file_bytes, rules=plan.rules
    )
    sizes = {file.path: file for file in found}
    gone = set(again) - sizes.keys()
    if any(posixpath.basename(path) == "__init__.py" for path in gone):
        return None
    files = [sizes.get(f.path, f) for f in plan.walk.files if f.path not in gone]
    if not files:
        return None
    jobs = {path: job for path, job in plan.jobs.items() if path not in gone}
    for path, file in sizes.items():
        jobs[path] = replace(jobs[path], size=file.size)
    walked = Walk(root, files, sorted([*plan.walk.skipped, *skipped]))
    return IndexPlan(walked, jobs, time.perf_counter() - start, plan.rules, begun_at)


def _inside(path: str, folders: Collection[str]) -> bool:
    """True for a path below one of `folders`, which end with `/`."""
    at = path.find("/")
    while at >= 0:
        if path[: at + 1] in folders:
            return True
        at = path.find("/", at + 1)
    return False


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
