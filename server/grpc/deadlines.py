"""An answer before the caller's deadline, whatever a store does: a reason that comes too late is none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar, cast

from plait.domain.deadline import Deadline
from plait.domain.errors import DeadlineExceeded, OutOfTime, PlaitError
from server.stores import Stores, begin_call

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Methods that answer from memory alone: a store that is away is none of their business.
STORELESS = frozenset(
    f"/plait.v1.IndexService/{name}" for name in ("StartIndex", "GetIndexJob", "WatchIndexJob")
)
_END = object()


class Patience:
    """Runs the work of calls, and gives it up in time."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        # Work that was given up: it may hang for as long as its store does.
        self._left: set[asyncio.Future[Any]] = set()

    async def answer(self, method: str, deadline: Deadline, work: Awaitable[T]) -> T:
        """What `work` returns within `deadline`.

        Raises: DeadlineExceeded; StoreUnavailable, GraphUnavailable, when a store that the call needs
            did not answer meanwhile, or at once when it is known to be away; and what `work` raises.
        """
        if (away := self._away(method)) is not None:
            if asyncio.iscoroutine(work):
                work.close()
            raise away
        needs = begin_call()
        with self._stores.waited_for(needs, deadline.left_s):
            task = asyncio.ensure_future(work)
            try:
                await self._within(task, deadline.left_s)
                return task.result()
            except OutOfTime as exc:
                raise self._stores.to_blame(needs) or exc from exc
            except TimeoutError:
                if task.done():
                    raise  # its own
                late = DeadlineExceeded(method.rpartition("/")[2], deadline.limit_s)
                raise self._stores.to_blame(needs) or late from None

    async def answers(
        self, method: str, deadline: Deadline | None, source: AsyncIterator[T]
    ) -> AsyncIterator[T]:
        """What `source` yields: a stream, which ends with an error when its caller's deadline (None
        for no end) comes near, or when the store it needs is known to be away. Raises: as `answer`."""
        needs = begin_call()
        while True:
            if (away := self._away(method)) is not None:
                raise away
            task = asyncio.ensure_future(anext(source, _END))
            left_s = None if deadline is None else deadline.left_s
            try:
                await self._within(task, left_s, self._gone(method))
            except TimeoutError:
                if task.done():
                    raise
                late = DeadlineExceeded(
                    method.rpartition("/")[2], deadline.limit_s if deadline else 0.0
                )
                raise self._away(method) or self._stores.to_blame(needs) or late from None
            response = task.result()
            if response is _END:
                return
            yield cast(T, response)

    def _away(self, method: str) -> PlaitError | None:
        return None if method in STORELESS else self._stores.truth.away

    def _gone(self, method: str) -> asyncio.Event | None:
        return None if method in STORELESS else self._stores.truth.gone

    async def _within(
        self, task: asyncio.Future[T], limit_s: float | None, gone: asyncio.Event | None = None
    ) -> None:
        """Wait until `task` is done. It is cancelled, and not waited for, when the time is over, when
        `gone` is set, or when the caller goes away. Raises: TimeoutError, CancelledError."""
        ending = asyncio.ensure_future(gone.wait()) if gone is not None else None
        try:
            if ending is None:
                await _done(task, limit_s)
            else:
                both: set[asyncio.Future[Any]] = {task, ending}
                await asyncio.wait(both, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if ending is not None:
                ending.cancel()
            if not task.done():
                self._leave(task)
        if not task.done():
            raise TimeoutError

    def _leave(self, task: asyncio.Future[Any]) -> None:
        task.cancel()
        self._left.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._left.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            logger.debug("a call that was given up failed", extra={"error": str(exc)})


async def _done(task: asyncio.Future[Any], limit_s: float | None) -> None:
    """Wait until `task` is done, or for `limit_s`: `asyncio.wait` of one, at a third of its cost."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not woken.done():
            woken.set_result(None)

    timer = None if limit_s is None else loop.call_later(limit_s, wake)
    task.add_done_callback(wake)
    try:
        await woken
    finally:
        task.remove_done_callback(wake)
        if timer is not None:
            timer.cancel()
