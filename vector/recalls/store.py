"""RecallStore: receipts of recalls, items shown to a session, evidence, and feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import uuid4

from psycopg.types.json import Jsonb

from plait.domain.errors import RecallUnknown
from plait.domain.recall import Evidence, Feedback, FeedbackReceipt, RecallId, Receipt
from plait.domain.values import ItemId
from plait.ports import View
from plait.ports.rules import Rules
from vector.connection.pool import Database, Scoped
from vector.recalls import report as reporting
from vector.recalls import sql as q
from vector.recalls.rows import cleaned, plain, to_receipt

DAY_S = 86_400.0
# Feedback is stored for this many half-lives; a sixteenth of its weight is left then.
MAX_HALF_LIVES = 4
MAX_KEY = 1_000  # characters of a session's or an agent's name


class Recalls:
    def __init__(self, db: Database, app: Scoped, rules: Rules) -> None:
        self._db = db
        self._app = app
        self._rules = rules

    async def keep_receipt(self, receipt: Receipt) -> bool:
        """See `RecallStore.keep_receipt`. One statement, seen by everybody when it returns and
        written to the disk behind it (vector/sql/0005_recall.sql)."""
        repos = await self._repo_ids(receipt)
        if not repos:
            return False
        params = {
            "id": receipt.id,
            "tenant": receipt.tenant,
            "repo": repos[0],
            "repos": repos,
            "session": plain(receipt.session_key)[:MAX_KEY],
            "agent": plain(receipt.agent_id)[:MAX_KEY],
            "request": Jsonb(cleaned(receipt.request)),
            "revisions": Jsonb(dict(receipt.revisions)),
            "at": receipt.at,
            "items": [id_ for id_, _ in receipt.items],
            "scores": [score for _, score in receipt.items],
            "shown": list(receipt.shown),
            "tokens": receipt.tokens,
            "digest": receipt.digest,
            "complete": receipt.complete,
        }
        return bool(await self._app.rows(q.KEEP, params, tenant=receipt.tenant))

    async def _repo_ids(self, receipt: Receipt) -> list[int]:
        """Of all repositories the recall read; a view's own numbers save the look-up."""
        if receipt.repo_ids:
            return sorted(receipt.repo_ids)
        given = {"tenant": receipt.tenant, "names": list(receipt.repos)}
        rows = await self._app.rows(q.REPOSITORIES, given, tenant=receipt.tenant)
        return sorted(id_ for _, id_ in rows)

    async def receipt(self, tenant: str, id_: RecallId) -> Receipt:
        given = {"tenant": tenant, "id": id_, "keep": self._keep_s}
        rows = await self._app.rows(q.RECEIPT, given, tenant=tenant)
        if not rows:
            raise RecallUnknown(id_)
        return to_receipt(id_, rows[0])

    async def shown(
        self, tenant: str, repos: Sequence[str], session_key: str, since: datetime
    ) -> frozenset[ItemId]:
        if not session_key:
            return frozenset()
        given = {
            "tenant": tenant,
            "names": list(repos),
            "session": plain(session_key)[:MAX_KEY],
            "since": since,
        }
        rows = await self._app.rows(q.SHOWN, given, tenant=tenant)
        return frozenset(ItemId(id_) for (ids,) in rows for id_ in ids)

    async def evidence(self, view: View, ids: Sequence[ItemId]) -> Mapping[ItemId, Evidence]:
        if not ids:
            return {}
        given = {
            "ids": list(ids),
            "cap": self._rules.source_cap,
            "half_life": self._app.settings.recall.feedback_half_life_days * DAY_S,
            # Decayed up to the time the answer is of: a replay finds the same.
            "at": view.recorded or view.valid,
            "recorded": view.recorded,
        }
        rows = await self._app.rows(q.EVIDENCE, given, tenant=view.tenant)
        return {ItemId(id_): Evidence(helped, harmed) for id_, helped, harmed in rows}

    async def report(self, feedback: Feedback) -> FeedbackReceipt:
        """See `RecallStore.report`."""
        id_ = uuid4()  # distinguishes a retry after a lost commit reply from a repeated request
        return await self._app.retry(
            lambda _: reporting.report(
                self._app, feedback, id_, self._keep_s, self._rules.attribute
            )
        )

    async def collect(self) -> Mapping[str, int]:
        """See `RecallStore.collect`."""
        settings = self._db.settings.recall
        weighs = MAX_HALF_LIVES * settings.feedback_half_life_days * DAY_S
        given = {"keep": self._keep_s, "weighs": max(weighs, self._keep_s)}
        removed = {}
        for place, statement in (
            ("recall", q.OLD_RECEIPTS),
            ("comments", q.OLD_COMMENTS),
            ("feedback_item", q.OLD_FEEDBACK),
            ("feedback", q.OLD_ANSWERS),
        ):
            removed[place] = 0
            while True:
                async with self._db.transaction() as conn:
                    count = (await conn.execute(statement, given)).rowcount
                removed[place] += count
                if count < q.BATCH:
                    break
        return removed

    @property
    def _keep_s(self) -> float:
        return self._app.settings.recall.keep_s
