"""What the current index says of where agents' items are anchored, and what stands behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from plait.domain.memory import EXTERNAL_ROLES
from plait.domain.recall import AnchorState, NamedAnchor
from plait.domain.values import Collection, Filter, ItemId
from plait.ports import Standing, View
from vector.anchors import freshness_hunks, freshness_text
from vector.anchors.anchored import HASH
from vector.anchors.freshness_hunks import KEPT, Change
from vector.anchors.freshness_text import Kept
from vector.connection.pool import Scoped
from vector.search.compacted import is_compacted
from vector.search.filters import condition
from vector.search.snapshots import PinnedView

AGENTS = tuple(c for c in Collection if c is not Collection.FILES)
# Items of one question; a search ranks fewer.
MAX_ITEMS = 500

_ITEMS = """
SELECT i.id, a.path, a.symbol, i.anchor_hash, h.hash, i.episode_id, a.repo_id, a.number,
       {proven} AS proven, {external} AS external, i.anchors, i.entry_id, {compacted}, i.superseded_by
  FROM {table} i
 CROSS JOIN LATERAL (
       SELECT i.repo_id, w.number, i.path, split_part(i.symbol, '#', 1) AS symbol,
              reverse(split_part(reverse(split_part(i.symbol, '#', 1)), '.', 1)) AS leaf
         FROM unnest(%(in)s::int[], %(at)s::int[]) AS w (repo_id, number)
        WHERE w.repo_id = i.repo_id) a
{hash}
 WHERE i.id = ANY(%(ids)s) AND {where}
"""

# A test is said to validate it; or its run succeeded, and each test of it ended well, one at least.
PROVEN = """(
    EXISTS (SELECT FROM plait.memory_edge e
             WHERE e.repo_id = i.repo_id AND e.relation = 'VALIDATED_BY'
               AND e.source = CASE WHEN i.entry_id IS NULL THEN 'item/' || i.id ELSE 'memory/' || i.entry_id END
               AND {known})
    OR i.episode_id IS NOT NULL AND EXISTS (
       SELECT FROM plait.episode p
        CROSS JOIN LATERAL (
              SELECT count(*) AS n, bool_and(last.status = 'passed') AS passed FROM (
                  SELECT DISTINCT ON (t.reported) t.status FROM plait.test_result t
                   WHERE t.episode_id = p.id AND t.status <> 'skipped'
                   ORDER BY t.reported, t.item_id DESC, t.ordinal DESC) last) runs
        WHERE p.id = i.episode_id AND p.outcome->>'status' = 'success' AND runs.n > 0 AND runs.passed))"""
# As of a recorded time links that came later prove nothing yet.
KNOWN_NOW = "e.recorded_to IS NULL"
_KNOWN_THEN = (
    "e.recorded_from <= %(recorded)s AND (e.recorded_to IS NULL OR e.recorded_to > %(recorded)s)"
)

# What tools printed and pages said: turns of theirs, outcomes that `Learn` took in, and what its writer
# marks so. A run of tests is the repository's own word, its diffs and plans are the agent's.
EXTERNAL = """(
    i.kind IN ('turn', 'note', 'memory')
    AND (lower(coalesce(i.meta->>'role', '')) = ANY(%(outside)s)
         OR coalesce(i.meta->>'rule' = 'tool', false)
         OR coalesce(i.meta->>'trust' = 'external', false)
         OR i.kind <> 'memory' AND i.source = 'system')
    OR i.tags && ARRAY['external', 'web', 'tool-output'])"""
OUTSIDE = sorted(EXTERNAL_ROLES)


class Standings:
    def __init__(self, app: Scoped) -> None:
        self._app = app
        self._named_cache = freshness_text.Cache()

    async def standing(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Standing]:
        """See `SearchStore.standing`. One query; two more when there are items of runs that changed the file
        they are about; one or two when some name code in their texts."""
        if not ids or not view.revisions:
            return {}
        assert isinstance(view, PinnedView), "views come from `view`"
        cond = condition(view, Filter(collections=_agents(view)))
        query = _ITEMS.format(
            table=cond.table,
            where=cond.where,
            hash=HASH,
            proven=PROVEN.format(known=KNOWN_NOW if view.recorded is None else _KNOWN_THEN),
            external=EXTERNAL,
            compacted=is_compacted(None if view.recorded is None else "%(recorded)s"),
        )
        params = {
            **cond.params,
            "ids": list(ids)[:MAX_ITEMS],
            "in": [r.repo_id for r in view.revisions],
            "at": [r.number for r in view.revisions],
            "outside": OUTSIDE,
        }
        rows = [_Row(*row) for row in await self._app.rows(query, params, tenant=view.tenant)]
        said = {row.id: freshness_text.kept(row.repo_id, row.number, row.anchors) for row in rows}
        anchors = list(chain.from_iterable(said.values()))
        changes = [row.change(row.path) for row in rows if row.is_open]
        changes += [row.change(k.path) for row in rows for k in said[row.id] if not k.hash]
        shares = await freshness_hunks.shares(self._app, view.tenant, changes)
        now = await freshness_text.read(self._app, view.tenant, anchors, self._named_cache)
        return {row.id: _standing(row, said[row.id], now, shares) for row in rows}


def _agents(view: PinnedView) -> tuple[Collection, ...]:
    """The collections of agents' items that `view` was made for; all of them where it was made for code."""
    return tuple(c for c in view.collections if c in AGENTS) or AGENTS


class _Row(NamedTuple):
    """One of `_ITEMS`."""

    id: ItemId
    path: str
    symbol: str
    then: bytes | None
    now: bytes | None
    episode: UUID
    repo_id: int
    number: int
    proven: bool
    external: bool
    anchors: list[list[str]] | None
    entry: UUID | None
    compacted: bool
    replaced_by: UUID | None

    @property
    def is_open(self) -> bool:
        """Whether it is about a file that is there, of which it is not known how it read."""
        return bool(self.path and self.then is None and self.now and self.episode)

    def change(self, path: str) -> Change:
        return (self.episode, self.repo_id, self.number, path)


def _standing(
    row: _Row,
    said: Sequence[Kept],
    now: Mapping[Kept, NamedAnchor],
    shares: Mapping[Change, float],
) -> Standing:
    named = [_judged(now.get(k), k, shares.get(row.change(k.path))) for k in said]
    known, changed = row.then is not None, row.then != row.now
    if row.is_open and (share := shares.get(row.change(row.path))) is not None:
        known, changed = True, share < KEPT
    return Standing(
        anchored=bool(row.path or row.symbol),
        known=known,
        there=row.now is not None,
        changed=known and row.now is not None and changed,
        proven=row.proven,
        external=row.external,
        named=tuple(one for one in named if one is not None),
        entry=row.entry,
        compacted=row.compacted,
        replaced_by=row.replaced_by if row.compacted else None,
    )


def _judged(now: NamedAnchor | None, anchor: Kept, share: float | None) -> NamedAnchor | None:
    """A place that a text names; in a file that the item's own run changed, by what became of that."""
    if anchor.hash or now is None or now.state is AnchorState.GONE:
        return now
    if share is None:
        return None
    return replace(now, state=AnchorState.SAME if share >= KEPT else AnchorState.CHANGED)
