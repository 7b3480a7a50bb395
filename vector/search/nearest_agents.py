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
from plait.domain.values import Candidate, Collection, Filter
from plait.ports import View
from vector.connection.pool import OVER_FETCH, Scoped
from vector.search.filters import condition
from vector.search.nearest_sql import ID_BYTES, best, by_index, candidates, exact
from vector.search.snapshots import PinnedView

# Up to here rows are compared one by one: 5,000 of 384 dimensions take 2 ms, as long as the index of 100,000.
EXACT_ROWS = 5_000
# What the index finds costs as much as comparing so many rows, measured at 100,000; and it gives up after `MOST_FOUND`
# that a filter does not keep, `hnsw.max_scan_tuples`.
FOUND_COST, MOST_FOUND = 20, 20_000
# With a filter recall needs more than `OVER_FETCH`.
OVER_FETCH_FILTERED = 4
# Rows that tell what share a filter keeps, and rows that are counted at most.
SAMPLE, MOST_COUNTED = 2_000, 200_000
KEPT_S = 300.0
MOST_KEPT = 10_000  # numbers

_ALL = "SELECT reltuples::bigint FROM pg_class WHERE oid = %(table)s::regclass"
_COUNT = "SELECT count(*) FROM (SELECT FROM {table} i WHERE {scope} LIMIT %(counted)s) few"
_SHARE = """
SELECT count(*), count(*) FILTER (WHERE {where}) FROM (SELECT * FROM {table} i WHERE {scope} LIMIT %(sample)s) i
"""


@dataclass(frozen=True, slots=True)
class _Known:
    """Whether the index is asked; until when that is taken for granted."""

    index: bool
    until: float


class NearestOfAgents:
    def __init__(self, app: Scoped) -> None:
        self._app = app
        self._known: OrderedDict[tuple[object, ...], _Known] = OrderedDict()

    async def nearest(self, view: View, query: object, where: Filter, k: int) -> list[Candidate]:
        """The `k` nearest, best first. `where` names collections, code not among them."""
        assert isinstance(view, PinnedView), "views come from `view`"
        docs: Counter[str] = Counter()
        for segment in view.segments:
            docs[segment.collection] += segment.docs
        there = [c for c in where.collections if docs[c.value]]
        few = [c for c in there if docs[c.value] <= EXACT_ROWS]
        found = await self._exact(view, query, where, few, k) if few else []
        for collection in there:
            if (most := docs[collection.value]) > EXACT_ROWS:
                one = replace(where, collections=(collection,))
                found += await self._of_many(view, query, one, k, most)
        return sorted(found, key=lambda one: (-one.score, one.id.int))[:k]

    async def _exact(
        self, view: View, query: object, where: Filter, collections: Sequence[Collection], k: int
    ) -> list[Candidate]:
        cond = condition(view, replace(where, collections=tuple(collections)))
        params = {**cond.params, "query": query, "k": k, "limit": None}
        rows = await self._app.rows(exact(cond, view.dim), params, tenant=view.tenant)
        return candidates(rows)

    async def _of_many(
        self, view: View, query: object, where: Filter, k: int, docs: int
    ) -> list[Candidate]:
        """By HNSW; all one by one where the filter keeps few of many, or too few were found that way. `docs`: what
        the repositories have at most."""
        cond = condition(view, where)
        if not await self._asks_index(view, where, k, docs):
            return await self._exact(view, query, where, where.collections, k)
        more = OVER_FETCH_FILTERED if cond.restrictive else OVER_FETCH
        params = {**cond.params, "query": query, "k": k, "more": math.ceil(more * k)}
        # The plan decides whether the index or each row is looked at, so what is found: the server would change
        # it at a connection's sixth call for one that fits any values.
        ((ids, distances),) = await self._app.rows(
            by_index(cond, view.dim), params, tenant=view.tenant, prepare=False
        )
        if len(ids) < ID_BYTES * k:
            return await self._exact(view, query, where, where.collections, k)
        return best(ids, distances, k)

    async def _asks_index(self, view: View, where: Filter, k: int, docs: int) -> bool:
        """Whether the index is the faster way to what `where` keeps."""
        repos = tuple(r.repo_id for r in view.revisions)
        key = (repos, k, replace(where, repos=(), tenant=view.tenant, as_of=NOW))
        known = self._known.get(key)
        if known is None or known.until < time.monotonic():
            known = _Known(await self._is_faster(view, where, k, docs), time.monotonic() + KEPT_S)
            self._known[key] = known
            while len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        return known.index

    async def _is_faster(self, view: View, where: Filter, k: int, docs: int) -> bool:
        """By how many rows its agent and session have, of how many, and by the share of those that the rest of
        `where` keeps."""
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
            return False
        share = kept / max(kept, of)
        if len(cond.params) > len(scoped.params):
            ((sampled, fitting),) = await self._app.rows(
                _SHARE.format(**parts), params, tenant=view.tenant, prepare=False
            )
            share *= (fitting + 0.5) / max(1, sampled)
        found = OVER_FETCH_FILTERED * k / share
        return bool(found <= MOST_FOUND and found * FOUND_COST < kept)


def _scope(scope: Filter) -> str:
    """What is living of an agent, a session or all, in words that an index alone answers."""
    parts = ["i.repo_id = ANY(%(in)s)", "i.superseded_at IS NULL"]
    if scope.agent_id:
        parts.append("i.agent_id = %(agent)s")
    if scope.session_key:
        parts.append("i.session_key = %(session)s AND i.session_key <> ''")
    return " AND ".join(parts)
