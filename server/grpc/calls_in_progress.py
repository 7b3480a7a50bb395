"""The calls that a server is answering, so that it can wait for them and know when it was last used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager


class One:
    """One call of `Calls`; one that ends before it began was never counted."""

    __slots__ = ("_begun", "_calls")

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._begun = False

    def begin(self) -> None:
        self._begun = True
        self._calls.begin()

    def end(self) -> None:
        if self._begun:
            self._calls.end()


class Calls:
    """The calls that are being answered: unary ones in flight, and streams."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.streams = 0
        self.ended_at = time.monotonic()
        self._idle = asyncio.Event()
        self._idle.set()

    def one(self) -> One:
        """A unary call, which counts from its `begin` to its `end`."""
        return One(self)

    def begin(self) -> None:
        self.in_flight += 1
        self._idle.clear()

    def end(self) -> None:
        self.in_flight -= 1
        self.ended_at = time.monotonic()
        if self.in_flight == 0:
            self._idle.set()

    @contextmanager
    def stream(self) -> Iterator[None]:
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1
            self.ended_at = time.monotonic()

    async def idle(self) -> None:
        """Wait until no unary call is being answered. Streams don't count: they end when told to."""
        await self._idle.wait()
