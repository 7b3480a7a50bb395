"""The impact of a diff or stack trace in the query: affected code, tests to run, and past events there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from plait.domain.gather import all_of
from plait.domain.recall import Impact, ImpactNode, PastEvent
from plait.domain.values import Collection, ItemId
from plait.ports import CodeGraph, ImpactStore, Place, Run
from plait.retrieval.code_graph import blast
from plait.retrieval.code_graph import tests_to_run as ran
from plait.retrieval.code_graph.test_ids import runnable
from plait.retrieval.query.code_references import AnchorKind
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Degraded, Deps, SearchContext

MAX_TOUCHED, MAX_CALLERS, MAX_TESTS, MAX_HISTORY = 50, 50, 60, 20
MAX_FRAMES = 24
MAX_ERRORS, SAME_ERROR = 3, 5
WEIGHTS = DEFAULT.graph
WORDED_FRAMES = 2  # innermost frames whose names are searched for in tests
WAIT_SHARE = 0.3  # of the remaining time, for a graph that is still loading
SHARE = 0.6  # of the remaining time; the rest is for packing

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Seed:
    """A code location that the query is about. `distance`: frames from the innermost one; 0 for a diff."""

    repo: str
    path: str
    symbol: str
    line: int
    weight: float
    distance: int = 0
    is_test: bool = False
    is_frame: bool = False

    @property
    def to_run(self) -> float:
        """The weight for finding tests. A test among the frames is the one that failed, however far out."""
        return 1.0 if self.is_frame and self.is_test else self.weight

    @property
    def node(self) -> str:
        """Without `repo:`."""
        return self.symbol.partition("#")[0] or f"/{self.path}"


async def impact(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Fill `ctx.impact` if the query contains a diff or a stack trace. What cannot be read, or not within `SHARE` of
    the remaining time, is named in `degraded`."""
    store = deps.impact
    if store is None or not (ctx.anchors.is_diff or ctx.anchors.is_trace):
        return ctx
    until = asyncio.get_running_loop().time() + SHARE * ctx.deadline.left_s
    named = await _in_time([_seeds(ctx, deps, store)], until)
    seeds, cut = named[0] if named else ([], True)
    repos = list(dict.fromkeys(seed.repo for seed in seeds))
    reads = [
        _of_repo(ctx, deps, store, repo, [s for s in seeds if s.repo == repo]) for repo in repos
    ]
    parts = await _in_time([*reads, _same_error(ctx, deps, store)], until)
    missing = [why for _, why in parts if why]
    if not named or len(parts) <= len(repos):
        missing.append("deadline")
    found = Impact(touched=tuple(_touched(seeds)), truncated=cut)
    for part, _ in parts:
        found = _joined(found, part)
    degraded_parts = tuple(Degraded("impact", why) for why in dict.fromkeys(missing))
    return replace(ctx, impact=_bounded(found), degraded=(*ctx.degraded, *degraded_parts))


async def _in_time(reads: Sequence[Coroutine[None, None, T]], until: float) -> list[T]:
    """The results that arrived before the loop time `until`, in order; a store's error ends all of them."""
    tasks = [asyncio.create_task(one) for one in reads]
    try:
        left_s = max(0.0, until - asyncio.get_running_loop().time())
        await asyncio.wait(tasks, timeout=left_s, return_when=asyncio.FIRST_EXCEPTION)
        return [task.result() for task in tasks if task.done()]
    finally:
        unfinished = [task for task in tasks if not task.done()]
        for task in unfinished:
            task.cancel()
        if unfinished:
            await asyncio.wait(unfinished)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not log it: one error already ends all


async def _of_repo(
    ctx: SearchContext, deps: Deps, store: ImpactStore, repo: str, seeds: Sequence[Seed]
) -> tuple[Impact, str]:
    """The impact of `seeds`, all of `repo`, and why part of it is missing ("": nothing is)."""
    symbols = {seed.node: seed.weight for seed in seeds if seed.symbol}
    (graph, missing), like = await all_of(
        _graph(ctx, deps, repo), ran.by_words(ctx, deps, repo, worded(seeds))
    )
    callers, near = _reached(graph, seeds) if graph is not None else ([], _own_tests(seeds))
    tests = ran.together(graph, near, await ran.proven(ctx.at, deps, graph, repo, symbols), like)
    history = await _history(ctx, store, repo, seeds, tests)
    return Impact((), tuple(callers), tuple(tests), history), missing


# -- seeds -----------------------------------------------------------------------------------------------


