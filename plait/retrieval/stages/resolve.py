"""Which revisions an answer is read at, and what of the code its text names."""

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

# More than another arm brings, since they don't compete: which of a named file's chunks is meant, the
# other arms say.
MAX_PLACES = 500
MAX_AT = 16  # chunks at one place
WEIGHTS = DEFAULT.locations

# Characters of a diff or trace that are read at once; of more, which may take half a second, a thread's work.
AT_ONCE = 8_192

P = ParamSpec("P")
T = TypeVar("T")


async def resolve(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Fix the revisions that this answer is read at, and find the places that its text names: a ranking
    `anchors`, without a read where it names none."""
    asked = ctx.asked
    if asked.text and ctx.vector is None and not asked.attached and "semantic" not in ctx.query.off:
        deps.foresee(embedded(asked))  # on another thread, while the view is read
    view = await deps.store.view(ctx.query.where)
    aside = len(asked.attached) > AT_ONCE
    anchors = await _done(
        aside, reading.find_references, asked.text, asked.attached, asked.identifiers
    )
    if ctx.query.where.collections != (Collection.FILES,):  # code is of no time
        # "Last week" is before the time that the answer is of.
        then = ctx.query.where.as_of.recorded or ctx.query.where.as_of.valid or deps.now()
        anchors = replace(anchors, span=nearness.span(anchors.prose, then))
    # Names alone are no places: an arm of what prose names moved function MRR by -0.4 to -1.1 points on
    # benchmarks/localisation.py at every weight; the bonus for definitions does what there is to do.
    places = [a for a in anchors.places if a.kind is not AnchorKind.SYMBOL]
    scores: dict[ItemId, float] = {}
    reasons: dict[ItemId, str] = {}
    if places:
        spots = [anchor.spot for anchor in places]
        found = await deps.store.located(view, spots, ctx.query.where, MAX_PLACES)
        scores, reasons = ranking(places, found)
    asked = await _done(aside, about, asked, anchors, bool(scores))
    asked = own_names.without(asked, own_names.of_repositories(view))
    ctx = replace(ctx, view=view, anchors=anchors, asked=asked)
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


def about(asked: Analysis, anchors: Anchors, located: bool) -> Analysis:
    """`asked` with its attachment, without the frames of a trace and the headers of a diff: a model reads
    256 tokens, and paths of a build machine are no words to look for. Functions of frames are, where
    they could not be located. Of a report what it says comes before what it shows."""
    if not (anchors.is_diff or anchors.is_trace or asked.attached):
        return as_report(asked)
    subject = anchors.subject if located else "\n".join((anchors.subject, *anchors.functions))
    text = anchors.prose or subject.strip() or asked.text
    terms = query_terms(f"{anchors.prose}\n{subject}")[:MAX_TERMS]
    names = identifiers(anchors.prose)
    asked = replace(
        asked,
        kind=QueryKind.IDENTIFIERS if names or not anchors.prose else QueryKind.PLAIN,
        identifiers=names,
        phrases=phrases(anchors.prose),  # a thread's "main" and an argument's "x" are no quotations
        text=text.encode()[:MAX_QUERY_BYTES].decode("utf-8", "ignore"),
        terms=tuple(terms) or asked.terms,
        words=len(anchors.prose.split()),
    )
    return as_report(asked, subject) if anchors.prose and not anchors.is_diff else asked


def ranking(
    places: Sequence[Anchor], found: Sequence[Sequence[ItemId]]
) -> tuple[dict[ItemId, float], dict[ItemId, str]]:
    """Scores in (0, 1] and reasons by item: what each anchor found, the best of an item counts. Frames of
    other code found nothing and don't count as steps."""
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
