"""Feedback on a recall: attributed, linked and recorded in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from plait.domain import failpoint
from plait.domain.errors import RecallUnknown, RequestForgotten, RequestIdReused, StoreContended
from plait.domain.recall import (
    Attribution,
    Feedback,
    FeedbackReceipt,
    Receipt,
    Share,
    Verdict,
)
from plait.domain.values import ItemId
from plait.text.test_names import choose, parse_name
from vector.connection.bulk import insert_rows
from vector.connection.clock import tick
from vector.connection.pool import Connection, Scoped
from vector.projection.store import queue_memories
from vector.recalls import sql as q
from vector.recalls.rows import plain, to_receipt

# The rule that made an edge, `memory_edge.resolver`.
RESOLVER = "feedback"
ITEM_COLUMNS = (
    ("tenant", "text"), ("repo_id", "int4"), ("recall_id", "uuid"), ("item_id", "uuid"),
    ("agent_id", "text"), ("session_key", "text"), ("named", "bool"), ("helped", "float4"),
    ("harmed", "float4"), ("comment", "text"), ("recorded_at", "timestamptz"),
)  # fmt: skip


class _Owner(NamedTuple):
    """The owner of an item: its repository, and its memory or episode in the graph; code has neither."""

    repo_id: int
    entry: UUID | None
    episode: UUID | None

    @property
    def node(self) -> tuple[UUID | None, UUID | None]:
        return (self.entry, None) if self.entry else (None, self.episode)


async def report(
    app: Scoped,
    feedback: Feedback,
    id_: UUID,
    keep_s: float,
    attribute: Callable[[Feedback, Receipt], Attribution],
) -> FeedbackReceipt:
    """Record feedback. `id_`: of this call, the same for all its retries.

    Raises: RecallUnknown, RequestIdReused, RequestForgotten, StoreContended (try again)."""
    async with app.transaction(feedback.tenant) as conn:
        if (known := await _answered(conn, feedback, id_)) is not None:
            return known
        recall_key = {"id": feedback.recall_id, "tenant": feedback.tenant, "keep": keep_s}
        row = await (await conn.execute(q.RECEIPT, recall_key)).fetchone()
        if row is None:
            raise RecallUnknown(feedback.recall_id)
        receipt = to_receipt(feedback.recall_id, row)
        attribution = attribute(feedback, receipt)
        ids = [share.item_id for share in attribution.shares]
        repos = {owner.repo_id for owner in (await _owners(conn, ids)).values()}
        # From here on no other transaction writes to these repositories, and forgotten items are gone.
        at = {repo: await tick(conn, repo) for repo in sorted(repos)}
        if await (await conn.execute(q.RECEIPT, recall_key)).fetchone() is None:
            raise RecallUnknown(feedback.recall_id)
        owners = await _owners(conn, ids)
        owners = {id_: owner for id_, owner in owners.items() if owner.repo_id in at}
        source = (receipt.agent_id, receipt.session_key)
        attribution = await _attributed(conn, feedback, attribution)
        await _write(conn, feedback, attribution, owners, at, source)
        links = await _link(conn, feedback, owners, at)
        await _record(conn, feedback, id_, attribution, links, receipt.repo_ids[0])
        failpoint.hit("feedback.before_commit")
    return FeedbackReceipt(attribution.accepted, attribution.unknown, attribution.attributed, links)


async def _answered(conn: Connection, feedback: Feedback, id_: UUID) -> FeedbackReceipt | None:
    given = {"tenant": feedback.tenant, "request": feedback.request_id}
    row = await (await conn.execute(q.ANSWERED, given)).fetchone()
    if row is None:
        return None
    first, body_hash, accepted, unknown, attributed, links = row
    if not body_hash:
        raise RequestForgotten(feedback.request_id)
    if bytes(body_hash) != feedback.body_hash:
        raise RequestIdReused(feedback.request_id)
    ids = tuple(ItemId(one) for one in unknown)
    return FeedbackReceipt(accepted, ids, attributed, links, repeated=first != id_)


async def _owners(conn: Connection, ids: Sequence[ItemId]) -> dict[ItemId, _Owner]:
    """The owners of the items that still exist."""
    cursor = await conn.execute(q.ITEMS, {"ids": list(ids)})
    return {ItemId(row[0]): _Owner(*row[1:]) for row in await cursor.fetchall()}


async def _attributed(
    conn: Connection, feedback: Feedback, attribution: Attribution
) -> Attribution:
    """`attribution` without shares derived from the outcome for items that have a verdict from an earlier report."""
    if not attribution.attributed:
        return attribution
    ids = [share.item_id for share in attribution.shares]
    cursor = await conn.execute(q.OPEN_NAMED, {"recall": feedback.recall_id, "ids": ids})
    named = {id_ for (id_,) in await cursor.fetchall()}
    shares = tuple(s for s in attribution.shares if s.named or s.item_id not in named)
    spread = sum(not s.named for s in shares)
    return Attribution(shares, attribution.accepted, attribution.unknown, spread)


async def _write(
    conn: Connection,
    feedback: Feedback,
    attribution: Attribution,
    owners: Mapping[ItemId, _Owner],
    at: Mapping[int, datetime],
    source: tuple[str, str],
) -> None:
    """Close this recall's earlier feedback on these items, and write the new one."""
    by_repo: dict[int, list[Share]] = defaultdict(list)
    for share in attribution.shares:
        if share.item_id in owners:
            by_repo[owners[share.item_id].repo_id].append(share)
    for repo, shares in by_repo.items():
        ids = [share.item_id for share in shares]
        closing = {"at": at[repo], "recall": feedback.recall_id, "repo": repo, "ids": ids}
        await conn.execute(q.CLOSE, closing)
        rows = [
            (
                feedback.tenant, repo, feedback.recall_id, s.item_id, *source, s.named, s.helped,
                s.harmed, plain(s.comment), at[repo],
            )
            for s in shares
        ]  # fmt: skip
        await insert_rows(conn, "feedback_item", ITEM_COLUMNS, rows)


