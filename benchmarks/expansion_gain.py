"""What terms from the repository's own names give a search: `search.expansion` on against off.

    python -m benchmarks.expansion_gain EVAL.jsonl [--cache DIR] [--each N]

Over the commit messages of benchmarks/localisation.py and the docstrings of benchmarks/lookup.py, for the
lexical arm alone and for all arms, with 95 % bootstrap intervals of the difference.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import platformdirs

from benchmarks.localisation import LEXICAL, METRICS, TUNED, Variant, interval, mean, results
from benchmarks.localisation_corpus import Query, embed, fetch, pieces, read_queries
from benchmarks.lookup import by_docstring
from benchmarks.memory_store import MemoryStore
from plait.models import embedding
from plait.ports import EmbeddingProvider
from plait.settings import EmbeddingSettings, SearchSettings

VARIANTS = (Variant("BM25 + signals", LEXICAL), Variant("united + signals"))


async def run(args: argparse.Namespace) -> None:
    messages, versions = read_queries(args.eval)
    provider = await embedding.open(EmbeddingSettings())
    whole, bare = dict[str, MemoryStore](), dict[str, MemoryStore]()
    docstrings: list[Query] = []
    for package, version in versions.items():
        found = pieces(fetch(package, version, args.cache / "sdists"))
        vectors = await embed(found, provider, args.cache / "vectors")
        whole[package] = MemoryStore(package, found, vectors, provider.model)
        found, asked = by_docstring(package, found, args.each, random.Random(7))
        vectors = await embed(found, provider, args.cache / "vectors")
        bare[package] = MemoryStore(package, found, vectors, provider.model)
        docstrings += asked
    print(f"\n{' / '.join(METRICS)}, on − off (95 % interval)")
    await report("commit messages", messages, whole, provider)
    await report("docstrings", docstrings, bare, provider)
    await provider.close()


async def report(
    name: str,
    queries: Sequence[Query],
    stores: Mapping[str, MemoryStore],
    provider: EmbeddingProvider,
) -> None:
    tuned = np.array([q.package in TUNED for q in queries])
    groups = {"all": tuned | ~tuned, "tuned": tuned, "held out": ~tuned}
    for variant in VARIANTS:
        off, on = [
            await results(variant, queries, stores, provider, SearchSettings(expansion=setting))
            for setting in ("off", "on")
        ]
        print(f"\n{name}, {len(queries)} queries, {variant.name}")
        for group, mask in groups.items():
            gain = mean(on[mask]) - mean(off[mask])
            low, high = interval(on[mask], off[mask])
            told = [
                f"{g:+.1f} ({a:+.1f} … {b:+.1f})" for g, a, b in zip(gain, low, high, strict=True)
            ]
            print(f"  {group:10}" + "   ".join(told))


def main() -> None:
    cache = Path(platformdirs.user_cache_dir("plait-benchmarks", appauthor=False))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("eval", type=Path, help="the queries, JSON lines")
    parser.add_argument("--cache", type=Path, default=cache, help="sdists and vectors")
    parser.add_argument("--each", type=int, default=60, help="docstrings a project, at most")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