async def _seeds(ctx: SearchContext, deps: Deps, store: ImpactStore) -> tuple[list[Seed], bool]:
    """Frames of a trace, innermost first, then symbols changed by hunks; and whether some were cut."""
    seeds: dict[tuple[str, str], Seed] = {}
    cut = False
    for seed in await _frames(ctx, deps) if ctx.anchors.is_trace else ():
        seeds.setdefault((seed.repo, seed.node), seed)
    if ctx.anchors.is_diff:
        changed = await store.changed(ctx.at, _text(ctx))
        cut = changed.cut
        for one in changed.symbols:
            seed = Seed(one.repo, one.path, one.symbol, one.line, one.sure, 0, one.is_test)
            seeds.setdefault((seed.repo, seed.node), seed)
    first = list(seeds.values())[:MAX_TOUCHED]
    return first, cut or len(first) < len(seeds)


def _text(ctx: SearchContext) -> str:
    """The text of the query and its attachment."""
    parts = (ctx.query.text, ctx.analysis.attached)
    return "\n".join(part for part in parts if part.strip())


async def _frames(ctx: SearchContext, deps: Deps) -> list[Seed]:
    """The functions of the frames that are in the index, innermost first."""
    kinds = (AnchorKind.FRAME, AnchorKind.TEST)
    spots = [a.spot for a in ctx.anchors.places if a.kind in kinds][:MAX_FRAMES]
    if not spots:
        return []
    where = replace(ctx.query.where, collections=(Collection.FILES,))
    located = await deps.store.located(ctx.at, spots, where, 1)
    ids = [(found[0], spot.start_line) for found, spot in zip(located, spots, strict=True) if found]
    places = await deps.store.places(ctx.at, list(dict.fromkeys(id_ for id_, _ in ids)))
    seeds: list[Seed] = []
    for id_, line_of_frame in ids:
        if (at := places.get(id_)) is not None:
            n = len(seeds)
            # A chunk of module-level code has the name of its module.
            symbol = "" if at.kind == "module" else at.symbol
            line = line_of_frame if at.start_line <= line_of_frame <= at.end_line else at.start_line
            seeds.append(frame(at, symbol, line, n))
    return seeds


def frame(at: Place, symbol: str, line: int, n: int) -> Seed:
    """The seed of the frame that is `n` calls from the innermost."""
    return Seed(at.repo, at.path, symbol, line, WEIGHTS.frame**n, n, at.is_test, is_frame=True)


def worded(seeds: Iterable[Seed]) -> list[str]:
    """The symbols whose names are searched for in tests: of a trace only those close to the raising frame, since
    every request passes through the outer ones, and no tests."""
    return [
        seed.node
        for seed in seeds
        if seed.symbol and not (seed.is_frame and (seed.is_test or seed.distance >= WORDED_FRAMES))
    ]


def _touched(seeds: Iterable[Seed]) -> Iterable[ImpactNode]:
    for seed in seeds:
        name = seed.symbol.partition("#")[0] or seed.path
        via = "frame" if seed.is_frame else ""
        yield ImpactNode(
            f"{seed.repo}:{seed.node}", name, seed.path, seed.line, seed.distance, via, seed.weight
        )


# -- reached code ---------------------------------------------------------------------------------------


async def _graph(ctx: SearchContext, deps: Deps, repo: str) -> tuple[CodeGraph | None, str]:
    """The graph of `repo`, or why there is none now."""
    if deps.relations is None:
        return None, "no relations"
    wait_s = min(deps.settings.graph_wait_s, WAIT_SHARE * ctx.deadline.left_s)
    graph = await deps.relations.code_graph(ctx.at, repo, wait_s=wait_s)
    if graph is None:
        return None, f"the code graph is {deps.relations.graph_state(ctx.at, repo)}"
    return graph, ""


def _reached(graph: CodeGraph, seeds: Sequence[Seed]) -> tuple[list[ImpactNode], list[ImpactNode]]:
    """Callers and tests of `seeds`. Pure."""
    rows, modules = seed_rows(graph, seeds)
    found = blast.importers(graph, modules) | blast.reach(graph, rows | modules)
    callers = [
        r
        for r in found.values()
        if r.row not in rows and r.row not in modules and blast.test_around(graph, r.row) is None
    ]
    callers.sort(key=lambda r: (-r.score, r.distance, r.row))
    return [ran.node(graph, r) for r in callers[: MAX_CALLERS + 1]], ran.reached(graph, found)


def _own_tests(seeds: Iterable[Seed]) -> list[ImpactNode]:
    """Without a graph: the seeds that are tests."""
    return [
        ImpactNode(
            f"{seed.repo}:{seed.node}", runnable(seed.path, seed.node), seed.path, seed.line,
            seed.distance, "", seed.to_run,
        )
        for seed in seeds
        if seed.is_test and seed.symbol
    ]  # fmt: skip


