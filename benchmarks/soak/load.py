"""Writers: what agents send, under request ids of their own, until they are told to stop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID

from benchmarks.soak.examine import Claim, Violation
from benchmarks.soak.ledger import Kind, Ledger, Request
from plait.client import AsyncPlaitClient, PlaitRpcError
from plait.domain.values import Artifact, ArtifactKind, Episode, Evidence, Outcome

T = TypeVar("T")

CALL_S = 4.0
REUSED = "REQUEST_ID_REUSED"
# What a fault may make of a call; anything else is a finding.
PASSING = frozenset(
    {
        "UNAVAILABLE", "STORE_UNAVAILABLE", "EMBEDDED_SERVER_FAILED", "STORE_FULL", "DEADLINE_EXCEEDED",
        "STORE_CONTENDED", "CANCELLED", "STATEMENT_TIMEOUT", "BUSY", "SERVER_BUSY", "SERVER_STOPPING",
    }
)  # fmt: skip

DIFF = """\
--- a/pkg/work.py
+++ b/pkg/work.py
@@ -4,3 +4,3 @@ def first():
 def first():
-    return 1
+    return {n}  # {token}
--- a/pkg/more.py
+++ b/pkg/more.py
@@ -1,2 +1,2 @@
 def third():
-    return second()
+    return second() + {n}
"""


@dataclass(slots=True)
class Stage:
    """What writers share in a cycle. `repos`: where they write; `findings`: what they saw go wrong."""

    ledger: Ledger
    repos: Sequence[str]
    findings: list[Violation] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    acks: int = 0  # since the driver last set it to 0


class Writer:
    """One agent. It sends one thing after the other, and what it got no answer for again and again,
    unless it gives up: then nobody knows, and the checker takes either."""

    def __init__(self, name: str, client: AsyncPlaitClient, stage: Stage, chance: random.Random):
        self.name = name
        self.stage = stage
        self._client = client
        self._chance = chance

    async def run(self) -> None:
        while not self.stage.stop.is_set():
            await self._step()

    async def _step(self) -> None:
        choices: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (8, self._append),
            (1, self._deliver_again),
            (1, self._reuse),
        ]
        weights = [weight for weight, _ in choices]
        (step,) = self._chance.choices([step for _, step in choices], weights)
        await step()

    # -- episodes --------------------------------------------------------------------------------------------

    async def _append(self) -> None:
        repo = self._chance.choice(self.stage.repos)
        episode, shape = an_episode(repo, self.name, self._chance)
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
        times = self._chance.choices((1, 4), (9, 1))[0]
        await asyncio.gather(*(self._send(request) for _ in range(times)))

    async def _send(self, request: Request) -> None:
        """Until it is acknowledged, or nobody waits any more."""
        done = await self._insist(
            lambda: self._client.append_episode(request.payload, timeout_s=CALL_S)
        )
        if done is None:
            return
        answer = {"episode_id": done.episode_id, "item_ids": list(done.item_ids)}
        if request.answer is not None and request.answer != answer:
            what = f"request {request.id} was answered with {request.answer} and with {answer}"
            self.stage.findings.append(Violation(Claim.EFFECT, what))
        await self._acked((request, answer))

    # -- what must change nothing ------------------------------------------------------------------------------

    async def _deliver_again(self) -> None:
        """Old requests in another order than they were sent in, some of them twice at once."""
        known = [
            r
            for r in self.stage.ledger.requests.values()
            if r.acked and r.agent == self.name and r.kind is Kind.EPISODE and not r.forgotten
        ]
        for request in self._chance.sample(known, min(3, len(known))):
            self.stage.ledger.counts.repeats += 1
            await asyncio.gather(*(self._send(request) for _ in range(self._chance.randint(1, 2))))

    async def _reuse(self) -> None:
        """A known id with another body: refused, and nothing of the body is stored."""
        known = [
            r
            for r in self.stage.ledger.requests.values()
            if r.acked and r.agent == self.name and r.kind is Kind.EPISODE and not r.forgotten
        ]
        if not known:
            return
        request = self._chance.choice(known)
        other, _ = an_episode(request.repo, self.name, self._chance)
        other = replace(other, request_id=request.id)
        try:
            await self._client.append_episode(other, timeout_s=CALL_S)
        except PlaitRpcError as exc:
            if exc.reason == REUSED:
                self.stage.ledger.counts.reuses += 1
            else:
                self._failed(exc)
            return
        what = f"request {request.id} was taken with another body"
        self.stage.findings.append(Violation(Claim.EFFECT, what))

    # -- sending ---------------------------------------------------------------------------------------------

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """The answer; None when it never came."""
        patience = self._chance.choices((100, 1), (4, 1))[0]
        for attempt in range(patience):
            try:
                return await call()
            except PlaitRpcError as exc:
                self._failed(exc)
                if exc.reason not in PASSING or self.stage.stop.is_set():
                    return None
            await asyncio.sleep(min(0.3, 0.02 * 2**attempt) * self._chance.uniform(0.5, 1.0))
        return None

    async def _acked(self, *answers: tuple[Request, dict[str, object]]) -> None:
        await self.stage.ledger.acked(*answers)
        self.stage.acks += len(answers)

    def _failed(self, exc: PlaitRpcError) -> None:
        self.stage.ledger.failed(exc.reason)
        if exc.reason not in PASSING:
            what = f"a call failed with {exc.reason}: {exc.message[:300]}"
            self.stage.findings.append(Violation(Claim.SERVICE, what))


def token(chance: random.Random) -> str:
    """A word found nowhere else."""
    return f"zq{chance.getrandbits(80):020x}"


def an_episode(repo: str, agent: str, chance: random.Random) -> tuple[Episode, str]:
    """An episode whose every text is unlike all others, and its shape."""
    shape = chance.choices(("note", "run", "wide"), (5, 4, 1))[0]
    kind = ArtifactKind
    if shape == "note":
        artifacts = [Artifact(kind.NOTE, f"note {token(chance)}", path="pkg/work.py")]
    elif shape == "wide":
        artifacts = [Artifact(kind.NOTE, f"note {n} {token(chance)}") for n in range(40)]
    else:
        word = token(chance)
        artifacts = [
            Artifact(kind.PLAN, f"plan {word}: change first, see #12", path="pkg/work.py"),
            Artifact(kind.DIFF, DIFF.format(n=chance.randrange(10**6), token=word)),
            Artifact(kind.TEST_RESULT, f"tests/test_work.py::test_first PASSED {word}"),
            Artifact(kind.REFLECTION, f"reflection {word}", meta={"symbol": "pkg.work.first"}),
            Artifact(kind.TURN, f"turn {word}"),
        ]
    evidence = (Evidence("log.txt", "text/plain", token(chance).encode() * 20),)
    return Episode(
        request_id=str(UUID(int=chance.getrandbits(128), version=4)),
        repo=repo,
        outcome=Outcome(chance.choice(("success", "failure")), f"{shape} {token(chance)}"),
        artifacts=artifacts,
        agent_id=agent,
        session_key=f"{agent}-session",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        evidence=evidence if shape == "run" else (),
    ), shape
