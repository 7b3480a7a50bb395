"""A batch of memories, in one transaction: all of it or nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime

from psycopg import Rollback
from psycopg import errors as pg

from plait.domain import failpoint
from plait.domain.errors import PlaitError, StoreContended
from plait.domain.graph import Relation
from plait.domain.memory import MemoryId, MemoryReceipt, TurnReceipt
from plait.domain.off_loop import off_loop
from plait.ports.memory_plan import Plan, Prepared, Slot
from plait.ports.rules import Rules
from vector.anchors import anchored
from vector.connection.clock import tick
from vector.connection.pool import Connection, Scoped
from vector.index.repositories import ensure_row
from vector.memories import links, requests
from vector.memories import write as rows
from vector.memories.requests import Request


@dataclass(slots=True)
class Done:
    """The result of a transaction: an answer for each request, and the repositories that got text."""

    answers: dict[str, TurnReceipt] = field(default_factory=dict)
    refused: dict[str, PlaitError] = field(default_factory=dict)
    repeat: Set[str] = frozenset()  # requests answered before that are executed again
    grown: list[int] = field(default_factory=list)


async def attempt(
    app: Scoped, tenant: str, batch: Sequence[Request], model: str, rules: Rules
) -> Done:
    """One try of a whole batch, in one transaction. Raises: StoreContended."""
    done = Done()
    try:
        async with app.transaction(tenant) as conn:
            parts = [part for request in batch for part in request.parts]
            # No pipeline for one part: it would take longer than it saves.
            async with conn.pipeline() if len(parts) > 1 else nullcontext():
                given = await requests.find_answers(conn, tenant, batch)
                await off_loop(_chars(parts), rows.read, parts)
            known = await requests.answered(conn, batch, given)
            done.answers, done.refused = known.answers, {**known.refused}
            done.repeat = known.repeat
            fresh = [r for r in batch if r.id not in known.answers and r.id not in known.refused]
            by_repo: dict[str, list[Request]] = defaultdict(list)
            for request in fresh:
                by_repo[request.repo].append(request)
            ids = {await ensure_row(conn, repo, tenant): repo for repo in sorted(by_repo)}
            # In the order of their ids, so that two batches cannot deadlock on the clocks.
            for repo_id in sorted(ids):
                await _write(conn, tenant, repo_id, by_repo[ids[repo_id]], model, rules, done)
            if fresh and all(request.id in done.refused for request in fresh):
                raise Rollback  # nothing is stored: create no repository row and take no clock tick
            failpoint.hit("memory.before_commit")
        failpoint.hit("memory.after_commit")
    except pg.UniqueViolation as exc:
        raise StoreContended(
            "two writers stored the same text, or answered one request, at once; run the same again"
        ) from exc
    return done


async def _write(
    conn: Connection,
    tenant: str,
    repo_id: int,
    batch: Sequence[Request],
    model: str,
    rules: Rules,
    done: Done,
) -> None:
    """Write one repository's part of a batch."""
    parts = [part for request in batch for part in request.parts]
    if not parts:
        recorded = await requests.record(conn, tenant, repo_id, batch, {}, done.repeat)
        requests.check_recorded(recorded, batch)
        done.answers |= {r.id: TurnReceipt(r.id, (), r.note) for r in batch}
        return
    mentioned = await links.code(conn, repo_id, parts)
    anchors = await anchored.read(conn, repo_id, ((p.entry.path, p.entry.symbol) for p in parts))
    text_anchors = await links.anchors(conn, repo_id, parts, mentioned)
    at = await tick(conn, repo_id)
    targets = await rows.newest(
        conn, repo_id, [p.write.supersedes for p in parts if p.write.supersedes is not None]
    )
    # Pipelined, slow statements first: the server works while terms are counted here and the next statement is built.
    async with conn.pipeline():
        living = await rows.find_alive(conn, repo_id, parts)
        await off_loop(_chars(parts), rows.sketch, parts)
        made = rules.plan_memories(batch[0].repo, parts, await rows.alive(living), targets)
        refused = await _refused(conn, tenant, batch, made)
        done.refused |= refused
        batch = [request for request in batch if request.id not in refused]
        if not batch:
            return
        sharing = await links.find_similar(conn, repo_id, parts)
        new = rows.versions(repo_id, tenant, made, at, anchors, text_anchors)
        buckets = await links.buckets(sharing)
        touched = await rows.write(conn, repo_id, made, new, at, model)
        # The server accepts nothing more until it has read all rows: first the work that sends nothing.
        index = await off_loop(_chars(parts), rows.indexed, new)
        stored = _stored(parts, made, at)
        recorded = await requests.record(conn, tenant, repo_id, batch, stored, done.repeat)
        await rows.write_index(conn, repo_id, index)
        similar = links.near(made, buckets)
        await rows.add_edges(conn, repo_id, at, _edges(made, mentioned, similar, at))
        await rows.queue_event(conn, repo_id, touched)
        receipts = _receipts(stored, similar)
        for request in batch:
            found = tuple(receipts[id(part)] for part in request.parts)
            done.answers[request.id] = TurnReceipt(request.id, found, request.note)
    requests.check_recorded(recorded, batch)
    if any(slot.is_new or slot.changed for slot in made.slots):
        done.grown.append(repo_id)


