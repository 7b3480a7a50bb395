"""Whom a child server runs as: PostgreSQL refuses root, and nothing needs it."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plait.domain.errors import BadSettings

CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged account that root starts a server as."""

    name: str
    uid: int
    gid: int

    @property
    def owner(self) -> tuple[int, int]:
        return (self.uid, self.gid)

    def popen(self) -> dict[str, Any]:
        """Arguments for `subprocess.Popen`."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can_enter(self, folder: Path) -> bool:
        """Whether the account can reach `folder` and what is in it, by the classic mode bits."""
        return not self.blocked(folder)

    def blocked(self, folder: Path) -> list[Path]:
        """Of `folder` and its parents those that exist and keep the account out, the topmost first."""
        real = folder.resolve()
        chain = [path for path in (real, *real.parents) if path.exists()]
        return [path for path in reversed(chain) if not self.passes(path)]

    def passes(self, folder: Path) -> bool:
        """Whether `folder` itself lets the account through; one that is missing does."""
        return not folder.exists() or self._may(folder, stat.S_IXOTH)

    def _may(self, path: Path, right: int) -> bool:
        """`right`: a bit for others, tried for the class that applies."""
        status = path.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & right << 6)
        if status.st_gid == self.gid:
            return bool(status.st_mode & right << 3)
        return bool(status.st_mode & right)


def unprivileged(run_as: str = "") -> Account | None:
    """The account for child servers when this process is root, else None: they run as ourselves.

    Raises: BadSettings, when `run_as` is unknown or root, or no candidate exists.
    """
    if os.geteuid() != 0:
        return None
    for name in (run_as,) if run_as else CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(entry.pw_name, entry.pw_uid, _group_of(entry))
    raise BadSettings(
        f"PostgreSQL never runs as root and no account {run_as or ' or '.join(CANDIDATES)!r} can "
        "stand in; run Plait as another user, or name an account in `embedded.run_as`",
        key="embedded.run_as",
    )


def _group_of(entry: pwd.struct_passwd) -> int:
    """The account's group; a missing or root group becomes the account's own number."""
    try:
        grp.getgrgid(entry.pw_gid)
    except KeyError:
        return entry.pw_uid
    return entry.pw_gid or entry.pw_uid
