"""MemoryStore: memories with two times, each batch one transaction of PostgreSQL."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from plait.domain.errors import (
    EmbeddingModelMismatch,
    InvalidInput,
    MemoryNotFound,
    PlaitError,
    RequestIdReused,
)
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
    check_filter,
)
from plait.domain.off_loop import off_loop
from plait.domain.scope import Scope
from plait.domain.values import Collection, ItemId
from plait.ports.memory_plan import Prepared
from plait.ports.rules import Rules
from plait.text.near_duplicates import same_words, words
from vector.connection.clock import hold
from vector.connection.pool import Database, Scoped
from vector.index.merger import SegmentMerger
from vector.memories import batch, requests, versions
from vector.memories import write as rows
from vector.memories.missing import missing
from vector.memories.read import (
    COLUMNS,
    FROM,
    WIDTH,
    Where,
    entry_vector,
    matching,
    page_token,
    position,
    repositories,
    see,
    to_entry,
)
from vector.memories.requests import Request
from vector.memories.similar import Similar

logger = logging.getLogger(__name__)

MAX_WRITES = 500
MAX_PAGE = 1000
MAX_DUPLICATES = 1_000  # memories of a repository examined for each given text

GET = f"""
SELECT {COLUMNS}, i.embedding::text {FROM}
 WHERE i.entry_id = (SELECT w.entry_id FROM memories w JOIN repository v ON v.id = w.repo_id
                      WHERE w.id = %(id)s AND v.name = %(name)s AND v.tenant = %(tenant)s)
"""

RECALLED = """
SELECT n.sketch[1] FROM repository r
 CROSS JOIN LATERAL similar_memories(r.id, %(numbers)s::int8[], %(each)s, %(most)s) n
  JOIN memories i ON i.id = n.id
 WHERE r.name = %(name)s AND r.tenant = %(tenant)s
   AND (%(agent)s = '' OR i.agent_id = %(agent)s)
   AND (%(session)s = '' OR i.session_key = %(session)s)
   AND (i.valid_from IS NULL OR i.valid_from <= now()) AND (i.valid_to IS NULL OR i.valid_to > now())
