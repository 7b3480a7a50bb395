"""How well search finds the files that answer a developer's question about a repository that is new to them.

    python -m benchmarks.questions [--cache DIR] [--project NAME] [--half 'tuned'|'held out'] [--json FILE]

The questions of `questions_tuned.jsonl` and `questions_held_out.jsonl` beside this file, written by reading the
code: one JSON object a line with `project` (a name in `WHOLE` of benchmarks/polyglot_corpus.py), `language`, `kind`
(semantic: where or how something is done, in words; architecture: how parts work together; symbol: a name),
`query`, and `files`, all that answer it. The held-out half is of other projects, by another author, who saw no ranking
before. Each project is its whole tree, tests and docs with it, cut by Plait's own ETL and searched
through the pipeline that serves `Search`, over a store in memory. A file counts once, at its best chunk. Figures are
means over the questions of a language, and of all languages with the same weight for each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import platformdirs

from benchmarks.localisation import VARIANTS, Variant
from benchmarks.localisation_corpus import embed, pieces
from benchmarks.memory_store import MemoryStore
from benchmarks.polyglot_corpus import WHOLE, Project, fetch
from plait.models import embedding
from plait.ports import EmbeddingProvider
from plait.retrieval.search import SearchQuery, SearchService
from plait.settings import EmbeddingSettings, SearchSettings

# Of the ranking by file, and of what the first ten hits alone show of it.
METRICS = ("file nDCG@10", "file MRR", "file R@5", "nDCG@10 in ten hits")
KINDS = ("semantic", "architecture", "symbol")
SHOWN = (*VARIANTS[:8], Variant("without files", off=("files",)))
BASE, BEST = "BM25 alone", "united, min-max + signals"
K = 100  # chunks: enough for ten files
HERE = Path(__file__).parent
HALVES = {"tuned": HERE / "questions_tuned.jsonl", "held out": HERE / "questions_held_out.jsonl"}
Rows = npt.NDArray[np.float64]  # (questions, metrics)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of `project`, and which files answer."""

    half: str
    project: str
    language: str
    kind: str
    text: str
    files: frozenset[str]


def questions(file: Path, half: str) -> list[Question]:
    """Raises: ValueError, for a line that is no question."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        row = json.loads(line)
        if row["kind"] not in KINDS or not row["files"]:
            raise ValueError(f"{file.name}:{number}: {row['kind']!r}, {len(row['files'])} files")
        found.append(
            Question(
                half,
                row["project"],
                row["language"],
                row["kind"],
                row["query"],
                frozenset(row["files"]),
            )
        )
    return found


def judge(relevant: frozenset[str], paths: Sequence[str]) -> tuple[float, ...]:
    """`METRICS` of one ranking of chunks."""
    ranks = _ranks(relevant, paths)
    return (
        _gain(ranks, len(relevant)),
        1.0 / ranks[0] if ranks else 0.0,
        sum(rank <= 5 for rank in ranks) / len(relevant),
        _gain(_ranks(relevant, paths[:10]), len(relevant)),
    )


def _ranks(relevant: frozenset[str], paths: Sequence[str]) -> list[int]:
    """Where the relevant files stand, each file counted once, at its best chunk."""
    files = dict.fromkeys(paths)
    return [rank for rank, path in enumerate(files, start=1) if path in relevant]


def _gain(ranks: Sequence[int], relevant: int) -> float:
    """nDCG@10 where all that is relevant is worth the same: Järvelin and Kekäläinen, "Cumulated gain-based evaluation
    of IR techniques", TOIS 20(4), 2002."""
    gain = sum(1.0 / log2(1 + rank) for rank in ranks if rank <= 10)
    return gain / sum(1.0 / log2(1 + rank) for rank in range(1, min(10, relevant) + 1))


async def store_of(project: Project, cache: Path, provider: EmbeddingProvider) -> MemoryStore:
    """The whole tree, indexed and embedded; vectors are kept in `cache`."""
    found = pieces(fetch(project, cache / "polyglot"))
    vectors = await embed(found, provider, cache / "questions-vectors")
    return MemoryStore(project.name, found, vectors, provider.model)


