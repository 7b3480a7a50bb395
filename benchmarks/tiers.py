"""What the static table is worth: search with it alone, with both tiers, and with the embedding model alone.

    python -m benchmarks.tiers EVAL.jsonl [--texts FILE] [--cache DIR] [--project NAME ...]

Over the commit messages of benchmarks/localisation.py, the docstrings of lookup.py, the bug reports of issue_texts.py,
and the questions of questions.py about the named projects. `10 %`, `50 %`: the share of chunks that have the model's vector, drawn at random: some
minutes after an index. Beside them plain BM25, and everything without vectors. Intervals are of the difference
to that, 95 % by bootstrap over queries.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import platformdirs

from benchmarks import issue_texts, questions
from benchmarks.localisation import ALL, LEXICAL, PLAIN, TUNED, K, Variant, interval, judge, mean
from benchmarks.localisation_corpus import Query, embed, fetch, pieces, read_queries
from benchmarks.lookup import by_docstring
from benchmarks.memory_store import MemoryStore
from benchmarks.polyglot_corpus import WHOLE
from plait.models import embedding
from plait.ports import EmbeddingProvider
from plait.retrieval.search import SearchQuery, SearchService
from plait.retrieval.search_context import Deps
from plait.settings import EmbeddingSettings, SearchSettings

UNITED = Variant("united", ALL)
Rows = npt.NDArray[np.float64]
SEED = 7


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the tables: `share` of the chunks have the model's vector."""

    name: str
    tiers: Literal["static", "both", "model"] = "model"
    share: float = 1.0
    variant: Variant = UNITED


WITHOUT = "without vectors"
SETTINGS = (
    Setting("BM25 alone", variant=Variant("BM25 alone", LEXICAL, off=PLAIN)),
    Setting(WITHOUT, variant=Variant(WITHOUT, ALL - {"semantic"})),
    Setting("static", "static", 0.0),
    Setting("both, 10 %", "both", 0.1),
    Setting("both, 50 %", "both", 0.5),
    Setting("model, 10 %", "model", 0.1),
    Setting("model, 50 %", "model", 0.5),
    Setting("model, and both at rest"),
)
Stores = Mapping[str, MemoryStore]
Ask = Callable[[Setting, Stores, EmbeddingProvider], Awaitable[Rows]]


def service_of(setting: Setting, store: MemoryStore, provider: EmbeddingProvider) -> SearchService:
    async def given() -> EmbeddingProvider:
        return provider

    drawn = np.random.default_rng(SEED).random(len(store))
    store.embedded = drawn < setting.share
    deps = Deps(store, given, SearchSettings(), tiers=setting.tiers)
    return SearchService.over(deps, setting.variant.stages())


async def of_queries(
    asked: Sequence[Query], setting: Setting, stores: Stores, provider: EmbeddingProvider
) -> Rows:
    services = {name: service_of(setting, store, provider) for name, store in stores.items()}
    rows = []
    for query in asked:
        answer = await services[query.package].search(SearchQuery(query.text, k=K))
        found = [stores[query.package].piece(hit.item.id) for hit in answer.hits]
        rows.append(judge(query, [p.path for p in found], [p.function for p in found]))
    return np.array(rows)


async def of_questions(
    asked: Sequence[questions.Question],
    setting: Setting,
    stores: Stores,
    provider: EmbeddingProvider,
) -> Rows:
    services = {name: service_of(setting, store, provider) for name, store in stores.items()}
    rows = []
    for question in asked:
        answer = await services[question.project].search(SearchQuery(question.text, k=questions.K))
        rows.append(questions.judge(question.files, [hit.item.path for hit in answer.hits])[:3])
    return np.array(rows)


async def table(
    title: str,
    groups: Mapping[str, npt.NDArray[np.bool_]],
    ask: Callable[[Setting], Awaitable[Rows]],
) -> None:
    print(f"\n{title}: {' | '.join(f'{name} ({mask.sum()})' for name, mask in groups.items())}")
    found = {setting.name: await ask(setting) for setting in SETTINGS}
    for name, rows in found.items():
        cells = []
        for mask in groups.values():
            if not mask.any():
                continue
            low, high = interval(rows[mask], found[WITHOUT][mask])
            figures = " / ".join(f"{x:.1f}" for x in mean(rows[mask]))
            spread = ", ".join(f"{a:+.1f}…{b:+.1f}" for a, b in zip(low, high, strict=True))
            cells.append(f"{figures} ({spread})")
        print(f"{name:26}" + " | ".join(cells), flush=True)


async def stores_of(
    versions: Mapping[str, str], cache: Path, provider: EmbeddingProvider
) -> dict[str, MemoryStore]:
    """The whole trees, embedded; vectors are kept in `cache`."""
    stores = {}
    for package, version in versions.items():
        found = pieces(fetch(package, version, cache / "sdists"))
        vectors = await embed(found, provider, cache / "vectors")
        stores[package] = MemoryStore(package, found, vectors, provider.model)
    return stores


async def without_docstrings(
    versions: Mapping[str, str], cache: Path, provider: EmbeddingProvider
) -> tuple[list[Query], dict[str, MemoryStore]]:
    """Docstrings as queries, and the trees without them."""
    asked, stores = list[Query](), {}
    for package, version in versions.items():
        found = pieces(fetch(package, version, cache / "sdists"))
        found, queries = by_docstring(package, found, 80, random.Random(SEED))
        asked += queries
        vectors = await embed(found, provider, cache / "vectors")
        stores[package] = MemoryStore(package, found, vectors, provider.model)
    return asked, stores


async def of_functions(
    title: str,
    asked: Sequence[Query],
    tuned: frozenset[str],
    stores: Stores,
    provider: EmbeddingProvider,
) -> None:
    async def ask(setting: Setting) -> Rows:
        return await of_queries(asked, setting, stores, provider)

    known = np.array([query.package in tuned for query in asked])
    await table(
        f"{title}, file R@5 / function MRR / function R@10",
        {"tuned": known, "held out": ~known},
        ask,
    )


async def run(args: argparse.Namespace) -> None:
    provider = await embedding.open(EmbeddingSettings())
    asked, versions = read_queries(args.eval)
    stores = await stores_of(versions, args.cache, provider)
    await of_functions("messages", asked, TUNED, stores, provider)
    asked, stores = await without_docstrings(versions, args.cache, provider)
    await of_functions("docstrings", asked, TUNED, stores, provider)
    asked, versions = issue_texts.read_texts(args.texts)
    stores = await stores_of(versions, args.cache, provider)
    await of_functions("bug reports", asked, issue_texts.TUNED, stores, provider)
    wanted = [p for p in WHOLE if p.name in args.project]
    known = {p.name: await questions.store_of(p, args.cache, provider) for p in wanted}
    told = [q for half, file in questions.HALVES.items() for q in questions.questions(file, half)]
    told = [q for q in told if q.project in known]
    if told:
        tuned = np.array([q.half == "tuned" for q in told])
        await table(
            "questions, file nDCG@10 / MRR / R@5",
            {"tuned": tuned, "held out": ~tuned},
            lambda s: of_questions(told, s, known, provider),
        )
    await provider.close()


def main() -> None:
    cache = Path(platformdirs.user_cache_dir("plait-benchmarks", appauthor=False))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("eval", type=Path, help="the queries of localisation.py, JSON lines")
    parser.add_argument(
        "--texts", type=Path, default=issue_texts.TEXTS, help="the bug reports of issue_texts.py"
    )
    parser.add_argument("--cache", type=Path, default=cache, help="sources and vectors")
    parser.add_argument("--project", nargs="*", default=[], help="of questions.py")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
