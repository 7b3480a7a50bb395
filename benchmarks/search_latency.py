"""Search over gRPC, beside the same SQL run raw on the same connection settings, in one run.

    PLAIT_HOME=… python -m benchmarks.search_latency --repo NAME [--queries 300] [--callers 1 8] [--hot]

The index must exist (`plait index PATH`), and no service of the home may run (`plait stop`). A server process and a
client process are started; the client sends distinct queries made of words from the index's own texts, so that every
query is embedded anew; --hot asks them all once before, with another number of hits, so that the query's vector is
known and the answer is not. The raw rows replay the very statements that each search ran, in order, on a pool of the
same size and settings, and fetch every row; they embed, score and fuse nothing. The repeated rows ask 20 of the
queries again and again; the empty ones ask whether the server is healthy, which reads nothing. Latencies and CPU in
ms a call; CPU is user and system time of the client, of the server, and of PostgreSQL's processes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import grpc.aio
import numpy as np
import psutil
from grpc_health.v1 import health_pb2, health_pb2_grpc

from etl.truth import open as open_truth
from plait import settings as plait_settings
from plait.client import AsyncPlaitClient, discovery
from plait.domain.values import Filter
from plait.retrieval.search import SearchQuery, SearchService
from plait.supervisor import status
from vector.connection.pool import Scoped
from vector.index.visible import chunk
from vector.store import Store

WORD = re.compile(r"[A-Za-z_]{4,}")
REPEATED = 20  # queries that are asked again and again
LIMIT_S = 900.0  # of the client process: what hangs is ended with a message
STOP_S = 30.0


@dataclass(frozen=True, slots=True)
class Statement:
    """One read of a search, as the pool was asked for it."""

    sql: Any
    params: Mapping[str, Any]
    tenant: str
    prepare: bool | None


@dataclass(slots=True)
class Log:
    """The statements of one search and the rows that they fetched."""

    statements: list[Statement] = field(default_factory=list)
    rows: int = 0


async def queries_of(store: Store, repo: str, count: int, seed: int) -> list[str]:
    """Queries of 3 to 6 words from random chunks; half of them hold an identifier of the chunk."""
    rows = await store.db.rows(
        "SELECT symbol, left(content, 600) FROM files i JOIN repository r ON r.id = i.repo_id"
        f" WHERE r.name = %(repo)s AND {chunk('i', 'r.published')} ORDER BY i.id LIMIT 200000",
        {"repo": repo},
    )
    if not rows:
        raise SystemExit(f"no chunks of a repository {repo!r}; index it first: plait index PATH")
    chance = random.Random(seed)
    found: list[str] = []
    while len(found) < count:
        symbol, content = chance.choice(rows)
        words = WORD.findall(content)
        if len(words) < 6:
            continue
        picked = chance.sample(words, chance.randint(3, 6))
        if chance.random() < 0.5 and symbol:
            picked[0] = symbol.rpartition(".")[2]
        found.append(" ".join(picked))
    return found


async def timed(
    jobs: Sequence[Any], callers: int, one: Callable[[Any], Awaitable[object]]
) -> list[float]:
    """Milliseconds of each job, `callers` at a time."""
    todo, took = iter(jobs), []

    async def caller() -> None:
        for job in todo:
            start = time.perf_counter()
            await one(job)
            took.append((time.perf_counter() - start) * 1e3)

    await asyncio.gather(*(caller() for _ in range(callers)))
    return took


def row(name: str, callers: int, took: list[float]) -> dict[str, Any]:
    p50, p95, p99 = np.percentile(took, [50, 95, 99])
    return {"name": name, "callers": callers, "p50": p50, "p95": p95, "p99": p99, "n": len(took)}


class Costs:
    """CPU seconds of the client, the server and PostgreSQL."""

    def __init__(self, settings: plait_settings.Settings, server: int) -> None:
        self._server = psutil.Process(server)
        child = getattr(status.look(settings.home / "postgres").state, "child", None)
        self._postgres = psutil.Process(child.pid) if child is not None else None

    def take(self) -> dict[str, float]:
        server = [self._server, *self._server.children(recursive=True)]
        postgres = self._postgres
        stores = [postgres, *postgres.children(recursive=True)] if postgres else []
        return {
            "client": sum(os.times()[:2]),
            "server": sum(map(_cpu_s, server)),
            "postgres": sum(map(_cpu_s, stores)),
        }

    async def of(
        self,
        name: str,
        jobs: Sequence[Any],
        callers: int,
        one: Callable[[Any], Awaitable[object]],
    ) -> None:
        """Print one row of `jobs`: their latencies, their rate, and the CPU each took."""
        before, start = self.take(), time.perf_counter()
        took = await timed(jobs, callers, one)
        wall_s, after = time.perf_counter() - start, self.take()
        cpu = {who: (after[who] - before[who]) * 1e3 / len(took) for who in before}
        print(json.dumps({**row(name, callers, took), "rate": len(took) / wall_s, "cpu": cpu}))


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:  # a connection that was closed meanwhile
        return 0.0
    return float(times.user + times.system)


async def record(
    store: Store, settings: plait_settings.Settings, repo: str, queries: Sequence[str]
) -> list[Log]:
    """The statements each query's search runs, by running it. The first is run twice: a process's first search reads
    what later ones have in memory."""
    import plait.models.embedding

    provider = await plait.models.embedding.open(settings.embedding)
    service = SearchService(store.search, provider, settings.search)
    log = Log()
    rows = Scoped.rows

    async def logged(
        self: Any,
        query: Any,
        params: Mapping[str, Any],
        *,
        tenant: str,
        prepare: bool | None = None,
    ) -> Any:
        found = await rows(self, query, params, tenant=tenant, prepare=prepare)
        log.statements.append(Statement(query, params, tenant, prepare))
        log.rows += len(found)
        return found

    out = []
    with patch.object(Scoped, "rows", logged):
        for text in (*queries[:1], *queries):
            log = Log()
            await service.search(SearchQuery(text, Filter(repos=(repo,))))
            out.append(log)
    await provider.close()
    return out[1:]


async def client(args: argparse.Namespace) -> None:
    """The client process: each row as a line of JSON."""
    settings = plait_settings.load()
    address = discovery.read(settings.home)
    assert address is not None
    where = Filter(repos=(args.repo,))
    store = await open_truth(settings)
    queries = await queries_of(store, args.repo, args.queries, args.seed)
    logs = await record(store, settings, args.repo, queries)
    print(
        json.dumps(
            {
                "statements": sum(len(log.statements) for log in logs) / len(logs),
                "rows": sum(log.rows for log in logs) / len(logs),
            }
        )
    )
    costs = Costs(settings, address.pid)

    async def replay(log: Log) -> None:
        for one in log.statements:
            await store.app.rows(one.sql, one.params, tenant=one.tenant, prepare=one.prepare)

    for callers in args.callers:
        async with AsyncPlaitClient(address.target) as plait:

            async def search(text: str, plait: AsyncPlaitClient = plait) -> None:
                await plait.search(text, where=where)

            async def other_k(text: str, plait: AsyncPlaitClient = plait) -> None:
                await plait.search(text, where=where, k=9)

            asked = shift(queries, callers)
            warm = await queries_of(store, args.repo, 50, args.seed + callers)
            await timed(warm, callers, search)
            if args.hot:
                await timed(asked, callers, other_k)
            await costs.of("Search over gRPC", asked, callers, search)
            await timed(logs[:50], callers, replay)
            await costs.of("the same SQL, raw", logs, callers, replay)
            again = list(itertools.islice(itertools.cycle(asked[-REPEATED:]), args.repeats))
            await timed(again[:REPEATED], callers, search)
            await costs.of("Search, repeated", again, callers, search)
        async with grpc.aio.insecure_channel(address.target) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            empty = health_pb2.HealthCheckRequest()
            await costs.of("an empty call", [empty] * args.repeats, callers, health.Check)
    await store.close()


def shift(queries: Sequence[str], callers: int) -> list[str]:
    """The same queries as texts the server's caches have not seen: one more word at the end."""
    return [f"{text} n{callers}" for text in queries]


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--repo", required=True)
    arguments.add_argument("--queries", type=int, default=300)
    arguments.add_argument("--callers", type=int, nargs="+", default=[1, 8])
    arguments.add_argument("--repeats", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--hot", action="store_true")
    arguments.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    args = arguments.parse_args()
    if args.client:
        asyncio.run(client(args))
        return
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", "server"],
            env=dict(os.environ),
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
        try:
            wait_for(server)
            command = [sys.executable, "-m", "benchmarks.search_latency", *sys.argv[1:], "--client"]
            out = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        except (SystemExit, subprocess.TimeoutExpired) as exc:
            log.seek(0)
            raise SystemExit(f"{exc}\n{log.read()[-2_000:].decode(errors='replace')}") from exc
        finally:
            end(server)
    if out.returncode:
        raise SystemExit(out.stderr)
    counts, *rows = [json.loads(line) for line in out.stdout.splitlines()]
    report(counts, rows)


def wait_for(server: subprocess.Popen[bytes]) -> None:
    """Raises: SystemExit, when the server ends or does not answer within a minute."""
    home = plait_settings.load().home
    for _ in range(600):
        address = discovery.read(home)
        if address is not None and address.pid == server.pid:
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit("the server did not start")


def end(server: subprocess.Popen[bytes]) -> None:
    """Stop `server`; one that does not end by itself is killed."""
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def report(counts: Mapping[str, float], rows: Sequence[Mapping[str, Any]]) -> None:
    print(f"a search: {counts['statements']:.1f} statements, {counts['rows']:.0f} rows\n")
    print("| what | callers | p50 | p95 | p99 | a second | CPU client | server | PostgreSQL | n |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for r in rows:
        cpu = r["cpu"]
        print(
            f"| {r['name']} | {r['callers']} | {r['p50']:.2f} | {r['p95']:.2f} | {r['p99']:.2f}"
            f" | {r['rate']:.0f} | {cpu['client']:.2f} | {cpu['server']:.2f} | {cpu['postgres']:.2f}"
            f" | {r['n']} |"
        )
    p50 = {(r["name"], r["callers"]): r["p50"] for r in rows}
    for callers in dict.fromkeys(r["callers"] for r in rows):
        ratio = p50["Search over gRPC", callers] / p50["the same SQL, raw", callers]
        print(f"ratio of p50 at {callers}: {ratio:.2f}")


if __name__ == "__main__":
    main()
