"""How well search finds a function by its name, and by what its docstring says.

    python -m benchmarks.lookup EVAL.jsonl [--cache DIR] [--each N]

Over the trees of benchmarks/localisation.py. Names: `Class.method` or `function`, alone or inside a
sentence, only where one function of the tree has it. Docstrings: the first sentence looks for its own
function, from whose chunk the docstring is taken out before it is indexed and embedded.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import random
import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import platformdirs

from benchmarks.localisation import METRICS, TUNED, VARIANTS, mean, results
from benchmarks.localisation_corpus import Piece, Query, embed, fetch, pieces, read_queries
from benchmarks.memory_store import MemoryStore
from plait.models import embedding
from plait.settings import EmbeddingSettings, SearchSettings

SENTENCES = (
    "{}",
    "where is {} defined",
    "what calls {} and when",
    "why does {} fail on empty input",
)
# Whole lines: a signature's end, then the string.
_TRIPLE = re.compile(r':\s*\n(\s*[rR]?"""(.+?)"""\s*?)$', re.DOTALL | re.MULTILINE)
MIN_WORDS = 4  # of a docstring's first sentence


async def run(args: argparse.Namespace) -> None:
    _, versions = read_queries(args.eval)
    provider = await embedding.open(EmbeddingSettings())
    stores, sets = {}, dict[str, list[Query]](names=[], docstrings=[])
    for package, version in versions.items():
        found = pieces(fetch(package, version, args.cache / "sdists"))
        chance = random.Random(7)
        sets["names"] += by_name(package, found, args.each, chance)
        found, asked = by_docstring(package, found, args.each, chance)
        sets["docstrings"] += asked
        vectors = await embed(found, provider, args.cache / "vectors")
        stores[package] = MemoryStore(package, found, vectors, provider.model)
    for name, queries in sets.items():
        tuned = np.array([q.package in TUNED for q in queries])
        print(f"\n{name}: {len(queries)} queries; {', '.join(METRICS)}: all | tuned | held out")
        for variant in VARIANTS:
            rows = await results(variant, queries, stores, provider, SearchSettings())
            cells = [mean(part) for part in (rows, rows[tuned], rows[~tuned])]
            told = " | ".join(" / ".join(f"{x:5.1f}" for x in cell) for cell in cells)
            print(f"{variant.name:28}{told}")
    await provider.close()


def by_name(package: str, found: Sequence[Piece], each: int, chance: random.Random) -> list[Query]:
    """Names that one function alone has, each in one of `SENTENCES`."""
    functions = {p.function: p for p in found if _is_function(p)}
    short = {function: _short(function) for function in functions}
    often = Counter(short.values())
    once = sorted(function for function, name in short.items() if often[name] == 1)
    return [
        Query(
            package,
            SENTENCES[n % len(SENTENCES)].format(short[function]),
            frozenset({functions[function].path}),
            frozenset({function}),
        )
        for n, function in enumerate(chance.sample(once, min(each, len(once))))
    ]


def by_docstring(
    package: str, found: Sequence[Piece], each: int, chance: random.Random
) -> tuple[list[Piece], list[Query]]:
    """All chunks, some without their docstring, and the first sentences of those docstrings."""
    first = {p.function: n for n, p in reversed(list(enumerate(found))) if _is_function(p)}
    bare = {n: parted for n in first.values() if (parted := _parted(found[n])) is not None}
    chosen = chance.sample(sorted(bare), min(each, len(bare)))
    changed = list(found)
    queries = []
    for n in chosen:
        changed[n], sentence = bare[n]
        piece = changed[n]
        queries.append(
            Query(package, sentence, frozenset({piece.path}), frozenset({piece.function}))
        )
    return changed, queries


def _is_function(piece: Piece) -> bool:
    return piece.kind in {"function", "method"} and piece.language == "python" and not piece.is_test


def _short(function: str) -> str:
    """`Class.method`, or the function's own name."""
    return ".".join(function.partition("::")[2].split(".")[-2:])


def _parted(piece: Piece) -> tuple[Piece, str] | None:
    """The chunk without its docstring, and the docstring's first sentence; None without one."""
    docstring = _docstring(piece.content)
    if docstring is None:
        return None
    text, first, last = docstring
    sentence = " ".join(re.split(r"\n\s*\n|(?<=\.)\s", text, maxsplit=1)[0].split())
    if len(sentence.split()) < MIN_WORDS:
        return None
    lines = piece.content.split("\n")
    content = "\n".join(lines[: first - 1] + lines[last:])
    parted = replace(piece, content=content)
    return replace(parted, content_hash=blake2b(parted.text.encode(), digest_size=16).digest()), (
        sentence
    )


def _docstring(content: str) -> tuple[str, int, int] | None:
    """`(text, first line, last line)`, lines from 1. Of a long function's first part, which no parser takes,
    what stands in triple quotes first."""
    try:
        statements = ast.parse(textwrap.dedent(content)).body
    except SyntaxError:
        if (quoted := _TRIPLE.search(content)) is None:
            return None
        first = content.count("\n", 0, quoted.start(1)) + 1
        return quoted[2].strip(), first, first + quoted[1].count("\n")
    body = statements[0] if statements else None
    if not isinstance(body, ast.FunctionDef | ast.AsyncFunctionDef) or len(body.body) < 2:
        return None
    text, said = ast.get_docstring(body), body.body[0]
    return (text, said.lineno, said.end_lineno or said.lineno) if text else None


def main() -> None:
    cache = Path(platformdirs.user_cache_dir("plait-benchmarks", appauthor=False))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("eval", type=Path, help="the queries of localisation.py, JSON lines")
    parser.add_argument("--cache", type=Path, default=cache, help="sdists and vectors")
    parser.add_argument("--each", type=int, default=80, help="queries of a kind and package")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
