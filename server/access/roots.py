"""Which folders of this machine a caller may have indexed."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from plait.domain.access import Caller
from plait.domain.errors import PathNotAllowed
from plait.settings import ServerSettings


def check(path: Path, caller: Caller, settings: ServerSettings) -> Path:
    """`path` with its links followed, when `caller` may have it indexed.

    With `server.index_roots`: what lies under one of those. Without, over TCP nothing; over the home's
    socket what lies in the owner's home folder, and what belongs to the owner's account.

    Raises: PathNotAllowed, which says nothing of whether there is such a folder.
    """
    found = real(path)
    roots = [real(Path(r)) for r in settings.index_roots.split(":") if r]
    allowed = any(found.is_relative_to(root) for root in roots)
    if not roots and caller.local:
        allowed = found.is_relative_to(_home_folder()) or _is_own(found)
    if allowed:
        return found
    where = settings.index_roots or ("your home folder" if caller.local else "no folder")
    raise PathNotAllowed(
        f"{path} may not be indexed by this call, which may name folders under: {where}; add its folder to "
        "`server.index_roots` (PLAIT_SERVER__INDEX_ROOTS) of the server, or run `plait index` there",
        path=path,
    )


def real(path: Path) -> Path:
    """`path` with its links followed, whether it is there or not."""
    return Path(os.path.realpath(path))


def _home_folder() -> Path:
    """As the system knows it: HOME is the environment's to say."""
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        home = str(Path.home())
    return Path(os.path.realpath(home))


def _is_own(path: Path) -> bool:
    """Whether the folder belongs to this account; one that is missing or can't be looked at is left to the
    index run, which says so."""
    try:
        return path.stat().st_uid == os.geteuid()
    except OSError:
        return True
