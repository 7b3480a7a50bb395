"""How well recall finds what was said: `python -m benchmarks.memory_recall [--cache DIR] [--json FILE]`.

Families of histories, each of them in two halves, the second held out: `made` (benchmarks/memory_histories.py,
eight of some 730 items and a thousand questions of six kinds), `chats` (memory_chats.py, real
conversations of four people with many others), `runs` (memory_runs.py, transcripts of coding agents round
real code), `transcripts` and `alone` (memory_transcripts.py, hand-written ones as the importers read them, all of
them in one store and each in its own). Questions go through the same tuple of stages that serves
`Recall`, over a store in memory. Each row is one set of arms or stages; R@k counts questions with a gold
item among the first k, all@10 is the share of all gold items among the first 10, session@5 counts questions
one of whose gold items' sessions is among the first five, a session being as good as its best item, "newest" those updates whose newest statement ranks
above each older one, and the last columns how often nothing is returned: for questions that nothing answers,
which is right, and for others, which is not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import platformdirs

from benchmarks.history_store import HistoryStore, pieces
from benchmarks.localisation_corpus import embed
from benchmarks.memory_chats import chats
from benchmarks.memory_histories import KINDS, History, Question, histories
from benchmarks.memory_runs import runs
from benchmarks.memory_transcripts import alone, transcripts
from plait.domain.deadline import Deadline
from plait.domain.recall import PackingOptions
from plait.domain.values import Filter
from plait.models import embedding
from plait.ports import EmbeddingProvider, SearchStore
from plait.retrieval.query.analysis import Mode, SearchQuery, analyse
from plait.retrieval.ranking import silence
from plait.retrieval.runner import plan, run
from plait.retrieval.search_context import Deps, SearchContext, Stage
from plait.retrieval.stages import STAGES
from plait.settings import EmbeddingSettings, RecallSettings, SearchSettings, parse

K = 50
ARMS = ("lexical", "semantic", "phrase", "identifiers", "exact", "anchors", "relations")
OPTIONAL = tuple(s.name for s in STAGES if not s.needed and not s.arm)
Results = npt.NDArray[np.float64]
COLUMNS = ("R@1", "R@5", "R@10", "MRR", "newest", "all@10", "session@5", "silent")
FAMILIES = ("made", "chats", "runs", "transcripts", "alone")


@dataclass(frozen=True, slots=True)
class Variant:
    """One row: which arms, which stages are off, which settings."""

    name: str
    arms: frozenset[str] = frozenset(ARMS)
    off: tuple[str, ...] = ()
    recall: Mapping[str, float] = field(default_factory=dict)

    def stages(self) -> tuple[Stage, ...]:
        """Those of the tuple up to `format`, with nothing but this variant's arms fused."""
        kept = [s for s in plan(Mode.FAST, STAGES, self.off) if s.name != "format"]
        at = next(i for i, s in enumerate(kept) if s.name == "fetch")
        return (*kept[:at], Stage(self.only), *kept[at:])

    async def only(self, ctx: SearchContext, deps: Deps) -> SearchContext:
        return replace(ctx, rankings={a: r for a, r in ctx.rankings.items() if a in self.arms})


VARIANTS = (
    Variant("BM25 alone", frozenset({"lexical"}), OPTIONAL),
    Variant("vector alone", frozenset({"semantic"}), OPTIONAL),
    Variant("united, no stages", off=OPTIONAL),
    Variant("as shipped"),
    *(Variant(f"without {arm}", frozenset(ARMS) - {arm}) for arm in ARMS),
    *(Variant(f"without {stage}", off=(stage,)) for stage in OPTIONAL),
    Variant("no importance", recall={"importance_weight": 0.0}),
    Variant("no recency", recall={"recency_weight": 0.0}),
    Variant("similarity alone", recall={"importance_weight": 0.0, "recency_weight": 0.0}),
    Variant("half-life 7 days", recall={"half_life_days": 7.0}),
    Variant("half-life 120 days", recall={"half_life_days": 120.0}),
)


def deps(store: SearchStore, provider: EmbeddingProvider, **recall: float) -> Deps:
    async def opened() -> EmbeddingProvider:
        return provider

    return Deps(store, opened, SearchSettings(), parse(RecallSettings, recall))


async def asked(text: str, over: Deps, stages: Sequence[Stage], *, silent: bool) -> SearchContext:
    """`text` through `stages`, as a recall where silence is wanted."""
    # A recall asks for all collections; the default of a search is code alone, of which no arm `exact` and no time is.
    query = SearchQuery(text, where=Filter(collections=()), k=K)
    ctx = SearchContext(
        query, analyse(query), K, "minmax", Deadline.after(60.0),
        options=PackingOptions(receipt=False) if silent else None,
    )  # fmt: skip
    return await run(ctx, over, stages)


