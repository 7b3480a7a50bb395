"""How long a batch of 500 memories takes to the truth, without embedding: `python -m benchmarks.memory_batch`.

Texts are made of a few thousand words, 12 to 60 a memory, a fifth of them with a name or path as code
has them. Batches go in one after another, so the later ones meet a repository that holds some.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import time
from pathlib import Path
from tempfile import mkdtemp
from uuid import uuid4

import uvloop

from etl.truth import open as open_truth
from plait.domain.memory import NO_ID, MemoryEntry, MemoryMetadata, MemoryWrite
from plait.memory.entry import check
from plait.settings import load
from plait.supervisor.lease import wait_stopped
from server.process.serve import collect_seldom

SIZE = 500


def texts(n: int, seed: int) -> list[str]:
    """`n` different texts, the same for every run."""
    rng = random.Random(seed)
    syllables = ["ka", "re", "mo", "ti", "sul", "ven", "par", "den", "lo", "gra", "fi", "net"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(4000)]
    out = []
    for i in range(n):
        said = rng.choices(words, k=rng.randint(12, 60))
        if i % 5 == 0:
            said.insert(3, rng.choice(["src/app/main.py", "parse_url()", "HttpClient.send"]))
        out.append(" ".join(said))
    return out


def batch(repo: str, n: int, seed: int) -> list[MemoryWrite]:
    return [
        check(
            MemoryEntry(
                NO_ID, repo, "agent", text, MemoryMetadata(session_key="s", tags=("a", "b"))
            ),
            str(uuid4()),
        )
        for text in texts(n, seed)
    ]


async def measure(batches: int, home: Path) -> None:
    store = await open_truth(load(environ={"PLAIT_HOME": str(home)}))
    try:
        repo = f"bench-{uuid4().hex[:8]}"
        await store.memories.store("default", batch(repo, 50, 0))
        took, checked = [], []
        for i in range(batches):
            start = time.perf_counter()
            writes = batch(repo, SIZE, i + 1)
            checked.append((time.perf_counter() - start) * 1e3)
            start = time.perf_counter()
            await store.memories.store("default", writes)
            took.append((time.perf_counter() - start) * 1e3)
            await store.merger.finished()
        singles = []
        for write in batch(repo, 200, 10_000):
            start = time.perf_counter()
            await store.memories.store("default", [write])
            singles.append((time.perf_counter() - start) * 1e3)
        report(f"{SIZE} memories, to the truth", took)
        report(f"{SIZE} memories, checked and counted before", checked)
        report("1 memory, to the truth", singles)
    finally:
        await store.close()


def report(name: str, took: list[float]) -> None:
    cuts = statistics.quantiles(took, n=20)
    print(
        f"{name}: median {statistics.median(took):.1f} ms, p95 {cuts[18]:.1f} ms, n = {len(took)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=40, help="at least 2")
    parser.add_argument("--home", type=Path, help="a PLAIT_HOME to use; default: a new one in /tmp")
    args = parser.parse_args()
    home = args.home
    if home is None:
        home = Path(mkdtemp(prefix="plait-bench-", dir="/tmp"))
        home.chmod(0o711)
    collect_seldom()
    uvloop.run(measure(args.batches, home))
    if args.home is None:
        for lock in home.rglob("keeper.lock"):
            wait_stopped(lock.parent, 60.0)
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
