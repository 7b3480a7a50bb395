"""How well search finds the functions that closed an issue, from the issue's text.

    python -m benchmarks.issue_texts [--texts FILE] [--cache DIR] [--show]

The texts in issue_texts.txt are written for this, in the manner of bug reports: prose, code to reproduce, errors,
versions, templates. Each tells of a fault that the release after the named one mended; the functions are those
that the mending changed, attributed by reading the difference of the two source distributions. The trees are
fetched, cut, embedded and searched as in benchmarks/localisation.py, tests and docs included.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import platformdirs

from benchmarks.localisation import (
    ALL,
    LEXICAL,
    PLAIN,
    SEMANTIC,
    K,
    Results,
    Variant,
    interval,
    mean,
)
from benchmarks.localisation_corpus import Piece, Query, embed, fetch, pieces
from benchmarks.memory_store import MemoryStore
from plait.models import embedding
from plait.ports import EmbeddingProvider
from plait.retrieval.query import bug_report
from plait.retrieval.search import SearchQuery, SearchService
from plait.settings import EmbeddingSettings, SearchSettings

TEXTS = Path(__file__).with_name("issue_texts.txt")
# Issues of these, others' and not kept here, were in sight when constants were chosen; the other projects' only
# decided whether a change stays.
TUNED = frozenset({"click", "rich", "urllib3", "werkzeug"})
DEPTHS = (1, 5, 10)
METRICS = (*(f"file R@{k}" for k in DEPTHS), *(f"R@{k}" for k in DEPTHS), "MRR")
UNREAD = "shipped, not read as reports"
VARIANTS = (
    Variant("BM25 alone", LEXICAL, off=PLAIN),
    Variant("vector alone", SEMANTIC, off=PLAIN),
    Variant("BM25 + signals", LEXICAL),
    Variant(UNREAD),
    Variant("without anchors", ALL - {"anchors"}),
    Variant("shipped"),
)


def read_texts(path: Path) -> tuple[list[Query], dict[str, str]]:
    """The issues, and each package's version."""
    queries, versions = [], {}
    for block in path.read_text(encoding="utf-8").split("=== ")[1:]:
        head, _, text = block.partition("\n")
        package, version, *functions = head.split()
        versions[package] = version
        files = frozenset(name.partition("::")[0] for name in functions)
        queries.append(Query(package, text.strip(), files, frozenset(functions)))
    return queries, versions


def judge(query: Query, found: Sequence[Piece]) -> list[float]:
    """`METRICS` of one ranking of chunks; those of one function count once."""
    files = list(dict.fromkeys(piece.path for piece in found))
    names = list(dict.fromkeys(piece.function for piece in found if piece.function))
    first = next((n for n, name in enumerate(names, 1) if name in query.functions), 0)
    return [
        *(len(query.files & set(files[:k])) / len(query.files) for k in DEPTHS),
        *(len(query.functions & set(names[:k])) / len(query.functions) for k in DEPTHS),
        1.0 / first if first else 0.0,
    ]


async def results(
    variant: Variant,
    queries: Sequence[Query],
    stores: Mapping[str, MemoryStore],
    provider: EmbeddingProvider,
    *,
    show: bool = False,
) -> Results:
    """One row of `METRICS` a query. `show` prints what came instead of what was looked for."""
    rows = []
    for query in queries:
        store = stores[query.package]
        service = SearchService(store, provider, SearchSettings(), variant.stages())
        answer = await service.search(SearchQuery(query.text, k=K))
        found = [store.piece(hit.item.id) for hit in answer.hits]
        rows.append(judge(query, found))
        if show and rows[-1][3] < 1.0:
            print(
                f"{query.package}: {query.text.splitlines()[0]}\n  wanted {sorted(query.functions)}"
            )
            print(f"  found {list(dict.fromkeys(p.function for p in found if p.function))[:5]}")
    return np.array(rows)


async def run(args: argparse.Namespace) -> None:
    queries, versions = read_texts(args.texts)
    provider = await embedding.open(EmbeddingSettings())
    stores = {}
    for package, version in versions.items():
        chunks = pieces(fetch(package, version, args.cache / "sdists"))
        known = {chunk.function for chunk in chunks}
        wanted = {name for query in queries if query.package == package for name in query.functions}
        if missing := wanted - known:
            raise SystemExit(f"{package} {version} has no {sorted(missing)}")
        vectors = await embed(chunks, provider, args.cache / "vectors")
        stores[package] = MemoryStore(package, chunks, vectors, provider.model)
    found = {}
    for variant in VARIANTS:
        # Nothing is as long: every text is taken as it stands.
        least = 10**9 if variant.name == UNREAD else bug_report.WEIGHTS.least_words
        show = args.show and variant.name == "shipped"
        with mock.patch.object(
            bug_report, "WEIGHTS", replace(bug_report.WEIGHTS, least_words=least)
        ):
            found[variant.name] = await results(variant, queries, stores, provider, show=show)
    await provider.close()
    tuned = np.array([query.package in TUNED for query in queries])
    for group, mask in (("all", tuned | True), ("tuned", tuned), ("held out", ~tuned)):
        print(f"\n{group} ({mask.sum()})".ljust(33) + "".join(f"{m:>11}" for m in METRICS))
        for name, rows in found.items():
            print(f"{name:32}" + "".join(f"{value:11.1f}" for value in mean(rows[mask])))
    for base in ("BM25 alone", UNREAD):
        gain = mean(found["shipped"]) - mean(found[base])
        low, high = interval(found["shipped"], found[base])
        told = zip(METRICS, gain, low, high, strict=True)
        print(f"\nshipped − {base} (95 % interval)")
        print("  " + "   ".join(f"{m} {g:+.1f} ({a:+.1f} … {b:+.1f})" for m, g, a, b in told))


def main() -> None:
    cache = Path(platformdirs.user_cache_dir("plait-benchmarks", appauthor=False))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cache", type=Path, default=cache, help="sdists and vectors")
    parser.add_argument(
        "--texts", type=Path, default=TEXTS, help="issues of your own, in that form"
    )
    parser.add_argument("--show", action="store_true", help="print what missed the first place")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
