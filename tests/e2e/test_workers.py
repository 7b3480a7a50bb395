"""`plait serve --workers`: several processes on one port; one that is killed loses nothing and comes back."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from plait.client import AsyncPlaitClient, PlaitRpcError, new_memory
from plait.domain.memory import MemoryFilter, MemoryId
from plait.supervisor import token_file
from server.process import running
from tests.processes import LIMIT_S, PATIENT, eventually, remove_home, wait_until

WRITERS = 4
WRITES = 12  # of each


@dataclass(frozen=True)
class Served:
    home: Path
    process: subprocess.Popen[str]
    port: int

    def workers(self) -> list[psutil.Process]:
        """The processes beside the first that answer calls."""
        return [
            child
            for child in psutil.Process(self.process.pid).children()
            if "server.process.worker" in child.cmdline()
        ]

    def client(self) -> AsyncPlaitClient:
        token = token_file.read(self.home / "server" / "token").current
        return AsyncPlaitClient(f"127.0.0.1:{self.port}", token=token)


@pytest.fixture(scope="module")
def served(plait_home: Path) -> Iterator[Served]:
    home = plait_home / "workers"
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "server", "--port", "0", "--workers", "3", "--json"],
        env={**os.environ, **PATIENT, "PLAIT_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())
        yield Served(home, process, address["port"])
    finally:
        process.kill()
        process.communicate()
        remove_home(home)


async def written(served: Served, writer: int) -> dict[str, MemoryId]:
    """Ids of memories whose writes were acknowledged; one that fails is tried again until it is."""
    done: dict[str, MemoryId] = {}
    for n in range(WRITES):
        text = f"writer {writer} says {n}"

        async def stored(text: str = text) -> MemoryId | None:
            async with served.client() as client:  # another connection, so maybe another process
                try:
                    made = new_memory(text, repo="r", agent_id=f"a{writer}")
                    return (await client.store(made, request_id=text.replace(" ", "-"))).entry.id
                except PlaitRpcError as exc:
                    if exc.code.name not in ("UNAVAILABLE", "CANCELLED"):
                        raise
                    return None

        done[text] = await eventually(stored)
    return done


async def test_a_worker_that_is_killed_loses_no_write_and_is_started_again(served: Served) -> None:
    wait_until(lambda: len(served.workers()) == 2)
    before = {worker.pid for worker in served.workers()}
    (service,) = [member for member in running.take(served.home) if member.role == "service"]
    assert (service.pids[0], service.workers) == (served.process.pid, 2)
    assert before <= set(service.pids)

    async def kills() -> None:
        for worker in served.workers():
            await asyncio.sleep(0.3)
            worker.send_signal(signal.SIGKILL)

    killing = asyncio.create_task(kills())
    found = await asyncio.gather(*(written(served, n) for n in range(WRITERS)))
    await killing
    async with served.client() as client:
        for texts in found:
            assert len(texts) == WRITES
            for text, id_ in texts.items():
                assert (await client.get(id_, "r")).content == text
        listed = await client.list(MemoryFilter(repos=("r",)), limit=100)
        assert len(listed.entries) == WRITERS * WRITES
    wait_until(lambda: len(served.workers()) == 2)
    assert before.isdisjoint(worker.pid for worker in served.workers())


async def test_what_a_worker_wrote_gets_its_vector_from_the_first(served: Served) -> None:
    async with served.client() as client:
        entries = (await client.list(MemoryFilter(repos=("r",)), limit=100)).entries

        async def all_have() -> bool:
            got = [await client.get(e.id, "r", with_embedding=True) for e in entries]
            return all(entry.embedding is not None for entry in got)

        await eventually(all_have)


def test_workers_end_with_the_first_process_even_when_it_is_killed(served: Served) -> None:
    workers = served.workers()
    served.process.kill()
    served.process.wait(LIMIT_S)
    wait_until(lambda: not any(worker.is_running() for worker in workers))


def test_workers_without_a_port_are_refused(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "server", "--workers", "2"],
        env={**os.environ, "PLAIT_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert ran.returncode == 1
    assert "--port" in ran.stderr
