"""Callers by their API keys: a secret is looked up by its digest, and the answer is kept for a moment."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from plait.domain.access import Caller
from plait.domain.errors import Unauthenticated
from plait.domain.keys import KeySecret
from plait.ports import KeyStore
from server.access.callers import unknown

# What a secret begins with, so that people and scanners of leaked secrets know one when they see it.
PREFIX = "plait_"
SECRET_BYTES = 32
_SECRET = re.compile(PREFIX + r"[A-Za-z0-9_-]{43}")

# For so long a revocation or a rotation in another process is not noticed.
FRESH_S = 3.0
MAX_KNOWN = 10_000
MAX_UNKNOWN = 10_000
# Look-ups at a time of secrets that were no key's a moment ago: a stranger who tries many waits for
# himself, and leaves connections to callers who are known.
STRANGERS = 2


def new_secret() -> str:
    """A secret of 256 random bits: `plait_` and 43 characters."""
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def digest_of(secret: str) -> bytes:
    """What the store knows a secret by.

    A plain fast hash: salt and slowness protect secrets that people chose and that can be guessed from a
    list. 256 random bits can't be guessed whatever a guess costs, and each call pays for the hash.
    """
    return hashlib.sha256(secret.encode()).digest()


@dataclass(frozen=True, slots=True)
class _Found:
    secret: KeySecret | None
    at: float


class KeyCache:
    """The callers of a `KeyStore`'s keys (a `KeyCallers`). What it found is good for `fresh_s` seconds; a
    caller whose key can't be looked up any more is not let in on what was known before."""

    def __init__(
        self,
        store: KeyStore,
        *,
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._fresh_s = fresh_s
        self._clock = clock
        self._now = now
        # Apart, so that no number of wrong secrets pushes a right one out. Oldest use first.
        self._known: OrderedDict[bytes, _Found] = OrderedDict()
        self._unknown: OrderedDict[bytes, _Found] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[KeySecret | None]] = {}
        self._strangers = asyncio.Semaphore(STRANGERS)
        self._cleared = 0

    async def caller(self, secret: str) -> Caller:
        """Whose key `secret` is.

        Raises: Unauthenticated, for a secret that is no key's or that has ended; StoreUnavailable.
        """
        if not _SECRET.fullmatch(secret):  # nobody's, at no cost
            raise unknown()
        digest = digest_of(secret)
        found = await self._find(digest)
        # The look-up's time tells of digests, which nobody can choose; this compares without telling.
        if found is None or not hmac.compare_digest(found.digest, digest):
            raise unknown()
        if not found.is_alive(self._now()):
            raise _ended(found, self._now())
        return found.key.caller

    def clear(self) -> None:
        """Know nothing: what was revoked here ends at once."""
        self._cleared += 1
        self._known.clear()
        self._unknown.clear()
        self._asking.clear()

    async def _find(self, digest: bytes) -> KeySecret | None:
        for cache in (self._known, self._unknown):
            found = cache.get(digest)
            if found is not None and self._clock() - found.at < self._fresh_s:
                cache.move_to_end(digest)
                return found.secret
        return await self._ask_once(digest)

    async def _ask_once(self, digest: bytes) -> KeySecret | None:
        """One look-up for all who ask at once. Shielded: one of them going away ends none of the others'."""
        task = self._asking.get(digest)
        if task is None:
            task = asyncio.ensure_future(self._ask(digest))
            self._asking[digest] = task
            task.add_done_callback(lambda done: self._answered(digest, done))
        return await asyncio.shield(task)

    def _answered(self, digest: bytes, task: asyncio.Task[KeySecret | None]) -> None:
        if self._asking.get(digest) is task:
            del self._asking[digest]
        if not task.cancelled():
            task.exception()  # retrieved, for when nobody waits any more

    async def _ask(self, digest: bytes) -> KeySecret | None:
        cleared = self._cleared
        if digest in self._known:
            # Of before the answer: it may be older than it comes.
            at, secret = self._clock(), await self._store.secret_of(digest)
        else:
            async with self._strangers:
                at, secret = self._clock(), await self._store.secret_of(digest)
        if cleared == self._cleared:
            self._keep(digest, _Found(secret, at))
        return secret

    def _keep(self, digest: bytes, found: _Found) -> None:
        self._known.pop(digest, None)
        self._unknown.pop(digest, None)
        cache, most = (
            (self._unknown, MAX_UNKNOWN) if found.secret is None else (self._known, MAX_KNOWN)
        )
        cache[digest] = found
        while len(cache) > most:
            cache.popitem(last=False)


def _ended(found: KeySecret, now: datetime) -> Unauthenticated:
    """Said to who holds the secret of a key that was: he learns nothing that he did not have."""
    key = found.key
    if key.revoked_at is not None:
        how, fix = "was revoked", "ask for another"
    elif not key.is_alive(now):
        how, fix = "has expired", "ask for another"
    else:
        how, fix = "was given another secret and this one's grace is over", "send the new one"
    return Unauthenticated(f"the API key {key.name!r} ({key.id}) {how}; {fix}", key=key.id)
