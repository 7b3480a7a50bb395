"""Feedback under load: recalls of an agent's own memories, and one report on each."""

from __future__ import annotations

import asyncio
from uuid import UUID

from benchmarks.soak import bodies
from benchmarks.soak.examine import Claim, Violation
from benchmarks.soak.ledger import Kind, Request
from benchmarks.soak.load import CALL_S, PASSING, REUSED, Sender
from plait.client import PlaitRpcError
from plait.domain.answers.recalls import RecallResult
from plait.domain.values import Collection, Filter

REPORTER = "reporter-agent"
# A receipt is on disk within 0.6 s of its recall: a server that dies before that never kept it.
UNKNOWN = "RECALL_UNKNOWN"


class Reporter(Sender):
    """In each cycle it stores memories, recalls them, and says which helped and which harmed."""

    async def run(self) -> None:
        while not self.stage.stop.is_set():
            if await self._once():
                break
            await asyncio.sleep(0.1)
        await self.stage.stop.wait()

    async def _once(self) -> bool:
        """Whether a report was taken in. A recall may find that nothing helps: then with other memories."""
        repo = self.chance.choice(self.stage.repos)
        words = bodies.a_word(self.chance)
        if not await self._store(repo, [f"{words} {bodies.a_text(self.chance)}" for _ in range(2)]):
            return False
        found = await self._recall(repo, words)
        return found is not None and await self._report(repo, found)

    async def _store(self, repo: str, texts: list[str]) -> bool:
        group = bodies.request_id(self.chance)
        requests = [
            Request(
                bodies.request_id(self.chance), Kind.MEMORY, repo, (text,), REPORTER, group=group,
                payload=bodies.an_entry(repo, REPORTER, text),
            )
            for text in texts
        ]  # fmt: skip
        self.stage.ledger.sent(*requests)
        await self.send_memories(requests)
        return all(request.acked for request in requests)

    async def _recall(self, repo: str, words: str) -> RecallResult | None:
        """An answer that has a receipt and two items; None: there is none yet."""
        where = Filter(repos=(repo,), collections=(Collection.MEMORIES,), agent_id=REPORTER)
        found = await self.insist(
            lambda: self.client.recall(words, where=where, timeout_s=CALL_S), 1
        )
        return found if found and found.recall_id and len(found.items) >= 2 else None

    async def _report(self, repo: str, found: RecallResult) -> bool:
        """Whether it was taken in. Then it arrives again, and once with another body."""
        assert found.recall_id is not None
        helped, harmed = (UUID(str(one.item.id)) for one in found.items[:2])
        id_ = bodies.request_id(self.chance)
        request = Request(
            id_, Kind.FEEDBACK, repo, (), REPORTER, payload=(found.recall_id, helped, harmed)
        )
        self.stage.ledger.sent(request)
        if not await self._send(request, helped, harmed):
            return False
        self.stage.ledger.counts.repeats += 1
        await self._send(request, helped, harmed)
        await self._reuse(request)
        return True

    async def _send(self, request: Request, helped: UUID, harmed: UUID) -> bool:
        recall_id = request.payload[0]
        while True:
            try:
                taken = await self.client.report_feedback(
                    recall_id, helped=[helped], harmed=[harmed], request_id=request.id,
                    timeout_s=CALL_S,
                )  # fmt: skip
            except PlaitRpcError as exc:
                if exc.reason == UNKNOWN and not request.acked:
                    self.stage.ledger.failed(exc.reason)
                    return False
                self.failed(exc)
                if exc.reason not in PASSING or self.stage.stop.is_set():
                    return False
                await asyncio.sleep(0.1)
            else:
                await self.acked((request, {"accepted": taken.accepted}))
                return True

    async def _reuse(self, request: Request) -> None:
        recall_id, _, harmed = request.payload
        try:
            await self.client.report_feedback(
                recall_id, helped=[harmed], request_id=request.id, timeout_s=CALL_S
            )
        except PlaitRpcError as exc:
            if exc.reason == REUSED:
                self.stage.ledger.counts.reuses += 1
            else:
                self.failed(exc)
            return
        what = f"feedback {request.id} was taken with another body"
        self.stage.findings.append(Violation(Claim.EFFECT, what))