async def results(
    variant: Variant,
    asked: Sequence[Question],
    stores: Mapping[str, MemoryStore],
    provider: EmbeddingProvider,
) -> Rows:
    services = {
        name: SearchService(store, provider, SearchSettings(), variant.stages())
        for name, store in stores.items()
    }
    rows = []
    for question in asked:
        fused: Literal["rrf", "minmax"] = "rrf" if variant.fusion == "rrf" else "minmax"
        query = SearchQuery(question.text, k=K, fusion=fused)
        answer = await services[question.project].search(query)
        rows.append(judge(question.files, [hit.item.path for hit in answer.hits]))
    return np.array(rows)


def mean(rows: Rows, asked: Sequence[Question], **only: str) -> Rows:
    """Mean percent over languages of the questions whose fields are as in `only`; NaN of none."""
    kept = [all(getattr(q, key) == value for key, value in only.items()) for q in asked]
    by_language: dict[str, list[int]] = {}
    for n, question in enumerate(asked):
        if kept[n]:
            by_language.setdefault(question.language, []).append(n)
    if not by_language:
        return np.full(len(METRICS), np.nan)
    means = [rows[indices].mean(axis=0) for indices in by_language.values()]
    average: Rows = 100.0 * np.mean(means, axis=0)
    return average


async def run(args: argparse.Namespace) -> dict[str, Any]:
    asked = [
        question
        for half, file in HALVES.items()
        if args.half in ("", half)
        for question in questions(file, half)
        if args.project in ("", question.project)
    ]
    provider = await embedding.open(EmbeddingSettings())
    projects = {project.name: project for project in WHOLE}
    stores: dict[str, MemoryStore] = {}
    for name in dict.fromkeys(question.project for question in asked):
        stores[name] = await store_of(projects[name], args.cache, provider)
        count = sum(question.project == name for question in asked)
        told = f"{projects[name].language:12}{projects[name].key[:50]:52}{len(stores[name]):6}"
        print(f"{told} chunks{count:5} questions", flush=True)
    found = {v.name: await results(v, asked, stores, provider) for v in SHOWN}
    await provider.close()
    _print(found, asked)
    return {
        name: {
            half: mean(rows, asked, **({"half": half} if half != "all" else {})).tolist()
            for half in ("all", *HALVES)
        }
        for name, rows in found.items()
    }


def _print(found: Mapping[str, Rows], asked: Sequence[Question]) -> None:
    print(f"\n{', '.join(METRICS)}: tuned | held out")
    for name, rows in found.items():
        print(f"{name:28}" + " | ".join(_cell(mean(rows, asked, half=half)) for half in HALVES))
    for kind in KINDS:
        print(f"\n{kind}: {' | '.join(_count(asked, half, kind) for half in HALVES)}")
        for name in (BASE, "BM25 + signals", BEST):
            cells = [_cell(mean(found[name], asked, half=half, kind=kind)) for half in HALVES]
            print(f"{name:28}" + " | ".join(cells))
    print(f"\n{'file nDCG@10':14}{'questions':>10}{BASE:>14}{'signals':>10}{'shipped':>10}")
    for half in HALVES:
        for language in sorted({q.language for q in asked if q.half == half}):
            count = sum(q.half == half and q.language == language for q in asked)
            cells = [
                mean(found[name], asked, half=half, language=language)[0]
                for name in (BASE, "BM25 + signals", BEST)
            ]
            figures = f"{cells[0]:14.1f}{cells[1]:10.1f}{cells[2]:10.1f}"
            print(f"{language:14}{count:10}{figures}  {half}")


def _count(asked: Sequence[Question], half: str, kind: str) -> str:
    return f"{sum(q.half == half and q.kind == kind for q in asked)} {half}"


def _cell(row: Rows) -> str:
    return " / ".join(f"{x:5.1f}" for x in row)


def main() -> None:
    cache = Path(platformdirs.user_cache_dir("plait-benchmarks", appauthor=False))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cache", type=Path, default=cache, help="projects and vectors")
    parser.add_argument("--project", default="", help="this one alone")
    parser.add_argument("--half", choices=tuple(HALVES), default="", help="this half alone")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    figures = asyncio.run(run(args))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
