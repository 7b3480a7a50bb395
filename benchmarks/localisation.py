"""How well search finds what a commit changed, from the commit's message.

    python -m benchmarks.localisation EVAL.jsonl [--cache DIR] [--json FILE] [--candidates N]
        [--code-only]

EVAL holds one JSON object a line: `package`, `version`, `query`, `files`, `functions` (as
`path::Qualified.name`). Each package's source distribution is fetched by pip, cut by Plait's own ETL,
embedded by the local model (vectors are cached by model and content hash) and searched through the
same pipeline that serves `Search`, over a store in memory. Test, docs and example files are never
answers, but stay in the index; --code-only leaves them out, to see what they cost. Chunks of one
function count once, at the best one's place.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import platformdirs

from benchmarks.localisation_corpus import Piece, Query, embed, fetch, pieces, read_queries
from benchmarks.memory_store import MemoryStore
from plait.models import embedding
from plait.ports import EmbeddingProvider
from plait.retrieval.query.analysis import analyse
from plait.retrieval.ranking.signals import path_kind
from plait.retrieval.runner import plan
from plait.retrieval.search import Mode, SearchQuery, SearchService
from plait.retrieval.search_context import Deps, SearchContext, Stage
from plait.retrieval.stages import STAGES
from plait.settings import EmbeddingSettings, SearchSettings

# Weights and signals were chosen on the first group alone; the second was only reported.
TUNED = frozenset({"click", "scrapy", "attrs", "celery"})
METRICS = ("file R@5", "function MRR", "function R@10")
K = 60  # chunks; deeper ones change no metric but the tail of MRR
Results = npt.NDArray[np.float64]  # (queries, metrics); NaN where a query has no functions
LEXICAL = frozenset({"lexical"})
SEMANTIC = frozenset({"semantic"})
ALL = frozenset({"lexical", "semantic", "phrase", "identifiers", "exact", "anchors", "relations"})


@dataclass(frozen=True, slots=True)
class Variant:
    """One row of the table: which arms are asked, how they are united, which stages are switched off."""

    name: str
    arms: frozenset[str] = ALL
    fusion: str = "minmax"
    off: tuple[str, ...] = ()

    def stages(self) -> tuple[Stage, ...]:
        kept = plan(Mode.FAST, STAGES, self.off)
        at = next(i for i, s in enumerate(kept) if s.name == "fetch")
        first = (kept[0], Stage(self.words)) if self.off == PLAIN else kept[:1]
        return (*first, *kept[1:at], Stage(self.only), *kept[at:])

    async def words(self, ctx: SearchContext, deps: Deps) -> SearchContext:
        """`ctx` asking for its words alone, not for the name that they make nor for what a report says first:
        plain BM25."""
        return replace(ctx, analysis=replace(analyse(ctx.query), joined=()))

    async def only(self, ctx: SearchContext, deps: Deps) -> SearchContext:
        """Leave in `ctx` what this variant's arms found."""
        return replace(ctx, rankings={a: r for a, r in ctx.rankings.items() if a in self.arms})


PLAIN = tuple(
    s.name for s in STAGES if not s.needed and not s.arm
)  # all that is not the arms alone
VARIANTS = (
    Variant("BM25 alone", LEXICAL, off=PLAIN),
    Variant("vector alone", SEMANTIC, off=PLAIN),
    Variant("united, RRF", fusion="rrf", off=PLAIN),
    Variant("united, min-max", off=PLAIN),
    Variant("BM25 + signals", LEXICAL),
    Variant("vector + signals", SEMANTIC),
    Variant("united, RRF + signals", fusion="rrf"),
    Variant("united, min-max + signals"),
    # Each arm and each stage off in turn.
    *(Variant(f"without {arm}", ALL - {arm}) for arm in sorted(ALL)),
    *(Variant(f"without {stage}", off=(stage,)) for stage in PLAIN),
)


async def run(args: argparse.Namespace) -> dict[str, Any]:
    queries, versions = read_queries(args.eval)
    provider = await embedding.open(EmbeddingSettings())
    stores = {}
    for package, version in versions.items():
        root = fetch(package, version, args.cache / "sdists")
        chunks = pieces(root)
        if args.code_only:
            chunks = [c for c in chunks if not _never_an_answer(c)]
        vectors = await embed(chunks, provider, args.cache / "vectors")
        stores[package] = MemoryStore(package, chunks, vectors, provider.model)
        print(f"{package} {version}: {len(chunks)} chunks")
    settings = SearchSettings(candidates=args.candidates)
    found = {v.name: await results(v, queries, stores, provider, settings) for v in VARIANTS}
    await provider.close()
    groups = {
        "all": np.ones(len(queries), bool),
        "tuned": np.array([q.package in TUNED for q in queries]),
        "held out": np.array([q.package not in TUNED for q in queries]),
    }
    groups |= {p: np.array([q.package == p for q in queries]) for p in versions}
    _print(found, groups)
    return {
        name: {
            group: dict(zip(METRICS, mean(r[mask]).tolist(), strict=True))
            for group, mask in groups.items()
        }
        for name, r in found.items()
    }


