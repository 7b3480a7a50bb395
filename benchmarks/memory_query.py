"""How well `QueryMemories` finds what was said, and how fast: `python -m benchmarks.memory_query [--families chats,made]`.

The histories of benchmarks/memory_recall.py, stored as memories of their own repository in a fresh embedded
PostgreSQL, asked over the service that answers the RPC. Rows: BM25 alone (the store's arm), the query without a
vector, the query. What is no memory (diffs, reflections, results of tests) is not stored: a question for it counts as
missed. R@k counts questions with a gold memory among the first k; intervals of differences between two runs come from
`--json` files, question by question.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from benchmarks.history_store import pieces
from benchmarks.localisation_corpus import embed
from benchmarks.memory_chats import chats
from benchmarks.memory_histories import Entry, History, histories
from benchmarks.memory_runs import runs
from etl.truth import open as open_truth
from plait.domain.errors import EmbeddingUnavailable
from plait.domain.memory import (
    NO_ID,
    MemoryEntry,
    MemoryFilter,
    MemoryId,
    MemoryMetadata,
    MemoryQueryOptions,
    MemoryReceipt,
    MemorySource,
    MemoryType,
    MemoryWrite,
)
from plait.domain.values import Collection
from plait.memory.entry import check
from plait.models import embedding
from plait.ports import EmbeddingProvider, Vectors
from plait.retrieval.memory_query import MemoryQueryService, in_memories
from plait.retrieval.search_context import Deps
from plait.settings import EmbeddingSettings, load
from plait.supervisor.lease import wait_stopped
from plait.text.tokenize import query_terms
from vector.store import Store

K = 10
BATCH = 200
Ids = dict[Any, int]  # by memory its place in the history
Ranked = Callable[[str], Awaitable[list[int]]]


@dataclass(frozen=True, slots=True)
class Asked:
    """`rank` of the first gold memory by row, 0 for none among the first `K`; `took_ms` of the query."""

    group: str
    rank: Mapping[str, int]
    took_ms: float


def written(entry: Entry, repo: str, place: int, vector: Sequence[float]) -> MemoryWrite:
    meta = MemoryMetadata(
        MemorySource(entry.source), entry.session, tuple(sorted(set(entry.tags))), entry.importance
    )
    type_ = entry.type or ("episodic" if entry.kind == "turn" else "procedural")
    kind = entry.kind if entry.kind in ("turn", "note", "memory") else "memory"
    made = MemoryEntry(
        NO_ID, repo, "agent", entry.text, meta, MemoryType(type_), kind, entry.path, entry.symbol,
        valid_from=entry.at, embedding=tuple(map(float, vector)),
    )  # fmt: skip
    return check(made, f"{repo}-{place}")


async def fill(store: Store, repo: str, history: History, vectors: Vectors) -> Ids:
    """Store the memories of `history`; texts that are stored once only are one memory."""
    ids: Ids = {}
    said = [n for n, e in enumerate(history.entries) if e.collection is Collection.MEMORIES]
    for at in range(0, len(said), BATCH):
        places = said[at : at + BATCH]
        writes = [written(history.entries[n], repo, n, vectors[n].tolist()) for n in places]
        for n, receipt in zip(places, await store.memories.store("default", writes), strict=True):
            assert isinstance(receipt, MemoryReceipt)
            ids.setdefault(receipt.entry.id, n)
    return ids


def rows(store: Store, provider: EmbeddingProvider, repo: str, ids: Ids) -> dict[str, Ranked]:
    settings = load(environ=os.environ)
    options = MemoryQueryOptions(MemoryFilter(repos=(repo,)), top_k=K)

    async def opened() -> EmbeddingProvider:
        return provider

    async def away() -> EmbeddingProvider:
        raise EmbeddingUnavailable("words alone")

    deps = Deps(store.search, opened, settings.search, recall=settings.recall)

    def querying(over: Deps) -> Ranked:
        service = MemoryQueryService(over, store.memories)

        async def query(text: str) -> list[int]:
            matches = (await service.query(text, None, options)).matches
            return [ids[match.entry.id] for match in matches]

        return query

    async def words(text: str) -> list[int]:
        where = in_memories(options.filter, options.as_of)
        view = await store.search.view(where)
        found = await store.search.lexical(view, query_terms(text), where, K)
        return [ids[MemoryId(one.id)] for one in found]

    return {
        "BM25 alone": words,
        "without a vector": querying(replace(deps, provider=away)),
        "query": querying(deps),
    }


async def ask(history: History, ids: Ids, ranked: Mapping[str, Ranked]) -> list[Asked]:
    found = []
    half = "held out" if history.held_out else "tuned"
    for question in history.questions:
        gold = set(question.gold) & set(ids.values())
        if not question.gold:
            continue
        rank, took_s = {}, 0.0
        for name, row in ranked.items():
            start = time.perf_counter()
            order = await row(question.text)
            took_s = time.perf_counter() - start
            rank[name] = next((n for n, id_ in enumerate(order, start=1) if id_ in gold), 0)
        found.append(Asked(f"{history.family}, {half}", rank, took_s * 1e3))
    return found


async def measure(families: Sequence[str], cache: Path, count: int) -> list[Asked]:
    by_name: Mapping[str, Callable[[], list[History]]] = {
        "made": lambda: histories(count),
        "chats": lambda: chats(cache / "wheels"),
        "runs": runs,
    }
    provider = await embedding.open(EmbeddingSettings())
    store = await open_truth(load(environ=os.environ))
    try:
        asked: list[Asked] = []
        for n, history in enumerate(h for family in families for h in by_name[family]()):
            vectors = await embed(pieces(history), provider, cache / "memory-vectors")
            await store.vectors.ensure_space(provider.model, vectors.shape[1])
            ids = await fill(store, f"history-{n}", history, vectors)
            asked += await ask(history, ids, rows(store, provider, f"history-{n}", ids))
        return asked
    finally:
        await store.close()
        await provider.close()


def report(asked: Sequence[Asked]) -> None:
    for group in dict.fromkeys(one.group for one in asked):
        mine = [one for one in asked if one.group == group]
        print(f"\n{group}: {len(mine)} questions\n| | R@1 / R@5 / R@10 / MRR |\n|---|---|")
        for name in mine[0].rank:
            ranks = np.array([one.rank[name] for one in mine])
            found = [100 * float(np.mean((ranks > 0) & (ranks <= k))) for k in (1, 5, 10)]
            mrr = 100 * float(np.mean([1 / rank if rank else 0.0 for rank in ranks.tolist()]))
            print(f"| {name} | " + " / ".join(f"{value:.1f}" for value in (*found, mrr)) + " |")
    print(f"\na query: {statistics.median(one.took_ms for one in asked):.1f} ms, median")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(platformdirs.user_cache_dir("plait-benchmarks"))
    parser.add_argument("--cache", type=Path, default=default)
    parser.add_argument("--families", default="chats,made")
    parser.add_argument("--histories", type=int, default=8, help="of the family `made`")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="plait-memory-query-"))
    home.chmod(0o711)  # PostgreSQL runs as another user where this one is root
    os.environ["PLAIT_HOME"] = str(home)
    logging.disable(logging.WARNING)  # of the row that has no model, one a question
    try:
        asked = asyncio.run(measure(args.families.split(","), args.cache, args.histories))
        for lock in home.rglob("keeper.lock"):
            wait_stopped(lock.parent, 60.0)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    report(asked)
    if args.json:
        args.json.write_text(
            json.dumps([[one.group, dict(one.rank), one.took_ms] for one in asked])
        )


if __name__ == "__main__":
    main()
