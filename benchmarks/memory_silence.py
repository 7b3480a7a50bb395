"""When recall is silent, is it right? `python -m benchmarks.memory_silence EVAL.jsonl [--fit]`.

Questions that a store can answer, and questions that it can't:

- `chat`: those of benchmarks/memory_histories.py; `unanswerable` ones ask for what was never said, of people
  who are talked about all the time.
- `code`: commit messages of benchmarks/localisation.py over the project they are of, and over two others:
  questions about things that the repository does not have, in its own kind of words.
- `stray`: questions of a chat over code, and commit messages over a chat.

Tuned on histories 0 to 3 and on click, scrapy, attrs and celery; the others are held out. Precision of silence is
the share of silent answers that were right to be, each domain's questions weighing the same whether they
have an answer or not; recall is the share of unanswerable ones met with silence. --fit prints
weights by ridge regression on the tuned half and the bias with which `recall.silence` costs 0.5 % of its answers.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import platformdirs

from benchmarks.history_store import HistoryStore, pieces
from benchmarks.localisation import TUNED
from benchmarks.localisation_corpus import embed, fetch, read_queries
from benchmarks.localisation_corpus import pieces as code_pieces
from benchmarks.memory_histories import histories
from benchmarks.memory_recall import Variant, asked, deps
from benchmarks.memory_store import MemoryStore
from plait.models import embedding
from plait.ports import EmbeddingProvider
from plait.retrieval.ranking import silence
from plait.retrieval.ranking.silence import Features
from plait.retrieval.ranking.weights import SilenceRegression
from plait.settings import EmbeddingSettings, RecallSettings

Matrix = npt.NDArray[np.float64]
DOMAINS = ("chat", "code", "stray")
COSTS = 0.005  # of the tuned answers that the bar may take
RIDGE = 1.0


@dataclass(frozen=True, slots=True)
class Case:
    domain: str
    held_out: bool
    answerable: bool
    features: Features


class Collector:
    """Asks and keeps what silence sees of the answer."""

    def __init__(self, provider: EmbeddingProvider) -> None:
        self._provider = provider
        self.stages = Variant("as shipped").stages()
        self.cases: list[Case] = []

    async def ask(
        self, store: MemoryStore, text: str, domain: str, *, held: bool, answerable: bool
    ) -> None:
        over = deps(store, self._provider)
        ctx = await asked(text, over, self.stages, silent=False)
        found = await silence.evidence(ctx, over)
        if found is not None:
            self.cases.append(Case(domain, held, answerable, found))
        else:  # it names what is there, so it is not silent whatever the weights say
            self.cases.append(Case(domain, held, answerable, Features(2.0, 1, 1.0)))


async def collect(args: argparse.Namespace) -> list[Case]:
    provider = await embedding.open(EmbeddingSettings())
    out = Collector(provider)
    queries, versions = read_queries(args.eval)
    made = histories(args.histories)
    chats = []
    for history in made:
        vectors = await embed(pieces(history), provider, args.cache / "memory-vectors")
        chats.append(HistoryStore(history, vectors, provider.model))
    for history, chat in zip(made, chats, strict=True):
        for q in history.questions:
            await out.ask(chat, q.text, "chat", held=history.held_out, answerable=bool(q.gold))
        for query in queries[:: len(made)]:
            await out.ask(chat, query.text, "stray", held=history.held_out, answerable=False)
    for package, version in versions.items():
        if args.only and package not in args.only.split(","):
            continue
        root = fetch(package, version, args.cache / "sdists")
        chunks = code_pieces(root)
        store = MemoryStore(
            package, chunks, await embed(chunks, provider, args.cache / "vectors"), provider.model
        )
        held = package not in TUNED
        # Others of the same half: what was tuned on stays apart.
        others = [q for q in queries if q.package != package and (q.package not in TUNED) == held]
        for query in queries:
            if query.package == package:
                await out.ask(store, query.text, "code", held=held, answerable=True)
        for query in others[::3]:
            await out.ask(store, query.text, "code", held=held, answerable=False)
        for history in made:
            for q in history.questions[::10] if history.held_out == held else ():
                if q.kind in ("fact", "update", "time"):
                    await out.ask(store, q.text, "stray", held=held, answerable=False)
        print(f"{package}: {len(out.cases)} cases")
    await provider.close()
    return out.cases


# What can only speak for an answer: a weight below 0 would be the noise of a small set.
FOR = [
    i for i, f in enumerate(fields(SilenceRegression)) if f.name not in ("bias", "terms", "unseen")
]


def fit(cases: Sequence[Case], which: str, without: Sequence[str] = ()) -> SilenceRegression:
    """Logistic regression by Newton's method with a ridge, each (domain, label) of equal weight; the coefficients
    `without` are 0."""
    x = np.array([silence.row(_seen(c.features, which)) for c in cases])
    y = np.array([float(c.answerable) for c in cases])
    spread = np.where(x.std(axis=0) > 1e-9, x.std(axis=0), 1.0)
    spread[0] = 1.0
    used = np.array([f.name not in without for f in fields(SilenceRegression)])
    while True:
        w = np.zeros(x.shape[1])
        w[used] = _newton((x / spread)[:, used], y, _balanced(cases))
        wrong = [i for i in FOR if w[i] < 0.0]
        if not wrong:
            return SilenceRegression(*(round(float(v), 3) for v in w / spread))
        used[min(wrong, key=lambda i: w[i])] = False


def _newton(x: Matrix, y: Matrix, weight: Matrix) -> Matrix:
    w = np.zeros(x.shape[1])
    ridge = np.full(x.shape[1], RIDGE)
    ridge[0] = 1e-6
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ w, -40, 40)))
        gradient = x.T @ (weight * (p - y)) + ridge * w
        hessian = (x * (weight * p * (1 - p))[:, None]).T @ x + np.diag(ridge)
        w -= np.linalg.solve(hessian, gradient)
    return w


def _balanced(cases: Sequence[Case]) -> Matrix:
    groups = [(c.domain, c.answerable) for c in cases]
    counts = {g: groups.count(g) for g in set(groups)}
    return np.array([len(cases) / len(counts) / counts[g] for g in groups])


def bar_for(chances: Matrix, cases: Sequence[Case]) -> float:
    """The bar that `COSTS` of the answerable cases of any domain are below, at most."""
    bars = []
    for domain in DOMAINS:
        kept = [
            p for p, c in zip(chances, cases, strict=True) if c.answerable and c.domain == domain
        ]
        if kept:
            bars.append(float(np.quantile(kept, COSTS)))
    return min(bars)


def report(name: str, cases: Sequence[Case], chances: Matrix, bar: float) -> None:
    for held in (False, True):
        print(f"{name}, {'held out' if held else 'tuned'}, bar {bar:.3f}")
        for domain in DOMAINS:
            picked = [
                (p < bar, c.answerable)
                for p, c in zip(chances, cases, strict=True)
                if c.domain == domain and c.held_out == held
            ]
            right = [silent for silent, answerable in picked if not answerable]
            wrong = [silent for silent, answerable in picked if answerable]
            caught = float(np.mean(right)) if right else float("nan")
            lost = float(np.mean(wrong)) if wrong else 0.0
            precision = caught / (caught + lost) if caught + lost else float("nan")
            print(
                f"  {domain}: precision {precision * 100:.1f}, recall {caught * 100:.1f} of"
                f" {len(right)}; lost {lost * 100:.1f} of {len(wrong)}"
            )


def _chances(cases: Iterable[Case], weights: SilenceRegression, which: str) -> Matrix:
    return np.array([silence.logistic(weights, _seen(c.features, which)) for c in cases])


def _seen(f: Features, which: str) -> Features:
    """What an index with another model, or without vectors, would have seen."""
    return f if which == "cosine" else replace(f, cosine=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("eval", type=Path)
    default = Path(platformdirs.user_cache_dir("plait-benchmarks"))
    parser.add_argument("--cache", type=Path, default=default)
    parser.add_argument("--fit", action="store_true", help="print new weights and bars")
    parser.add_argument(
        "--without", default="", help="with --fit: coefficients that are 0, by commas"
    )
    parser.add_argument("--histories", type=int, default=8, help="of people")
    parser.add_argument("--only", default="", help="these packages alone, by commas")
    args = parser.parse_args()
    cases = asyncio.run(collect(args))
    tuned = [c for c in cases if not c.held_out]
    shipped = {"cosine": silence.WEIGHTS.with_cosine, "words": silence.WEIGHTS.words_alone}
    for which, weights in shipped.items():
        bar = RecallSettings().silence
        if args.fit:
            weights = fit(tuned, which, args.without.split(","))
            takes = bar_for(_chances(tuned, weights, which), tuned)
            shift = np.log(bar / (1 - bar)) - np.log(takes / (1 - takes))
            weights = replace(weights, bias=round(weights.bias + float(shift), 3))
            print(weights)
        report(which, cases, _chances(cases, weights, which), bar)


if __name__ == "__main__":
    main()
