"""The semantic arm over what agents wrote: exact over few rows, by HNSW over many, and which of them it is.

How many rows a filter keeps is not counted for a query: reading 20,000 rows to learn that the index should have been
asked takes five times as long as asking it. The text index says how many a repository has at most. How many an
agent or a session has is found once, from an index alone, and kept for `KEPT_S`; a number that has become
wrong costs time and nothing else.
"""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from plait.domain.memory import NOW
from plait.domain.values import Candidate, Collection, Filter, ItemId
from plait.ports import View
from vector.connection.arrays import uuid_array
from vector.connection.pool import OVER_FETCH, Scoped
from vector.search import tagged
from vector.search.filters import Condition, condition
from vector.search.nearest_sql import ID_BYTES, best, by_index, candidates, exact, similarity
from vector.search.snapshots import PinnedView

# Up to here rows are compared one by one: 5,000 of 384 dimensions take 2 ms, as long as the index of 100,000.
EXACT_ROWS = 5_000
# What the index finds costs as much as comparing so many rows, measured at 100,000; and it gives up after `MOST_FOUND`
# that a filter does not keep, `hnsw.max_scan_tuples`.
FOUND_COST, MOST_FOUND = 20, 20_000
# Candidates that the index keeps for each one wanted that a filter leaves, and at most, pgvector's own limit.
# docs/experiments/memory-speed.md has what others find and cost.
CANDIDATES, MOST_CANDIDATES = 2.2, 1_000
# Where that limit is too low for what a filter leaves, so many are taken of what further passes find.
OVER_FETCH_FILTERED = 4
# Rows that tell what share a filter keeps, and rows that are counted at most.
SAMPLE, MOST_COUNTED = 2_000, 200_000
KEPT_S = 300.0
MOST_KEPT = 10_000  # numbers
AGENTS = tuple(c for c in Collection if c is not Collection.FILES)

_ALL = "SELECT reltuples::bigint FROM pg_class WHERE oid = %(table)s::regclass"
_COUNT = "SELECT count(*) FROM (SELECT FROM {table} i WHERE {scope} LIMIT %(counted)s) few"
_SHARE = """
SELECT count(*), count(*) FILTER (WHERE {where}) FROM (SELECT * FROM {table} i WHERE {scope} LIMIT %(sample)s) i
"""


@dataclass(frozen=True, slots=True)
class _Known:
    """What share of the index is looked for, None where comparing row by row is faster; whether those are few of
    many; until when that is taken for granted."""

    share: float | None
    few: bool
    until: float


