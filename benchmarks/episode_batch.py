"""How long 500 items of episodes take to the truth, without embedding: `python -m benchmarks.episode_batch`.

One episode of 500 notes, 50 of 10, 500 of one; texts as in `benchmarks.memory_batch`. Merging of text
segments, which happens behind the answer, is waited for between batches and not counted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

import uvloop

from benchmarks.memory_batch import SIZE, report, texts
from etl.truth import open as open_truth
from plait.domain.values import Artifact, ArtifactKind, Episode, Outcome
from plait.memory.episode import check
from plait.settings import load
from plait.supervisor.lease import wait_stopped
from server.process.serve import collect_seldom

SHAPES = {"1 episode of 500": (1, 500), "50 of 10": (50, 10), "500 of 1": (500, 1)}


def episodes(count: int, items: int, seed: int) -> list[Episode]:
    said = iter(texts(count * items, seed))
    return [
        check(
            Episode(
                request_id=os.urandom(8).hex(),
                repo="bench",
                outcome=Outcome("success", "did it"),
                artifacts=[Artifact(ArtifactKind.NOTE, next(said)) for _ in range(items)],
                agent_id="agent",
                session_key="s",
                started_at=datetime.now(UTC),
            )
        )
        for _ in range(count)
    ]


async def measure(batches: int, home: Path) -> None:
    store = await open_truth(load(environ={"PLAIT_HOME": str(home)}))
    try:
        await store.episodes.append_many(episodes(1, 50, 0))
        for name, (count, items) in SHAPES.items():
            took, spent = [], []
            for i in range(batches):
                batch = episodes(count, items, i + 1)
                start, cpu = time.perf_counter(), time.process_time()
                await store.episodes.append_many(batch)
                took.append((time.perf_counter() - start) * 1e3)
                spent.append((time.process_time() - cpu) * 1e3)
                await store.merger.finished()
            report(f"{SIZE} items, {name}, to the truth", took)
            report("  of it CPU of this process", spent)
    finally:
        await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=40, help="at least 2")
    args = parser.parse_args()
    home = Path(mkdtemp(prefix="plait-bench-", dir="/tmp"))
    home.chmod(0o711)
    collect_seldom()
    uvloop.run(measure(args.batches, home))
    for lock in home.rglob("keeper.lock"):
        wait_stopped(lock.parent, 60.0)
    shutil.rmtree(home)


if __name__ == "__main__":
    main()
