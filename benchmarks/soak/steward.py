"""Upkeep under load: one agent whose memories are compacted, one whose memories are forgotten."""

from __future__ import annotations

from uuid import UUID

from benchmarks.soak import bodies
from benchmarks.soak.ledger import Kind, Request
from benchmarks.soak.load import CALL_S, Sender
from plait.client import PlaitRpcError
from plait.domain.answers.upkeep import Compacted, Forgotten
from plait.domain.retention import Selector

PACKED, FORGOTTEN = "packed-agent", "forgotten-agent"
PATIENCE = 60
UNDONE = 0.3  # of compactions


class Steward(Sender):
    """In each cycle it stores a few memories and an episode, forgets them, and compacts others."""

    async def run(self) -> None:
        repo = self.chance.choice(self.stage.repos)
        await self._compact(repo)
        await self._forget(repo)
        await self.stage.stop.wait()

    async def _compact(self, repo: str) -> None:
        await self._store(repo, PACKED, 3)

        async def compact() -> Compacted:
            return await self.client.compact(repo, PACKED, timeout_s=CALL_S)

        done = await self.insist(compact, PATIENCE)
        if done is None or not done.id:
            return
        await self._taken(Kind.COMPACT, repo, done.id)
        if self.stage.undoing or self.chance.random() < UNDONE:
            await self._undo(repo, done.id)

    async def _undo(self, repo: str, id_: str) -> None:
        """A repeat of what was done already is refused, as is one that a clock has made too late."""

        async def undo() -> bool:
            try:
                await self.client.undo_compaction(id_, timeout_s=CALL_S)
            except PlaitRpcError as exc:
                if exc.reason == "UNDO_EXPIRED":
                    return False
                raise
            return True

        if await self.insist(undo, PATIENCE):
            await self._taken(Kind.UNDO, repo, id_)

    async def _taken(self, kind: Kind, repo: str, id_: str) -> None:
        request = Request(f"{kind}-{id_}", kind, repo, (), PACKED, payload=UUID(id_))
        self.stage.ledger.sent(request)
        await self.stage.ledger.acked((request, {}))

    async def _forget(self, repo: str) -> None:
        """Whether a call that failed forgot anything is not known: so it is done to its end."""
        requests = [*await self._store(repo, FORGOTTEN, 2), await self._append(repo)]
        ids = [
            UUID(str(request.answer.get("entry_id") or request.answer.get("episode_id")))
            for request in requests
            if request.answer is not None
        ]
        if not ids or self.stage.stop.is_set():
            return

        async def forget() -> Forgotten:
            return await self.client.forget(repo, Selector(ids=tuple(ids)), timeout_s=CALL_S)

        if await self.insist(forget, PATIENCE, to_the_end=True) is not None:
            for request in requests:
                request.forgotten = request.forgotten or request.acked

    async def _store(self, repo: str, agent: str, count: int) -> list[Request]:
        group = bodies.request_id(self.chance)
        requests = []
        for _ in range(count):
            text = bodies.a_text(self.chance)
            entry = bodies.an_entry(repo, agent, text)
            id_ = bodies.request_id(self.chance)
            requests.append(
                Request(id_, Kind.MEMORY, repo, (text,), agent, group=group, payload=entry)
            )
        self.stage.ledger.sent(*requests)
        await self.send_memories(requests)
        return requests

    async def _append(self, repo: str) -> Request:
        episode, shape = bodies.an_episode(repo, FORGOTTEN, self.chance)
        texts = tuple(artifact.content for artifact in episode.artifacts)
        request = Request(
            episode.request_id, Kind.EPISODE, repo, texts, FORGOTTEN, shape=shape, payload=episode
        )
        self.stage.ledger.sent(request)
        await self.send_episode(request)
        return request
