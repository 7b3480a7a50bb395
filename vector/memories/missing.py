"""Why a read does not see a memory that is there, and which read does."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from plait.domain.errors import MemoryNotFound
from plait.domain.memory import AsOf, MemoryEntry, MemoryId
from vector.connection.pool import Scoped
from vector.memories.read import COLUMNS, FROM, to_entry

# By the id of any version, the newest one that is known as of the recorded time asked for; else the
# first, which tells when the entry was stored. In the repository named and nowhere else.
NEWEST = f"""
SELECT {COLUMNS} {FROM}
 WHERE i.entry_id = (SELECT w.entry_id FROM memories w JOIN repository v ON v.id = w.repo_id
                      WHERE w.id = %(id)s AND v.name = %(name)s AND v.tenant = %(tenant)s)
 ORDER BY %(known)s::timestamptz IS NULL OR i.recorded_at <= %(known)s DESC,
          CASE WHEN %(known)s::timestamptz IS NULL OR i.recorded_at <= %(known)s
               THEN -i.version ELSE i.version END
 LIMIT 1
"""


async def missing(
    app: Scoped, tenant: str, repo: str, id_: MemoryId, as_of: AsOf
) -> MemoryNotFound:
    """What to raise when no version of `id_` is read as of those times."""
    params = {"id": id_, "name": repo, "tenant": tenant, "known": as_of.recorded}
    found = await app.rows(NEWEST, params, tenant=tenant)
    if not found:
        return MemoryNotFound(id_, repo)
    why, facts = _why(to_entry(found[0], as_of.recorded), as_of)
    return MemoryNotFound(id_, repo, why, **facts)


def _why(entry: MemoryEntry, as_of: AsOf) -> tuple[str, dict[str, Any]]:
    assert entry.created_at is not None
    assert entry.updated_at is not None
    if as_of.recorded is not None and entry.updated_at > as_of.recorded:
        return (
            f"it was stored at {_at(entry.created_at)}, after {_at(as_of.recorded)}; read as of a later "
            "recorded time",
            {"created_at": _at(entry.created_at)},
        )
    if entry.superseded_at is not None:
        by = entry.superseded_by
        how = f"superseded by {by}" if by else "deleted, or what superseded it was forgotten"
        return (
            f"closed at {_at(entry.superseded_at)} ({how}); what was known before is read with "
            f"`--recorded-as-of` (`recorded_as_of`) a time before that, as {_at(entry.updated_at)}",
            {"superseded_at": _at(entry.superseded_at), "superseded_by": by or ""},
        )
    if entry.valid_from is None and entry.valid_to is None:
        # Stored, closed or opened between the two reads.
        return "it was being changed; read it again", {}
    start = _at(entry.valid_from) if entry.valid_from else "ever"
    end = _at(entry.valid_to) if entry.valid_to else "further on"
    return (
        f"valid from {start} to {end}, not at {_at(as_of.valid) if as_of.valid else 'this time'}; read "
        "it with `--as-of` (`valid_as_of`) a time in between",
        {
            "valid_from": _at(entry.valid_from) if entry.valid_from else "",
            "valid_to": _at(entry.valid_to) if entry.valid_to else "",
        },
    )


def _at(time: datetime) -> str:
    return time.isoformat()
