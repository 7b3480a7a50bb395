"""Files that only their owner reads, and plain words for why a folder cannot be used."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from pathlib import Path
from typing import Any, BinaryIO

from plait.domain.errors import HomeUnusable, PlaitError, StoreFull

FULL = (errno.ENOSPC, errno.EDQUOT)


def private_folder(path: Path, mode: int = 0o700) -> Path:
    """Make `path` and its missing parents; new folders get `mode`, existing ones stay unchanged.

    Raises: HomeUnusable, StoreFull.
    """
    try:
        _make(path, mode)
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    except OSError as exc:
        raise unusable(path, exc) from exc
    return path


def _make(path: Path, mode: int) -> None:
    if path.is_dir():
        return
    if not path.parent.exists():
        _make(path.parent, mode)
    try:
        path.mkdir(mode)
    except FileExistsError:  # made by another process meanwhile, or no folder
        if not path.is_dir():
            raise
    else:
        path.chmod(mode)  # the umask may have taken from it what a server's account needs


def unusable(path: Path, exc: OSError) -> PlaitError:
    """Why `path` cannot be used, and what to do."""
    if _full(exc):
        return StoreFull(
            f"no space is left on the disk under {path}; free some (a new store needs about 250 MB) "
            "or move the data with PLAIT_HOME",
            path=path,
        )
    return HomeUnusable(
        f"Plait cannot keep its data in {path}: {exc.strerror or exc} ({_owner(path)}); "
        "give this account write access, or set PLAIT_HOME to a folder that is yours",
        path=path,
    )


def _full(exc: OSError) -> bool:
    """Also of a folder being copied, whose error (`shutil.Error`) has those of its files in words alone."""
    return exc.errno in FULL or any(os.strerror(number) in str(exc) for number in FULL)


def _owner(path: Path) -> str:
    """Who owns the nearest folder that exists, for an error text."""
    for folder in (path, *path.parents):
        try:
            status = folder.stat()
        except OSError:
            continue
        return f"{folder} belongs to uid {status.st_uid}, this process is uid {os.geteuid()}"
    return f"this process is uid {os.geteuid()}"


def write_private(path: Path, text: str, *, owner: tuple[int, int] | None = None) -> None:
    """Replace `path` whole, mode 0600, so that a reader sees the old text or the new one.

    `owner`: uid and gid to give the file to (root only).
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if owner is not None:
            os.chown(temporary, *owner)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """The mapping in `path`; None when it is missing, unreadable, or not a mapping."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return tree if isinstance(tree, dict) else None


def secret(path: Path) -> str:
    """The password in `path`, made on first need: 256 random bits in 43 URL-safe characters."""
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        value = secrets.token_urlsafe(32)
        write_private(path, value + "\n")
        return value


def tail(path: Path, lines: int = 12, *, offset: int = 0, limit_bytes: int = 16_384) -> str:
    """The last lines of a log from byte `offset` on, or "" when there is none."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(offset, end - limit_bytes, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def open_log(path: Path) -> BinaryIO:
    """`path` for appending, mode 0600 when new."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return os.fdopen(fd, "ab")


def trim(path: Path, limit_bytes: int = 4 * 2**20) -> None:
    """Move a log that grew past `limit_bytes` aside, over the one moved before."""
    try:
        if path.stat().st_size > limit_bytes:
            path.replace(path.with_name(path.name + ".old"))
    except OSError:
        return


def others_can_read(path: Path) -> bool:
    """Whether group or others have any right on `path`."""
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def give(path: Path, uid: int, gid: int) -> None:
    """Make the tree under `path` belong to `uid`; links are not followed. Root only."""
    if path.lstat().st_uid == uid:
        return
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            os.lchown(Path(folder) / name, uid, gid)
    # Last, so that a walk that was cut off is done again.
    os.lchown(path, uid, gid)
