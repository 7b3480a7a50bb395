"""The shim: MCP on standard input and output, until the client closes it, says so, or is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from server.mcp import service
from server.mcp.server import Setup, build

if TYPE_CHECKING:
    from plait.settings import Settings

# A client that was killed may leave its end of the pipe open in a child of its own, so that standard input
# never ends. `prctl(PR_SET_PDEATHSIG)` is no way out: it fires when the thread that started us ends.
PARENT_LOOK_S = 2.0
# What a call that is cut off by the end may take to let go.
CLOSE_S = 3.0


def run(settings: Settings) -> None:
    """Serve until the end; never returns.

    It ends the process itself: a thread waits in `read` for the client, and Python would wait for it.
    """
    code = asyncio.run(_until_the_end(settings, os.getppid()))
    os._exit(code)


async def _until_the_end(settings: Settings, parent: int) -> int:
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, signalled.set)
    serving = asyncio.create_task(_serve(settings), name="stdio")
    watching = asyncio.create_task(_parent_ended(parent), name="parent")
    stop = asyncio.create_task(signalled.wait(), name="signal")
    await asyncio.wait((serving, watching, stop), return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        return _code(serving)
    # From here on the thread that reads standard input holds the task back: it gets a moment to close
    # what is open, and then the process ends.
    serving.cancel()
    await asyncio.wait((serving,), timeout=CLOSE_S)
    os._exit(0)


def _code(serving: asyncio.Task[None]) -> int:
    """0, also where the client closed its end while an answer was on its way."""
    try:
        serving.result()
    except BaseExceptionGroup as group:
        _, rest = group.split((BrokenPipeError, ConnectionResetError))
        if rest is not None:
            raise rest from None
    except (BrokenPipeError, ConnectionResetError):
        pass
    return 0


async def _serve(settings: Settings) -> None:
    from mcp.server.stdio import stdio_server

    server = build(Setup(service.of(settings), _folder()))
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())


def _folder() -> Path | None:
    with contextlib.suppress(OSError):  # deleted under us
        return Path.cwd()
    return None


async def _parent_ended(parent: int) -> None:
    """Returns once this process has been handed to another parent."""
    while os.getppid() == parent:  # noqa: ASYNC110  (nothing tells of it)
        await asyncio.sleep(PARENT_LOOK_S)