async def _refused(
    conn: Connection, tenant: str, batch: Sequence[Request], made: Plan
) -> dict[str, PlaitError]:
    """By id, why a request is not stored. Raises: StoreContended, when another
    transaction answered one of them while this one waited: then the conflict is with its own repeat."""
    outcomes = iter(made.outcomes)
    refused: dict[str, PlaitError] = {}
    for request in batch:
        for _, outcome in zip(request.parts, outcomes, strict=False):
            if isinstance(outcome, PlaitError):
                if len(request.parts) > 1:
                    raise outcome  # a turn is stored whole or not at all
                refused[request.id] = outcome
    if refused:
        again = [request for request in batch if request.id in refused]
        known = await requests.answered(
            conn, again, await requests.find_answers(conn, tenant, again)
        )
        if known.answers or known.refused:
            raise StoreContended("a request with the same id ended just now; run the same again")
    return refused


def _chars(parts: Sequence[Prepared]) -> int:
    return sum(len(part.entry.content) for part in parts)


async def close(conn: Connection, tenant: str, repo_id: int, id_: MemoryId) -> bool:
    """Close the entry; False if it is closed already."""
    at = await tick(conn, repo_id)
    row = (await rows.newest(conn, repo_id, [id_])).get(id_)
    if row is None or not row.alive:
        return False
    made = Plan([Slot(row.entry, row, closed=True)])
    new = rows.versions(repo_id, tenant, made, at)
    await rows.queue_event(conn, repo_id, await rows.write(conn, repo_id, made, new, at))
    return True


def _edges(
    made: Plan,
    mentioned: links.Code,
    similar: Mapping[MemoryId, Sequence[tuple[MemoryId, float]]],
    at: datetime,
) -> list[rows.Edge]:
    out: list[rows.Edge] = []
    for slot in made.slots:
        if slot.is_new and slot.prepared is not None:
            entry = slot.result(at)
            out += mentioned.edges(entry, slot.prepared)
            for other, score in similar.get(slot.id, ()):
                target = f"memory/{other}"
                out.append((entry, Relation.SIMILAR_TO.value, target, "", "words", score))
    for new, old in made.supersedes:
        target = f"memory/{old.id}"
        out.append((new.result(at), Relation.SUPERSEDES.value, target, "", "", 1.0))
    return out


def _stored(parts: Sequence[Prepared], made: Plan, at: datetime) -> requests.Stored:
    """Entries of the parts that were not refused."""
    return {
        id(part): (outcome[0].result(at), outcome[1])
        for part, outcome in zip(parts, made.outcomes, strict=True)
        if not isinstance(outcome, PlaitError)
    }


def _receipts(
    stored: requests.Stored, similar: Mapping[MemoryId, Sequence[tuple[MemoryId, float]]]
) -> dict[int, MemoryReceipt]:
    """By the identity of a part, as `stored` is."""
    return {
        part: MemoryReceipt(
            entry,
            duplicate=duplicate,
            similar=tuple(id_ for id_, _ in similar.get(entry.id, ())),
        )
        for part, (entry, duplicate) in stored.items()
    }
