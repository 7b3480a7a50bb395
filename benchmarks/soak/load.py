"""Writers: what agents send, under request ids of their own, until they are told to stop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from benchmarks.soak import bodies
from benchmarks.soak.examine import Claim, Violation
from benchmarks.soak.ledger import Kind, Ledger, Request
from plait.client import AsyncPlaitClient, PlaitRpcError
from plait.domain.answers.memories import StoredMemory, Tool
from plait.memory.turn import Turn, memories

T = TypeVar("T")
Answer = dict[str, Any]

CALL_S = 8.0
PAUSE_S = 0.02  # between two things of one writer: what is sent has to be projected, and compared
REUSED = "REQUEST_ID_REUSED"
# What a fault may make of a call; anything else is a finding.
PASSING = frozenset(
    {
        "UNAVAILABLE", "STORE_UNAVAILABLE", "EMBEDDED_SERVER_FAILED", "STORE_FULL", "DEADLINE_EXCEEDED",
        "STORE_CONTENDED", "CANCELLED", "GRAPH_UNAVAILABLE", "STREAM_BROKEN",
    }
)  # fmt: skip


@dataclass(slots=True)
class Stage:
    """What writers share in a cycle. `repos`: where they write; `findings`: what they saw go wrong."""

    ledger: Ledger
    repos: Sequence[str]
    eager: bool = False  # mostly repeats and reuses
    undoing: bool = False  # compactions are undone; else few are
    findings: list[Violation] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    acks: dict[str, int] = field(default_factory=dict)  # by writer, since the driver cleared it


class Sender:
    """Sends requests, again and again where no answer comes, and writes down what is acknowledged."""

    def __init__(
        self, name: str, client: AsyncPlaitClient, stage: Stage, chance: random.Random
    ) -> None:
        self.name = name
        self.stage = stage
        self.client = client
        self.chance = chance

    async def send_episode(self, request: Request, patience: int = 1000) -> None:
        done = await self.insist(
            lambda: self.client.append_episode(request.payload, timeout_s=CALL_S), patience
        )
        if done is not None:
            answer: Answer = {"episode_id": done.episode_id, "item_ids": list(done.item_ids)}
            await self.acked((request, answer))

    async def send_memories(self, requests: Sequence[Request], patience: int = 1000) -> None:
        """One call: one of them alone when it takes another one's place, else a batch."""
        first = requests[0]
        if first.closes:
            stored = await self.insist(
                lambda: self.client.store(
                    first.payload,
                    supersedes=bodies.memory_id(first.closes),
                    request_id=first.id,
                    timeout_s=CALL_S,
                ),
                patience,
            )
            results: Sequence[StoredMemory | PlaitRpcError] | None = (
                None if stored is None else (stored,)
            )
        else:
            results = await self.insist(
                lambda: self.client.batch_store(
                    [request.payload for request in requests],
                    request_ids=[request.id for request in requests],
                    timeout_s=CALL_S,
                ),
                patience,
            )
        if results is None:
            return
        answers: list[tuple[Request, Answer]] = []
        for request, result in zip(requests, results, strict=True):
            if isinstance(result, PlaitRpcError):
                self.failed(result)
            else:
                answers.append((request, {"entry_id": str(result.entry.id)}))
        await self.acked(*answers)

    async def send_turn(self, request: Request, patience: int = 1000) -> None:
        turn: Turn = request.payload
        tools = [Tool(o.tool, o.result, not o.succeeded, o.command) for o in turn.outcomes]
        done = await self.insist(
            lambda: self.client.learn(
                repo=request.repo,
                agent_id=request.agent,
                session_key=f"{request.agent}-session",
                user_message=turn.user_message,
                tool_outcomes=tools,
                request_id=request.id,
                timeout_s=CALL_S,
            ),
            patience,
        )
        if done is not None:
            await self.acked((request, {"entry_ids": [str(entry.id) for entry in done.entries]}))

    async def send_delete(self, request: Request, patience: int = 1000) -> None:
        async def delete() -> bool:
            await self.client.delete(request.closes, request.repo, timeout_s=CALL_S)
            return True

        if await self.insist(delete, patience):
            await self.acked((request, {}))

    async def insist(
        self, call: Callable[[], Awaitable[T]], patience: int, *, to_the_end: bool = False
    ) -> T | None:
        """The answer; None when it never came. `to_the_end`: even when writers are told to stop."""
        for attempt in range(patience):
            try:
                return await call()
            except PlaitRpcError as exc:
                self.failed(exc)
                if exc.reason not in PASSING or (self.stage.stop.is_set() and not to_the_end):
                    return None
            await asyncio.sleep(min(0.3, 0.02 * 2 ** min(attempt, 8)) * self.chance.uniform(0.5, 1))
        return None

    async def acked(self, *answers: tuple[Request, Answer]) -> None:
        for request, answer in answers:
            if request.answer is not None and request.answer != answer:
                what = f"request {request.id} was answered with {request.answer} and with {answer}"
                self.stage.findings.append(Violation(Claim.EFFECT, what))
        await self.stage.ledger.acked(*answers)
        self.stage.acks[self.name] = self.stage.acks.get(self.name, 0) + 1

    def failed(self, exc: PlaitRpcError) -> None:
        self.stage.ledger.failed(exc.reason)
        if exc.reason not in PASSING:
            self.found(f"a call failed with {exc.reason}: {exc.message[:300]}")

    def found(self, what: str) -> None:
        self.stage.findings.append(Violation(Claim.SERVICE, what))


