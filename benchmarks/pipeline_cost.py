"""What the pipeline itself adds to a search or a recall: everything but its stores and models.

    PLAIT_HOME=… python -m benchmarks.pipeline_cost --repo NAME [--queries 200]

Each query runs once over the real store and the real model, whose answers are written down, and then five
times over these answers, given back at once: what is left is the stages, fusion, scoring, packing and the
runner. Milliseconds of wall time on an idle machine, the best of the five.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import uvloop

import plait.models.embedding
from benchmarks.search_latency import queries_of
from etl.truth import open as open_truth
from plait import settings as plait_settings
from plait.domain.recall import PackingOptions
from plait.domain.values import Collection, Filter
from plait.retrieval.recall import RecallService
from plait.retrieval.search import SearchQuery, SearchService
from plait.retrieval.search_context import Deps

AGAIN = 5


class Recorded:
    """A port's object whose answers are written down; `replaying` gives them back in their order."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._answers: dict[str, list[Any]] = defaultdict(list)
        self._left: dict[str, deque[Any]] = {}
        self.replaying = False

    def begin(self, *, replaying: bool) -> None:
        self.replaying = replaying
        if replaying:
            self._left = {name: deque(answers) for name, answers in self._answers.items()}
        else:
            self._answers.clear()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def asked(*args: Any, **kwargs: Any) -> Any:
            if self.replaying:
                return self._left[name].popleft()
            place = len(self._answers[name])
            self._answers[name].append(None)  # in the order of the questions, whoever answers first
            self._answers[name][place] = answer = await found(*args, **kwargs)
            return answer

        return asked


async def measure(args: argparse.Namespace) -> None:
    settings = plait_settings.load()
    store = await open_truth(settings)
    provider = await plait.models.embedding.open(settings.embedding)
    ports = (store.search, store.relations, store.impact, store.recalls, provider)
    search_port, relations, impact, recalls, model = recorded = [Recorded(port) for port in ports]

    async def opened() -> Any:
        return model

    deps = Deps(
        store=search_port,
        provider=opened,
        settings=settings.search,
        recall=settings.recall,
        relations=relations,
        impact=impact,
        receipts=recalls,
    )
    search, recall = SearchService.over(deps), RecallService(deps)
    texts = await queries_of(store, args.repo, args.queries, args.seed)
    code = Filter(repos=(args.repo,))
    everything = replace(code, collections=tuple(Collection))
    rows: list[tuple[str, Callable[[str], Awaitable[object]]]] = [
        ("Search fast", lambda text: search.search(SearchQuery(text, code))),
        (
            "Recall fast",
            lambda text: recall.recall(SearchQuery(text, everything), PackingOptions()),
        ),
    ]
    await recall.recall(SearchQuery(texts[0], everything), PackingOptions())  # tables, graph
    print("| what | p50 ms | p95 ms | n |\n|---|---|---|---|")
    for name, ask in rows:
        took = [await _own(ask, text, recorded) for text in texts]
        p50, p95 = np.percentile(took, [50, 95])
        print(f"| {name} | {p50:.2f} | {p95:.2f} | {len(took)} |")
    await provider.close()
    await store.close()


async def _own(
    ask: Callable[[str], Awaitable[object]], text: str, ports: Sequence[Recorded]
) -> float:
    for port in ports:
        port.begin(replaying=False)
    await ask(text)
    took = []
    for _ in range(AGAIN):
        for port in ports:
            port.begin(replaying=True)
        start = time.perf_counter()
        await ask(text)
        took.append((time.perf_counter() - start) * 1e3)
    return min(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repo", required=True)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    uvloop.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
