"""Which revisions, segments and times one answer is read at: now, or as of a recorded time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from plait.domain.errors import HistoryGone, InvalidInput, RepositoryNotIndexed
from plait.domain.scope import check_tenant, unqualify
from plait.domain.values import Collection, Filter, Revision
from plait.ports import Place, View
from vector.connection.clock import hold
from vector.connection.pool import Scoped
from vector.index.bm25 import SegmentRef
from vector.index.repositories import COLUMNS, to_revision
from vector.index.visible import CHUNKS_OF, held
from vector.search import versions

_SEGMENTS = """
  LEFT JOIN embedding_space s ON s.filled
  LEFT JOIN LATERAL (
       SELECT array_agg(ARRAY[g.id::text, g.collection, g.docs::text, coalesce(
                (SELECT max(d.rev) FROM segment_dead d
                  WHERE d.segment_id = g.id AND d.rev <= {number}), 0)::text] ORDER BY g.id) AS segments
         FROM segment g
        WHERE g.repo_id = r.id AND g.rev_from <= {number}
          AND (g.rev_to IS NULL OR g.rev_to > {number}) AND g.replaced_at IS NULL) g ON true
"""
_ALL = " WHERE r.published > 0 OR g.segments IS NOT NULL ORDER BY r.name"
_NAMED = " WHERE r.name = ANY(%(repos)s) ORDER BY r.name"

_NOW = f"""
SELECT {COLUMNS}, s.model, s.dim, now(), g.segments, {versions.COLUMNS}
  FROM repository r {_SEGMENTS.format(number="r.published")}
"""

# As of a recorded time: the newest revision that was published by then, 0 for none, with its own
# counts. `gone`: what there was then is collected, or was never logged.
_THEN = f"""
SELECT r.id, r.name, p.number, r.root, f.files, c.chunks, c.embedded, r.graph_number, p.published_at,
       s.model, s.dim, now(), g.segments,
       r.published > 0 AND CASE WHEN p.number = 0 THEN p.first > 1 ELSE p.number < r.collected END,
       (SELECT min(l.published_at) FROM revision_log l
         WHERE l.repo_id = r.id AND l.number >= r.collected)
  FROM repository r
 CROSS JOIN LATERAL (
       SELECT coalesce(max(l.number) FILTER (WHERE l.published_at <= %(recorded)s), 0) AS number,
              max(l.published_at) FILTER (WHERE l.published_at <= %(recorded)s) AS published_at,
              min(l.number) AS first
         FROM revision_log l WHERE l.repo_id = r.id) p
 CROSS JOIN LATERAL (
       SELECT count(*)::int AS files FROM file_member f
        WHERE %(code)s AND f.repo_id = r.id AND {held("f", "p.number")}) f
 CROSS JOIN LATERAL (
       SELECT count(*)::int AS chunks, count(f.embedding)::int AS embedded
         FROM file_member m JOIN files f ON {CHUNKS_OF}
        WHERE %(code)s AND m.repo_id = r.id AND {held("m", "p.number")}) c
{_SEGMENTS.format(number="p.number")}
"""


@dataclass(frozen=True, slots=True)
class PinnedView(View):
    """A view that knows the BM25 segments of its revisions, so that no arm asks again. `collections`: those of the
    filter that it was made with, () for all. `seen`: places of agents' items that this answer has read already, by the
    number of the id, which hashes ten times as fast."""

    segments: tuple[SegmentRef, ...] = ()
    collections: tuple[Collection, ...] = ()
    seen: dict[int, Place] = field(default_factory=dict, compare=False, repr=False)


async def read_view(app: Scoped, where: Filter) -> PinnedView:
    """As `SearchStore.view`."""
    names = sorted(set(where.repos))
    if any("\0" in name for name in names):
        raise InvalidInput("`repos` holds a NUL character; remove it", field="repos")
    tenant, recorded = check_tenant(where.tenant), where.as_of.recorded
    code = not where.collections or Collection.FILES in where.collections
    params: dict[str, Any] = {"repos": names} if names else {}
    if recorded is not None:
        params |= {"recorded": recorded, "code": code}
    await hold(app, tenant, names, recorded)
    query = (_NOW if recorded is None else _THEN) + (_NAMED if names else _ALL)
    rows = await app.rows(query, params, tenant=tenant)
    revisions = tuple(to_revision(row[:9]) for row in rows)
    if not where.skip_unknown:
        _check_named(names, revisions, where)
    if recorded is not None and code:
        _check_history(rows, where, recorded)
    model, dim, now = rows[0][9:12] if rows else (None, None, None)
    segments = tuple(
        SegmentRef(int(id_), row[0], collection, int(docs), int(dead))
        for row in rows
        for id_, collection, docs, dead in row[12] or ()
    )
    valid = where.as_of.valid or now
    version = ""
    if recorded is None:
        version = versions.joined([(row[1], versions.of_row(*row[13:15])) for row in rows])
    return PinnedView(
        revisions,
        model or "",
        dim or 0,
        tenant,
        valid,
        recorded,
        version,
        segments,
        where.collections,
    )


def _check_named(names: list[str], revisions: tuple[Revision, ...], where: Filter) -> None:
    """Raises: RepositoryNotIndexed. Another tenant's repository looks like none at all."""
    known = {r.repo: r for r in revisions}
    code_only = set(where.collections) == {Collection.FILES}
    then = where.as_of.recorded is not None
    for name in names:
        if name not in known or (code_only and not then and not known[name].number):
            raise RepositoryNotIndexed(name)


def _check_history(rows: list[tuple[Any, ...]], where: Filter, recorded: datetime) -> None:
    """Raises: HistoryGone."""
    for row in rows:
        gone, kept_from = row[13:15]
        if gone:
            name = unqualify(where.tenant, row[1])
            raise HistoryGone(
                f"the code of {name!r} as it was at {recorded.isoformat()} is no longer kept, what is "
                f"kept begins at {kept_from.isoformat()}; ask as of a later time, or for other "
                "collections than files, and set `index.keep_s` to keep more from now on",
                repository=name,
                recorded_as_of=recorded.isoformat(),
                kept_from=kept_from.isoformat(),
            )
