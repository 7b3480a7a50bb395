"""The asynchronous client's methods for memories and upkeep; part of `aio`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from plait.lazy import lazy_module

if TYPE_CHECKING:
    from plait.client.calls import admin as admin_calls
    from plait.client.calls import memory as memory_calls
    from plait.client.calls import savings as savings_calls
    from plait.client.calls.call import Call
    from plait.client.errors import PlaitRpcError
    from plait.domain.answers.memories import Learned, Memories, MemoryAnswer, StoredMemory, Tool
    from plait.domain.answers.upkeep import Compacted, Comparison, DeadLetters, Forgotten
    from plait.domain.memory import MemoryEntry, MemoryFilter, MemoryId
    from plait.domain.options import When
    from plait.domain.retention import Budget, Selector
    from plait.domain.savings import Savings
else:
    admin_calls = lazy_module("plait.client.calls.admin")
    memory_calls = lazy_module("plait.client.calls.memory")
    savings_calls = lazy_module("plait.client.calls.savings")

T = TypeVar("T")


class AsyncMemoryMethods(ABC):
    """Memories: `new_memory` makes entries; times of a read are instants or words (`last Tuesday`)."""

    @abstractmethod
    async def _run(self, call: Call[T]) -> T: ...

    async def store(
        self,
        entry: MemoryEntry,
        *,
        supersedes: MemoryId | None = None,
        request_id: str = "",
        timeout_s: float | None = None,
    ) -> StoredMemory:
        """Store a memory; `supersedes` is closed with it. Safe to repeat."""
        request = memory_calls.store_request(entry, supersedes, request_id)
        return await self._run(memory_calls.store(request, timeout_s))

    async def batch_store(
        self,
        entries: Sequence[MemoryEntry],
        *,
        request_ids: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> tuple[StoredMemory | PlaitRpcError, ...]:
        """Store up to 500 memories in one transaction; one that is refused has its error in its place."""
        ids = request_ids or [""] * len(entries)
        requests = [
            memory_calls.store_request(e, None, i) for e, i in zip(entries, ids, strict=True)
        ]
        return await self._run(memory_calls.batch_store(requests, timeout_s))

    async def get(
        self,
        id_: MemoryId | str,
        repo: str,
        *,
        valid_as_of: When = None,
        recorded_as_of: When = None,
        with_embedding: bool = False,
        timeout_s: float | None = None,
    ) -> MemoryEntry:
        """One memory, now or as of other times."""
        return await self._run(
            memory_calls.get(id_, repo, valid_as_of, recorded_as_of, with_embedding, timeout_s)
        )

    async def list(
        self,
        where: MemoryFilter,
        *,
        limit: int = 0,
        after: str = "",
        include_superseded: bool = False,
        valid_as_of: When = None,
        recorded_as_of: When = None,
        timeout_s: float | None = None,
    ) -> Memories:
        """One page of memories, newest first; `after` is the `next` of the page before."""
        return await self._run(
            memory_calls.list_(
                where,
                limit=limit,
                after=after,
                include_superseded=include_superseded,
                valid_as_of=valid_as_of,
                recorded_as_of=recorded_as_of,
                timeout_s=timeout_s,
            )
        )

    async def query(
        self,
        text: str,
        where: MemoryFilter,
        *,
        embedding: Sequence[float] | None = None,
        top_k: int = 0,
        min_score: float = 0.0,
        valid_as_of: When = None,
        recorded_as_of: When = None,
        timeout_s: float | None = None,
    ) -> MemoryAnswer:
        """The `top_k` memories that answer `text` best (0: ten)."""
        return await self._run(
            memory_calls.query(
                text,
                where,
                embedding=embedding,
                top_k=top_k,
                min_score=min_score,
                valid_as_of=valid_as_of,
                recorded_as_of=recorded_as_of,
                timeout_s=timeout_s,
            )
        )

    async def delete(
        self, id_: MemoryId | str, repo: str, *, timeout_s: float | None = None
    ) -> bool:
        """Close a memory: its history stays (`forget` removes). False: it was closed before."""
        return await self._run(memory_calls.delete(id_, repo, timeout_s))

    async def learn(
        self,
        *,
        repo: str,
        user_message: str = "",
        assistant_reasoning: str = "",
        tool_outcomes: Sequence[Tool] = (),
        agent_id: str = "",
        session_key: str = "",
        request_id: str = "",
        timeout_s: float | None = None,
    ) -> Learned:
        """Take one turn of a conversation in. Safe to repeat."""
        return await self._run(
            memory_calls.learn(
                repo=repo,
                agent_id=agent_id,
                session_key=session_key,
                user_message=user_message,
                assistant_reasoning=assistant_reasoning,
                tool_outcomes=tool_outcomes,
                request_id=request_id,
                timeout_s=timeout_s,
            )
        )

    async def savings(
        self,
        repositories: Sequence[str] = (),
        *,
        all_repositories: bool = False,
        session_key: str = "",
        since: datetime | None = None,
        limit: int = 0,
        timeout_s: float | None = None,
    ) -> Savings:
        """What Plait's answers cost sessions, and what these searched and read without it; of the
        `limit` sessions that ended last (0: a hundred), and of all together."""
        return await self._run(
            savings_calls.savings(
                repositories,
                all_repositories,
                session_key=session_key,
                since=since,
                limit=limit,
                timeout_s=timeout_s,
            )
        )

    async def verify(
        self,
        repositories: Sequence[str] = (),
        *,
        all_repositories: bool = False,
        timeout_s: float | None = None,
    ) -> tuple[Comparison, ...]:
        """Compare repositories' graphs with the truth."""
        return await self._run(admin_calls.verify(repositories, all_repositories, timeout_s))

    async def rebuild(
        self,
        repositories: Sequence[str] = (),
        *,
        all_repositories: bool = False,
        timeout_s: float | None = None,
    ) -> int:
        """Project repositories again from the truth; how many projections wait now."""
        return await self._run(admin_calls.rebuild(repositories, all_repositories, timeout_s))

    async def compact(
        self,
        repo: str,
        agent_id: str | None,
        *,
        dry_run: bool = False,
        undo_s: float | None = None,
        request_id: str = "",
        budget: Budget | None = None,
        timeout_s: float | None = None,
    ) -> Compacted:
        """Compact an agent's memories (None: those without an agent), or preview that. `budget`: memories
        stored explicitly (the default), or those of runs."""
        return await self._run(
            admin_calls.compact(
                repo,
                agent_id,
                dry_run=dry_run,
                undo_s=undo_s,
                request_id=request_id,
                budget=budget,
                timeout_s=timeout_s,
            )
        )

    async def undo_compaction(self, compaction_id: str, *, timeout_s: float | None = None) -> int:
        """Bring back what a compaction closed; how many memories those were."""
        return await self._run(admin_calls.undo_compaction(compaction_id, timeout_s))

    async def forget(
        self,
        repo: str,
        selector: Selector,
        *,
        dry_run: bool = False,
        reclaim: bool = False,
        timeout_s: float | None = None,
    ) -> Forgotten:
        """Remove memories and episodes for good, or say what would go. `reclaim`: also from the files
        under the tables, each of which is locked meanwhile."""
        return await self._run(admin_calls.forget(repo, selector, dry_run, reclaim, timeout_s))

    async def dead_letters(
        self,
        repositories: Sequence[str] = (),
        *,
        all_repositories: bool = False,
        timeout_s: float | None = None,
    ) -> DeadLetters:
        """Changes that could not be projected to the graph."""
        return await self._run(admin_calls.dead_letters(repositories, all_repositories, timeout_s))

    async def retry_dead_letters(
        self,
        repositories: Sequence[str] = (),
        *,
        all_repositories: bool = False,
        timeout_s: float | None = None,
    ) -> int:
        """Queue them again; how many that were."""
        return await self._run(
            admin_calls.retry_dead_letters(repositories, all_repositories, timeout_s)
        )
