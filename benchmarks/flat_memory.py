"""Whether the server's memory stays flat: its resident set before and after many calls of each RPC.

    python -m benchmarks.flat_memory --calls 20000 [--only Search --only Recall] [--json]

A server of its own with the embedded stores on a home of its own, and a small repository; vectors come from
the soak's service, so that no model's memory hides a leak. Each RPC is called `--warm` times first, which fills
pools and caches; growth is what comes after that. Calls that are refused count too: a refusal may leak as well.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

import psutil

from benchmarks.soak import bodies
from benchmarks.soak.service import Service, workplace
from plait.client import AsyncPlaitClient, PlaitRpcError
from plait.client.hooks import HookClient
from plait.domain.memory import MemoryFilter
from plait.domain.retention import Selector
from plait.domain.values import Collection, Filter

REPO = "flat"
AT_ONCE = 8
MB = 2**20
Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Told:
    """Resident megabytes of the server's process. `bytes_a_call`: growth after the warm-up."""

    rpc: str
    calls: int
    refused: int
    before_mb: float
    after_mb: float
    bytes_a_call: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=20_000, help="of each RPC")
    parser.add_argument("--warm", type=int, default=200, help="calls before the first measurement")
    parser.add_argument("--only", action="append", default=[], metavar="RPC", help="repeatable")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with workplace() as (base, _):
        told = asyncio.run(measure(base, args.calls, args.warm, args.only))
    if args.json:
        print(json.dumps([asdict(one) for one in told]))


async def measure(base: Path, calls: int, warm: int, only: list[str]) -> list[Told]:
    service = Service(base)
    told = []
    try:
        await service.open()
        server = psutil.Process(service.pid)
        async with AsyncPlaitClient(service.target) as client:
            with HookClient(service.target, timeout_s=30) as hooks:
                for rpc, call in (await rpcs(client, hooks, base)).items():
                    if not only or rpc in only:
                        told.append(await flat(rpc, call, calls, warm, server))
                        print(_line(told[-1]), file=sys.stderr, flush=True)
    finally:
        await service.close()
    return told


async def flat(rpc: str, call: Call, calls: int, warm: int, server: psutil.Process) -> Told:
    await repeated(call, warm)
    before = server.memory_info().rss
    refused = await repeated(call, calls)
    after = server.memory_info().rss
    growth = (after - before) / calls
    return Told(rpc, calls, refused, before / MB, after / MB, growth)


async def repeated(call: Call, times: int) -> int:
    """How many of `times` calls were refused."""
    left = itertools.count()
    refused = 0

    async def caller() -> None:
        nonlocal refused
        while next(left) < times:
            try:
                await call()
            except PlaitRpcError:
                refused += 1

    await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
    return refused


async def rpcs(client: AsyncPlaitClient, hooks: HookClient, base: Path) -> Mapping[str, Call]:
    """A call of each RPC, reads before writes, so that these don't make those slower."""
    root = base / "sources"
    for path, text in bodies.SOURCES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    chance = random.Random(1)
    job = await client.start_index(str(root), repository=REPO)
    async for _ in client.watch_index_job(job.id):
        pass
    text = "the work module counts to three"
    kept = await client.store(bodies.an_entry(REPO, "a", text))
    where = Filter(repos=(REPO,), collections=(Collection.FILES, Collection.MEMORIES))
    recalled = await client.recall("work module", where=where)
    symbol = {"symbol": "pkg.more.third"}

    async def watch() -> None:
        async for _ in client.watch_index_job(job.id):
            pass

    async def ingest() -> None:
        async for _ in client.ingest([bodies.an_episode(REPO, "a", chance)[0]]):
            pass

    async def learn() -> None:
        said = f"Always run {bodies.a_word(chance)} before a commit."
        await client.learn(repo=REPO, agent_id="a", user_message=said)

    def store() -> Awaitable[object]:
        return client.store(bodies.an_entry(REPO, "a", bodies.a_text(chance)))

    return {
        "Search": lambda: client.search("work module", where=where),
        "Recall": lambda: client.recall("work module", where=where),
        "ReplayRecall": lambda: client.replay(recalled.recall_id or uuid4()),
        "GraphQuery": lambda: client.template("callers", symbol, repositories=(REPO,)),
        "GetMemory": lambda: client.get(kept.entry.id, REPO),
        "ListMemories": lambda: client.list(MemoryFilter(repos=(REPO,)), limit=20),
        "QueryMemories": lambda: client.query("work module", MemoryFilter(repos=(REPO,))),
        "ListRepositories": lambda: client.list_repositories(),
        "GetIndexJob": lambda: client.get_index_job(job.id),
        "WatchIndexJob": watch,
        "Stats": lambda: client.stats(),
        "GetSavings": lambda: client.savings([REPO]),
        "ListDeadLetters": lambda: client.dead_letters([REPO]),
        "Verify": lambda: client.verify([REPO]),
        "DescribeFolder": lambda: asyncio.to_thread(hooks.describe_folder, str(root)),
        "NameSymbols": lambda: asyncio.to_thread(hooks.name_symbols, str(root), ["third"]),
        "Compact (dry)": lambda: client.compact(REPO, "a", dry_run=True),
        "UndoCompaction (refused)": lambda: client.undo_compaction(str(uuid4())),
        "Forget (dry)": lambda: client.forget(REPO, Selector(ids=(kept.entry.id,)), dry_run=True),
        "DeleteRepository (refused)": lambda: client.delete_repository("nothing"),
        "StartIndex": lambda: client.start_index(str(root), repository=REPO),
        "ReportFeedback": lambda: client.report_feedback(
            recalled.recall_id or uuid4(), helped=[kept.entry.id], request_id=uuid4().hex
        ),
        "StoreMemory": store,
        "BatchStoreMemories": lambda: client.batch_store(
            [bodies.an_entry(REPO, "a", bodies.a_text(chance))]
        ),
        "DeleteMemory": lambda: client.delete(kept.entry.id, REPO),
        "Learn": learn,
        "AppendEpisode": lambda: client.append_episode(bodies.an_episode(REPO, "a", chance)[0]),
        "IngestEpisodes": ingest,
    }


def _line(told: Told) -> str:
    refused = f", {told.refused:,} refused" if told.refused else ""
    return (
        f"{told.rpc:<28} {told.calls:>7,} calls  {told.before_mb:7.1f} → {told.after_mb:7.1f} MB"
        f"  {told.bytes_a_call:8.0f} bytes a call{refused}"
    )


if __name__ == "__main__":
    main()
