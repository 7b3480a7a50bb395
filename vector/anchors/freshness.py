"""The state of agents' items: of their anchors in the current index, and of their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from plait.domain.memory import EXTERNAL_ROLES
from plait.domain.recall import AnchorState, NamedAnchor
from plait.domain.values import Collection, Filter, ItemId
from plait.ports import ItemState, View
from vector.anchors import freshness_hunks, freshness_text
from vector.anchors.anchored import HASH
from vector.anchors.freshness_hunks import MIN_SHARE, Change
from vector.anchors.freshness_text import StoredAnchor
from vector.connection.pool import Scoped
from vector.search.compacted import is_compacted
from vector.search.filters import condition
from vector.search.snapshots import PinnedView

AGENTS = tuple(c for c in Collection if c is not Collection.FILES)
# Items of one query; a search ranks fewer.
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

# A VALIDATED_BY link; or its run succeeded with at least one test, and all of its tests passed.
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
# As of a recorded time, later links do not count.
KNOWN_NOW = "e.recorded_to IS NULL"
_KNOWN_THEN = (
    "e.recorded_from <= %(recorded)s AND (e.recorded_to IS NULL OR e.recorded_to > %(recorded)s)"
)

# Text from tools and pages: their turns, outcomes read by `Learn`, and what its writer marks as external. A run of
# tests comes from the repository, diffs and plans come from the agent.
EXTERNAL = """(
    i.kind IN ('turn', 'note', 'memory')
    AND (lower(coalesce(i.meta->>'role', '')) = ANY(%(outside)s)
         OR coalesce(i.meta->>'rule' = 'tool', false)
         OR coalesce(i.meta->>'trust' = 'external', false)
         OR i.kind <> 'memory' AND i.source = 'system')
    OR i.tags && ARRAY['external', 'web', 'tool-output'])"""
OUTSIDE = sorted(EXTERNAL_ROLES)


class ItemStates:
    def __init__(self, app: Scoped) -> None:
        self._app = app
        self._named_cache = freshness_text.Cache()

    async def item_states(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, ItemState]:
        """See `SearchStore.item_states`. One query; two more when there are items of runs that changed the file
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
        anchors_by_item = {
            row.id: freshness_text.stored_anchors(row.repo_id, row.number, row.anchors)
            for row in rows
        }
        anchors = list(chain.from_iterable(anchors_by_item.values()))
        changes = [row.change(row.path) for row in rows if row.is_open]
        changes += [
            row.change(anchor.path)
            for row in rows
            for anchor in anchors_by_item[row.id]
            if not anchor.hash
        ]
        shares = await freshness_hunks.shares(self._app, view.tenant, changes)
        now = await freshness_text.read(self._app, view.tenant, anchors, self._named_cache)
        return {row.id: _item_state(row, anchors_by_item[row.id], now, shares) for row in rows}


def _agents(view: PinnedView) -> tuple[Collection, ...]:
    """The agents' collections of `view`; all of them if the view is of code."""
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
        """Whether its file exists but has no hash from when the item was recorded."""
        return bool(self.path and self.then is None and self.now and self.episode)

    def change(self, path: str) -> Change:
        return (self.episode, self.repo_id, self.number, path)


def _item_state(
    row: _Row,
    anchors: Sequence[StoredAnchor],
    now: Mapping[StoredAnchor, NamedAnchor],
    shares: Mapping[Change, float],
) -> ItemState:
    named = [_judged(now.get(k), k, shares.get(row.change(k.path))) for k in anchors]
    known, changed = row.then is not None, row.then != row.now
    if row.is_open and (share := shares.get(row.change(row.path))) is not None:
        known, changed = True, share < MIN_SHARE
    return ItemState(
        anchored=bool(row.path or row.symbol),
        has_baseline=known,
        exists=row.now is not None,
        changed=known and row.now is not None and changed,
        proven=row.proven,
        external=row.external,
        named=tuple(one for one in named if one is not None),
        entry=row.entry,
        compacted=row.compacted,
        replaced_by=row.replaced_by if row.compacted else None,
    )


def _judged(
    now: NamedAnchor | None, anchor: StoredAnchor, share: float | None
) -> NamedAnchor | None:
    """The state of an anchor; in a file that the item's own run changed, by the share of that change still there."""
    if anchor.hash or now is None or now.state is AnchorState.GONE:
        return now
    if share is None:
        return None
    return replace(now, state=AnchorState.SAME if share >= MIN_SHARE else AnchorState.CHANGED)
