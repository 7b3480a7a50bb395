"""RetentionStore: what lives, compaction and its undoing, each one transaction of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from psycopg import errors as pg
from psycopg.types.json import Jsonb

from plait.domain import failpoint
from plait.domain.errors import (
    CompactionUnknown,
    RepositoryNotIndexed,
    StoreContended,
    UndoExpired,
)
from plait.domain.graph import Relation
from plait.domain.memory import MemoryEntry, MemoryId, MemoryWrite
from plait.domain.retention import (
    UNUSED,
    Action,
    Budget,
    Compaction,
    CompactionPlan,
    Step,
    Usage,
    Use,
)
from plait.domain.scope import Scope
from plait.domain.values import Collection
from plait.ports.memory_plan import Plan, Row, Slot
from vector.connection.bulk import insert_rows
from vector.connection.clock import tick
from vector.connection.pool import Connection, Database
from vector.index.merger import SegmentMerger
from vector.memories import links
from vector.memories import write as rows
from vector.memories.read import WIDTH, entry_vector, to_entry
from vector.projection.store import queue_memories
from vector.retention import reopen
from vector.retention import sql as q
from vector.search import compacted

FAR = datetime(9999, 12, 29, tzinfo=UTC)
STEP_COLUMNS = (
    ("compaction_id", "uuid"), ("repo_id", "int4"), ("ordinal", "int4"), ("action", "text"),
    ("entry_id", "uuid"), ("into_id", "uuid"), ("reason", "text"), ("tokens", "int4"),
    ("version", "int4"),
)  # fmt: skip


class Retention:
    """RetentionStore. `merger`: what keeps the segments of the text index few."""

    def __init__(self, db: Database, merger: SegmentMerger) -> None:
        self._db = db
        self._merger = merger

    async def living(
        self, scope: Scope, budget: Budget = Budget.STORED, most: int = 0
    ) -> list[MemoryEntry]:
        params = {
            "tenant": scope.tenant,
            "name": scope.repository,
            "agent": scope.agent_id,
            "budget": budget.value,
            "most": most,
        }
        found = await self._db.rows(q.OLDEST if most else q.LIVING, params)
        return [replace(to_entry(r), embedding=entry_vector(r[WIDTH])) for r in found]

    async def use(self, scope: Scope, entries: Sequence[MemoryId]) -> Mapping[MemoryId, Use]:
        if not entries:
            return {}
        params = {"tenant": scope.tenant, "name": scope.repository, "entries": list(entries)}
        found = await self._db.rows(q.USE, params)
        known = {MemoryId(id_): Use(*use) for id_, *use in found}
        return {id_: use for id_, use in known.items() if use != UNUSED}

    async def usage(
        self, tenant: str, repo: str = "", agent_id: str | None = None
    ) -> Mapping[tuple[str, str, Budget], Usage]:
        params = {"tenant": tenant, "name": repo, "agent": agent_id}
        found = await self._db.rows(q.USAGE, params)
        return {
            (name, agent, Budget(budget)): Usage(int(tokens), int(memories), int(closed))
            for name, agent, budget, tokens, memories, closed in found
        }

    # -- compaction -----------------------------------------------------------------------------------

    async def compact(
        self, tenant: str, plan: CompactionPlan, undo_s: float, request_id: str = ""
    ) -> Compaction:
        """See `RetentionStore.compact`. A plan that closes nothing leaves no trace."""
        if not plan.closed:
            now = datetime.now(UTC)
            return Compaction(UUID(int=0), plan, now, now)
        id_ = uuid4()

        async def attempt(_number: int) -> tuple[Compaction, int]:
            try:
                async with self._db.transaction() as conn:
                    repo_id = await _repository(conn, tenant, plan.repo)
                    cursor = await conn.execute("SELECT FROM compaction WHERE id = %s", (id_,))
                    if await cursor.fetchone() is not None:
                        return await _read(conn, id_), repo_id  # a try whose answer was lost
                    done = await _compact(conn, tenant, repo_id, id_, plan, undo_s, request_id)
                    failpoint.hit("compact.before_commit")
                    return done, repo_id
            except pg.UniqueViolation as exc:
                raise StoreContended(
                    "a memory that this compaction writes was stored meanwhile; run the same again"
                ) from exc

        done, repo_id = await self._db.retry(attempt)
        if done.plan.summaries:
            self._merger.add([(repo_id, Collection.MEMORIES.value)])
        return done

    async def compacted(self, tenant: str, repo: str, request_id: str) -> Compaction | None:
        async with self._db.connection() as conn:
            cursor = await conn.execute(
                q.BY_REQUEST, {"tenant": tenant, "name": repo, "request": request_id}
            )
            row = await cursor.fetchone()
            return None if row is None else await _read(conn, row[0])

    async def compacted_in(self, tenant: str, compaction_id: UUID) -> str:
        async with self._db.connection() as conn:
            cursor = await conn.execute(q.REPOSITORY_OF, {"id": compaction_id, "tenant": tenant})
            row = await cursor.fetchone()
        if row is None:
            raise CompactionUnknown.of(compaction_id)
        return str(row[0])

    async def undo(self, tenant: str, compaction_id: UUID) -> int:
        async def attempt(_number: int) -> tuple[int, int]:
            async with self._db.transaction() as conn:
                undone = await _undo(conn, tenant, compaction_id)
                failpoint.hit("undo.before_commit")
                return undone

        repo_id, back = await self._db.retry(attempt)
        self._merger.add([(repo_id, Collection.MEMORIES.value)])
        return back


async def _repository(conn: Connection, tenant: str, repo: str) -> int:
    cursor = await conn.execute(
        "SELECT id FROM repository WHERE name = %s AND tenant = %s", (repo, tenant)
    )
    row = await cursor.fetchone()
    if row is None:
        raise RepositoryNotIndexed(repo)
    return int(row[0])


async def _compact(
    conn: Connection,
    tenant: str,
    repo_id: int,
    id_: UUID,
    plan: CompactionPlan,
    undo_s: float,
    request_id: str,
) -> Compaction:
    prepared = rows.prepare([MemoryWrite(entry, "", b"") for entry in plan.summaries])
    rows.read(prepared)
    rows.sketch(prepared)
    mentioned = await links.code(conn, repo_id, prepared)
    at = await tick(conn, repo_id)
    if request_id:
        cursor = await conn.execute(
            "SELECT id FROM compaction WHERE repo_id = %s AND request_id = %s",
            (repo_id, request_id),
        )
        if (known := await cursor.fetchone()) is not None:
            return await _read(conn, known[0])
    made = Plan(await _closing(conn, repo_id, plan))
    edges: list[rows.Edge] = []
    for part in prepared:
        slot = Slot(part.entry, prepared=part)
        made.slots.append(slot)
        edges += mentioned.edges(slot.entry, part)
    new = rows.versions(repo_id, tenant, made, at)
    touched = await rows.write(conn, repo_id, made, new, at)
    closed = [(s.entry_id, s.into) for s in plan.closed if s.into is not None]
    await compacted.keep(conn, repo_id, closed, at)
    await rows.write_index(conn, repo_id, rows.indexed(new))
    await rows.add_edges(conn, repo_id, at, edges + await _derived(conn, repo_id, plan))
    await queue_memories(conn, repo_id, touched)
    until = _until(at, undo_s)
    await _record(conn, repo_id, id_, plan, request_id, at, until)
    return Compaction(id_, plan, at, until)


def _until(at: datetime, undo_s: float) -> datetime:
    try:
        return min(FAR, at + timedelta(seconds=undo_s))
    except OverflowError:
        return FAR


async def _closing(conn: Connection, repo_id: int, plan: CompactionPlan) -> list[Slot]:
    """What the plan closes, as it is stored. Raises: StoreContended, when that or a duplicate that
    stays is not what the plan saw."""
    steps = {step.entry_id: step for step in plan.closed}
    staying = {
        step.into: step.into_version for step in plan.closed if step.into_version and step.into
    }
    found = await rows.newest(conn, repo_id, [*steps, *staying])
    expected = {**staying, **{id_: step.version for id_, step in steps.items()}}
    for entry_id, version in expected.items():
        row = found.get(entry_id)
        if row is None or not row.alive or row.entry.version != version:
            raise StoreContended(
                f"memory {entry_id} has changed since the compaction was planned; plan and run again",
                memory=entry_id,
            )
    return [Slot(found[i].entry, found[i], closed=True, by=step.into) for i, step in steps.items()]


async def _derived(conn: Connection, repo_id: int, plan: CompactionPlan) -> list[rows.Edge]:
    """Summaries to what they were made of; for a turn of an episode, to the episode as well, since
    the graph has no node for the turn."""
    relation = Relation.DERIVED_FROM.value
    made = {summary.id: summary for summary in plan.summaries}
    pairs = [(made[s.into], s.entry_id) for s in plan.closed if s.into in made]
    cursor = await conn.execute(
        q.EPISODES_OF, {"repo": repo_id, "entries": [source for _, source in pairs]}
    )
    episodes: dict[UUID, UUID] = dict(await cursor.fetchall())
    out: dict[tuple[MemoryId, str], rows.Edge] = {}
    for summary, source in pairs:
        targets = [f"memory/{source}"]
        if source in episodes:
            targets.append(f"episode/{episodes[source]}")
        for target in targets:
            out[summary.id, target] = (summary, relation, target, "", "compaction", 1.0)
    return list(out.values())


async def _record(
    conn: Connection,
    repo_id: int,
    id_: UUID,
    plan: CompactionPlan,
    request_id: str,
    at: datetime,
    until: datetime,
) -> None:
    counts = {
        "examined": plan.examined,
        "tokens_before": plan.tokens_before,
        "tokens_after": plan.tokens_after,
        "budget_tokens": plan.budget_tokens,
        "notes": list(plan.notes),
        "budget": plan.budget.value,
    }
    await conn.execute(
        "INSERT INTO compaction (id, repo_id, agent_id, request_id, at, undo_until, counts)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s)",
        (id_, repo_id, plan.agent_id, request_id, at, until, Jsonb(counts)),
    )
    steps = [
        (id_, repo_id, n, s.action.value, s.entry_id, s.into, s.reason, s.tokens, s.version)
        for n, s in enumerate(plan.steps)
    ]
    await insert_rows(conn, "compaction_step", STEP_COLUMNS, steps)


async def _read(conn: Connection, compaction_id: UUID) -> Compaction:
    """A compaction as it was carried out, less what was forgotten since."""
    params = {"id": compaction_id}
    cursor = await conn.execute(q.COMPACTION, params)
    row = await cursor.fetchone()
    assert row is not None  # its caller found it in this transaction, or just before
    repo, agent_id, at, until, counts = row
    cursor = await conn.execute(q.STEPS, params)
    steps = [
        Step(Action(action), MemoryId(entry), reason, into and MemoryId(into), tokens, version)
        for action, entry, into, reason, tokens, version in await cursor.fetchall()
    ]
    cursor = await conn.execute(q.SUMMARIES, params)
    summaries = tuple(
        replace(to_entry(r), superseded_at=None, superseded_by=None)
        for r in await cursor.fetchall()
    )
    notes: Sequence[str] = counts.get("notes", ())
    plan = CompactionPlan(
        repo, agent_id, tuple(steps), summaries, counts["examined"], counts["tokens_before"],
        counts["tokens_after"], counts["budget_tokens"], tuple(notes),
        Budget(counts.get("budget", Budget.STORED)),
    )  # fmt: skip
    return Compaction(compaction_id, plan, at, until)


# -- undoing -----------------------------------------------------------------------------------------


async def _undo(conn: Connection, tenant: str, id_: UUID) -> tuple[int, int]:
    """`(repository's id, entries brought back)`."""
    cursor = await conn.execute(q.TO_UNDO, {"id": id_, "tenant": tenant})
    row = await cursor.fetchone()
    if row is None:
        raise CompactionUnknown.of(id_)
    repo_id, ended, until, undone = row
    at = await tick(conn, repo_id)
    # Read again behind the clock: another undo may have ended while this one waited.
    cursor = await conn.execute("SELECT undone_at FROM compaction WHERE id = %s", (id_,))
    undone = (await cursor.fetchone() or (undone,))[0]
    _check_undo(id_, undone, until, at)
    cursor = await conn.execute(q.CLOSED_BY, {"id": id_})
    steps: list[tuple[UUID, UUID, str]] = await cursor.fetchall()
    summaries = {into for _, into, action in steps if action == Action.SUMMARIZE.value}
    await _check_later(conn, id_, summaries)
    alive = await rows.newest(conn, repo_id, [MemoryId(i) for i in summaries])
    slots = [Slot(row.entry, row, closed=True) for row in alive.values() if _alive(row)]
    made = Plan(slots)  # closed, all of them
    new = rows.versions(repo_id, tenant, made, at)
    touched = await rows.write(conn, repo_id, made, new, at)
    stored = await reopen.closed(conn, repo_id, [entry for entry, _, _ in steps])
    # What was closed by this run and by nothing since.
    back = await reopen.reopen(conn, repo_id, [c for c in stored if c.ended == ended], at)
    await queue_memories(conn, repo_id, [*touched, *back])
    await conn.execute("UPDATE compaction SET undone_at = %s WHERE id = %s", (at, id_))
    return repo_id, len(back)


def _alive(row: Row) -> bool:
    return row.alive


def _check_undo(id_: UUID, undone: datetime | None, until: datetime, at: datetime) -> None:
    if undone is not None:
        raise UndoExpired(f"compaction {id_} was undone at {undone.isoformat()}", id=id_)
    if at > until:
        raise UndoExpired(
            f"compaction {id_} could be undone until {until.isoformat()}; its memories are closed, and "
            "`recorded_as_of` a time before it still reads them. `memory.undo_s` sets the window",
            id=id_,
        )


async def _check_later(conn: Connection, id_: UUID, summaries: set[UUID]) -> None:
    """A summary that a later run closed would stand for the same sources twice."""
    cursor = await conn.execute(q.LATER, {"id": id_, "entries": list(summaries)})
    row = await cursor.fetchone()
    if row is not None:
        raise UndoExpired(
            f"summaries of compaction {id_} were compacted again by {row[0]}; undo that one first",
            id=id_,
            later=row[0],
        )