class Writer(Sender):
    """One agent. It sends one thing after the other, and what it got no answer for again and again,
    unless it gives up: then nobody knows, and the checker takes either. `memories`: not episodes only."""

    def __init__(
        self,
        name: str,
        client: AsyncPlaitClient,
        stage: Stage,
        chance: random.Random,
        *,
        memories: bool,
    ) -> None:
        super().__init__(name, client, stage, chance)
        self._memories = memories

    async def run(self) -> None:
        steps = [self._append, self._deliver_again, self._reuse]
        weights = [1, 5, 5] if self.stage.eager else [6, 1, 1]
        if self._memories:
            steps += [self._store, self._supersede, self._delete, self._duplicate, self._learn]
            weights += [1, 1, 1, 3, 1] if self.stage.eager else [4, 2, 1, 1, 1]
        while not self.stage.stop.is_set():
            (step,) = self.chance.choices(steps, weights)
            await step()
            await asyncio.sleep(self.chance.uniform(0, 2 * PAUSE_S))

    def _patience(self) -> int:
        return self.chance.choices((1000, 1), (4, 1))[0]

    def _times(self) -> int:
        """How often a request arrives at once."""
        return self.chance.choices((1, 4), (4 if self.stage.eager else 9, 1))[0]

    # -- what has an effect ------------------------------------------------------------------------------------

    async def _append(self) -> None:
        repo = self.chance.choice(self.stage.repos)
        episode, shape = bodies.an_episode(repo, self.name, self.chance)
        request = Request(
            id=episode.request_id,
            kind=Kind.EPISODE,
            repo=repo,
            texts=tuple(artifact.content for artifact in episode.artifacts),
            agent=self.name,
            shape=shape,
            payload=episode,
        )
        self.stage.ledger.sent(request)
        patience = self._patience()
        await asyncio.gather(*(self.send_episode(request, patience) for _ in range(self._times())))

    async def _store(self) -> None:
        repo = self.chance.choice(self.stage.repos)
        group = bodies.request_id(self.chance)
        requests = [
            self._memory(repo, bodies.a_text(self.chance), group=group)
            for _ in range(self.chance.choice((1, 3, 20)))
        ]
        self.stage.ledger.sent(*requests)
        patience = self._patience()
        await asyncio.gather(
            *(self.send_memories(requests, patience) for _ in range(self._times()))
        )

    async def _learn(self) -> None:
        repo = self.chance.choice(self.stage.repos)
        turn = bodies.a_turn(self.chance)
        entries, _ = memories(repo, self.name, f"{self.name}-session", turn)
        texts = tuple(entry.content for entry in entries)
        id_ = bodies.request_id(self.chance)
        request = Request(id_, Kind.LEARN, repo, texts, self.name, payload=turn)
        self.stage.ledger.sent(request)
        patience = self._patience()
        await asyncio.gather(*(self.send_turn(request, patience) for _ in range(self._times())))

    async def _supersede(self) -> None:
        if (old := self._open()) is None or old.answer is None:
            return
        request = self._memory(old.repo, bodies.a_text(self.chance), closes=old.answer["entry_id"])
        self.stage.ledger.sent(request)
        await self.send_memories([request], self._patience())

    async def _delete(self) -> None:
        if (old := self._open()) is None or old.answer is None:
            return
        request = Request(
            id=bodies.request_id(self.chance),
            kind=Kind.DELETE,
            repo=old.repo,
            texts=(),
            agent=self.name,
            closes=old.answer["entry_id"],
        )
        self.stage.ledger.sent(request)
        await self.send_delete(request, self._patience())

    async def _duplicate(self) -> None:
        """The same text under another request id: one entry."""
        if (old := self._open()) is None:
            return
        request = self._memory(old.repo, old.texts[0], duplicate_of=old.id)
        self.stage.ledger.sent(request)
        await self.send_memories([request], self._patience())
        told = request.answer
        if told is not None and told != old.answer:
            what = f"the text of request {old.id} became another entry by request {request.id}"
            self.stage.findings.append(Violation(Claim.EFFECT, what))

    # -- what must change nothing ------------------------------------------------------------------------------

    async def _deliver_again(self) -> None:
        """Old requests in another order than they were sent in, some of them twice at once."""
        known = [r for r in self._known() if r.kind is not Kind.DELETE]
        for request in self.chance.sample(known, min(3, len(known))):
            self.stage.ledger.counts.repeats += 1
            again = {Kind.EPISODE: self.send_episode, Kind.LEARN: self.send_turn}.get(
                request.kind, self._send_memory
            )
            await asyncio.gather(*(again(request, 1) for _ in range(self.chance.randint(1, 2))))

    async def _send_memory(self, request: Request, patience: int) -> None:
        await self.send_memories([request], patience)

    async def _reuse(self) -> None:
        """A known id with another body: refused, and nothing of the body is stored."""
        known = [r for r in self._known() if r.kind is not Kind.DELETE]
        if not known:
            return
        request = self.chance.choice(known)
        try:
            if request.kind is Kind.EPISODE:
                other, _ = bodies.an_episode(request.repo, self.name, self.chance)
                other = replace(other, request_id=request.id)
                await self.client.append_episode(other, timeout_s=CALL_S)
            else:
                entry = bodies.an_entry(request.repo, self.name, bodies.a_text(self.chance))
                await self.client.store(entry, request_id=request.id, timeout_s=CALL_S)
        except PlaitRpcError as exc:
            if exc.reason == REUSED:
                self.stage.ledger.counts.reuses += 1
            else:
                self.failed(exc)
            return
        what = f"request {request.id} was taken with another body"
        self.stage.findings.append(Violation(Claim.EFFECT, what))

    # -- what this agent knows -----------------------------------------------------------------------------------

    def _memory(
        self, repo: str, text: str, *, group: str = "", closes: str = "", duplicate_of: str = ""
    ) -> Request:
        return Request(
            id=bodies.request_id(self.chance),
            kind=Kind.MEMORY,
            repo=repo,
            texts=(text,),
            agent=self.name,
            group=group,
            closes=closes,
            duplicate_of=duplicate_of,
            payload=bodies.an_entry(repo, self.name, text),
        )

    def _known(self) -> list[Request]:
        return [
            r for repo in self.stage.repos for r in self.stage.ledger.of(repo, agent=self.name)
            if r.acked and not r.forgotten
        ]  # fmt: skip

    def _open(self) -> Request | None:
        """An acknowledged memory that nobody has tried to close; the first to hold its text."""
        known = self._known()
        closing = {
            r.closes for repo in self.stage.repos for r in self.stage.ledger.of(repo) if r.closes
        }
        free = [
            r
            for r in known
            if r.kind is Kind.MEMORY
            and r.answer is not None
            and not r.duplicate_of
            and r.answer["entry_id"] not in closing
        ]
        return self.chance.choice(free) if free else None