def seed_rows(graph: CodeGraph, seeds: Iterable[Seed]) -> tuple[dict[int, float], dict[int, float]]:
    """Weights by row: of symbols, and of modules for lines outside any symbol."""
    symbols: dict[int, float] = {}
    modules: dict[int, float] = {}
    for seed in seeds:
        row = blast.row_of(graph, seed.path, seed.symbol) if seed.symbol else None
        if row is not None:
            symbols[row] = max(symbols.get(row, 0.0), seed.to_run)
            continue
        for module in blast.modules(graph, seed.path):
            modules[module] = max(modules.get(module, 0.0), seed.weight)
    return symbols, modules


# -- history ---------------------------------------------------------------------------------------------


async def _history(
    ctx: SearchContext,
    store: ImpactStore,
    repo: str,
    seeds: Sequence[Seed],
    tests: Sequence[ImpactNode],
) -> tuple[PastEvent, ...]:
    ends = [seed.node for seed in seeds]
    close = [test for test in tests if test.distance <= blast.HOPS]
    names = [test.id[len(repo) + 1 :] for test in close]
    names += [seed.node for seed in seeds if seed.is_test]
    events = await store.history(ctx.at, repo, ends, list(dict.fromkeys(names)), 2 * MAX_HISTORY)
    return tuple(events)


async def _same_error(ctx: SearchContext, deps: Deps, store: ImpactStore) -> tuple[Impact, str]:
    """Past runs whose texts contain one of the query's error messages, with their outcome."""
    found: dict[ItemId, str] = {}
    agents = tuple(c for c in Collection if c is not Collection.FILES)
    where = replace(ctx.query.where, collections=agents)
    for error in list(ctx.anchors.errors)[:MAX_ERRORS]:
        words = message(error)
        if len(words.split()) >= 2:
            for candidate in await deps.store.phrase(ctx.at, words, where, SAME_ERROR):
                found.setdefault(candidate.id, words)
    runs: Mapping[ItemId, Run] = await store.runs_behind(ctx.at, list(found)) if found else {}
    events: dict[object, PastEvent] = {}
    for id_, words in found.items():
        if (run := runs.get(id_)) is not None:
            events.setdefault(run.episode_id, _met(id_, words, run))
    return Impact(history=tuple(events.values())), ""


def message(error: str) -> str:
    """The part of `error` that another run would repeat: its first line, up to the first value or address."""
    first = error.strip().split("\n", 1)[0][:300]
    words: list[str] = []
    for word in first.split():
        if "0x" in word or (words and any(c.isdigit() for c in word) and len(words) >= 4):
            break
        words.append(word)
    return " ".join(words[:20])


def _met(id_: ItemId, words: str, run: Run) -> PastEvent:
    ended = run.status == "success" and bool(run.diffs)
    title = f"met the same error ({words[:80]})"
    if ended:
        title += f" and changed {', '.join(run.diffs[:3])}"
    if run.summary:
        title += f": {' '.join(run.summary.split())[:100]}"
    return PastEvent(
        "fix" if ended else "failure",
        title,
        run.at,
        id_,
        f"episode/{run.episode_id}",
        (),
        tuple(target for target in run.fixed if not target.startswith("issue/"))[:10],
    )


# -- merging ------------------------------------------------------------------------------------------


def _joined(one: Impact, other: Impact) -> Impact:
    return Impact(
        one.touched + other.touched,
        one.callers + other.callers,
        one.tests + other.tests,
        one.history + other.history,
        one.truncated or other.truncated,
    )


def _bounded(found: Impact) -> Impact:
    """Each list without repeats, best first, truncated."""
    callers = _best(found.callers)
    tests = _best(found.tests)
    history = _newest(found.history)
    cut = (
        len(callers) > MAX_CALLERS or len(tests) > MAX_TESTS or len(history) > MAX_HISTORY
    ) or found.truncated
    return Impact(
        found.touched,
        tuple(callers[:MAX_CALLERS]),
        tuple(tests[:MAX_TESTS]),
        tuple(history[:MAX_HISTORY]),
        cut,
    )


def _best(nodes: Iterable[ImpactNode]) -> list[ImpactNode]:
    """One entry a node, by descending confidence."""
    best: dict[str, ImpactNode] = {}
    for one in nodes:
        known = best.get(one.id)
        if known is None or known.confidence < one.confidence:
            best[one.id] = one
    return sorted(best.values(), key=lambda n: (-n.confidence, n.distance, n.id))


def _newest(events: Iterable[PastEvent]) -> list[PastEvent]:
    """One event for each item and kind; fixes and failures before mere changes, newest first."""
    once: dict[tuple[object, ...], PastEvent] = {}
    for event in events:
        once.setdefault((event.kind, event.node or event.item_id, event.tests), event)
    return sorted(
        once.values(),
        key=lambda e: (e.kind == "change", -(e.at.timestamp() if e.at else 0.0), e.title),
    )
