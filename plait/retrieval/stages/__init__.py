"""The stages, one module each, and their order: the one tuple behind every search and recall."""

from plait.domain.values import Collection
from plait.retrieval.query.analysis import Mode
from plait.retrieval.search_context import Deps, SearchContext, Stage
from plait.retrieval.stages.feedback import feedback
from plait.retrieval.stages.fetch import fetch
from plait.retrieval.stages.files import files
from plait.retrieval.stages.filter import filter
from plait.retrieval.stages.format import format
from plait.retrieval.stages.fts import fts
from plait.retrieval.stages.hierarchical import hierarchical
from plait.retrieval.stages.opinions import cross_encoder, rerank
from plait.retrieval.stages.relations import relations
from plait.retrieval.stages.resolve import resolve
from plait.retrieval.stages.rewrite import rewrite, rewrites
from plait.retrieval.stages.score import score
from plait.retrieval.stages.semantic import semantic
from plait.retrieval.stages.strategy import strategy
from plait.retrieval.stages.tags import tags


def _has_relations(ctx: SearchContext, deps: Deps) -> bool:
    return deps.relations is not None


def _has_feedback(ctx: SearchContext, deps: Deps) -> bool:
    """Skipped for searches in `fast`, to save a round trip."""
    return deps.receipts is not None and (ctx.options is not None or ctx.query.mode is Mode.FULL)


def _lists_hits(ctx: SearchContext, deps: Deps) -> bool:
    """A search (not a context) with several candidates, code among them."""
    several = ctx.options is None and len(ctx.order) > 1
    return several and any(p.collection is Collection.FILES for p in ctx.places.values())


def _has_reranker(ctx: SearchContext, deps: Deps) -> bool:
    return deps.reranker is not None


def _has_model(ctx: SearchContext, deps: Deps) -> bool:
    return deps.language is not None and deps.language_settings.rerank


STAGES: tuple[Stage, ...] = (
    Stage(resolve, needed=True),  # revisions; code locations that the text names
    Stage(rewrite, shed=5, when=rewrites),  # further terms
    Stage(strategy, needed=True),  # weights of the arms
    Stage(semantic, arm=True),  # by meaning
    Stage(fts, arm=True),  # by words
    Stage(relations, shed=4, when=_has_relations),  # by the graph, from the best so far
    Stage(fetch, needed=True),  # fuse; locations of the best
    Stage(hierarchical, shed=6),  # files, then symbols; neighbours joined
    Stage(filter),  # remove what the session was shown
    Stage(tags),  # tags
    Stage(feedback, shed=3, when=_has_feedback),  # feedback on earlier recalls
    Stage(score),  # the full score
    Stage(files, when=_lists_hits),  # boosts of files; diversity
    Stage(rerank, shed=2, when=_has_reranker),  # a local model reads the best
    Stage(cross_encoder, calls_model=True, shed=1, when=_has_model),  # a chat model reads the best
    Stage(format, needed=True),  # hits, or a packed context
)

__all__ = ["STAGES"]
