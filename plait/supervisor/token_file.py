"""A bearer token in a file that only this account reads: made once, rotated without downtime.

The first line is the token that clients send. While a rotation's grace lasts, a second line holds the token
before it and the time (Unix seconds) until which servers take that one, too.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from plait.domain.errors import TokenUnsafe
from plait.supervisor.files import private_folder, write_private

logger = logging.getLogger(__name__)

TOKEN_BYTES = 32
GRACE_S = 600.0


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a token file holds. `previous` empty: none is good any more."""

    current: str
    previous: str = ""
    until: float = 0.0

    def accept(self, secret: str) -> bool:
        """Whether `secret` is a valid token; takes equally long for every wrong one of its length."""
        given = secret.encode("utf-8", "replace")
        good = hmac.compare_digest(given, self.current.encode())
        before = hmac.compare_digest(given, self.previous.encode()) and bool(self.previous)
        return good or (before and time.time() < self.until)


def make(path: Path) -> Tokens:
    """The tokens in `path`, which is made where it is missing.

    Raises: TokenUnsafe, HomeUnusable.
    """
    private_folder(path.parent)
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            _write_once(path, secrets.token_urlsafe(TOKEN_BYTES))
    return read(path)


def read(path: Path) -> Tokens:
    """The tokens in `path`, a file of this account that no other one can read. Raises: TokenUnsafe."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, encoding="ascii") as file:
            about = os.fstat(file.fileno())
            text = file.read(4096)
    except (OSError, UnicodeDecodeError) as exc:
        raise TokenUnsafe(
            f"the token {path} can't be read ({exc.__class__.__name__}); `plait serve --rotate-token` makes "
            "another",
            path=path,
        ) from exc
    if about.st_mode & 0o077 or about.st_uid not in (os.geteuid(), 0):
        raise TokenUnsafe(
            f"other accounts can read or own the token {path}; remove it, and run `plait serve --rotate-token` for another",
            path=path,
        )
    return _parsed(path, text)


def rotate(path: Path, grace_s: float = GRACE_S) -> Tokens:
    """Give `path` another token; the one before is valid for `grace_s` more. Raises: TokenUnsafe."""
    old = make(path)
    new = Tokens(secrets.token_urlsafe(TOKEN_BYTES), old.current, time.time() + grace_s)
    write_private(path, f"{new.current}\n{new.previous} {new.until:.3f}\n")
    return new


class TokenFile:
    """The tokens of a file that is read again when it changes, so that a rotation reaches a server that
    runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tokens: Tokens | None = make(path)
        self._state = _state(path)

    def accept(self, secret: str) -> bool:
        """Whether `secret` is a valid token now. A file that became unusable opens nothing until it is
        mended; that is logged, and callers are not told."""
        if (state := _state(self.path)) != self._state:
            self._tokens, self._state = self._read(), state
        return self._tokens is not None and self._tokens.accept(secret)

    def _read(self) -> Tokens | None:
        try:
            return read(self.path)
        except TokenUnsafe as exc:
            logger.error("the token opens nothing", extra={"error": exc.message})
            return None


def _state(path: Path) -> tuple[int, int, int, int] | None:
    """Differs after every change of the file; None: there is none."""
    try:
        about = path.lstat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_ctime_ns, about.st_size


def _parsed(path: Path, text: str) -> Tokens:
    first, _, rest = text.partition("\n")
    if len(first.strip()) < TOKEN_BYTES:
        raise TokenUnsafe(
            f"the token {path} is too short; remove it, and run `plait serve --rotate-token` for another",
            path=path,
        )
    previous, _, until = rest.strip().partition(" ")
    try:
        return Tokens(first.strip(), previous, float(until or 0))
    except ValueError as exc:
        raise TokenUnsafe(
            f"the token {path} is damaged; remove it, and run `plait serve --rotate-token` for another",
            path=path,
        ) from exc


def _write_once(path: Path, text: str) -> None:
    """Raises: FileExistsError. Two servers that start at once agree: the file appears whole, by one of them."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text + "\n")
        os.link(draft, path)
    finally:
        draft.unlink()
