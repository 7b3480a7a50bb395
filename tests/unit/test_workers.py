"""What a worker tells is heard whatever its length, and nothing that it says ends the care for it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import pytest

from plait.domain.scope import Scope
from plait.settings import load
from server.process import workers
from server.process.wakes import Wake
from server.process.workers import Workers

LONG = Wake(("r",), tuple(Scope("default", "r", f"agent-{n:03}" + "y" * 200) for n in range(500)))


async def test_a_long_line_is_heard() -> None:
    assert len(LONG.line()) > 100_000
    heard: list[Wake] = []
    with socket.socket() as listening:
        made = Workers(load(environ={}), listening, 0, heard.append, lambda: None)
        program = f"import sys; sys.stdout.buffer.write({LONG.line()!r} + b'nonsense\\n' + {Wake().line()!r})"
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)  # noqa: ASYNC220
        await made._listen(process)
        process.wait()
    assert heard == [LONG, Wake()]


async def test_a_worker_that_cannot_be_heard_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "LONGEST_LINE", 1_000)
    monkeypatch.setattr(workers, "AGAIN_S", 0.0)
    program = f"import sys, time; sys.stdout.buffer.write({LONG.line()!r}); sys.stdout.flush(); time.sleep(60)"
    lost = asyncio.Event()
    begun: list[subprocess.Popen[bytes]] = []
    with socket.socket() as listening:
        made = Workers(load(environ={}), listening, 1, lambda wake: None, lost.set)

        def begin() -> subprocess.Popen[bytes]:
            begun.append(subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE))
            return begun[-1]

        monkeypatch.setattr(made, "_begin", begin)
        made.start()
        await asyncio.wait_for(lost.wait(), 60)
        await made.stop()
    assert begun[0].returncode is not None
