"""How much at once, and how often: places of calls, of requests on their way, and calls a minute."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from plait.domain.access import OWNER, Caller
from plait.domain.errors import QuotaExceeded, TooManyCalls
from plait.settings import ServerSettings
from server.access.callers import TOKEN

MAX_REMEMBERED = 10_000


class Places:
    """Calls that are being answered: a number in all, and one for each caller."""

    def __init__(self, most: int, most_per_caller: int) -> None:
        self._most = most
        self._most_per_caller = most_per_caller
        self._taken: Counter[str] = Counter()
        self._all = 0

    def take(self, caller: Caller) -> Callable[[], None]:
        """A place for a call of `caller`; gives what frees it, once. Raises: TooManyCalls."""
        most = min(self._most_per_caller, caller.quota.max_concurrent or self._most_per_caller)
        if self._all >= self._most or self._taken[caller.id] >= most:
            limit = self._most if self._all >= self._most else most
            raise TooManyCalls(
                f"{limit} calls are being answered already; wait for some to end, or raise "
                "`server.max_concurrent` (of a caller: `server.max_concurrent_per_key`, or the key's quota)",
                limit=limit,
            )
        self._all += 1
        self._taken[caller.id] += 1
        left = [caller.id]

        def free() -> None:
            if left:
                id_ = left.pop()
                self._all -= 1
                self._taken[id_] -= 1
                if not self._taken[id_]:
                    del self._taken[id_]

        return free


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float = field(default_factory=time.monotonic)


class Rates:
    """Calls a minute of those whose quota says so: a bucket that holds a minute's, filled evenly."""

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}

    def count(self, caller: Caller) -> None:
        """Raises: QuotaExceeded, with the seconds after which a call will do."""
        rate = caller.quota.calls_per_minute
        if not rate:
            return
        now = time.monotonic()
        if len(self._buckets) > MAX_REMEMBERED:
            self._buckets.clear()
        bucket = self._buckets.setdefault(caller.id, _Bucket(rate, now))
        bucket.tokens = min(rate, bucket.tokens + (now - bucket.at) * rate / 60)
        bucket.at = now
        if bucket.tokens < 1:
            wait_s = math.ceil((1 - bucket.tokens) * 60 / rate)
            raise QuotaExceeded(
                f"this key may call {rate} times a minute; try again in {wait_s} s",
                retry_s=wait_s,
                limit=rate,
            )
        bucket.tokens -= 1


class Turn:
    """A place in each of some queues, taken in their order. A class: a generator's context manager costs each call
    four times as much."""

    __slots__ = ("_queues", "_taken")

    def __init__(self, queues: Sequence[asyncio.Semaphore]) -> None:
        self._queues = queues
        self._taken: list[asyncio.Semaphore] = []

    async def __aenter__(self) -> None:
        try:
            for queue in self._queues:
                await queue.acquire()
                self._taken.append(queue)
        except BaseException:
            self._free()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._free()

    def _free(self) -> None:
        while self._taken:
            self._taken.pop().release()


class Arrivals:
    """Requests on their way, so bytes that are held for them: a number of a key in all, and fewer of each of
    its connections. Of the owner, whose processes share one name, a number of each connection. Who comes
    when all are taken waits, and is not read meanwhile."""

    def __init__(self, settings: ServerSettings) -> None:
        self._most = max(1, settings.max_bytes_in_flight // settings.max_message_bytes)
        # They live as long as somebody waits or arrives.
        self._queues: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def turn(self, caller: Caller, connection: str) -> Turn:
        """A place for one request of `caller`, for the length of the block."""
        if caller.id in (OWNER.id, TOKEN.id):
            return Turn((self._queue(connection, self._most),))
        mine = self._queue(connection, max(1, self._most // 8))
        return Turn((mine, self._queue(f"key {caller.id}", self._most)))

    def _queue(self, name: str, most: int) -> asyncio.Semaphore:
        found = self._queues.get(name)
        if found is None:
            self._queues[name] = found = asyncio.Semaphore(most)
        return found
