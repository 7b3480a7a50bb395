"""What the code graph and the parts of symbols add to localisation, relation by relation.

    python -m benchmarks.relations_gain EVAL.jsonl [--cache DIR] [--weights]

The set, trees and metrics of benchmarks/localisation.py. The graph of each tree is resolved by Plait's own
ETL, and the recall pipeline runs up to `score` with the arm `relations` asked as a context asks it; plain
hits go without it. --weights also tries each relation alone and each left out.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import platformdirs

from benchmarks.localisation import TUNED, Results, interval, judge, mean
from benchmarks.localisation_corpus import Query, embed, fetch, pieces, read_queries
from benchmarks.memory_store import MemoryStore
from etl.pipeline import graph_parts
from plait.domain.deadline import Deadline
from plait.domain.graph import Label, encode_edges, encode_nodes
from plait.domain.recall import PackingOptions
from plait.domain.values import Filter, ItemId
from plait.models import embedding
from plait.ports import CodeGraph, EmbeddingProvider, MemoryLink, View
from plait.retrieval.code_graph.pagerank import Walk
from plait.retrieval.query.analysis import Mode, SearchQuery, analyse
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.runner import plan, run
from plait.retrieval.search_context import Deps, SearchContext, Stage
from plait.retrieval.stages import STAGES
from plait.retrieval.stages.relations import WALK, WEIGHTS, follow
from plait.settings import SearchSettings, load
from vector.search import codegraph

K = 60


class Graphs:
    """A `RelationStore` of one graph and no memories."""

    def __init__(self, graph: CodeGraph) -> None:
        self.graph = graph

    async def code_graph(self, view: View, repo: str, *, wait_s: float = 0.0) -> CodeGraph | None:
        return self.graph

    def graph_state(self, view: View, repo: str) -> str:
        return "ready"

    async def links(
        self, view: View, ends: Sequence[tuple[str, str]], limit: int
    ) -> list[MemoryLink]:
        return []

    async def items_of(
        self, view: View, ends: Sequence[tuple[str, str]], where: Filter, limit: int
    ) -> dict[tuple[str, str], list[ItemId]]:
        return {}


@dataclass(frozen=True, slots=True)
class Variant:
    name: str
    weight: float = WEIGHTS.relations
    walk: Walk = WALK
    off: tuple[str, ...] = ()


def variants(each: bool) -> list[Variant]:
    found = [
        Variant("neither", off=("relations", "hierarchical")),
        Variant("parts of symbols", off=("relations",)),
        Variant("graph", off=("hierarchical",)),
        Variant("both"),
        *(Variant(f"both, weight {w}", w) for w in (0.1, 0.5)),
        Variant("both, no damping of hubs", walk=Walk(hubs=0.0)),
        Variant("both, one round", walk=Walk(rounds=1)),
    ]
    if each:
        for name, pair in DEFAULT.graph.pagerank.items():
            rest = {r: w for r, w in DEFAULT.graph.pagerank.items() if r != name}
            found.append(Variant(f"{name} alone", walk=Walk(weights={name: pair})))
            found.append(Variant(f"without {name}", walk=Walk(weights=rest)))
    return found


def graph_of(package: str, root: Path) -> CodeGraph:
    """As the store would read it of an index of `root`."""
    names, parts = codegraph.Names(), []
    for nodes, edges in graph_parts(root, package, load(environ={})):
        path = next((n.path for n in nodes if n.label == Label.FILE), "")
        if path:
            blobs = encode_nodes(nodes), encode_edges(edges)
            parts.append(codegraph.part(package, path, *blobs, names))
    return codegraph.build(package, 1, sorted(parts, key=lambda p: p.path), names)


async def results(
    variant: Variant,
    queries: Sequence[Query],
    stores: Mapping[str, MemoryStore],
    graphs: Mapping[str, Graphs],
    provider: EmbeddingProvider,
) -> Results:
    async def given() -> EmbeddingProvider:
        return provider

    kept = plan(Mode.FAST, STAGES, variant.off)
    at = next(n for n, s in enumerate(kept) if s.name == "score")
    kept = tuple(_as(variant) if s.name == "relations" else s for s in kept[:at])
    scored = (*kept, next(s for s in STAGES if s.name == "score"))
    rows = []
    for query in queries:
        asked = SearchQuery(query.text, k=K)
        ctx = SearchContext(asked, analyse(asked), K, "minmax", Deadline.after(60.0))
        store = stores[query.package]
        deps = Deps(store, given, SearchSettings(), relations=graphs[query.package])
        ctx = await run(ctx, deps, scored)
        found = [store.piece(id_) for id_ in ctx.order[:K]]
        rows.append(judge(query, [p.path for p in found], [p.function for p in found]))
    return np.array(rows)


def _as(variant: Variant) -> Stage:
    """The stage as a context has it, with this variant's walk and weight."""

    async def relations(ctx: SearchContext, deps: Deps) -> SearchContext:
        weights = {**ctx.strategy.weights, "relations": variant.weight}
        asked = replace(
            ctx, options=PackingOptions(), strategy=replace(ctx.strategy, weights=weights)
        )
        return replace(await follow(asked, deps, variant.walk), options=None)

    return Stage(relations)


async def main_async(args: argparse.Namespace) -> None:
    queries, versions = read_queries(args.eval)
    provider = await embedding.open(load(environ={}).embedding)
    stores, graphs = {}, {}
    for package, version in versions.items():
        root = fetch(package, version, args.cache / "sdists")
        chunks = pieces(root)
        vectors = await embed(chunks, provider, args.cache / "vectors")
        stores[package] = MemoryStore(package, chunks, vectors, provider.model)
        graphs[package] = Graphs(graph_of(package, root))
    tuned = np.array([q.package in TUNED for q in queries])
    base: Results | None = None
    print("file R@5 / function MRR / function R@10: all | tuned | held out")
    for variant in variants(args.weights):
        rows = await results(variant, queries, stores, graphs, provider)
        cells = [mean(part) for part in (rows, rows[tuned], rows[~tuned])]
        told = " | ".join(" / ".join(f"{x:5.1f}" for x in cell) for cell in cells)
        print(f"{variant.name:28} {told}")
        if base is None:
            base = rows
        elif variant.name in ("parts of symbols", "both"):
            for group, mask in (("all", tuned | ~tuned), ("held out", ~tuned)):
                low, high = interval(rows[mask], base[mask])
                told = "   ".join(f"{a:+.1f} … {b:+.1f}" for a, b in zip(low, high, strict=True))
                print(f"    − neither, {group}: {told}")
    await provider.close()


def main() -> None:
    cache = Path(platformdirs.user_cache_dir("plait-benchmarks", appauthor=False))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("eval", type=Path, help="the queries, JSON lines")
    parser.add_argument("--cache", type=Path, default=cache, help="sdists and vectors")
    parser.add_argument("--weights", action="store_true", help="each relation alone and left out")
    asyncio.run(main_async(parser.parse_args()))


if __name__ == "__main__":
    main()
