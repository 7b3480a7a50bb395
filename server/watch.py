"""Whether a store answers. It is asked only while somebody waits for it, and until it is known to be back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from plait.domain.errors import PlaitError, StoreUnavailable

logger = logging.getLogger(__name__)

# Silence of so long is blamed for a call that ran out of time. Less may be a busy machine.
BLAME_S = 0.5
# From then on calls are told at once. An embedded server that was killed is back sooner, and calls wait
# for it; a short stop is waited out as well.
AWAY_S = 5.0
EVERY_S = 1.0
TICK_S = 0.1
PROBE_S = 5.0  # after which a probe without an answer makes way for another one


@dataclass(frozen=True, slots=True)
class Silence:
    """Why a store counts as away: for how long it has been asked in vain, and what was heard."""

    seconds: float
    heard: str

    def error(self, name: str, kind: type[StoreUnavailable]) -> StoreUnavailable:
        cause = f" ({self.heard})" if self.heard else ""
        return kind(
            f"{name} has not answered for {self.seconds:.1f} s{cause}; it may be stopped, overloaded or cut "
            "off. Try again; `plait doctor` says what is wrong",
            store=name,
            silent_s=round(self.seconds, 1),
        )


class Watch:
    """One store. `ask`: one round trip over a fresh connection. `back`: called once it answers after
    having been away."""

    def __init__(
        self,
        name: str,
        kind: type[StoreUnavailable],
        ask: Callable[[], Awaitable[None]],
        back: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self.gone = asyncio.Event()  # set while it is known to be away
        self._kind = kind
        self._ask = ask
        self._back = back
        self._waiting = 0
        self._silent_s = 0.0
        self._heard = ""
        self._looking: asyncio.Task[None] | None = None
        self._left: set[asyncio.Future[None]] = set()

    @property
    def away(self) -> StoreUnavailable | None:
        """What to tell callers at once while the store is known to be away."""
        return self._error() if self.gone.is_set() else None

    @property
    def silent(self) -> StoreUnavailable | None:
        """What to tell who waited for it in vain until now: None when it answers, or was not asked."""
        return self._error() if self._silent_s >= BLAME_S else None

    def _error(self) -> StoreUnavailable:
        return Silence(self._silent_s, self._heard).error(self.name, self._kind)

    def want(self) -> None:
        """Somebody has waited for long: ask, until `unwant` and an answer."""
        self._waiting += 1
        self.look()

    def unwant(self) -> None:
        self._waiting -= 1

    def look(self) -> None:
        """Begin to ask, if nobody does."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="watch")

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        for probe in self._left:
            probe.cancel()

    async def _look(self) -> None:
        while True:
            heard = await self._probe()
            if heard is None:
                await self._answers()
                if not self._waiting:
                    return
            else:
                self._heard = heard or self._heard
            await self._tick(EVERY_S, silent=heard is not None)

    async def _probe(self) -> str | None:
        """None when it answers; else what was heard, "" for nothing."""
        probe = asyncio.ensure_future(self._ask())
        self._left.add(probe)
        probe.add_done_callback(self._forget)
        passed = 0.0
        while not probe.done() and passed < PROBE_S:
            passed += await self._tick(TICK_S, silent=True, until=probe)
        if not probe.done():
            probe.cancel()  # and not waited for: what hangs may hang in being cancelled, too
            return ""
        if probe.cancelled():
            return ""
        exc = probe.exception()
        return None if exc is None else _first_line(exc)

    async def _tick(
        self, seconds: float, *, silent: bool, until: asyncio.Future[None] | None = None
    ) -> float:
        """Wait; while `silent`, count it. Time in which this process itself did not come to run is no
        silence of the store, so it counts for no more than was meant to pass."""
        start = time.monotonic()
        if until is None:
            await asyncio.sleep(seconds)
        else:
            await asyncio.wait({until}, timeout=seconds)
        passed = min(time.monotonic() - start, 2 * seconds)
        if silent and not (until is not None and until.done()):
            self._silent_s += passed
            self._judge()
        return passed

    def _judge(self) -> None:
        if self._silent_s >= AWAY_S and not self.gone.is_set():
            logger.warning("a store is away", extra={"store": self.name, "heard": self._heard})
            self.gone.set()

    async def _answers(self) -> None:
        self._silent_s, self._heard = 0.0, ""
        if not self.gone.is_set():
            return
        self.gone.clear()
        logger.warning("a store is back", extra={"store": self.name})
        if self._back is not None:
            try:
                await self._back()
            except PlaitError as exc:  # it went away again: the next look finds that
                logger.warning("a store left again", extra={"store": self.name, "error": str(exc)})

    def _forget(self, probe: asyncio.Future[None]) -> None:
        self._left.discard(probe)
        if not probe.cancelled():
            probe.exception()  # retrieved: a probe that was given up has nobody else to hear it


def _first_line(exc: BaseException) -> str:
    text = str(exc).strip()
    return text.splitlines()[0][:200] if text else type(exc).__name__
