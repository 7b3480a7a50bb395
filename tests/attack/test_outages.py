"""A store goes away in the middle of a run: the run waits, says so, and ends as if nothing had been."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cut_off import Behind, Proxy
from tests.processes import eventually

# Longer than all the tries of a transaction took when nothing waited for an outage.
LONG_S = 4
FILES = 1200


def environment(behind: Behind, **more: str) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**keep, **behind.environment, "PLAIT_CLIENT__AUTOSTART": "false", **more}


class Run:
    """A command that is running; what it says is read as it comes."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.said: list[str] = []
        self.printed: list[str] = []
        assert process.stdout is not None
        assert process.stderr is not None
        self._reading = [
            asyncio.ensure_future(self._read(process.stdout, self.printed)),
            asyncio.ensure_future(self._read(process.stderr, self.said)),
        ]

    async def _read(self, stream: asyncio.StreamReader, into: list[str]) -> None:
        while line := await stream.readline():
            into.append(line.decode())

    def waited_s(self, store: str) -> float:
        """The longest wait for `store` that it told of."""
        found = re.findall(rf"waiting for {store}, (\d+) s", "".join(self.said))
        return max(map(float, found), default=-1.0)

    async def has_waited(self, store: str, at_least_s: float = LONG_S) -> None:
        async def long_enough() -> bool:
            assert self.process.returncode is None, "".join(self.said)
            return self.waited_s(store) >= at_least_s

        await eventually(long_enough)

    def errors(self) -> str:
        """What it said last, in words that pytest shows whole."""
        return "".join(self.said[-20:])

    async def end(self) -> int:
        code = await self.process.wait()
        await asyncio.gather(*self._reading)
        return code


@asynccontextmanager
async def command(env: dict[str, str], *words: str, stdin: int | None = None) -> AsyncIterator[Run]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, env=env, stdin=stdin, stdout=PIPE, stderr=PIPE
    )
    try:
        yield Run(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("outage")
    for number in range(FILES):
        folder = root / f"p{number // 100}"
        folder.mkdir(exist_ok=True)
        body = "".join(
            f"def f{number}_{i}(a):\n    return f{number}_{i - 1}(a)\n" for i in range(9)
        )
        (folder / f"m{number}.py").write_text(body)
    return root


async def rows(behind: Behind, statement: str, *given: object) -> list[Any]:
    async with await psycopg.AsyncConnection.connect(behind.dsn) as conn:
        await conn.execute("SET search_path = plait")
        try:
            return await (await conn.execute(statement, given)).fetchall()
        except (psycopg.errors.UndefinedTable, psycopg.errors.DeadlockDetected):
            # Nobody has opened the store yet, or it is being set up.
            return []


@asynccontextmanager
async def away(proxy: Proxy, kind: str) -> AsyncIterator[None]:
    """`cut`: nobody listens. `silent`: connections are taken and nothing is answered."""
    await proxy.cut() if kind == "cut" else proxy.fall_silent()
    try:
        yield
    finally:
        await proxy.open() if kind == "cut" else proxy.speak()


def index(root: Path, repo: str) -> tuple[str, ...]:
    return ("-m", "etl.index_repo", str(root), "--repo", repo, "--no-embed", "--wait", "--json")


async def test_postgresql_goes_away_while_a_run_writes(behind: Behind, source: Path) -> None:
    repo = "cut-while-writing"
    begun = "SELECT 1 FROM files f JOIN repository r ON r.id = f.repo_id WHERE r.name = %s LIMIT 1"
    async with command(environment(behind), *index(source, repo)) as run:
        await eventually(lambda: rows(behind, begun, repo))
        async with away(behind.truth, "cut"):
            await run.has_waited("PostgreSQL")
        assert await run.end() == 0, run.errors()
    report = json.loads("".join(run.printed))
    assert (report["files"], report["graph_revision"]) == (FILES, 1)
    ((chunks,),) = await rows(
        behind,
        "SELECT count(*) FROM files f JOIN repository r ON r.id = f.repo_id WHERE r.name = %s",
        repo,
    )
    assert chunks == report["chunks"] == 9 * FILES
    assert "PostgreSQL answers again\n" in run.said


async def test_the_graph_server_is_away_when_a_run_needs_it(behind: Behind, source: Path) -> None:
    async with command(environment(behind), *index(source / "p0", "graph-away")) as run:
        async with away(behind.graph, "cut"):
            await run.has_waited("the graph server")
        assert await run.end() == 0, run.errors()
    assert json.loads("".join(run.printed))["graph_revision"] == 1


async def test_a_store_that_stays_away_ends_the_run_and_the_next_one_completes_it(
    behind: Behind, source: Path
) -> None:
    env = environment(behind, PLAIT_INDEX__OUTAGE_S="1")
    words = index(source / "p1", "stays-away")
    async with away(behind.graph, "cut"), command(env, *words) as run:
        assert await run.end() == 1
        assert json.loads("".join(run.printed))["error"]["reason"] == "GRAPH_UNAVAILABLE"
    async with command(env, *words) as run:
        assert await run.end() == 0, run.errors()
    assert json.loads("".join(run.printed))["graph_revision"] == 1


def episode(number: int) -> bytes:
    kept = {"kind": "note", "content": f"Note {number}: totals are rounded once."}
    line = {"repo": "fed", "outcome": {"status": "success"}, "artifacts": [kept]}
    return json.dumps(line).encode() + b"\n"


SINKS: dict[str, tuple[str, ...]] = {
    "direct": ("-m", "etl.ingest_episode", "-", "--json"),
    "service": (str(Path(sys.executable).with_name("plait")), "ingest", "-", "--json"),
}


@pytest.mark.parametrize("kind", ["cut", "silent"])
@pytest.mark.parametrize("sink", SINKS)
async def test_postgresql_goes_away_while_episodes_come_in(
    behind: Behind, sink: str, kind: str
) -> None:
    if (sink, kind) == ("direct", "silent"):
        pytest.skip("without a service nobody watches: it waits for as long as the silence lasts")
    first = 100 * (1 + list(SINKS).index(sink)) + (50 if kind == "silent" else 0)
    async with command(environment(behind), *SINKS[sink], stdin=PIPE) as run:
        feed = run.process.stdin
        assert feed is not None
        feed.write(episode(first))

        async def stored() -> bool:
            assert run.process.returncode is None, run.said
            return bool(run.printed)

        await eventually(stored)
        async with away(behind.truth, kind):
            for number in range(first + 1, first + 20):
                feed.write(episode(number))
            feed.close()
            await run.has_waited("PostgreSQL")
        assert await run.end() == 0, run.errors()
    told = [json.loads(line) for line in run.printed]
    assert len({one["episode_id"] for one in told}) == 20
    ((kept,),) = await rows(
        behind,
        "SELECT count(*) FROM episode WHERE id = ANY(%s::uuid[])",
        [one["episode_id"] for one in told],
    )
    assert kept == 20


async def test_a_run_whose_server_lost_what_it_had_confirmed_begins_anew(
    behind: Behind, source: Path
) -> None:
    """Batches do not wait for the disk: a crash may take the last ones. Here the count of them goes
    back, as it would, while the run is at its second thousand."""
    repo = "lost"
    begun = "UPDATE repository SET draft_writes = -1000 WHERE name = %s AND draft_writes > 0 RETURNING 1"
    async with command(environment(behind), *index(source, repo)) as run:
        await eventually(lambda: rows(behind, begun, repo))
        assert await run.end() == 0, run.errors()
    report = json.loads("".join(run.printed))
    assert (report["files"], report["chunks"]) == (FILES, 9 * FILES)
