"""Run the tuple of stages: select, time and shed them, and run the arms concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from time import perf_counter

from plait.domain.errors import DeadlineExceeded, InvalidInput
from plait.domain.values import Timing
from plait.retrieval.query.analysis import Mode
from plait.retrieval.search_context import Degraded, Deps, SearchContext, Snapshot, Stage, changed

# Reserved for ranking, fetching and packing when the arms use up the deadline.
RESERVE_SHARE, RESERVE_MAX_S = 0.2, 0.05
# Share of the deadline below which a stage is shed: the first in shedding order at a half, the last at a tenth,
# those between evenly spaced.
SHED_FROM, SHED_TO = 0.5, 0.1


def plan(mode: Mode, stages: Sequence[Stage], off: Sequence[str] = ()) -> tuple[Stage, ...]:
    """The stages of `mode` without those switched `off`. `fast` is the tuple without what calls a model.

    Raises: InvalidInput, for a name that is no stage or one that cannot be left out.
    """
    by_name = {stage.name: stage for stage in stages}
    for name in off:
        if name not in by_name or by_name[name].needed:
            free = ", ".join(s.name for s in stages if not s.needed)
            problem = "cannot be left out" if name in by_name else "is no stage"
            raise InvalidInput(
                f"stage {name[:40]!r} {problem}; off may name: {free}", field="stages_off"
            )
    return tuple(
        s for s in stages if s.name not in off and (mode is Mode.FULL or not s.calls_model)
    )


def without_model(mode: Mode, deps: Deps) -> tuple[Degraded, ...]:
    """The degradation of mode `full` when no chat model is configured: the stages of `fast` ran."""
    missing = mode is Mode.FULL and deps.language is None
    return (Degraded("full", "no_model"),) if missing else ()


async def run(ctx: SearchContext, deps: Deps, stages: Sequence[Stage]) -> SearchContext:
    """Run `stages` in order and time each one; a stage shed for lack of time is named in `degraded`.

    Raises: DeadlineExceeded, between two of them.
    """
    shed = _bars(stages)
    for group in _groups(stages):
        ctx.deadline.check("the search")
        due = []
        for stage in group:
            if not stage.when(ctx, deps):
                continue
            if ctx.deadline.left_s < shed.get(stage.name, 0.0) * ctx.deadline.limit_s:
                ctx = changed(ctx, degraded=(*ctx.degraded, Degraded(stage.name, "deadline")))
            else:
                due.append(stage)
        if len(due) == 1 and not due[0].arm:
            ctx = await _timed(due[0], ctx, deps)
        elif due:
            ctx = await _side_by_side(due, ctx, deps)
        if ctx.traced:
            ctx = _traced(ctx, group[-1].name)
    return ctx


def _bars(stages: Sequence[Stage]) -> dict[str, float]:
    """By stage the share of the deadline below which it is shed."""
    sheddable = sorted((s for s in stages if s.shed), key=lambda s: s.shed)
    step = (SHED_FROM - SHED_TO) / max(1, len(sheddable) - 1)
    return {s.name: SHED_FROM - i * step for i, s in enumerate(sheddable)}


def _groups(stages: Sequence[Stage]) -> Iterator[list[Stage]]:
    """Adjacent arms as one group, every other stage alone."""
    for is_arm, group in groupby(stages, key=lambda s: s.arm):
        if is_arm:
            yield list(group)
        else:
            yield from ([stage] for stage in group)


async def _timed(stage: Stage, ctx: SearchContext, deps: Deps) -> SearchContext:
    start = perf_counter()
    ctx = await stage.run(ctx, deps)
    took = Timing(stage.name, (perf_counter() - start) * 1e3)
    return changed(ctx, timings=(*ctx.timings, took))


async def _side_by_side(arms: Sequence[Stage], ctx: SearchContext, deps: Deps) -> SearchContext:
    """Run `arms` concurrently on the same context and merge their results. An arm that misses the deadline is named
    in `degraded`; a store's error ends the search.

    Raises: DeadlineExceeded, when no arm finished in time and there were no rankings before.
    """
    limit_s = ctx.deadline.left_s - min(ctx.deadline.left_s * RESERVE_SHARE, RESERVE_MAX_S)
    tasks = [asyncio.create_task(_timed(arm, ctx, deps), name=arm.name) for arm in arms]
    try:
        await asyncio.wait(tasks, timeout=limit_s, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done() and task.exception() is not None:
                task.result()
        merged, unfinished_arms = ctx, 0
        for arm, task in zip(arms, tasks, strict=True):
            if task.done():
                merged = _merge(ctx, merged, task.result())
            else:
                unfinished_arms += 1
                took = Timing(arm.name, limit_s * 1e3)
                merged = replace(
                    merged,
                    degraded=(*merged.degraded, Degraded(arm.name, "deadline")),
                    timings=(*merged.timings, took),
                )
        if unfinished_arms == len(arms) and not ctx.rankings:
            raise DeadlineExceeded("the search", ctx.deadline.limit_s)
        return merged
    finally:
        unfinished = [task for task in tasks if not task.done()]
        for task in unfinished:
            task.cancel()
        if unfinished:
            await asyncio.wait(unfinished)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not log it: one error already ends the search


def _merge(before: SearchContext, merged: SearchContext, one: SearchContext) -> SearchContext:
    """`merged` with what `one` added to `before`: rankings, reasons, degradations, timings."""
    reasons = dict(merged.reasons)
    for id_, added in one.reasons.items():
        reasons[id_] = tuple(dict.fromkeys((*reasons.get(id_, ()), *added)))
    return replace(
        merged,
        rankings={**merged.rankings, **one.rankings},
        query_vector=one.query_vector if one.query_vector is not None else merged.query_vector,
        reasons=reasons,
        impact=one.impact if one.impact else merged.impact,
        degraded=(*merged.degraded, *one.degraded[len(before.degraded) :]),
        timings=(*merged.timings, *one.timings[len(before.timings) :]),
    )


def _traced(ctx: SearchContext, stage: str) -> SearchContext:
    """`ctx` with a snapshot, if the candidates changed."""
    scores = {id_: ctx.fused.get(id_, 0.0) for id_ in ctx.order}
    if ctx.trail and list(ctx.trail[-1].scores.items()) == list(scores.items()):
        return ctx
    return changed(ctx, trail=(*ctx.trail, Snapshot(stage, scores))) if scores or ctx.trail else ctx
