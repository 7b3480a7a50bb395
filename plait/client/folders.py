"""Which repository a folder means, and how fresh its index is.

A git work tree is a repository of its own, a linked work tree or a submodule inside another one too: it is
never answered from the one around it, which skips nested repositories when it is indexed. git is not run.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from plait.worktree import main_of, work_tree

if TYPE_CHECKING:
    from plait.domain.answers.indexing import Repository

# Episodes and memories take no other characters in a repository's name (plait/memory/episode.py).
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
MAX_NAME = 100
HOMES = (Path("/home"), Path("/Users"))
# More files are not looked at for one answer; it shows fewer.
MAX_LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class Here:
    """What a folder means. `name`: under which `root` is indexed, or would be. `around`: the indexed
    repository that holds `root` on the disk but not in its index, because `root` is a git work tree of
    its own; or the one whose linked work tree it is. `unfit`: why `root` must not be indexed unasked."""

    root: Path
    name: str
    repository: Repository | None = None
    around: str = ""
    unfit: str = ""

    def command(self, folder: Path | None = None) -> str:
        """What indexes it, as typed in `folder` (None: anywhere)."""
        path = os.path.relpath(self.root, os.path.realpath(folder)) if folder else str(self.root)
        named = f" --repo {self.name}" if self.name != self.root.name else ""
        return f"plait index {shlex.quote(path)}{named}"


def root_of(folder: Path) -> Path:
    """The git work tree that `folder` lies in, else `folder` itself; links resolved."""
    folder = Path(os.path.realpath(folder))
    return _git_root(folder) or folder


def locate(folder: Path, indexed: Sequence[Repository]) -> Here:
    """What `folder` means where `indexed` are the repositories there are.

    It is the innermost indexed folder around it that is not outside its git work tree: `plait index src`
    makes a repository of a part of one.
    """
    folder = Path(os.path.realpath(folder))
    git_root = _git_root(folder)
    places = [(Path(os.path.realpath(one.root)), one) for one in indexed if one.root]
    holding = [(place, one) for place, one in places if folder.is_relative_to(place)]
    holding.sort(key=lambda pair: (-len(pair[0].parts), pair[1].name))
    for place, one in holding:
        if git_root is None or place.is_relative_to(git_root):
            return Here(place, one.name, one)
    root = git_root or folder
    around = holding[0][1].name if holding else _main(root, places)
    unfit = _unfit(root, in_git=git_root is not None)
    return Here(root, _free_name(root, indexed), None, around, unfit)


def _main(root: Path, places: Sequence[tuple[Path, Repository]]) -> str:
    """The indexed repository of which `root` is a linked work tree: another branch of it."""
    main = main_of(str(root))
    return next((one.name for place, one in places if str(place) == main), "")


def _free_name(root: Path, indexed: Sequence[Repository]) -> str:
    """The folder's name, in characters that every store takes; with a short hash of its path where another
    folder has that name."""
    name = _plain_name(root)
    if all(repository.name != name for repository in indexed):
        return name
    return distinct_name(root)


def distinct_name(root: Path) -> str:
    """The name of `root` where another folder has its plain one: with a short hash of the path."""
    digest = hashlib.blake2b(os.fsencode(root), digest_size=4).hexdigest()
    return f"{_plain_name(root)}-{digest}"


def _plain_name(root: Path) -> str:
    return _NOT_IN_NAMES.sub("-", root.name).strip("-._")[:MAX_NAME] or "repository"


def _git_root(folder: Path) -> Path | None:
    """The git work tree around a resolved folder. One that is the home folder, or holds it, is no
    repository: people version their settings with git."""
    top = work_tree(str(folder))
    return Path(top) if top and not _holds_home(Path(top)) else None


def _holds_home(root: Path) -> bool:
    return Path(os.path.realpath(Path.home())).is_relative_to(root)


def _unfit(root: Path, *, in_git: bool) -> str:
    if root == Path(root.anchor):
        return "the root of the file system is no repository"
    if _holds_home(root) or (not in_git and root.parent in HOMES):
        return "a home folder is no repository"
    try:
        mode = root.stat().st_mode
    except OSError as exc:
        return f"the folder can't be read ({exc.strerror})"
    if not stat.S_ISDIR(mode):
        return "that is no folder"
    # As /tmp: what strangers put there would become answers.
    return "a folder that everybody writes to is no repository" if mode & stat.S_ISVTX else ""


# -- freshness ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Freshness:
    """How current an answer is. `vectors`: percent of the chunks that have one.
    `changed`: those of the `shown` files that differ in time from what was indexed, or are gone."""

    indexed_at: datetime | None
    vectors: int
    shown: int = 0
    changed: tuple[str, ...] = ()

    def summary(self, now: datetime | None = None) -> str:
        """In a few words: `indexed 4 min ago, vectors 40 %, 3 of 5 shown files changed since`."""
        if self.indexed_at is None:
            return "not indexed yet"
        words = [f"indexed {ago(self.indexed_at, now)}"]
        if self.vectors < 100:
            words.append(f"vectors {self.vectors} %")
        if self.changed:
            of = f"{len(self.changed)} of {self.shown} shown files"
            words.append(f"{'the shown file' if self.shown == 1 else of} changed since")
        return ", ".join(words)


def freshness(
    repository: Repository, paths: Iterable[str] = (), *, checked_at: datetime | None = None
) -> Freshness:
    """How fresh `repository` is, with a look at the times of `paths`, the files that an answer shows.

    `checked_at`: when an index run that found nothing newer began. A repository on another machine has no
    files here, and none of its files is called changed.
    """
    at = repository.revision
    since = max(filter(None, (repository.published_at, checked_at)), default=None)
    shown = sorted(set(paths))[:MAX_LOOKED_AT]
    here = since is not None and bool(shown) and Path(repository.root).is_dir()
    changed = [p for p in shown if here and since and _is_newer(repository.root, p, since)]
    vectors = 100 * at.embedded // at.total if at.total else 100
    return Freshness(since, vectors, len(shown), tuple(changed))


def _is_newer(root: str, path: str, since: datetime) -> bool:
    """Whether the file was written after `since`, or is gone."""
    try:
        return (Path(root) / path).lstat().st_mtime > since.timestamp()
    except FileNotFoundError:
        return True
    except (OSError, ValueError):  # not ours to read, or no path of this system
        return False


def ago(then: datetime, now: datetime | None = None) -> str:
    """`just now`, `4 min ago`, `3 h ago`, `2 days ago`."""
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{int(seconds // 60)} min ago"
    if seconds < 2 * 86400:
        return f"{int(seconds // 3600)} h ago"
    return f"{int(seconds // 86400)} days ago"
