"""How memories answer as they become many: 10k, 100k, 1M of one repository.

    python -m benchmarks.memory_scale fill --memories 100000 [--agents 1] [--home DIR]
    python -m benchmarks.memory_scale embed [--most 2000]
    python -m benchmarks.memory_scale bulk
    python -m benchmarks.memory_scale measure [--queries 200]

`fill` stores memories in batches of 500, as `StoreMemories` does: of 400 topics with words of their own, in
sessions of 40 turns, one in twenty a near-duplicate of an earlier one. `embed` does what the service does behind
the writes, look-up of near-duplicates included, with vectors made of the words (a fixed one for each word, of 48
dimensions inside 384, so that texts of one topic are near and near-duplicates above 0.95): what is measured is
the store, not a model. `bulk` stores the same vectors without looking for near-duplicates, for a quick start of
`measure`, which asks queries and recalls of parts of what is stored: of the repository, of one agent, of one
session, with a tag that few have; and how many of the exact nearest the arm by meaning finds. CPU seconds are those of
this process and of PostgreSQL. `--home`: where the store is kept; by default in the folder `memory-scale` of PLAIT_HOME.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import psutil

from etl.truth import open as open_truth
from plait.domain.deadline import Deadline
from plait.domain.memory import (
    NO_ID,
    NOW,
    MemoryEntry,
    MemoryFilter,
    MemoryMetadata,
    MemoryQueryOptions,
    MemoryWrite,
)
from plait.domain.recall import PackingOptions
from plait.domain.values import Collection, Filter
from plait.memory.entry import check
from plait.retrieval.memory_query import MemoryQueryService, in_memories
from plait.retrieval.query.analysis import SearchQuery
from plait.retrieval.recall import RecallService
from plait.retrieval.search_context import Deps
from plait.settings import load
from server.background_jobs.embedder import Embedder
from vector.connection.halfvec import half
from vector.search.filters import condition
from vector.search.nearest_sql import exact
from vector.store import Store

REPO = "memories"
BATCH = 500
DIM, LATENT = 384, 48
TOPICS, TOPIC_WORDS, WORDS = 400, 60, 20_000
TURNS = 40  # a session
NEAR = 0.05  # near-duplicates
NEIGHBOURS = 150  # as many as the arm is asked for
SYLLABLES = ("ka", "re", "mo", "ti", "sul", "ven", "par", "den", "lo", "gra", "fi", "net")

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    common: Sequence[str]
    topics: Sequence[Sequence[str]]


@lru_cache(1)
def vocabulary() -> Vocabulary:
    rng = random.Random(1)
    made: dict[str, None] = {}
    while len(made) < WORDS:
        made["".join(rng.choices(SYLLABLES, k=rng.randint(2, 5)))] = None
    words = list(made)
    return Vocabulary(words[:2000], [rng.sample(words[2000:], TOPIC_WORDS) for _ in range(TOPICS)])


def text(n: int) -> str:
    """Memory `n`; one in twenty is an earlier one with one word changed."""
    rng = random.Random(n)
    if n > 1000 and rng.random() < NEAR:
        words = text(rng.randrange(n - 1000, n)).split()
        words[rng.randrange(len(words))] = rng.choice(vocabulary().common)
        return " ".join(words)
    topic = vocabulary().topics[(n // TURNS * 7919) % TOPICS]
    size = rng.randint(14, 45)
    # Common words by Zipf's law: the n-th as often as 1 / n.
    words = [vocabulary().common[int(2000 ** rng.random()) - 1] for _ in range(size // 2)]
    words += rng.choices(topic, k=size - len(words))
    rng.shuffle(words)
    if n % 5 == 0:
        words.insert(3, f"src/{topic[0]}/{topic[n % TOPIC_WORDS]}.py")
    return " ".join(words)


def write(n: int, agents: int) -> MemoryWrite:
    session = n // TURNS
    tags = ("rare",) if n % 5000 == 0 else ("a", f"t{session % 50}")
    meta = MemoryMetadata(session_key=f"s{session}", tags=tags, importance=0.3 + n % 7 / 10)
    entry = MemoryEntry(NO_ID, REPO, f"agent{session % agents}", text(n), meta)
    return check(entry, str(UUID(int=n)))


class WordVectors:
    """An `EmbeddingProvider` that costs next to nothing."""

    model, dim = "words-in-48-dimensions", DIM

    def __init__(self) -> None:
        self._words: dict[str, Array] = {}
        rng = np.random.default_rng(0)
        self._basis = np.linalg.qr(rng.standard_normal((DIM, LATENT)))[0].T.astype(np.float32)

    def _word(self, word: str) -> Array:
        found = self._words.get(word)
        if found is None:
            rng = np.random.default_rng(zlib.crc32(word.encode()))
            found = self._words[word] = rng.standard_normal(LATENT).astype(np.float32)
        return found

    def vectors(self, texts: Sequence[str]) -> Array:
        sums = np.array([sum(map(self._word, set(one.split()))) for one in texts], np.float32)
        full = sums @ self._basis
        made: Array = (full / np.linalg.norm(full, axis=1, keepdims=True)).astype(np.float32)
        return made

    async def embed_documents(self, texts: Sequence[str]) -> Array:
        return self.vectors(texts)

    async def embed_query(self, text: str) -> Array:
        found: Array = self.vectors([text])[0]
        return found

    async def close(self) -> None:
        return None


@contextmanager
def cpu(postmaster: psutil.Process) -> Iterator[Callable[[], tuple[float, float]]]:
    """CPU seconds since the beginning, of this process and of PostgreSQL."""

    def server() -> float:
        total = postmaster.cpu_times()
        seconds = total.user + total.system + total.children_user + total.children_system
        for child in postmaster.children(recursive=True):
            try:
                times = child.cpu_times()
            except psutil.Error:
                continue
            seconds += times.user + times.system
        return float(seconds)

    own, theirs = time.process_time(), server()
    yield lambda: (time.process_time() - own, server() - theirs)


@asynccontextmanager
async def opened(home: Path) -> AsyncIterator[tuple[Store, psutil.Process]]:
    store = await open_truth(load(environ={**os.environ, "PLAIT_HOME": str(home)}))
    try:
        ((pid,),) = await store.db.rows("SELECT pg_backend_pid()", {})
        parent = psutil.Process(pid).parent()
        assert parent is not None
        yield store, parent
    finally:
        await store.close()


async def segments_of(store: Store) -> int:
    ((n,),) = await store.db.rows("SELECT count(*) FROM segment WHERE replaced_at IS NULL", {})
    return int(n)


async def fill(store: Store, server: psutil.Process, n: int, agents: int) -> None:
    ((first,),) = await store.db.rows("SELECT count(*) FROM memories", {})
    step = max(BATCH, (n - first) // 10)
    done = first
    while done < n:
        until, begin = min(n, done + step), time.perf_counter()
        with cpu(server) as spent:
            while done < until:
                writes = [write(i, agents) for i in range(done, min(until, done + BATCH))]
                await store.memories.store("default", writes)
                done += len(writes)
            await store.merger.finished()
            own, theirs = spent()
        wall = time.perf_counter() - begin
        print(
            f"{done:>9,} stored: {1e3 * wall / step:.2f} ms a memory, CPU {1e3 * own / step:.2f} + "
            f"{1e3 * theirs / step:.2f} ms, {await segments_of(store)} segments",
            flush=True,
        )


async def embed(store: Store, server: psutil.Process, most: int) -> None:
    """What waits for a vector, by the service's own job; a line for each tenth."""
    provider = WordVectors()

    async def opener() -> WordVectors:
        return provider

    job = Embedder(store.vectors, store.memories, store.repositories, store.search, opener)
    ((waiting,),) = await store.db.rows("SELECT count(*) FROM memories WHERE embedding IS NULL", {})
    total = min(most, waiting) if most else waiting
    step, done = max(256, total // 10), 0
    while done < total:
        begin = time.perf_counter()
        with cpu(server) as spent:
            job.add([REPO])
            part = await job.run_until_idle(most=min(step, total - done))
            own, theirs = spent()
        if not part:
            break
        done += part
        each = 1e3 / part
        print(
            f"{done:>9,} embedded: {each * (time.perf_counter() - begin):.2f} ms a memory, "
            f"CPU {each * own:.2f} + {each * theirs:.2f} ms",
            flush=True,
        )
    ((links,),) = await store.db.rows(
        "SELECT count(*) FROM memory_edge WHERE resolver = 'vectors' AND recorded_to IS NULL", {}
    )
    print(f"{links:,} near-duplicates linked by vectors")


async def bulk(store: Store) -> None:
    provider = WordVectors()
    await store.vectors.ensure_space(provider.model, provider.dim)
    while True:
        rows = await store.db.rows(
            "SELECT content_hash, content FROM memories WHERE embedding IS NULL LIMIT 5000", {}
        )
        if not rows:
            break
        await store.vectors.store_vectors(
            [r[0] for r in rows], provider.vectors([r[1] for r in rows])
        )
    await store.vectors.finish(REPO)
    print("every memory has its vector")


def questions(n: int, of: int) -> list[str]:
    """Half of the words of a memory, so that each has an answer."""
    rng = random.Random(7)
    found = []
    for _ in range(n):
        words = [w for w in text(rng.randrange(of)).split() if "/" not in w]
        found.append(" ".join(rng.sample(words, max(4, len(words) // 3))))
    return found


def scopes(of: int) -> dict[str, MemoryFilter]:
    here = MemoryFilter(repos=(REPO,))
    return {
        "the repository": here,
        "one agent": replace(here, agent_id="agent0"),
        "one session": replace(here, session_key=f"s{of // TURNS // 2}"),
        "a tag of one in 5,000": replace(here, tags_any=("rare",)),
    }


async def measure(store: Store, server: psutil.Process, queries: int) -> None:
    ((of,),) = await store.db.rows("SELECT count(*) FROM memories", {})
    ((vectors,),) = await store.db.rows(
        "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'memories\\_embedding\\_%%'", {}
    )
    print(f"{of:,} memories, {await segments_of(store)} segments, {vectors} HNSW index")
    settings = load(environ=os.environ)
    provider = WordVectors()

    async def opener() -> WordVectors:
        return provider

    deps = Deps(
        store.search, opener, settings.search, recall=settings.recall,
        relations=store.relations, impact=store.impact, receipts=store.recalls,
    )  # fmt: skip
    memories = MemoryQueryService(deps, store.memories)
    recalls = RecallService(deps)
    asked = questions(queries, of)

    def query(where: MemoryFilter) -> Callable[[str], Awaitable[Any]]:
        options = MemoryQueryOptions(where, top_k=10)
        return lambda said: memories.query(said, None, options, Deadline.after(30.0))

    def recall(said: str) -> Awaitable[Any]:
        where = Filter(repos=(REPO,), collections=tuple(Collection), skip_unknown=True)
        search = SearchQuery(said, where, deadline=Deadline.after(30.0))
        return recalls.recall(search, PackingOptions(session_key="now"))

    def recall_memories(said: str) -> Awaitable[Any]:
        where = Filter(
            repos=(REPO,), collections=(Collection.MEMORIES,), agent_id="agent0", skip_unknown=True
        )
        search = SearchQuery(said, where, deadline=Deadline.after(30.0))
        return recalls.recall(search, PackingOptions(session_key="then"))

    for name, where in scopes(of).items():
        await timed(f"query of {name}", query(where), asked, server)
    for name, where in scopes(of).items():
        await agreement(store, provider, name, where, asked[:30])
    await timed("recall of the repository", recall, asked, server)
    await timed("recall of one agent's memories", recall_memories, asked, server)


async def agreement(
    store: Store, provider: WordVectors, name: str, where: MemoryFilter, asked: Sequence[str]
) -> None:
    """How many of the exact nearest the arm by meaning returns."""
    found = in_memories(where, NOW)
    view = await store.search.view(found)
    shares = []
    for said in asked:
        vector = await provider.embed_query(said)
        arm = store.search.nearest(view, vector, found, NEIGHBOURS)
        cond = condition(view, found)
        params = {**cond.params, "query": half(vector), "k": NEIGHBOURS, "limit": None}
        rows = await store.db.rows(exact(cond, DIM), params)
        least = min((row[-1] for row in rows), default=1.0) - 1e-6
        near = [one for one in await arm if one.score >= least]
        shares.append(len(near) / max(1, len(rows)))
    print(f"{name}: {np.mean(shares):.3f} of the {NEIGHBOURS} exact nearest", flush=True)


async def timed(
    name: str, ask: Callable[[str], Awaitable[Any]], asked: Sequence[str], server: psutil.Process
) -> None:
    begin = time.perf_counter()
    await ask(asked[0])
    first = time.perf_counter() - begin
    for said in asked[1:6]:
        await ask(said)
    took = []
    stages: dict[str, float] = {}
    with cpu(server) as spent:
        for said in asked:
            begin = time.perf_counter()
            answer = await ask(said)
            took.append(1e3 * (time.perf_counter() - begin))
            for one in getattr(answer, "timings", ()):
                stages[one.stage] = stages.get(one.stage, 0.0) + one.took_ms / len(asked)
        own, theirs = spent()
    p50, p95 = np.percentile(took, [50, 95])
    each = 1e3 / len(asked)
    print(
        f"{name:<32} p50 {p50:6.1f}  p95 {p95:6.1f}  first {1e3 * first:6.1f} ms, "
        f"CPU {each * own:5.1f} + {each * theirs:5.1f} ms",
        flush=True,
    )
    if stages:
        slow = sorted(stages.items(), key=lambda s: -s[1])[:7]
        print("    " + ", ".join(f"{stage} {ms:.1f}" for stage, ms in slow))


async def run(args: argparse.Namespace) -> None:
    async with opened(args.home) as (store, server):
        if args.what == "fill":
            await fill(store, server, args.memories, args.agents)
        elif args.what == "embed":
            await embed(store, server, args.most)
        elif args.what == "bulk":
            await bulk(store)
        else:
            await measure(store, server, args.queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("fill", "embed", "bulk", "measure"))
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--agents", type=int, default=1)
    parser.add_argument("--most", type=int, default=0, help="texts to embed; 0: all")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--home", type=Path)
    args = parser.parse_args()
    args.home = args.home or load(environ=os.environ).home / "memory-scale"
    args.home.mkdir(parents=True, exist_ok=True)
    args.home.chmod(0o711)  # PostgreSQL runs as another user where this one is root
    asyncio.run(run(args))


if __name__ == "__main__":
    main()
