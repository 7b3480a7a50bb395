"""How well search finds code in 18 languages besides Python, by what comments say of it and by its name.

    python -m benchmarks.polyglot [--cache DIR] [--each N] [--chunks N] [--language L] [--json FILE]

Over the projects of benchmarks/polyglot_corpus.py, cut by Plait's own ETL and searched through the pipeline
that serves `Search`, over a store in memory. Embedding all of them would take hours: of each project whole files are drawn, those with an
answer first, until `--chunks` is reached (0: all). The queries are made mechanically (benchmarks/polyglot_queries.py):
what they look for is certain, whether another file would have served as well nobody judged. Figures are means
over the queries of a language, and of all languages with the same weight for each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import platformdirs

from benchmarks.localisation import VARIANTS, Variant
from benchmarks.localisation_corpus import Piece, embed, pieces
from benchmarks.memory_store import MemoryStore
from benchmarks.polyglot_corpus import PROJECTS, Project, fetch
from benchmarks.polyglot_queries import Asked, made
from etl.parsing.chunk import decode
from etl.source.walk import walk
from plait.models import embedding
from plait.ports import EmbeddingProvider
from plait.retrieval.search import SearchQuery, SearchService
from plait.settings import EmbeddingSettings, SearchSettings

# By file: each counted once, at its best chunk. Place: of the chunks as they come the first one that has
# the declaration's line (any of the file, where the file is what is asked for).
METRICS = ("file nDCG@10", "file MRR", "file R@5", "place nDCG@10")
SHOWN = VARIANTS[:8]
KINDS = ("sentence", "file", "name", "words")
K = 60
Rows = npt.NDArray[np.float64]  # (queries, metrics)


@dataclass(frozen=True, slots=True)
class Tree:
    project: Project
    store: MemoryStore
    asked: Sequence[Asked]


async def tree(
    project: Project, cache: Path, each: int, chunks: int, provider: EmbeddingProvider
) -> Tree:
    """A project without the comments that its queries were made of, indexed and embedded."""
    found, asked = cut(project, cache, each)
    found = drawn(found, {query.path for query in asked}, chunks or len(found))
    vectors = await embed(found, provider, cache / "polyglot-vectors")
    return Tree(project, MemoryStore(project.name, found, vectors, provider.model), asked)


def cut(project: Project, cache: Path, each: int) -> tuple[list[Piece], list[Asked]]:
    root = fetch(project, cache / "polyglot")
    paths = [file.path for file in walk(root, max_file_bytes=1_000_000).files]
    texts = {path: decode((root / path).read_bytes()) for path in paths}
    texts, asked = made(project.language, texts, each, random.Random(7))
    with tempfile.TemporaryDirectory() as scratch:
        for path, text in texts.items():
            file = Path(scratch, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return pieces(Path(scratch)), asked


def drawn(found: Sequence[Piece], answers: Collection[str], chunks: int) -> list[Piece]:
    """Those of whole files, `answers` and others by chance, until there are so many."""
    sizes = Counter(piece.path for piece in found)
    others = sorted(sizes.keys() - answers)
    kept, size = set(answers), sum(sizes[path] for path in answers)
    for path in random.Random(7).sample(others, len(others)):
        if size >= chunks:
            break
        kept.add(path)
        size += sizes[path]
    return [piece for piece in found if piece.path in kept]


async def results(
    variant: Variant, trees: Sequence[Tree], provider: EmbeddingProvider
) -> dict[Project, Rows]:
    found = {}
    for at in trees:
        service = SearchService(at.store, provider, SearchSettings(), variant.stages())
        rows = []
        for query in at.asked:
            fused: Literal["rrf", "minmax"] = "rrf" if variant.fusion == "rrf" else "minmax"
            answer = await service.search(SearchQuery(query.text, k=K, fusion=fused))
            rows.append(judge(query, [at.store.piece(hit.item.id) for hit in answer.hits]))
        found[at.project] = np.array(rows)
    return found


def judge(asked: Asked, hits: Sequence[Piece]) -> tuple[float, ...]:
    """`METRICS` of one ranking of chunks."""
    files = list(dict.fromkeys(hit.path for hit in hits))
    rank = files.index(asked.path) + 1 if asked.path in files else 0
    place = next((n for n, hit in enumerate(hits, start=1) if _has(hit, asked)), 0)
    return _gain(rank), 1.0 / rank if rank else 0.0, float(1 <= rank <= 5), _gain(place)


def _has(hit: Piece, asked: Asked) -> bool:
    return hit.path == asked.path and (
        not asked.line or hit.start_line <= asked.line <= hit.end_line
    )


def _gain(rank: int) -> float:
    """nDCG@10 where one thing alone is relevant: Järvelin and Kekäläinen, TOIS 20(4), 2002."""
    return 1.0 / log2(1 + rank) if 1 <= rank <= 10 else 0.0


def by_language(found: Mapping[Project, Rows], held_out: bool | None = None) -> dict[str, Rows]:
    """Mean percent by language, of one half of the projects or of all."""
    out: dict[str, list[Rows]] = {}
    for project, rows in found.items():
        if held_out is None or project.held_out == held_out:
            out.setdefault(project.language, []).append(rows)
    return {language: 100.0 * np.concatenate(parts).mean(axis=0) for language, parts in out.items()}


def overall(found: Mapping[Project, Rows], held_out: bool | None = None) -> Rows:
    mean: Rows = np.array(list(by_language(found, held_out).values())).mean(axis=0)
    return mean


async def run(args: argparse.Namespace) -> dict[str, Any]:
    provider = await embedding.open(EmbeddingSettings())
    trees = []
    for project in PROJECTS:
        if args.language in ("", project.language):
            trees.append(await tree(project, args.cache, args.each, args.chunks, provider))
            size = len(trees[-1].store)
            told = f"{project.language:12}{project.key[:50]:52}{size:6} chunks"
            print(f"{told}{len(trees[-1].asked):5} queries", flush=True)
    found = {variant.name: await results(variant, trees, provider) for variant in SHOWN}
    await provider.close()
    _print(found, trees)
    return {name: _figures(by_project) for name, by_project in found.items()}


def _figures(found: Mapping[Project, Rows]) -> dict[str, dict[str, list[float]]]:
    groups = {"all": None, "tuned": False, "held out": True}
    return {
        group: {"mean": overall(found, half).tolist()}
        | {language: row.tolist() for language, row in by_language(found, half).items()}
        for group, half in groups.items()
    }


def _print(found: Mapping[str, Mapping[Project, Rows]], trees: Sequence[Tree]) -> None:
    print(f"\n{', '.join(METRICS)}: all | tuned | held out")
    for name, by_project in found.items():
        cells = [_cell(overall(by_project, half)) for half in (None, False, True)]
        print(f"{name:28}{' | '.join(cells)}")
    print("\nby kind of query")
    for kind in KINDS:
        for name in ("BM25 alone", "united, min-max + signals"):
            rows = [
                found[name][at.project][n]
                for at in trees
                for n, asked in enumerate(at.asked)
                if asked.kind == kind
            ]
            if rows:
                print(f"{kind:10}{name:28}{_cell(100.0 * np.mean(rows, axis=0))}")
    shown = ("BM25 alone", "BM25 + signals", "united, min-max + signals")  # each tuned | held out
    print(f"\n{'file nDCG@10':20}" + "".join(f"{name:>28}" for name in shown))
    for language in dict.fromkeys(at.project.language for at in trees):
        halves = [
            [by_language(found[name], half).get(language) for half in (False, True)]
            for name in shown
        ]
        cells = [" | ".join(" " * 5 if r is None else f"{r[0]:5.1f}" for r in h) for h in halves]
        print(f"{language:20}" + "".join(f"{cell:>28}" for cell in cells))


def _cell(row: Rows) -> str:
    return " / ".join(f"{x:5.1f}" for x in row)


def main() -> None:
    cache = Path(platformdirs.user_cache_dir("plait-benchmarks", appauthor=False))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cache", type=Path, default=cache, help="projects and vectors")
    parser.add_argument("--each", type=int, default=10, help="queries of a kind and project")
    parser.add_argument("--chunks", type=int, default=400, help="of a project, about; 0: all")
    parser.add_argument("--language", default="", help="this one alone")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    figures = asyncio.run(run(args))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
