"""What is left of a year of sessions after they were imported, and whether it is found word for word.

    python -m benchmarks.retention_year [--sessions 1000] [--steps 12] [--asked 200] [--no-vectors]

Sessions of Claude Code (benchmarks/session_files.py) are read by `plait ingest`'s importer and stored in a
fresh embedded PostgreSQL, in batches behind which retention runs, as it does behind a server's writes. Then
turns are asked for by the words that they begin with, all of them equally likely, those with the text of
another one left out. Rows: plain BM25 over every text that was imported, whatever became of it, search,
a memory query, and recall with the budget of `--budget` tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import math
import os
import random
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.session_files import session_files
from etl.ingest.importers import claude_code
from etl.ingest.importers.draft import Options
from plait.domain.memory import MemoryFilter, MemoryQueryOptions
from plait.domain.recall import PackingOptions
from plait.domain.scope import DEFAULT_TENANT, Scope
from plait.domain.values import ArtifactKind, Collection, Episode, Filter
from plait.memory.compact import Automatic
from plait.memory.summarize import Extractive
from plait.retrieval.query.analysis import SearchQuery
from plait.settings import load
from plait.supervisor.lease import wait_stopped
from plait.text.tokenize import tokens
from server.app import App, open_app

REPO, AGENT = "year", "claude-code"
BATCH = 20  # sessions, behind which retention looks
QUESTION_CHARS = 300
K = 10
Ranked = Callable[[str], Awaitable[list[str]]]


@dataclass(slots=True)
class Stored:
    """What was imported: `texts` are those of turns."""

    episodes: int = 0
    texts: list[str] = field(default_factory=list)
    tokens: int = 0
    closed: int = 0


class PlainBm25:
    """Okapi BM25 (k1 1.2, b 0.75) over whole texts, in memory."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        counts = [Counter(tokens(text)) for text in texts]
        self.lengths = np.array([sum(c.values()) for c in counts], np.float64)
        self.mean = float(self.lengths.mean())
        self.postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, count in enumerate(counts):
            for term, n in count.items():
                self.postings[term].append((place, n))

    async def ask(self, text: str) -> list[str]:
        scores = np.zeros(len(self.texts))
        for term in set(tokens(text)):
            found = self.postings.get(term, [])
            if not found:
                continue
            idf = math.log(1 + (len(self.texts) - len(found) + 0.5) / (len(found) + 0.5))
            places = np.array([p for p, _ in found])
            n = np.array([c for _, c in found], np.float64)
            norm = 1.2 * (0.25 + 0.75 * self.lengths[places] / self.mean)
            scores[places] += idf * n * 2.2 / (n + norm)
        best = np.argsort(-scores, kind="stable")[:K]
        return [self.texts[i] for i in best]


async def fill(app: App, n: int, steps: int, batch: int) -> Stored:
    out = Stored()
    automatic = Automatic(app.truth.retention, Extractive(), app.settings.memory)
    waiting: list[Episode] = []
    for number, file in enumerate(session_files(n, steps), start=1):
        options = Options(repo=REPO, now=file.ended + timedelta(days=1))
        read = claude_code.read(io.BytesIO(file.body), f"{file.name}.jsonl", options)
        waiting += [replace(r.episode, tenant=DEFAULT_TENANT) for r in read if r.episode]
        if number % batch == 0 or number == n:
            await _store(app, automatic, waiting, out)
            waiting = []
    return out


async def _store(app: App, automatic: Automatic, episodes: list[Episode], out: Stored) -> None:
    for answer in await app.truth.episodes.append_many(episodes):
        if isinstance(answer, Exception):
            raise answer
    out.episodes += len(episodes)
    kept = (ArtifactKind.TURN, ArtifactKind.NOTE)
    out.texts += [a.content for e in episodes for a in e.artifacts if a.kind in kept]
    done = await automatic.after_write(Scope(DEFAULT_TENANT, REPO, AGENT))
    out.closed += len(done.plan.closed) if done else 0


def questions(stored: Stored, n: int) -> list[tuple[str, str]]:
    """`(question, text)` of turns whose beginning no other one has."""
    begins = Counter(_begin(text) for text in stored.texts)
    alone = [t for t in stored.texts if begins[_begin(t)] == 1 and len(_begin(t)) >= 40]
    return [(_begin(t), t) for t in random.Random(11).sample(alone, min(n, len(alone)))]


