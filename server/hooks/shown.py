"""What a session was shown: a small file of keys for each session, kept in PLAIT_HOME for a week.

Hooks of one session may run at the same time, so what is new is decided and written down under one lock,
just before it is said.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

KEEP_S = 7 * 86_400.0
MAX_KEYS = 4_096  # the newest count
MAX_SWEPT = 1_000  # files looked at for their age, at each start of a session
_BYTES = 17  # of a line: 16 hexadecimal digits and its end


def folder(home: Path) -> Path:
    return home / "hooks"


class Shown:
    """Of one session. May raise OSError, where the home can't be written: then nothing is to be said."""

    def __init__(self, home: Path, session: str) -> None:
        name = hashlib.blake2b(session.encode("utf-8", "replace"), digest_size=16).hexdigest()
        self._folder = folder(home)
        self._path = self._folder / name

    def keys(self) -> tuple[str, ...]:
        """What it was shown so far, the oldest first."""
        try:
            return _keys(self._path.read_bytes()[-MAX_KEYS * _BYTES :])
        except FileNotFoundError:
            return ()

    def add(self, keys: Iterable[str]) -> list[str]:
        """Write `keys` down; those of them that were not there yet, which are this caller's to show."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self._path, flags, 0o600), "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MAX_KEYS * _BYTES))
            known = set(_keys(file.read()))
            new = [key for key in dict.fromkeys(keys) if key not in known]
            if new:
                file.write("".join(f"{key}\n" for key in new).encode())
        return new


def sweep(home: Path, now: float | None = None) -> None:
    """Remove the files of sessions that said nothing for a week."""
    before = (time.time() if now is None else now) - KEEP_S
    with suppress(OSError), os.scandir(folder(home)) as entries:
        for _, entry in zip(range(MAX_SWEPT), entries, strict=False):
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < before:
                    Path(entry.path).unlink()


def _keys(raw: bytes) -> tuple[str, ...]:
    lines: Sequence[str] = raw.decode("ascii", "replace").splitlines()
    return tuple(line for line in lines if len(line) == _BYTES - 1)