def _never_an_answer(piece: Piece) -> bool:
    kind = path_kind(piece.path)
    return piece.is_test or piece.kind == "doc" or kind in {"test", "prose", "example"}


async def results(
    variant: Variant,
    queries: Sequence[Query],
    stores: Mapping[str, MemoryStore],
    provider: EmbeddingProvider,
    settings: SearchSettings,
) -> Results:
    services = {
        package: SearchService(store, provider, settings, variant.stages())
        for package, store in stores.items()
    }
    rows = []
    for query in queries:
        asked = SearchQuery(query.text, k=K, fusion="rrf" if variant.fusion == "rrf" else "minmax")
        answer = await services[query.package].search(asked)
        found = [stores[query.package].piece(hit.item.id) for hit in answer.hits]
        rows.append(
            judge(query, [piece.path for piece in found], [piece.function for piece in found])
        )
    return np.array(rows)


def judge(query: Query, paths: Iterable[str], functions: Iterable[str]) -> tuple[float, ...]:
    """`METRICS` of one ranking of chunks."""
    files = list(dict.fromkeys(paths))
    file_recall = len(query.files & set(files[:5])) / len(query.files)
    if not query.functions:
        return file_recall, np.nan, np.nan
    names = [name for name in dict.fromkeys(functions) if name]
    first = next((n for n, name in enumerate(names, 1) if name in query.functions), 0)
    recall = len(query.functions & set(names[:10])) / len(query.functions)
    return file_recall, 1.0 / first if first else 0.0, recall


def mean(rows: Results) -> npt.NDArray[np.float64]:
    """Percent by metric."""
    mean: npt.NDArray[np.float64] = 100.0 * np.nanmean(rows, axis=0)
    return mean


def interval(better: Results, worse: Results, rounds: int = 2000) -> npt.NDArray[np.float64]:
    """95 % bootstrap interval of the difference over queries, percent points, shape `(2, metrics)`."""
    rng = np.random.default_rng(7)
    drawn = rng.integers(0, len(better), (rounds, len(better)))
    differences = 100.0 * np.nanmean((better - worse)[drawn], axis=1)
    bounds: npt.NDArray[np.float64] = np.percentile(differences, [2.5, 97.5], axis=0)
    return bounds


def _print(results: Mapping[str, Results], groups: Mapping[str, npt.NDArray[np.bool_]]) -> None:
    print(f"\n{'':28}" + "".join(f"{g:>20}" for g in ("all", "tuned", "held out")))
    print(f"{'':28}" + f"{'R@5   MRR  R@10':>20}" * 3)
    for name, rows in results.items():
        cells = [mean(rows[groups[g]]) for g in ("all", "tuned", "held out")]
        print(f"{name:28}" + "".join(f"{c[0]:8.1f}{c[1]:6.1f}{c[2]:6.1f}" for c in cells))
    united = results["united, min-max + signals"]
    for base in ("BM25 alone", "BM25 + signals", "vector + signals", "united, RRF + signals"):
        print(f"\nunited, min-max + signals − {base} (95 % interval)")
        for group in ("all", "tuned", "held out"):
            mask = groups[group]
            gain = mean(united[mask]) - mean(results[base][mask])
            low, high = interval(united[mask], results[base][mask])
            told = [
                f"{m} {g:+.1f} ({a:+.1f} … {b:+.1f})"
                for m, g, a, b in zip(METRICS, gain, low, high, strict=True)
            ]
            print(f"  {group:10}" + "   ".join(told))
    print(f"\n{'by package':28}{'BM25 alone':>20}{'BM25 + signals':>20}{'united':>20}")
    names = ("BM25 alone", "BM25 + signals", "united, min-max + signals")
    for group, mask in list(groups.items())[3:]:
        cells = [mean(results[name][mask]) for name in names]
        print(f"{group:28}" + "".join(f"{c[0]:8.1f}{c[1]:6.1f}{c[2]:6.1f}" for c in cells))


def main() -> None:
    cache = Path(platformdirs.user_cache_dir("plait-benchmarks", appauthor=False))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("eval", type=Path, help="the queries, JSON lines")
    parser.add_argument("--cache", type=Path, default=cache, help="sdists and vectors")
    parser.add_argument("--candidates", type=int, default=SearchSettings().candidates)
    parser.add_argument("--code-only", action="store_true", help="index no tests, docs, examples")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    figures = asyncio.run(run(args))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