def _begin(text: str) -> str:
    return " ".join(text[:QUESTION_CHARS].split())


async def found(asked: Sequence[tuple[str, str]], rank: Ranked) -> dict[str, float]:
    ranks, took = [], []
    for question, text in asked:
        start = perf_counter()
        answers = await rank(question)
        took.append((perf_counter() - start) * 1e3)
        ranks.append(
            next((i for i, a in enumerate(answers[:K], 1) if _begin(a) == _begin(text)), 0)
        )
    share = {f"R@{k}": sum(0 < r <= k for r in ranks) / len(ranks) for k in (1, 5, 10)}
    p50, p95 = np.percentile(took, (50, 95))
    return {**share, "p50_ms": float(p50), "p95_ms": float(p95)}


def rankers(app: App, stored: Stored, budget: int) -> dict[str, Ranked]:
    where = Filter(repos=(REPO,), collections=(Collection.MEMORIES,))

    async def search(text: str) -> list[str]:
        answer = await app.search.search(SearchQuery(text, where=where, k=K))
        return [hit.item.content for hit in answer.hits]

    async def query(text: str) -> list[str]:
        options = MemoryQueryOptions(MemoryFilter(repos=(REPO,)), top_k=K)
        answer = await app.memory_query.query(text, None, options)
        return [m.entry.content for m in answer.matches]

    async def recall(text: str) -> list[str]:
        options = PackingOptions(budget_tokens=budget, receipt=False)
        answer = await app.recall.recall(SearchQuery(text, where=where), options)
        return [one.item.content for one in answer.block.items]

    plain = PlainBm25(stored.texts)
    return {"BM25": plain.ask, "search": search, "query": query, "recall": recall}


async def measure(home: Path, args: argparse.Namespace) -> dict[str, Any]:
    settings = load(environ={"PLAIT_HOME": str(home)})
    async with open_app(settings, background=False) as app:
        start = perf_counter()
        stored = await fill(app, args.sessions, args.steps, args.batch)
        told: dict[str, Any] = {"sessions": args.sessions, "import_s": perf_counter() - start}
        start = perf_counter()
        if not args.no_vectors:
            app.embedder.add({REPO})
            await app.embedder.run_until_idle()
        told["vectors_s"] = perf_counter() - start
        kept = (await app.truth.retention.usage(DEFAULT_TENANT, REPO, AGENT)).values()
        told |= {
            "episodes": stored.episodes,
            "turns": len(stored.texts),
            "alive": sum(k.memories for k in kept),
            "tokens_alive": sum(k.tokens for k in kept),
            "closed_by_compaction": stored.closed,
        }
        asked = questions(stored, args.asked)
        told["asked"] = len(asked)
        for name, rank in rankers(app, stored, args.budget).items():
            for question, _ in asked[:5]:
                await rank(question)  # the first ones open and load
            told[name] = await found(asked, rank)
    told["disk_mb"] = await asyncio.to_thread(size_mb, home)
    return told


def size_mb(home: Path) -> float:
    return sum(f.stat().st_size for f in home.rglob("*") if f.is_file()) / 2**20


def show(told: dict[str, Any]) -> None:
    for name, value in told.items():
        if isinstance(value, dict):
            line = "  ".join(
                f"{k} {v:.0%}" if k.startswith("R@") else f"{k} {v:.0f}" for k, v in value.items()
            )
            print(f"{name:<22} {line}")
        else:
            print(
                f"{name:<22} {value:,.1f}" if isinstance(value, float) else f"{name:<22} {value:,}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=12, help="the most of one session")
    parser.add_argument("--batch", type=int, default=BATCH, help="sessions stored at once")
    parser.add_argument("--asked", type=int, default=200, help="turns asked for")
    parser.add_argument("--budget", type=int, default=4_000, help="tokens of a recall")
    parser.add_argument("--no-vectors", action="store_true", help="by words alone")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="plait-bench-", dir="/tmp"))
    if os.geteuid() == 0:
        base.chmod(0o711)
    try:
        told = asyncio.run(measure(base / "home", args))
        show(told)
        if args.json:
            args.json.write_text(json.dumps(told, indent=1))
    finally:
        for lock in base.rglob("keeper.lock"):
            wait_stopped(lock.parent, 60.0)
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