async def judged(
    history: History, question: Question, over: Deps, stages: Sequence[Stage], bar: float
) -> list[float]:
    """In the order of `COLUMNS`; NaN where it is no question."""
    ctx = await asked(question.text, over, stages, silent=False)
    support = await silence.support(ctx, over)
    silent = float(support is not None and support < bar)
    if not question.gold:
        return [np.nan] * (len(COLUMNS) - 1) + [silent]
    ranks = {id_.int: rank for rank, id_ in enumerate(ctx.order, start=1)}
    best = min((ranks.get(g, 10_000) for g in question.gold), default=10_000)
    older = min((ranks.get(o, 10_000) for o in question.old), default=0)
    newest = float(best < older) if question.old and min(best, older) <= K else np.nan
    found = [float(best <= k) for k in (1, 5, 10)]
    every = float(np.mean([ranks.get(g, 10_000) <= 10 for g in question.gold]))
    sessions = list(dict.fromkeys(history.entries[id_.int].session for id_ in ctx.order))[:5]
    golds = [history.entries[g].session for g in question.gold if g >= 0]
    session = float(any(gold in sessions for gold in golds))
    return [*found, 1.0 / best if best <= K else 0.0, newest, every, session, silent]


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    provider = await embedding.open(EmbeddingSettings())
    made = [h for family in args.families.split(",") for h in _family(family, args)]
    stores = []
    for history in made:
        vectors = await embed(pieces(history), provider, args.cache / "memory-vectors")
        stores.append(HistoryStore(history, vectors, provider.model))
    print(
        f"{sum(len(h.entries) for h in made)} items, {sum(len(h.questions) for h in made)} questions"
    )
    labels = [(_group(h), q.kind) for h in made for q in h.questions]
    rows = {}
    for variant in VARIANTS:
        if args.only and not any(word in variant.name for word in args.only.split(",")):
            continue
        rows[variant.name] = await results(variant, made, stores, provider)
    await provider.close()
    return _report(rows, labels)


def _family(name: str, args: argparse.Namespace) -> list[History]:
    if name == "chats":
        return chats(args.cache / "wheels")
    if name == "transcripts":
        return transcripts()
    if name == "alone":
        return alone()
    return runs() if name == "runs" else histories(args.histories)


def _group(history: History) -> str:
    return f"{history.family}, {'held out' if history.held_out else 'tuned'}"


async def results(
    variant: Variant,
    made: Sequence[History],
    stores: Sequence[SearchStore],
    provider: EmbeddingProvider,
) -> Results:
    found = []
    for history, store in zip(made, stores, strict=True):
        over = deps(store, provider, **variant.recall)
        for question in history.questions:
            found.append(
                await judged(history, question, over, variant.stages(), over.recall.silence)
            )
    return np.array(found)


def _report(rows: Mapping[str, Results], labels: Sequence[tuple[str, str]]) -> dict[str, Any]:
    groups = np.array([group for group, _ in labels])
    kinds = np.array([kind for _, kind in labels])
    answerable = kinds != "unanswerable"
    told: dict[str, Any] = {}
    for group in dict.fromkeys(groups.tolist()):
        mask = groups == group
        asked = [k for k in KINDS if k != "unanswerable" and (mask & (kinds == k)).any()]
        print(
            f"\n{group}: {int((mask & answerable).sum())} + {int((mask & ~answerable).sum())} unanswerable"
        )
        print(
            f"| | {' / '.join(COLUMNS[:-1])} | R@5 by kind: {' / '.join(asked)}"
            " | silent: rightly / wrongly |"
        )
        for name, found in rows.items():
            with warnings.catch_warnings():  # a family without updates has no "newest"
                warnings.simplefilter("ignore", RuntimeWarning)
                main = np.nanmean(found[mask & answerable], axis=0) * 100
                # … and one of hand-written runs has no question that nothing answers.
                right = np.nanmean(found[mask & ~answerable, -1]) * 100
            by_kind = [np.nanmean(found[mask & (kinds == k), 1]) * 100 for k in asked]
            print(
                f"| {name} | {_joined(main[:-1])} | {_joined(by_kind)} | {right:.1f} / {main[-1]:.1f} |"
            )
            told.setdefault(name, {})[group] = {
                **dict(zip(COLUMNS[:-1], main[:-1].tolist(), strict=True)),
                "silent_rightly": float(right), "silent_wrongly": float(main[-1]),
            }  # fmt: skip
    return told


def _joined(values: Sequence[float] | Results) -> str:
    return " / ".join(f"{value:.1f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(platformdirs.user_cache_dir("plait-benchmarks"))
    parser.add_argument("--cache", type=Path, default=default)
    parser.add_argument("--histories", type=int, default=8, help="of the family `made`")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--only", default="", help="rows whose names hold one of these, by commas")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    told = asyncio.run(measure(args))
    if args.json:
        args.json.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
