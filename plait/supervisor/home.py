"""The folder that holds all Plait keeps: private, and for root one that its servers' account passes.

PostgreSQL never runs as root. Where root starts it, another account must get through the home's top folder
to its own data. It gets the right to pass (x) and no more: what lies in the home stays 0700 and 0600.
"""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from plait.domain.errors import HomeUnusable
from plait.supervisor.account import Account
from plait.supervisor.files import private_folder, unusable

PRIVATE = 0o700
PASSABLE = 0o711
# The contents of a home that an earlier Plait made 0700 as root. A folder with anything else may be a
# user's own, whose mode Plait must not change.
OURS = frozenset({"server", "postgres", "graph"})


def make_home(home: Path) -> Path:
    """Make `home` and its missing parents; one that exists stays as it is.

    Called before the first write into a home.

    Raises: HomeUnusable, StoreFull.
    """
    return private_folder(home, PASSABLE if os.geteuid() == 0 else PRIVATE)


def prepare(home: Path, account: Account | None) -> None:
    """Make `home`, or mend one that Plait made, so that `account` gets to its data in it. Called
    before anything else is put there: a folder without Plait's files belongs to a user.

    Raises: HomeUnusable, StoreFull.
    """
    let_pass(home, account)
    check_reach(home, account)
    make_home(home)


def let_pass(home: Path, account: Account | None) -> None:
    """Let `account` pass through a `home` that Plait made, once it is there. Raises: HomeUnusable."""
    try:
        if account is not None and not account.passes(home) and _is_ours(home):
            home.chmod(stat.S_IMODE(home.stat().st_mode) | stat.S_IXOTH)
    except OSError as exc:
        raise unusable(home, exc) from exc


def check_reach(home: Path, account: Account | None) -> None:
    """Raises: HomeUnusable, when `account` cannot reach `home` where it is, or where it would be made."""
    blocked = account.blocked(home) if account is not None else []
    if account is None or not blocked:
        return
    from plait.settings import default_home

    folders = " ".join(shlex.quote(str(path)) for path in blocked)
    fixes = [f"let that account pass, and no more, with `chmod o+x {folders}`"]
    default = default_home()
    if home != default and not account.blocked(default):
        fixes.insert(0, f"unset PLAIT_HOME, which keeps the data in {default}")
    raise HomeUnusable(
        f"Plait runs as root and its PostgreSQL as {account.name!r}, who cannot enter {blocked[0]}; "
        + ", or ".join(fixes),
        path=blocked[0],
        account=account.name,
    )


def _is_ours(home: Path) -> bool:
    """Whether Plait made `home`, as this account: it holds only what Plait puts there, and some of it."""
    status = home.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    held = {entry.name for entry in home.iterdir()}
    return bool(held) and held <= OURS