"""


class Memories:
    """MemoryStore. `merger`: what keeps the text index's segments few."""

    def __init__(self, db: Database, app: Scoped, merger: SegmentMerger, rules: Rules) -> None:
        self._db = db
        self._app = app
        self._rules = rules
        self._merger = merger
        self._similar = Similar(db)

    # -- writing ------------------------------------------------------------------------------------

    async def store(
        self, tenant: str, writes: Sequence[MemoryWrite]
    ) -> list[MemoryReceipt | PlaitError]:
        """See `MemoryStore.store`. Recorded times of one batch are equal in a repository."""
        if len(writes) > MAX_WRITES:
            raise InvalidInput(
                f"{len(writes):,} memories in one batch, more than {MAX_WRITES}; send several",
                field="requests",
            )
        prepared = await _prepared(writes)
        pending = [
            Request(w.request_id, w.body_hash, w.entry.repo, [part])
            for w, part in zip(writes, prepared, strict=True)
        ]
        answers = await self._store_requests(tenant, pending)
        return [
            answer
            if isinstance(answer, PlaitError)
            else replace(answer.receipts[0], repeated=True)
            if answer.repeated
            else answer.receipts[0]
            for answer in answers
        ]

    async def store_turn(
        self,
        tenant: str,
        repo: str,
        request_id: str,
        body_hash: bytes,
        entries: Sequence[MemoryEntry],
        note: str = "",
    ) -> TurnReceipt:
        writes = [MemoryWrite(entry, request_id, body_hash) for entry in entries]
        if any(entry.repo != repo for entry in entries):
            raise InvalidInput("a turn's memories are all of one repository", field="repository")
        request = Request(request_id, body_hash, repo, await _prepared(writes), note)
        (answer,) = await self._store_requests(tenant, [request])
        if isinstance(answer, PlaitError):
            raise answer
        return answer

    async def turn(self, tenant: str, request_id: str, body_hash: bytes) -> TurnReceipt | None:
        async with self._app.connection(tenant) as conn:
            request = Request(request_id, body_hash, "", [])
            given = await requests.find_answers(conn, tenant, [request])
            known = await requests.answered(conn, [request], given)
            if request_id in known.refused:
                raise known.refused[request_id]
            return known.answers.get(request_id)

    async def _store_requests(
        self, tenant: str, pending: Sequence[Request]
    ) -> list[TurnReceipt | PlaitError]:
        """An answer for each of `pending`, in their order."""
        if not pending:
            return []
        first: dict[str, Request] = {}
        for request in pending:
            first.setdefault(request.id, request)
        model = await self._model_of([p.entry for r in first.values() for p in r.parts])
        done = await self._app.retry(
            lambda _: batch.attempt(self._app, tenant, list(first.values()), model, self._rules)
        )
        self._merger.add([(repo_id, Collection.MEMORIES.value) for repo_id in done.grown])
        out: list[TurnReceipt | PlaitError] = []
        for request in pending:
            again = first[request.id] is not request
            if again and request.body_hash != first[request.id].body_hash:
                out.append(RequestIdReused(request.id))
            elif request.id in done.refused:
                out.append(done.refused[request.id])
            else:
                answer = done.answers[request.id]
                out.append(replace(answer, repeated=True) if again else answer)
        return out

    async def _model_of(self, entries: Sequence[MemoryEntry]) -> str:
        """The index's model, when some entry brings a vector; checks its dimension.

        Raises: EmbeddingModelMismatch, InvalidInput.
        """
        dims = {len(entry.embedding) for entry in entries if entry.embedding is not None}
        if not dims:
            return ""
        async with self._db.transaction() as conn:
            # Filled from now on, so that no other model takes the index over meanwhile.
            cursor = await conn.execute(
                "UPDATE embedding_space SET filled = true WHERE NOT filled RETURNING model, dim"
            )
            row = await cursor.fetchone()
            if row is None:
                cursor = await conn.execute("SELECT model, dim FROM embedding_space")
                row = await cursor.fetchone()
            if row is None:
                raise InvalidInput(
                    "no embedding model is recorded yet, so a vector cannot be compared with any; "
                    "leave `embedding` out, or index a repository first",
                    field="embedding",
                )
            model, dim = row
            for wrong in dims - {dim}:
                raise EmbeddingModelMismatch(model, dim, "the memory's", wrong)
        return str(model)

    async def link_similar(self, repo: str, hashes: Sequence[bytes]) -> int:
        return await self._similar.link(repo, hashes)

    async def delete(self, tenant: str, repo: str, id_: MemoryId) -> bool:
        async def attempt(_: int) -> bool:
            async with self._app.transaction(tenant) as conn:
                cursor = await conn.execute(
                    "SELECT r.id FROM repository r JOIN memories i ON i.repo_id = r.id"
                    " WHERE r.name = %s AND r.tenant = %s AND i.id = %s AND i.entry_id IS NOT NULL",
                    (repo, tenant, id_),
                )
                row = await cursor.fetchone()
                if row is None:
                    raise MemoryNotFound(id_, repo)
                return await batch.close(conn, tenant, row[0], id_)

        return await self._app.retry(attempt)

    # -- reading ------------------------------------------------------------------------------------

    async def get(self, tenant: str, repo: str, id_: MemoryId, as_of: AsOf = NOW) -> MemoryEntry:
        where = see(Where(), as_of)
        await hold(self._app, tenant, (repo,), as_of.recorded)
        found = await self._app.rows(
            f"{GET} AND {where.sql}",
            {**where.params, "id": id_, "name": repo, "tenant": tenant},
            tenant=tenant,
        )
        if not found:
            raise await missing(self._app, tenant, repo, id_, as_of)
        return replace(to_entry(found[0], as_of.recorded), embedding=entry_vector(found[0][WIDTH]))

    async def versions(
        self, tenant: str, ids: Sequence[ItemId], as_of: AsOf = NOW
    ) -> Mapping[ItemId, MemoryEntry]:
        return await versions.by_id(self._app, tenant, ids, as_of)

    async def unembedded(self, options: MemoryQueryOptions) -> bool:
        return await versions.unembedded(self._app, options)

    async def recalled(self, scope: Scope, texts: Sequence[str]) -> list[bool]:
        words_of_texts = [words(text) for text in texts]
        numbers = [same_words(scope.repository, text) for text in words_of_texts]
        params = {
            "name": scope.repository,
            "tenant": scope.tenant,
            "agent": scope.agent_id,
            "session": scope.session_key,
            "numbers": [numbers],  # the first place of a sketch, no other
            "each": MAX_DUPLICATES,
            "most": MAX_DUPLICATES * max(1, len(texts)),
        }
        found = await self._app.rows(RECALLED, params, tenant=scope.tenant) if numbers else []
        known = {number for (number,) in found}
        return [bool(text) and n in known for text, n in zip(words_of_texts, numbers, strict=True)]

    async def list(
        self,
        where: MemoryFilter,
        *,
        limit: int,
        after: str = "",
        as_of: AsOf = NOW,
        include_superseded: bool = False,
    ) -> MemoryPage:
        """See `MemoryStore.list`. At most `MAX_PAGE` a page."""
        check_filter(where)
        if limit < 1:
            raise InvalidInput("a page has at least one memory", field="page_size")
        limit = min(limit, MAX_PAGE)
        question = (where, as_of, include_superseded)
        start = position(question, after) if after else None
        repo_ids = await repositories(self._app, where)
        if not repo_ids:
            return MemoryPage(())
        await hold(self._app, where.tenant, where.repos, as_of.recorded)
        cond = see(matching(where, repo_ids), as_of, include_superseded=include_superseded)
        if start is not None:
            created, entry_id, version = start
            cond.add(
                "(i.created_at, i.entry_id, i.version) < (%(created)s, %(entry)s, %(version)s)",
                created=created, entry=entry_id, version=version,
            )  # fmt: skip
        query = (
            f"SELECT {COLUMNS}{FROM} WHERE {cond.sql}"
            " ORDER BY i.created_at DESC, i.entry_id DESC, i.version DESC LIMIT %(limit)s"
        )
        params = {**cond.params, "limit": limit + 1}
        found = await self._app.rows(query, params, tenant=where.tenant)
        entries = tuple(to_entry(row, as_of.recorded) for row in found[:limit])
        more = len(found) > limit
        return MemoryPage(entries, page_token(question, entries[-1]) if more else "")


async def _prepared(writes: Sequence[MemoryWrite]) -> list[Prepared]:
    return await off_loop(sum(len(w.entry.content) for w in writes), rows.prepare, writes)