class NearestOfAgents:
    def __init__(self, app: Scoped) -> None:
        self._app = app
        self._known: OrderedDict[tuple[object, ...], _Known] = OrderedDict()

    async def nearest(self, view: View, query: object, where: Filter, k: int) -> list[Candidate]:
        """The `k` nearest, best first. `where` names collections, code not among them."""
        docs = _docs(view)
        there = [c for c in where.collections if docs[c.value]]
        few = [c for c in there if docs[c.value] <= EXACT_ROWS]
        found = await self._exact(view, query, where, few, k) if few else []
        for collection in there:
            if (most := docs[collection.value]) > EXACT_ROWS:
                one = replace(where, collections=(collection,))
                found += await self._of_many(view, query, one, k, most)
        return sorted(found, key=lambda one: (-one.score, one.id.int))[:k]

    async def missed(self, view: View, query: object, ids: Sequence[ItemId]) -> dict[ItemId, float]:
        """As `SearchStore.missed`; `ids` match what was searched for."""
        docs = _docs(view)
        many = tuple(c for c in AGENTS if docs[c.value] > EXACT_ROWS)
        if not many:
            return {}
        cond = condition(view, Filter(collections=many))
        rows = await self._app.rows(
            f"SELECT i.id, {similarity('i.embedding', view.dim)} FROM {cond.table} i"
            f" WHERE i.id = ANY(%(ids)s) AND {cond.where} AND i.embedding IS NOT NULL",
            {**cond.params, "query": query, "ids": uuid_array(ids)},
            tenant=view.tenant,
        )
        return {ItemId(id_): cosine for id_, cosine in rows}

    async def _exact(
        self, view: View, query: object, where: Filter, collections: Sequence[Collection], k: int
    ) -> list[Candidate]:
        cond = condition(view, replace(where, collections=tuple(collections)))
        return await self._one_by_one(view, query, cond, k)

    async def _one_by_one(
        self, view: View, query: object, cond: Condition, k: int
    ) -> list[Candidate]:
        params = {**cond.params, "query": query, "k": k, "limit": None}
        rows = await self._app.rows(exact(cond, view.dim), params, tenant=view.tenant)
        return candidates(rows)

    async def _of_many(
        self, view: View, query: object, where: Filter, k: int, docs: int
    ) -> list[Candidate]:
        """By HNSW; all one by one where the filter keeps few of many, or too few were found that way. `docs`: what
        the repositories have at most."""
        cond = condition(view, where)
        known = await self._what_is_kept(view, where, k, docs)
        if known.share is None:
            if known.few and tagged.applies(where):
                cond = await tagged.narrowed(self._app, view, where, cond)
            return await self._one_by_one(view, query, cond, k)
        ef = math.ceil(CANDIDATES * k / known.share)
        more = OVER_FETCH_FILTERED if ef > MOST_CANDIDATES else OVER_FETCH
        params = {**cond.params, "query": query, "k": k, "more": math.ceil(more * k)}
        params["ef"] = min(ef, MOST_CANDIDATES)
        # The plan decides whether the index or each row is looked at, so what is found: the server would change
        # it at a connection's sixth call for one that fits any values.
        ((ids, distances),) = await self._app.rows(
            by_index(cond, view.dim, wider=True), params, tenant=view.tenant, prepare=False
        )
        if len(ids) < ID_BYTES * k:
            return await self._exact(view, query, where, where.collections, k)
        return best(ids, distances, k)

    async def _what_is_kept(self, view: View, where: Filter, k: int, docs: int) -> _Known:
        repos = tuple(r.repo_id for r in view.revisions)
        key = (repos, k, replace(where, repos=(), tenant=view.tenant, as_of=NOW))
        known = self._known.get(key)
        if known is None or known.until < time.monotonic():
            share, few = await self._counted(view, where, k, docs)
            self._known[key] = known = _Known(share, few, time.monotonic() + KEPT_S)
            while len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        return known

    async def _counted(
        self, view: View, where: Filter, k: int, docs: int
    ) -> tuple[float | None, bool]:
        """By how many rows its agent and session have, of how many, and by the share of those that the rest of
        `where` keeps: `share` and `few` of `_Known`."""
        scope = Filter(
            collections=where.collections, agent_id=where.agent_id, session_key=where.session_key
        )
        cond, scoped = condition(view, where), condition(view, scope)
        params = {**cond.params, "counted": MOST_COUNTED, "sample": SAMPLE}
        parts = {"table": cond.table, "scope": _scope(scope), "where": cond.where}
        params |= {"in": [r.repo_id for r in view.revisions]}
        ((of,),) = await self._app.rows(_ALL, {"table": cond.table}, tenant=view.tenant)
        kept = docs
        if scope.agent_id or scope.session_key:
            ((kept,),) = await self._app.rows(
                _COUNT.format(**parts), params, tenant=view.tenant, prepare=False
            )
        if kept <= EXACT_ROWS:
            return None, False
        share = kept / max(kept, of)
        if len(cond.params) > len(scoped.params):
            ((sampled, fitting),) = await self._app.rows(
                _SHARE.format(**parts), params, tenant=view.tenant, prepare=False
            )
            share *= (fitting + 0.5) / max(1, sampled)
        found = OVER_FETCH_FILTERED * k / share
        if found <= MOST_FOUND and found * FOUND_COST < kept:
            return share, False
        return None, share * max(kept, of) <= EXACT_ROWS


def _docs(view: View) -> Counter[str]:
    """By collection, how many of agents' items the repositories have at most."""
    assert isinstance(view, PinnedView), "views come from `view`"
    docs: Counter[str] = Counter()
    for segment in view.segments:
        docs[segment.collection] += segment.docs
    return docs


def _scope(scope: Filter) -> str:
    """What is living of an agent, a session or all, in words that an index alone answers."""
    parts = ["i.repo_id = ANY(%(in)s)", "i.superseded_at IS NULL"]
    if scope.agent_id:
        parts.append("i.agent_id = %(agent)s")
    if scope.session_key:
        parts.append("i.session_key = %(session)s AND i.session_key <> ''")
    return " AND ".join(parts)
