"""The primary store: memories, their retention, their deletion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from plait.domain.errors import PlaitError
from plait.domain.memory import (
    NOW,
    AsOf,
    MemoryEntry,
    MemoryFilter,
    MemoryId,
    MemoryPage,
    MemoryQueryOptions,
    MemoryReceipt,
    MemoryWrite,
    TurnReceipt,
)
from plait.domain.retention import (
    Budget,
    Compaction,
    CompactionPlan,
    ForgetReceipt,
    Held,
    Selector,
    Usage,
    Use,
)
from plait.domain.scope import Scope
from plait.domain.values import ItemId


class MemoryStore(Protocol):
    """Memories of one tenant at a time; row security holds each call to its tenant."""

    async def store(
        self, tenant: str, writes: Sequence[MemoryWrite]
    ) -> list[MemoryReceipt | PlaitError]:
        """Store up to 500 memories, their text index and their outbox row in one transaction; in each
        write's place its receipt, or why it alone is refused: RequestIdReused, MemoryNotFound for a
        `supersedes` that is not there, MemoryClosed for one whose place is taken or that was deleted.
        """
        ...

    async def store_turn(
        self,
        tenant: str,
        repo: str,
        request_id: str,
        body_hash: bytes,
        entries: Sequence[MemoryEntry],
        note: str = "",
    ) -> TurnReceipt:
        """Store the memories of one turn under one request id, in one transaction; without entries only the
        result `note`. Raises: RequestIdReused."""
        ...

    async def turn(self, tenant: str, request_id: str, body_hash: bytes) -> TurnReceipt | None:
        """The receipt of a turn stored earlier. Raises: RequestIdReused."""
        ...

    async def link_similar(self, repo: str, hashes: Sequence[bytes]) -> int:
        """Link memories whose text has one of `hashes` to those of the same agent that are as near as
        `memory.near_duplicate` by their vectors, once these are stored; links made. Safe to repeat."""
        ...

    async def get(self, tenant: str, repo: str, id_: MemoryId, as_of: AsOf = NOW) -> MemoryEntry:
        """The version of entry `id_` as of those times; `id_` may also be that of a version (as search
        hits have it). Raises: MemoryNotFound, which says why an entry that is there is not read."""
        ...

    async def versions(
        self, tenant: str, ids: Sequence[ItemId], as_of: AsOf = NOW
    ) -> Mapping[ItemId, MemoryEntry]:
        """The versions of these ids, in their order, open or closed; removed ones are left out. As of
        a recorded time, a version that was closed later is open."""
        ...

    async def unembedded(self, options: MemoryQueryOptions) -> bool:
        """Whether a memory that `options` reach has no vector yet, so that only its words find it.
        Raises: ScopeMissing."""
        ...

    async def delete(self, tenant: str, repo: str, id_: MemoryId) -> bool:
        """Close an entry: reads as of now no longer see it, its history stays. Closing a closed entry returns
        False.

        Raises: MemoryNotFound.
        """
        ...

    async def recalled(self, scope: Scope, texts: Sequence[str]) -> list[bool]:
        """For each text, whether the scope holds a living memory with the same words."""
        ...

    async def list(
        self,
        where: MemoryFilter,
        *,
        limit: int,
        after: str = "",
        as_of: AsOf = NOW,
        include_superseded: bool = False,
    ) -> MemoryPage:
        """Newest first by `created_at`, ties by id, the larger first. With `include_superseded` every
        version, closed ones and those that are not valid now too. Raises: ScopeMissing,
        PageTokenInvalid."""
        ...


class RetentionStore(Protocol):
    async def living(
        self, scope: Scope, budget: Budget = Budget.STORED, most: int = 0
    ) -> list[MemoryEntry]:
        """The living memories that (repository, agent) has of `budget`, oldest first, with their vectors if
        they have some. An agent "" is that of memories that name none. `most` > 0: so many at most, of those
        that no test validates, and without vectors."""
        ...

    async def use(self, scope: Scope, entries: Sequence[MemoryId]) -> Mapping[MemoryId, Use]:
        """How often memories of the scope were recalled, what is linked to them, and whether tests validate
        them. What is never used and has no links is left out."""
        ...

    async def usage(
        self, tenant: str, repo: str = "", agent_id: str | None = None
    ) -> Mapping[tuple[str, str, Budget], Usage]:
        """Tokens of living memories by (qualified repository, agent, budget), with the number of those that
        compaction closed: of all, of one repository's, or of one agent's there."""
        ...

    async def compact(
        self, tenant: str, plan: CompactionPlan, undo_s: float, request_id: str = ""
    ) -> Compaction:
        """Execute a plan in one transaction. A `request_id` that was executed before returns the same
        compaction.

        Raises: StoreContended, when a memory of the plan has changed since it was made.
        """
        ...

    async def compacted(self, tenant: str, repo: str, request_id: str) -> Compaction | None:
        """The compaction of this request, or None if there is none or part of it was forgotten."""
        ...

    async def compacted_in(self, tenant: str, compaction_id: UUID) -> str:
        """The qualified name of the repository that a compaction was of. Raises: CompactionUnknown."""
        ...

    async def undo(self, tenant: str, compaction_id: UUID) -> int:
        """Bring back what a compaction closed and close its summaries; entries brought back. One whose
        text was stored again since is not brought back: it is there.

        Raises: CompactionUnknown, UndoExpired.
        """
        ...


class ForgetStore(Protocol):
    async def forget(
        self, tenant: str, repo: str, selector: Selector, *, dry_run: bool
    ) -> ForgetReceipt:
        """Remove for good, from rows, versions, text index, vectors, evidence, links and request
        records, and queue the removal from the graph. Raises: InvalidInput, for an empty selector."""
        ...

    async def reclaim(self) -> list[str]:
        """Rewrite the tables that `forget` took rows from, so that their files hold nothing of them;
        the tables. Each is locked meanwhile."""
        ...

    async def held(self, marks: Sequence[bytes]) -> Held | None:
        """How many of the store's files still contain the `marks` of a receipt; None if the files are not
        readable from here."""
        ...
