"""What retention costs on a fresh embedded PostgreSQL: usage, plan, compaction, undo, forgetting.

    python -m benchmarks.retention_cost [--memories 5000] [--dim 384]

CPU seconds are this process's; the server's work is in the wall times. Memories are sentences of made-up
words with numbers; each has a vector of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import tempfile
from collections.abc import Awaitable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, process_time
from typing import TypeVar

import numpy as np

from etl.truth import open as open_truth
from plait.domain.memory import NO_ID, MemoryEntry, MemoryMetadata
from plait.domain.retention import Selector
from plait.domain.scope import DEFAULT_TENANT, Scope
from plait.memory import compact as service
from plait.memory import retention
from plait.memory.entry import check
from plait.memory.summarize import Extractive
from plait.settings import MemorySettings, load
from plait.supervisor.lease import wait_stopped
from vector.store import Store

T = TypeVar("T")
REPO = "bench"
SCOPE = Scope(DEFAULT_TENANT, REPO, "a")


async def timed(what: str, work: Awaitable[T]) -> T:
    wall, cpu = perf_counter(), process_time()
    done = await work
    print(
        f"{what:44} {(perf_counter() - wall) * 1e3:9.1f} ms wall {process_time() - cpu:7.2f} s CPU"
    )
    return done


def memory(rng: random.Random, n: int, agent: str, dim: int) -> MemoryEntry:
    words = [
        f"{rng.choice('bcdfgklmnprst')}{rng.choice('aeiou')}{rng.randrange(400)}" for _ in range(25)
    ]
    text = f"Step {n}: part_{n % 50}.py failed with code {n}. " + " ".join(words) + "."
    made = np.random.default_rng(n).normal(size=dim)
    unit = tuple((made / np.linalg.norm(made)).tolist())
    meta = MemoryMetadata(session_key=f"s{n % 40}")
    return MemoryEntry(NO_ID, REPO, agent, text, meta, embedding=unit)


async def fill(store: Store, n: int, dim: int) -> None:
    rng = random.Random(1)
    for agent in ("a", "b"):
        entries = [memory(rng, i, agent, dim) for i in range(n)]
        for start in range(0, n, 500):
            await store.memories.store(
                DEFAULT_TENANT, [check(e) for e in entries[start : start + 500]]
            )


async def run(store: Store, n: int, dim: int) -> None:
    await store.vectors.ensure_space("bench", dim)
    await fill(store, n, dim)
    tokens = await timed("usage of one scope", service.used(store.retention, SCOPE))
    settings = MemorySettings(budget_tokens=tokens)
    entries = await timed(f"read {n} living memories", store.retention.living(SCOPE))

    async def plan() -> int:
        made = retention.plan(entries, settings, datetime.now(UTC))
        return len(made.closed)

    await timed("plan, extractive", plan())
    done = await timed(
        "compact: read, plan, carry out",
        service.compact(store.retention, Extractive(), SCOPE, settings),
    )
    told = done.plan
    print(
        f"  {told.tokens_before:,} tokens to {told.tokens_after:,}: {len(told.closed)} memories closed, "
        f"{len(told.summaries)} summaries"
    )
    back = await timed("undo", store.retention.undo(DEFAULT_TENANT, done.id))
    print(f"  {back} memories brought back")
    one = Selector(ids=(entries[0].id,))
    await timed(
        "forget one memory", store.forgetting.forget(DEFAULT_TENANT, REPO, one, dry_run=False)
    )
    all_of_b = Selector(agent_id="b")
    gone = await timed(
        f"forget an agent of {n}",
        store.forgetting.forget(DEFAULT_TENANT, REPO, all_of_b, dry_run=False),
    )
    assert not any(gone.left.values()), gone.left
    await timed("reclaim", store.forgetting.reclaim())


async def main_async(home: Path, n: int, dim: int) -> None:
    store = await open_truth(load(environ={"PLAIT_HOME": str(home)}))
    try:
        await run(store, n, dim)
    finally:
        await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--memories", type=int, default=5000)
    parser.add_argument("--dim", type=int, default=384)
    args = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="plait-bench-", dir="/tmp"))
    if os.geteuid() == 0:
        base.chmod(0o711)
    try:
        asyncio.run(main_async(base / "home", args.memories, args.dim))
    finally:
        for lock in base.rglob("keeper.lock"):
            wait_stopped(lock.parent, 60.0)
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
