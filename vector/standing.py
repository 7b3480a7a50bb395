"""What the current index says of where agents' items are anchored, and what stands behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any
from uuid import UUID

from plait.domain.values import Collection, Filter, ItemId
from plait.ports import Standing, View
from vector import standing_text
from vector.anchored import HASH
from vector.filters import condition
from vector.pool import Scoped

AGENTS = tuple(c for c in Collection if c is not Collection.FILES)
# Items of one question; a search ranks fewer.
MAX_ITEMS = 500
# Files of episodes' own diffs whose hunks are looked for in the current code.
MAX_FILES = 40
MAX_HUNKS = 400
MAX_FILE_CHARS = 400_000
# Share of the lines a diff added that must still be there for its code to read as it left it.
KEPT = 0.9

_ITEMS = """
SELECT i.id, a.path, a.symbol, i.anchor_hash, h.hash, i.episode_id, a.repo_id, a.number,
       {proven} AS proven, {external} AS external, i.anchors
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
_PROVEN = """(
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
_KNOWN_NOW = "e.recorded_to IS NULL"
_KNOWN_THEN = (
    "e.recorded_from <= %(recorded)s AND (e.recorded_to IS NULL OR e.recorded_to > %(recorded)s)"
)

# What tools printed and pages said: turns of theirs, outcomes that `Learn` took in, and what its writer
# marks so. A run of tests is the repository's own word, its diffs and plans are the agent's.
_EXTERNAL = """(
    i.kind IN ('turn', 'note', 'memory')
    AND (lower(coalesce(i.meta->>'role', '')) = ANY(%(outside)s)
         OR coalesce(i.meta->>'rule' = 'tool', false)
         OR coalesce(i.meta->>'trust' = 'external', false)
         OR i.kind <> 'memory' AND i.source = 'system')
    OR i.tags && ARRAY['external', 'web', 'tool-output'])"""
OUTSIDE = ["tool", "function", "system", "environment", "web", "browser", "exit", "observation"]

_HUNKS = f"""
SELECT h.episode_id, h.path, h.body
  FROM unnest(%(episodes)s::uuid[], %(paths)s::text[]) AS w (episode, path)
  JOIN hunk h ON h.episode_id = w.episode AND h.path = w.path
 ORDER BY h.episode_id, h.path, h.item_id, h.ordinal LIMIT {MAX_HUNKS}
"""
_CODE = f"""
SELECT w.repo, w.path, left(string_agg(f.content, E'\\n'), {MAX_FILE_CHARS})
  FROM unnest(%(repos)s::int[], %(numbers)s::int[], %(paths)s::text[]) AS w (repo, number, path)
  JOIN files f ON f.repo_id = w.repo AND f.path = w.path
   AND f.rev_from <= w.number AND (f.rev_to IS NULL OR f.rev_to > w.number)
 GROUP BY w.repo, w.path
"""


class Standings:
    _app: Scoped

    async def standing(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Standing]:
        """See `SearchStore.standing`. One query; two more when there are items of runs that changed the file
        they are about; one or two when some name code in their texts."""
        if not ids or not view.revisions:
            return {}
        cond = condition(view, Filter(collections=AGENTS))
        query = _ITEMS.format(
            table=cond.table,
            where=cond.where,
            hash=HASH,
            proven=_PROVEN.format(known=_KNOWN_NOW if view.recorded is None else _KNOWN_THEN),
            external=_EXTERNAL,
        )
        params = {
            **cond.params,
            "ids": list(ids)[:MAX_ITEMS],
            "in": [r.repo_id for r in view.revisions],
            "at": [r.number for r in view.revisions],
            "outside": OUTSIDE,
        }
        rows = await self._app.rows(query, params, tenant=view.tenant)
        found = {ItemId(row[0]): _standing(row) for row in rows}
        return await self._with_named(view, rows, {**found, **await self._by_hunks(view, rows)})

    async def _with_named(
        self, view: View, rows: Sequence[tuple[Any, ...]], found: dict[ItemId, Standing]
    ) -> dict[ItemId, Standing]:
        """`found`, with what the items' texts name."""
        said = {ItemId(row[0]): standing_text.kept(row[6], row[7], row[10]) for row in rows}
        now = await standing_text.read(self._app, view.tenant, chain.from_iterable(said.values()))
        for id_, anchors in said.items():
            if named := tuple(now[anchor] for anchor in anchors if anchor in now):
                found[id_] = replace(found[id_], named=named)
        return found

    async def _by_hunks(
        self, view: View, rows: Sequence[tuple[Any, ...]]
    ) -> dict[ItemId, Standing]:
        """Of items about files that their own run changed: whether what it added is still there."""
        open_ = [row for row in rows if row[1] and row[3] is None and row[4] and row[5]]
        about = list(dict.fromkeys((row[5], row[1]) for row in open_))[:MAX_FILES]
        if not about:
            return {}
        params: dict[str, Any] = {"episodes": [e for e, _ in about], "paths": [p for _, p in about]}
        added: dict[tuple[UUID, str], list[str]] = {}
        for episode, path, body in await self._app.rows(_HUNKS, params, tenant=view.tenant):
            added.setdefault((episode, path), []).extend(_added(body))
        wanted = list(dict.fromkeys((r[6], r[7], r[1]) for r in open_ if added.get((r[5], r[1]))))
        if not wanted:
            return {}
        params = {
            "repos": [repo for repo, _, _ in wanted],
            "numbers": [number for _, number, _ in wanted],
            "paths": [path for _, _, path in wanted],
        }
        code = {
            (repo, path): {line.strip() for line in text.split("\n")}
            for repo, path, text in await self._app.rows(_CODE, params, tenant=view.tenant)
        }
        return {ItemId(row[0]): _judged(row, added, code) for row in open_}


def _standing(row: tuple[Any, ...]) -> Standing:
    _, path, symbol, then, now, _, _, _, proven, external, _ = row
    return Standing(
        anchored=bool(path or symbol),
        known=then is not None,
        there=now is not None,
        changed=then is not None and now is not None and bytes(then) != bytes(now),
        proven=proven,
        external=external,
    )


def _judged(
    row: tuple[Any, ...],
    added: Mapping[tuple[UUID, str], Sequence[str]],
    code: Mapping[tuple[int, str], set[str]],
) -> Standing:
    lines = added.get((row[5], row[1]), ())
    held = code.get((row[6], row[1]))
    proven, external = row[8:10]
    if not lines or held is None:
        return Standing(True, there=True, proven=proven, external=external)
    kept = sum(line in held for line in lines) / len(lines)
    return Standing(
        True, known=True, there=True, changed=kept < KEPT, proven=proven, external=external
    )


def _added(body: str) -> list[str]:
    """The lines that a hunk added, without those that say nothing of their own."""
    lines = [line[1:].strip() for line in body.split("\n") if line.startswith("+")]
    return [line for line in lines if sum(c.isalnum() for c in line) > 2]