async def _link(
    conn: Connection,
    feedback: Feedback,
    owners: Mapping[ItemId, _Owner],
    at: Mapping[int, datetime],
) -> int:
    """Link (Memory|Episode) VALIDATED_BY (Test): items that helped a run whose tests passed. Returns their number."""
    if feedback.outcome is None or feedback.outcome.status != "success" or not feedback.proof:
        return 0
    helped: dict[int, set[tuple[UUID | None, UUID | None]]] = defaultdict(set)
    for verdict in feedback.verdicts:
        owner = owners.get(verdict.item_id)
        if verdict.verdict is Verdict.HELPED and owner is not None and any(owner.node):
            helped[owner.repo_id].add(owner.node)
    links = 0
    for repo, nodes in sorted(helped.items()):
        tests = await _tests(conn, repo, feedback.proof)
        if not tests:
            continue
        given = {
            "repo": repo,
            "entries": [entry for entry, _ in nodes],
            "episodes": [episode for _, episode in nodes],
            "tests": tests,
            "resolver": RESOLVER,
            "at": at[repo],
        }
        made = await (await conn.execute(q.LINK, given)).fetchall()
        links += len(made)
        await queue_memories(conn, repo, sorted({entry for entry, _ in made if entry}))
        if episodes := sorted({episode for _, episode in made if episode}):
            await conn.execute(q.QUEUE_EPISODES, {"repo": repo, "episodes": episodes})
    return links


async def _tests(conn: Connection, repo: int, proof: Sequence[str]) -> list[str]:
    """The tests of the published revision named in `proof`; an ambiguous name matches none."""
    names = [name for name in (parse_name(one) for one in proof) if name.name]
    if not names:
        return []
    given = {"repo": repo, "names": sorted({name.name for name in names})}
    known: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for symbol, path, name in await (await conn.execute(q.TESTS_NAMED, given)).fetchall():
        known[name].append((symbol, path))
    return sorted({symbol for name in names if (symbol := choose(name, known[name.name]))})


async def _record(
    conn: Connection,
    feedback: Feedback,
    id_: UUID,
    attribution: Attribution,
    links: int,
    repo_id: int,
) -> None:
    given: dict[str, Any] = {
        "tenant": feedback.tenant,
        "request": feedback.request_id,
        "id": id_,
        "repo": repo_id,
        "recall": feedback.recall_id,
        "hash": feedback.body_hash or b"\0",
        "outcome": feedback.outcome.status if feedback.outcome else "",
        "proof": [plain(name) for name in feedback.proof],
        "accepted": attribution.accepted,
        "unknown": list(attribution.unknown),
        "attributed": attribution.attributed,
        "links": links,
    }
    if await (await conn.execute(q.RECORD, given)).fetchone() is None:
        raise StoreContended(
            f"request {feedback.request_id!r} was answered just now; send it again"
        )
