"""Search over gRPC, beside the same SQL run raw on the same connection settings, in one run.

    PLAIT_HOME=… python benchmarks/search_latency.py --repo NAME [--queries 300] [--callers 1 8]

The index must exist (`plait index PATH`). A server process and a client process are started; the
client sends distinct queries made of words from the index's own texts (so every query is embedded
anew; --hot asks them all once before, so that the query cache answers). The raw rows replay the very
statements that each search ran, in order, on a pool of the same size and settings, and fetch every
row; they embed, score and fuse nothing. Latencies in ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np

from etl.truth import open as open_truth
from plait import settings as plait_settings
from plait.client import AsyncPlaitClient, discovery
from plait.domain.values import Filter
from plait.retrieval.search import SearchQuery, SearchService
from vector.connection.pool import Scoped
from vector.store import Store

Statement = tuple[str, Mapping[str, Any], str]  # SQL, values, tenant
WORD = re.compile(r"[A-Za-z_]{4,}")


async def queries_of(store: Store, repo: str, count: int, seed: int) -> list[str]:
    """Queries of 3 to 6 words from random chunks; half of them hold an identifier of the chunk."""
    rows = await store.db.rows(
        "SELECT symbol, left(content, 600) FROM files i JOIN repository r ON r.id = i.repo_id"
        " WHERE r.name = %(repo)s AND rev_to IS NULL ORDER BY i.id LIMIT 200000",
        {"repo": repo},
    )
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


async def record(
    store: Store, settings: plait_settings.Settings, repo: str, queries: Sequence[str]
) -> list[list[Statement]]:
    """The statements each query's search runs, by running it."""
    import plait.models.embedding

    provider = await plait.models.embedding.open(settings.embedding)
    service = SearchService(store.search, provider, settings.search)
    log: list[Statement] = []
    rows = Scoped.rows

    async def logged(
        self: Any,
        query: str,
        params: Mapping[str, Any],
        *,
        tenant: str,
        prepare: bool | None = None,
    ) -> Any:
        log.append((query, params, tenant))
        return await rows(self, query, params, tenant=tenant, prepare=prepare)

    out = []
    with patch.object(Scoped, "rows", logged):
        for text in queries:
            log.clear()
            await service.search(SearchQuery(text, Filter(repos=(repo,))))
            out.append(list(log))
    await provider.close()
    return out


async def client(args: argparse.Namespace) -> None:
    """The client process: both kinds of rows, as JSON lines."""
    settings = plait_settings.load()
    address = discovery.read(settings.home)
    assert address is not None
    where = Filter(repos=(args.repo,))
    store = await open_truth(settings)
    queries = await queries_of(store, args.repo, args.queries, args.seed)
    statements = await record(store, settings, args.repo, queries)
    for callers in args.callers:
        async with AsyncPlaitClient(address.target) as plait:

            async def search(text: str, plait: AsyncPlaitClient = plait) -> None:
                await plait.search(text, where=where)

            warm = await queries_of(store, args.repo, 50, args.seed + callers)
            await timed(warm, callers, search)
            if args.hot:
                await timed(queries, callers, search)
                took = await timed(queries, callers, search)
            else:
                took = await timed(shift(queries, callers), callers, search)
        print(json.dumps(row("Search over gRPC", callers, took)))

        async def replay(job: list[Statement]) -> None:
            for query, params, tenant in job:
                await store.app.rows(query, params, tenant=tenant)

        await timed(statements[:50], callers, replay)
        print(
            json.dumps(row("the same SQL, raw", callers, await timed(statements, callers, replay)))
        )
    await store.close()


def shift(queries: Sequence[str], callers: int) -> list[str]:
    """The same queries as texts the server's cache has not seen: one more word at the end."""
    return [f"{text} n{callers}" for text in queries]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repo", required=True)
    arguments.add_argument("--queries", type=int, default=300)
    arguments.add_argument("--callers", type=int, nargs="+", default=[1, 8])
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--hot", action="store_true")
    arguments.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    args = arguments.parse_args()
    if args.client:
        asyncio.run(client(args))
        return
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "server"],
        env=dict(os.environ),
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for(server)
        out = subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--client"], capture_output=True, text=True
        )
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    if out.returncode:
        raise SystemExit(out.stderr)
    report([json.loads(line) for line in out.stdout.splitlines()])


def wait_for(server: subprocess.Popen[bytes]) -> None:
    home = plait_settings.load().home
    for _ in range(600):
        address = discovery.read(home)
        if address is not None and address.pid == server.pid:
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit("the server did not start")


def report(rows: Sequence[Mapping[str, Any]]) -> None:
    print("| what | callers | p50 ms | p95 ms | p99 ms | n |")
    print("|---|---|---|---|---|---|")
    for r in rows:
        print(
            f"| {r['name']} | {r['callers']} | {r['p50']:.2f} | {r['p95']:.2f} | {r['p99']:.2f} | {r['n']} |"
        )
    for ours, raw in zip(rows[::2], rows[1::2], strict=True):
        print(f"ratio of p50 at {ours['callers']}: {ours['p50'] / raw['p50']:.2f}")


if __name__ == "__main__":
    main()
