"""What a server does while nobody calls: it lets go what takes memory and, if a client started it, leaves."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from typing import Protocol

from plait.client import discovery
from plait.client.discovery import ServerAddress
from plait.domain.freed import return_freed
from plait.settings import Settings
from plait.text import token_count

logger = logging.getLogger(__name__)

LOOK_S = 2.0


class Lazy(Protocol):
    """Of what is opened on first need what this asks."""

    used_at: float

    @property
    def is_open(self) -> bool: ...
    async def close(self) -> None: ...


class Follower(Protocol):
    """Of what follows folders what this asks."""

    def rest(self) -> None: ...


class Calls(Protocol):
    """`ended_at`: `time.monotonic()` of the last answer."""

    ended_at: float


class Jobs(Protocol):
    """Of index jobs what this asks."""

    def rest(self, idle_s: float) -> None: ...


class App(Protocol):
    """Of a server's parts what this asks."""

    @property
    def jobs(self) -> Jobs: ...

    @property
    def follower(self) -> Follower: ...
    @property
    def calls(self) -> Calls: ...
    @property
    def busy(self) -> bool: ...
    @property
    def heavy(self) -> tuple[Lazy, ...]: ...


class Rest:
    """`address`: of a background service, which leaves by itself; None: of one that somebody watches."""

    def __init__(
        self, app: App, settings: Settings, address: ServerAddress | None, look_s: float = LOOK_S
    ) -> None:
        self._app = app
        self._home = settings.home
        self._rest_s = settings.server.rest_s
        self._idle_s = settings.server.idle_s
        self._address = address
        self._look_s = look_s
        self._busy_at = time.monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        """Look now and then, until `stop` is set; set it when nobody needs a background service."""
        while not stop.is_set():
            await asyncio.sleep(self._look_s)
            if self._address is not None and discovery.read(self._home) != self._address:
                logger.info("leaving: the home is gone, or another's")
                stop.set()
            elif self._app.busy:
                self._busy_at = time.monotonic()
            else:
                await self._look(stop)

    async def _look(self, stop: asyncio.Event) -> None:
        # No call begins between `busy` and here, and what is closed is opened anew by who needs it next.
        quiet_s = time.monotonic() - max(self._busy_at, self._app.calls.ended_at)
        if self._rest_s:
            await self._let_go(quiet_s)
        if self._address is not None and self._idle_s and quiet_s >= self._idle_s:
            logger.info("leaving: nobody calls", extra={"idle_s": round(quiet_s)})
            stop.set()

    async def _let_go(self, quiet_s: float) -> None:
        """Close what nobody needed for `server.rest_s`, whatever else is asked meanwhile."""
        now = time.monotonic()
        self._app.jobs.rest(self._rest_s)
        if quiet_s >= self._rest_s:
            self._app.follower.rest()
        unused = [
            one for one in self._app.heavy if one.is_open and now - one.used_at >= self._rest_s
        ]
        closing = [one.close() for one in unused]
        tables = quiet_s >= self._rest_s and token_count.forget()
        if not closing and not tables:
            return
        await asyncio.gather(*closing)
        await asyncio.to_thread(give_memory_back)
        logger.info("at rest", extra={"closed": len(closing), "tables": tables})


def give_memory_back() -> None:
    """Have what nobody refers to freed and returned."""
    gc.collect()
    return_freed()
