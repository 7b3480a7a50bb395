"""Fix the view of an answer, and locate the code that its query names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ParamSpec, TypeVar

from plait.domain.values import Candidate, Collection, ItemId
from plait.retrieval.query import code_references as reading
from plait.retrieval.query import nearness, own_names
from plait.retrieval.query.analysis import (
    MAX_QUERY_BYTES,
    MAX_TERMS,
    Analysis,
    QueryKind,
    identifiers,
    phrases,
)
from plait.retrieval.query.bug_report import as_report, embedded
from plait.retrieval.query.code_references import Anchor, AnchorKind, Anchors
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Deps, SearchContext
from plait.text.tokenize import query_terms

# More than other arms return: the chunks of a named file are all candidates, and the other arms rank them.
MAX_PLACES = 500
MAX_AT = 16  # chunks at one location
WEIGHTS = DEFAULT.locations

# Diffs and traces with more characters, which may take half a second, are parsed in a thread.
AT_ONCE = 8_192

P = ParamSpec("P")
T = TypeVar("T")


async def resolve(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Fix the revisions of this answer and locate the code that its query names: the ranking `anchors`. Reads nothing
    if it names no code."""
    analysis = ctx.analysis
    if (
        analysis.text
        and ctx.vector is None
        and not analysis.attached
        and "semantic" not in ctx.query.off
    ):
        deps.foresee(embedded(analysis))  # on another thread, while the view is read
    view = await deps.store.view(ctx.query.where)
    aside = len(analysis.attached) > AT_ONCE
    anchors = await _done(
        aside, reading.find_references, analysis.text, analysis.attached, analysis.identifiers
    )
    if ctx.query.where.collections != (Collection.FILES,):  # code has no times
        # "Last week" is relative to the time of the answer.
        then = ctx.query.where.as_of.recorded or ctx.query.where.as_of.valid or deps.now()
        anchors = replace(anchors, span=nearness.span(anchors.prose, then))
    # Names alone are no locations: an arm for names in prose moved function MRR by -0.4 to -1.1 points on
    # benchmarks/localisation.py at every weight; the bonus for definitions does what there is to do.
    places = [a for a in anchors.places if a.kind is not AnchorKind.SYMBOL]
    scores: dict[ItemId, float] = {}
    reasons: dict[ItemId, str] = {}
    if places:
        spots = [anchor.spot for anchor in places]
        found = await deps.store.located(view, spots, ctx.query.where, MAX_PLACES)
        scores, reasons = ranking(places, found)
    analysis = await _done(aside, about, analysis, anchors, bool(scores))
    analysis = own_names.without(analysis, own_names.of_repositories(view))
    ctx = replace(ctx, view=view, anchors=anchors, analysis=analysis)
    return _with_arm(ctx, scores, reasons) if scores else ctx


async def _done(aside: bool, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    if aside:
        return await asyncio.to_thread(work, *given, **named)
    return work(*given, **named)


def _with_arm(
    ctx: SearchContext, scores: Mapping[ItemId, float], reasons: Mapping[ItemId, str]
) -> SearchContext:
    ranked = [Candidate(id_, score) for id_, score in scores.items()]
    ranked.sort(key=lambda c: (-c.score, c.id.int))
    ranked = ranked[:MAX_PLACES]
    why = {c.id: (reasons[c.id],) for c in ranked}
    return replace(
        ctx, rankings={**ctx.rankings, "anchors": ranked}, reasons={**ctx.reasons, **why}
    )


def about(analysis: Analysis, anchors: Anchors, located: bool) -> Analysis:
    """`analysis` including the attachment, without the frames of a trace and the headers of a diff: a model reads 256
    tokens, and paths of a build machine are no search terms. Functions of frames are, if they could not be located.
    In a report, prose comes before quoted text."""
    if not (anchors.is_diff or anchors.is_trace or analysis.attached):
        return as_report(analysis)
    subject = anchors.subject if located else "\n".join((anchors.subject, *anchors.functions))
    text = anchors.prose or subject.strip() or analysis.text
    terms = query_terms(f"{anchors.prose}\n{subject}")[:MAX_TERMS]
    names = identifiers(anchors.prose)
    analysis = replace(
        analysis,
        kind=QueryKind.IDENTIFIERS if names or not anchors.prose else QueryKind.PLAIN,
        identifiers=names,
        phrases=phrases(
            anchors.prose
        ),  # a thread named "main" or an argument "x" is no quoted phrase
        text=text.encode()[:MAX_QUERY_BYTES].decode("utf-8", "ignore"),
        terms=tuple(terms) or analysis.terms,
        words=len(anchors.prose.split()),
    )
    return as_report(analysis, subject) if anchors.prose and not anchors.is_diff else analysis


def ranking(
    places: Sequence[Anchor], found: Sequence[Sequence[ItemId]]
) -> tuple[dict[ItemId, float], dict[ItemId, str]]:
    """Scores in (0, 1] and reasons by item, from its best anchor. Frames outside the index do not count as steps."""
    scores: dict[ItemId, float] = {}
    reasons: dict[ItemId, str] = {}
    frames = 0
    for anchor, ids in zip(places, found, strict=True):
        if not ids:
            continue
        frames += anchor.kind is AnchorKind.FRAME
        reason = _reason(anchor, frames)
        for id_, score in _scored(anchor, ids, frames):
            if score > scores.get(id_, 0.0):
                scores[id_], reasons[id_] = score, reason
    return scores, reasons


def _scored(anchor: Anchor, ids: Sequence[ItemId], frame: int) -> list[tuple[ItemId, float]]:
    spot = anchor.spot
    if anchor.kind is AnchorKind.FRAME:
        return [(ids[0], WEIGHTS.frame_decay ** (frame - 1))]
    if spot.start_line:
        return [(id_, anchor.weight * WEIGHTS.around**n) for n, id_ in enumerate(ids[:MAX_AT])]
    if spot.symbol:
        return [(id_, anchor.weight) for id_ in ids[:1]]
    return [(id_, anchor.weight * WEIGHTS.whole_file) for id_ in ids]


def _reason(anchor: Anchor, frame: int) -> str:
    match anchor.kind:
        case AnchorKind.FRAME:
            return f"frame {frame} of the stack trace"
        case AnchorKind.HUNK:
            return "the diff changes it"
        case AnchorKind.TEST:
            return "the query names this test"
    line = f":{anchor.spot.start_line}" if anchor.spot.start_line else ""
    return f"the query names {anchor.spot.path}{line}"
