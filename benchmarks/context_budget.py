"""What a context of so many tokens holds of what a commit changed, and how many tokens equal coverage takes.

    python -m benchmarks.context_budget EVAL.jsonl [--cache DIR] [--budgets 300,600,1000,2000,4000,8000]
        [--packages click,httpx] [--release OWNER/PACKAGE@VERSION]

The queries, chunks and vectors of benchmarks/localisation.py, of all packages or of some. With --release EVAL
is a set of changes of several files each (`repo`, `release`, `message`, `files`, `functions`), and those made on
that release are asked. Rows: the hits of plain BM25, of vectors alone and of Search, each whole with its place, in
their order until the budget is full, as an agent would paste them; the places alone of the vectors' hits, one a line;
the lines that `grep -rin` prints for the words of four letters or more, until the budget is full, whose functions
count as named; what Recall packs, and what it packs where source is preferred.
A changed function counts as `whole` when its source is in the context (of a long one, which is cut into chunks,
any chunk of it), as `entire` when all of its chunks are, as `named` when at least its signature or name is.
Percent of changed functions, mean over queries; `files`: percent of the changed files of which anything is shown
or named. All counts are o200k's, headings, bullets and fences included. The last columns: tokens at which a row
has as many functions whole, and entire, as BM25 with 4,000, read off its own curve. Recalls that stay silent
count as holding nothing. It fails where a larger budget names less, or a context is over its budget.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import numpy as np
import numpy.typing as npt
import platformdirs

from benchmarks.localisation import LEXICAL, PLAIN, SEMANTIC, TUNED, Variant
from benchmarks.localisation_corpus import (
    Piece,
    Query,
    embed,
    fetch,
    pieces,
    read_changes,
    read_queries,
)
from benchmarks.memory_store import MemoryStore
from plait.domain.deadline import Deadline
from plait.domain.recall import PackingOptions, Tier
from plait.domain.values import ItemId
from plait.models import embedding
from plait.ports import EmbeddingProvider
from plait.retrieval.packing import wording
from plait.retrieval.query.analysis import SearchQuery, analyse
from plait.retrieval.runner import run
from plait.retrieval.search_context import Deps, SearchContext
from plait.retrieval.stages.format import format
from plait.settings import EmbeddingSettings, RecallSettings, SearchSettings
from plait.text import token_count

BASE_BUDGET = 4_000
SOURCE = "Recall, source"
GREP = "grep, its lines"
PLACES = "vectors, places"
ROWS = (
    "BM25, whole hits",
    GREP,
    "vectors, whole hits",
    PLACES,
    "Search, whole hits",
    "Recall",
    SOURCE,
)
COLUMNS = ("whole", "entire", "named", "files")
Shares = npt.NDArray[np.float64]  # (queries, budgets, COLUMNS); NaN without functions


async def ranked(
    query: Query, variant: Variant, deps: Deps, options: PackingOptions | None
) -> SearchContext:
    """Everything before `format`. `options`: of a recall, None for a search."""
    asked = SearchQuery(query.text, k=0 if options else 100)
    ctx = SearchContext(
        query=asked,
        analysis=analyse(asked),
        k=deps.recall.items if options else 100,
        fusion="minmax",
        deadline=Deadline.after(60.0),
        options=options,
    )
    return await run(ctx, deps, [s for s in variant.stages() if s.name != "format"])


@dataclass(frozen=True, slots=True)
class Tree:
    """A package's chunks. `parts`: by function its chunks."""

    store: MemoryStore
    deps: Deps
    parts: Mapping[str, frozenset[ItemId]]

    def all(self) -> list[tuple[Piece, ItemId]]:
        ids = sorted({id_ for ids in self.parts.values() for id_ in ids}, key=lambda id_: id_.int)
        return [(self.store.piece(id_), id_) for id_ in ids]


def grepped(query: Query, tree: Tree, budgets: Sequence[int]) -> list[tuple[float, ...]]:
    """What `grep -rin 'word\\|word'` prints, file by file."""
    words = {word for word in re.findall(r"\w+", query.text) if len(word) >= 4}
    match = re.compile("|".join(map(re.escape, sorted(words))) or r"(?!)", re.IGNORECASE)
    lines = []
    for piece, id_ in sorted(tree.all(), key=lambda one: (one[0].path, one[0].start_line)):
        for n, line in enumerate(piece.content.splitlines(), piece.start_line):
            if match.search(line):
                lines.append((token_count.count(f"{piece.path}:{n}:{line}\n"), id_))
    found = []
    for budget in budgets:
        left, named = budget, set[ItemId]()
        for cost, id_ in lines:
            if (left := left - cost) < 0:
                break
            named.add(id_)
        found.append(_shares(query, tree, set(), named))
    return found


async def pasted(
    query: Query, variant: Variant, tree: Tree, budgets: Sequence[int], *, places: bool = False
) -> list[tuple[float, ...]]:
    """The hits in their order, whole, or their `places` alone, until the next is too long."""
    ctx = await ranked(query, variant, tree.deps, None)
    items = await tree.store.fetch(ctx.at, list(ctx.order))
    found = []
    for budget in budgets:
        left, held = budget, set[ItemId]()
        for id_, item in items.items():
            place = f"{item.path}:{item.start_line}-{item.end_line} {item.symbol}\n"
            source = "" if places else wording.fenced(item.content, item.language)
            cost = token_count.count(place + source)
            if cost > left:
                break
            left -= cost
            held.add(id_)
        found.append(_shares(query, tree, set() if places else held, held))
    return found


