"""A job beside the server's calls: done again and again until the server stops, and after an error later and later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from plait.domain.errors import PlaitError

FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 60.0


async def until_stopped(
    stop: asyncio.Event,
    work: Callable[[], Awaitable[None]],
    rest: Callable[[], Awaitable[None]],
    failed: Callable[[Exception, float], None],
) -> None:
    """Do `work`, then `rest`, until `stop` is set, which cuts a rest short but no work. An error goes to `failed`, with
    the seconds until the next try: 1, twice as many each time, at most 60."""
    retry_s = FIRST_RETRY_S
    while not stop.is_set():
        try:
            await work()
        except Exception as exc:  # the loop must outlive a fault
            failed(exc, retry_s)
            await pause(stop, retry_s)
            retry_s = min(2 * retry_s, LONGEST_RETRY_S)
            continue
        retry_s = FIRST_RETRY_S
        await _first_of(stop.wait(), rest())


async def pause(event: asyncio.Event, seconds: float) -> None:
    """Until `event` is set, `seconds` at most."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


async def _first_of(*waits: Awaitable[object]) -> None:
    """Until one of them ends; the others are cancelled. Raises: its error."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def log_failure(logger: logging.Logger, what: str, exc: Exception, again_s: float) -> None:
    """A warning for an error of ours, which says what is wrong; the trace of any other."""
    if isinstance(exc, PlaitError):
        extra = {"reason": exc.reason, "error": str(exc), "again_in_s": again_s}
        logger.warning(what, extra=extra)
    else:
        logger.exception(what, extra={"again_in_s": again_s})
