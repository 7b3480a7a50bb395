"""Memories as rows: which of them a read may see, and rows as entries."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from plait.domain.errors import PageTokenInvalid
from plait.domain.memory import (
    AsOf,
    MemoryEntry,
    MemoryFilter,
    MemoryId,
    MemoryMetadata,
    MemorySource,
    MemoryType,
    check_filter,
)
from vector.connection.pool import Scoped

COLUMNS = (
    "i.entry_id, r.name, i.agent_id, i.content, i.type, i.kind, i.path, i.symbol, i.pinned,"
    " i.valid_from, i.valid_to, i.created_at, i.recorded_at, i.superseded_at, i.superseded_by,"
    " i.version, i.tokens, i.source, i.session_key, i.tags, i.importance::float8, i.meta"
)
WIDTH = COLUMNS.count(",") + 1
FROM = " FROM memories i JOIN repository r ON r.id = i.repo_id"

REPOSITORIES = "SELECT id FROM repository WHERE tenant = %(tenant)s"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_POSITION = struct.Struct(">8sq16si")


@dataclass(slots=True)
class Where:
    """A conjunction over `memories i`, all of whose values are bound."""

    parts: list[str] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)

    def add(self, part: str, **params: Any) -> None:
        self.parts.append(part)
        self.params.update(params)

    @property
    def sql(self) -> str:
        return " AND ".join(self.parts)


def to_entry(row: Sequence[Any], known: datetime | None = None) -> MemoryEntry:
    """From the first columns of a row, `COLUMNS`. As of the recorded time `known`, a version that was
    closed later is an open one."""
    closed = _utc(row[13])
    later = known is not None and closed is not None and closed > known
    return MemoryEntry(
        id=MemoryId(row[0]),
        repo=row[1],
        agent_id=row[2],
        content=row[3],
        type=MemoryType(row[4]),
        kind=row[5],
        path=row[6],
        symbol=row[7],
        pinned=row[8],
        valid_from=_utc(row[9]),
        valid_to=_utc(row[10]),
        created_at=_utc(row[11]),
        updated_at=_utc(row[12]),
        superseded_at=None if later else closed,
        superseded_by=MemoryId(row[14]) if row[14] and not later else None,
        version=row[15],
        tokens=row[16],
        metadata=MemoryMetadata(
            source=MemorySource(row[17]),
            session_key=row[18],
            tags=tuple(row[19]),
            importance=row[20],
            custom=row[21],
        ),
    )


def _utc(time: datetime | None) -> datetime | None:
    """The server gives times in its session's zone."""
    return None if time is None else time.astimezone(UTC)


def entry_vector(text: str | None) -> tuple[float, ...] | None:
    """pgvector's text form as numbers."""
    return None if text is None else tuple(float(x) for x in text[1:-1].split(","))


# -- what a read may see ----------------------------------------------------------------------------


async def repositories(app: Scoped, where: MemoryFilter) -> list[int]:
    """Ids of the repositories a filter names; one that nothing was stored of is left out.

    Raises: ScopeMissing, InvalidInput.
    """
    query, params = scope(where)
    return [row[0] for row in await app.rows(query, params, tenant=where.tenant)]


def scope(where: MemoryFilter) -> tuple[str, dict[str, Any]]:
    """The statement that reads those ids, and its parameters. Raises: as `repositories`."""
    check_filter(where)
    if where.all_repos:
        return REPOSITORIES, {"tenant": where.tenant}
    names = {"tenant": where.tenant, "names": list(where.repos)}
    return f"{REPOSITORIES} AND name = ANY(%(names)s)", names


def matching(where: MemoryFilter, repo_ids: Sequence[int] | None) -> Where:
    """What `where` asks for inside `repo_ids`, but for the times. None: the statement joins repositories itself."""
    out = Where()
    if repo_ids is not None and len(repo_ids) == 1:
        out.add("i.repo_id = %(repo)s", repo=repo_ids[0])
    elif repo_ids is not None:
        out.add("i.repo_id = ANY(%(repos)s)", repos=list(repo_ids))
    out.add("i.entry_id IS NOT NULL")
    if where.agent_id:
        out.add("i.agent_id = %(agent)s", agent=where.agent_id)
    if where.session_key:
        out.add("i.session_key = %(session)s", session=where.session_key)
    if where.tags_any:
        out.add("i.tags && %(tags_any)s::text[]", tags_any=list(where.tags_any))
    if where.tags_all:
        out.add("i.tags @> %(tags_all)s::text[]", tags_all=list(where.tags_all))
    if where.sources:
        out.add("i.source = ANY(%(sources)s)", sources=[str(s) for s in where.sources])
    if where.types:
        out.add("i.type = ANY(%(types)s)", types=[str(t) for t in where.types])
    if where.kinds:
        out.add("i.kind = ANY(%(kinds)s)", kinds=list(where.kinds))
    if where.importance_min > 0:
        # As a `real`, which is what the column holds: 0.7 has to match what was stored as 0.7.
        out.add("i.importance >= %(important)s::float4", important=where.importance_min)
    if where.created_after is not None:
        out.add("i.created_at >= %(after)s", after=where.created_after)
    if where.created_before is not None:
        out.add("i.created_at < %(before)s", before=where.created_before)
    return out


def see(where: Where, as_of: AsOf, *, include_superseded: bool = False) -> Where:
    """Narrow `where` to what was known and true as of those times, see docs/memories.md."""
    if as_of.recorded is not None:
        where.add("i.recorded_at <= %(known)s", known=as_of.recorded)
        if not include_superseded:
            where.add("(i.superseded_at IS NULL OR i.superseded_at > %(known)s)")
    elif not include_superseded:
        where.add("i.superseded_at IS NULL")
    if as_of.valid is not None:
        moment = "%(valid)s"
        where.params["valid"] = as_of.valid
    elif include_superseded:
        return where
    else:
        moment = "now()"
    where.add(f"(i.valid_from IS NULL OR i.valid_from <= {moment})")
    where.add(f"(i.valid_to IS NULL OR i.valid_to > {moment})")
    return where


# -- pages --------------------------------------------------------------------------------------------


def page_token(question: object, entry: MemoryEntry) -> str:
    """Where the page after `entry` starts, for this very question only."""
    assert entry.created_at is not None
    micros = (entry.created_at - EPOCH) // timedelta(microseconds=1)
    packed = _POSITION.pack(_fingerprint(question), micros, entry.id.bytes, entry.version)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def position(question: object, token: str) -> tuple[datetime, UUID, int]:
    """What `page_token` put in. Raises: PageTokenInvalid."""
    wrong = PageTokenInvalid(
        "`page_token` is not one that this listing gave; ask for the first page again, with the same "
        "filter and times for every page",
        field="page_token",
    )
    try:
        padded = token + "=" * (-len(token) % 4)
        packed = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
        fingerprint, micros, entry_id, version = _POSITION.unpack(packed)
        at = EPOCH + timedelta(microseconds=micros)
    except (binascii.Error, UnicodeEncodeError, struct.error, OverflowError):
        raise wrong from None
    if fingerprint != _fingerprint(question):
        raise wrong
    return at, UUID(bytes=entry_id), version


def _fingerprint(question: object) -> bytes:
    """Values with a stable `repr`: frozen dataclasses of strings, numbers and times."""
    return hashlib.blake2b(repr(question).encode("utf-8", "replace"), digest_size=8).digest()
