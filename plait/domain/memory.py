"""Memories: what an agent keeps between runs. Frozen values, no I/O.

An entry's `id` is stable; each change closes one version and opens the next (`version` grows), so an
entry can be read as it was known at any recorded time. Two times, both half-open intervals:
`valid_from`/`valid_to` say when it was true, `recorded_at`/`superseded_at` when this store knew it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType
from uuid import UUID

from plait.domain.errors import InvalidInput, ScopeMissing
from plait.domain.scope import DEFAULT_TENANT

MemoryId = NewType("MemoryId", UUID)
NO_ID = MemoryId(UUID(int=0))  # of an entry that the store has not seen

# Roles of turns whose text came from outside: a tool's output, a page.
EXTERNAL_ROLES = frozenset(
    {"tool", "function", "system", "environment", "web", "browser", "exit", "observation"}
)

_MADE = "body-"


def made_id(body_hash: bytes) -> str:
    """The request id of a write that came without one."""
    return _MADE + body_hash.hex()


def is_made(request_id: str) -> bool:
    """Whether the id was made from the body, so that an equal request means "this, once more"."""
    return request_id.startswith(_MADE)


class MemoryType(StrEnum):
    EPISODIC = "episodic"  # something that happened
    SEMANTIC = "semantic"  # something that is so
    PROCEDURAL = "procedural"  # how something is done


class MemorySource(StrEnum):
    AGENT = "agent"
    USER = "user"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class AsOf:
    """The times a read is answered for. None: now, and what is known now."""

    valid: datetime | None = None
    recorded: datetime | None = None

    def __bool__(self) -> bool:
        return self.valid is not None or self.recorded is not None


NOW = AsOf()


@dataclass(frozen=True, slots=True)
class MemoryMetadata:
    source: MemorySource = MemorySource.AGENT
    session_key: str = ""
    tags: tuple[str, ...] = ()  # ascending, no repeats
    importance: float = 0.5  # 0 to 1
    custom: Mapping[str, Any] = field(default_factory=dict)  # JSON


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One memory. Of one that is to be stored, what the store sets may be left out."""

    id: MemoryId
    repo: str  # qualified, see `plait.domain.scope`
    agent_id: str
    content: str
    metadata: MemoryMetadata = MemoryMetadata()
    type: MemoryType = MemoryType.SEMANTIC
    kind: str = "memory"  # memory, turn, note (of an episode) or summary
    path: str = ""  # code anchor, relative to the repository's root
    symbol: str = ""  # code anchor, qualified name inside the repository
    pinned: bool = False
    embedding: tuple[float, ...] | None = None  # unit length; None: the server makes it
    valid_from: datetime | None = None  # None: no beginning is known, so from ever
    valid_to: datetime | None = None  # None: still; exclusive
    created_at: datetime | None = None  # set by the store: when the first version was recorded
    updated_at: datetime | None = None  # set by the store: when this version was recorded
    superseded_at: datetime | None = None  # set by the store: None is the current version
    superseded_by: MemoryId | None = None  # the entry that took its place, if one did
    version: int = 1
    tokens: int = 0  # o200k tokens of `content`


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """A memory to be stored. `body_hash` distinguishes a repeat of `request_id` from a reuse."""

    entry: MemoryEntry
    request_id: str
    body_hash: bytes
    supersedes: MemoryId | None = None  # this entry is closed in the same transaction


@dataclass(frozen=True, slots=True)
class MemoryReceipt:
    """What became of a write. `repeated`: this request was stored before. `duplicate`: the scope
    (repository, agent, session) held this very text already, `entry` is that one, its tags united and
    its valid interval widened to hold both."""

    entry: MemoryEntry
    repeated: bool = False
    duplicate: bool = False
    similar: tuple[MemoryId, ...] = ()  # near-duplicates, linked and left as they are


@dataclass(frozen=True, slots=True)
class TurnReceipt:
    """What became of a turn of a conversation: the memories it led to, or in `note` why to none."""

    request_id: str
    receipts: tuple[MemoryReceipt, ...] = ()
    note: str = ""
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """Which memories. `repos` (qualified) is required; `all_repos` says "every one of the tenant's"
    out loud. Other empty fields do not restrict."""

    tenant: str = DEFAULT_TENANT
    repos: tuple[str, ...] = ()
    all_repos: bool = False
    agent_id: str = ""
    session_key: str = ""
    tags_any: tuple[str, ...] = ()
    tags_all: tuple[str, ...] = ()
    sources: tuple[MemorySource, ...] = ()
    types: tuple[MemoryType, ...] = ()
    kinds: tuple[str, ...] = ()
    importance_min: float = 0.0
    created_after: datetime | None = None  # inclusive
    created_before: datetime | None = None  # exclusive


def check_filter(where: MemoryFilter) -> None:
    """Raises: ScopeMissing, InvalidInput."""
    if not where.repos and not where.all_repos:
        raise ScopeMissing(
            "no repository is named; name those whose memories are meant in `repositories`, or say "
            "`all_repositories`",
            field="repositories",
        )
    if where.repos and where.all_repos:
        raise InvalidInput(
            "`repositories` and `all_repositories` are both given; leave one out",
            field="repositories",
        )


@dataclass(frozen=True, slots=True)
class MemoryQueryOptions:
    filter: MemoryFilter
    top_k: int = 10
    min_score: float = 0.0  # of `MemoryMatch.score`, 0 to 1
    as_of: AsOf = NOW


@dataclass(frozen=True, slots=True)
class MemoryMatch:
    entry: MemoryEntry
    score: float  # 0 to 1
    arms: Mapping[str, float] = field(default_factory=dict)  # each arm's raw score


@dataclass(frozen=True, slots=True)
class MemoryPage:
    entries: tuple[MemoryEntry, ...]
    next: str = ""  # where the next page starts; "" for the last
