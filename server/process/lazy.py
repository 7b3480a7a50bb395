"""What costs a process or a second, opened on first need and closed while nobody calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class Lazy(Generic[C]):
    """Something opened by the first who needs it, once; a failed opening is tried again by the next."""

    def __init__(self, opener: Callable[[], Awaitable[C]]) -> None:
        self._opener = opener
        self._lock = asyncio.Lock()
        self._opened: C | None = None
        self._opening_since = 0.0
        self.on_need: Callable[[], None] | None = None  # called at each need; may raise
        self.on_close: Callable[[], None] | None = None  # called when nobody needs it any more
        self.used_at = 0.0  # `time.monotonic()` of the last need

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    @property
    def opened(self) -> C | None:
        """What is open; None while nobody needed it."""
        return self._opened

    @property
    def opening_s(self) -> float:
        """For how long it is being opened by now; 0: it is not."""
        return time.monotonic() - self._opening_since if self._opening_since else 0.0

    async def __call__(self) -> C:
        if self.on_need is not None:
            self.on_need()
        self.used_at = time.monotonic()
        return await self.open()

    async def open(self) -> C:
        """As a call, but no need of anybody's: it keeps nothing open."""
        if self._opened is not None:
            return self._opened
        # Shielded: a caller whose deadline passes leaves the opening to those who wait with it.
        return await asyncio.shield(asyncio.ensure_future(self._open()))

    async def _open(self) -> C:
        async with self._lock:
            if self._opened is None:
                self._opening_since = time.monotonic()
                try:
                    self._opened = await self._opener()
                finally:
                    self._opening_since = 0.0
            return self._opened

    async def close(self) -> None:
        """Close what is open; the next need opens it anew, once this is done. Nobody may be using it."""
        async with self._lock:
            opened, self._opened = self._opened, None
            if self.on_close is not None:
                self.on_close()
            if opened is not None:
                await opened.close()