async def packed(
    query: Query, variant: Variant, tree: Tree, budgets: Sequence[int], *, source: bool = False
) -> list[tuple[float, ...]]:
    found = []
    before: set[ItemId] = set()
    # The budget decides nothing but the packing.
    ctx = await ranked(query, variant, tree.deps, PackingOptions())
    for budget in budgets:
        options = PackingOptions(budget_tokens=budget, prefer_source=source)
        block = (await format(replace(ctx, options=options), tree.deps)).block
        assert block is not None
        assert block.tokens <= budget
        whole = {id_ for i in block.items if i.tier is Tier.FULL for id_ in (i.item.id, *i.also)}
        named = {id_ for i in block.items for id_ in (i.item.id, *i.also)}
        assert before <= named, f"{budget} tokens name less: {query.text}"
        before = {i.item.id for i in block.items}
        found.append(_shares(query, tree, whole, named))
    return found


def _shares(query: Query, tree: Tree, whole: set[ItemId], named: set[ItemId]) -> tuple[float, ...]:
    """`COLUMNS` of what one context holds."""
    files = {tree.store.piece(id_).path for id_ in named}
    of_files = len(query.files & files) / len(query.files)
    wanted = query.functions
    if not wanted:
        return np.nan, np.nan, np.nan, of_files
    any_, name = ({tree.store.piece(id_).function for id_ in ids} for ids in (whole, named))
    entire = {f for f in wanted if tree.parts.get(f) and tree.parts[f] <= whole}
    return (*(len(wanted & held) / len(wanted) for held in (any_, entire, name)), of_files)


async def measure(args: argparse.Namespace) -> tuple[dict[str, Shares], list[Query]]:
    if args.release:
        queries, versions = read_changes(args.eval, args.release)
    else:
        queries, versions = read_queries(args.eval)
    versions = {p: v for p, v in versions.items() if not args.packages or p in args.packages}
    queries = [query for query in queries if query.package in versions]
    provider = await embedding.open(EmbeddingSettings())

    async def opened() -> EmbeddingProvider:
        return provider

    trees: dict[str, Tree] = {}
    for package, version in versions.items():
        chunks = pieces(fetch(package, version, args.cache / "sdists"))
        vectors = await embed(chunks, provider, args.cache / "vectors")
        store = MemoryStore(package, chunks, vectors, provider.model)
        parts: dict[str, set[ItemId]] = {}
        for n, chunk in enumerate(chunks):
            parts.setdefault(chunk.function, set()).add(ItemId(UUID(int=n)))
        deps = Deps(store, opened, SearchSettings(), RecallSettings())
        trees[package] = Tree(store, deps, {f: frozenset(ids) for f, ids in parts.items()})
    rows: dict[str, list[list[tuple[float, ...]]]] = {row: [] for row in ROWS}
    alone, full = Variant("BM25", LEXICAL, off=PLAIN), Variant("Recall")
    dense = Variant("vectors", SEMANTIC, off=PLAIN)
    for query in queries:
        tree, budgets = trees[query.package], args.budgets
        for row, variant in zip(ROWS, (alone, alone, dense, dense, full, full, full), strict=True):
            if row == GREP:
                shares = grepped(query, tree, budgets)
            elif row.startswith("Recall"):
                shares = await packed(query, variant, tree, budgets, source=row == SOURCE)
            else:
                shares = await pasted(query, variant, tree, budgets, places=row == PLACES)
            rows[row].append(shares)
    await provider.close()
    return {row: np.array(found) for row, found in rows.items()}, queries


def tokens_for(coverage: float, budgets: Sequence[int], curve: npt.NDArray[np.float64]) -> float:
    """Where `curve` over `budgets` reaches `coverage`, linear between its points; NaN: it doesn't."""
    points = [(0.0, 0.0), *zip(budgets, curve.tolist(), strict=True)]
    for (b0, c0), (b1, c1) in itertools.pairwise(points):
        if c0 < coverage <= c1:
            return float(b0 + (b1 - b0) * (coverage - c0) / (c1 - c0))
    return float("nan")


def report(found: Mapping[str, Shares], queries: Sequence[Query], budgets: Sequence[int]) -> None:
    tuned = np.array([q.package in TUNED for q in queries])
    for group, mask in (("all", tuned | True), ("tuned", tuned), ("held out", ~tuned)):
        if not mask.any() or (group != "all" and mask.all()):
            continue
        print(f"\n{group}: {' / '.join(COLUMNS)}")
        print(f"{'':20}" + "".join(f"{b:>26}" for b in budgets) + f"{'equal at':>16}")
        curves = {row: 100 * np.nanmean(shares[mask], axis=0) for row, shares in found.items()}
        bars = curves[ROWS[0]][list(budgets).index(BASE_BUDGET)]
        for row, curve in curves.items():
            cells = "".join("  " + "".join(f"{c:6.1f}" for c in cell) for cell in curve)
            equal = (tokens_for(bars[n], budgets, curve[:, n]) for n in (0, 1))
            print(f"{row:20}{cells}" + "".join(f"{e:8.0f}" for e in equal))


def main() -> None:
    cache = Path(platformdirs.user_cache_dir("plait-benchmarks", appauthor=False))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("eval", type=Path, help="the queries, JSON lines")
    parser.add_argument("--cache", type=Path, default=cache, help="sdists and vectors")
    parser.add_argument(
        "--budgets",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[300, 600, 1000, 2000, BASE_BUDGET, 8000],
    )
    parser.add_argument(
        "--packages", type=lambda text: text.split(","), default=[], help="only of these packages"
    )
    parser.add_argument("--release", help="OWNER/PACKAGE@VERSION of a set of larger changes")
    args = parser.parse_args()
    found, queries = asyncio.run(measure(args))
    report(found, queries, args.budgets)


if __name__ == "__main__":
    main()
