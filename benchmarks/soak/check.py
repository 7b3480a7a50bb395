"""The checker: the stores as they are now, against the ledger and against what they answered before."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from uuid import UUID

from benchmarks.soak.examine import Claim, Violation, examine
from benchmarks.soak.ledger import Kind, Ledger
from benchmarks.soak.load import PASSING
from benchmarks.soak.service import Service
from benchmarks.soak.snapshot import Snapshot, take
from benchmarks.soak.steward import FORGOTTEN
from benchmarks.soak.vectors import vector
from plait.client import AsyncPlaitClient, PlaitRpcError
from plait.domain.memory import MemoryEntry, MemoryFilter
from plait.domain.values import embedded_text
from vector.index.visible import item

CALL_S = 30.0
PAGE = 1000
ASKED_AGAIN = 3  # earlier answers that a check asks for once more, besides the last one
COMPARE_S = 5.0  # within which the graph has to equal the truth, once nothing waits
REST_S = 60.0  # within which nothing waits


# Of what agents keep and of the code of every revision; and what a reader can see without one.
VECTORS = """
SELECT i.id, ARRAY[i.path, i.symbol, i.content, i.context], i.embedding::text
  FROM item i JOIN repository r ON r.id = i.repo_id
 WHERE r.name = %(repo)s AND i.embedding IS NOT NULL AND NOT i.id = ANY(%(known)s::uuid[])
"""
WITHOUT_VECTOR = f"""
SELECT count(*) FROM item i JOIN repository r ON r.id = i.repo_id
 WHERE i.embedding IS NULL AND i.superseded_at IS NULL
   AND {item("i", "r.published")}
"""
EMBEDDED_S = 120.0  # a failed round is tried again within a minute
HALF = 2e-3  # a stored vector has half floats


def _near(a: Sequence[float], b: Sequence[float]) -> bool:
    return len(a) == len(b) and all(abs(x - y) < HALF for x, y in zip(a, b, strict=True))


@dataclass(frozen=True, slots=True)
class Past:
    """An answer that was given: what a repository held as of `at`, in the order it was told."""

    repo: str
    at: datetime
    entries: tuple[MemoryEntry, ...]

    def unlike(self, other: Past) -> str:
        """Where the two differ."""
        mine, its = ({e.id: e for e in past.entries} for past in (self, other))
        if mine == its:
            return "the order of the entries"
        gone, new = mine.keys() - its.keys(), its.keys() - mine.keys()
        changed = [
            f"{id_}.{field.name} was {getattr(mine[id_], field.name)!r}, "
            f"is {getattr(its[id_], field.name)!r}"
            for id_ in mine.keys() & its.keys()
            for field in fields(MemoryEntry)
            if getattr(mine[id_], field.name) != getattr(its[id_], field.name)
        ]
        return f"{len(mine)} entries, {len(gone)} gone, {len(new)} new, changed: {changed[:3]}"


class Checker:
    """`parts`: what of the service is used at all, see `run.PARTS`."""

    def __init__(self, service: Service, ledger: Ledger, parts: Collection[str]) -> None:
        self._service = service
        self._ledger = ledger
        self._parts = parts
        self._seen: list[str] = []
        self._clock: dict[str, datetime] = {}
        self._pasts: dict[str, list[Past]] = {}
        self._vectors_known: dict[str, set[UUID]] = {}
        self._chance = random.Random(0)

    async def check(self, repos: Sequence[str]) -> list[Violation]:
        """Compare these repositories, at a moment at which nothing waits."""
        found: list[Violation] = []
        async with AsyncPlaitClient(self._service.target) as client:
            for repo in repos:
                if repo not in self._seen:
                    self._seen.append(repo)
                shot = await self._snapshot(repo)
                if shot is None:
                    found += self._missing(repo)
                    continue
                found += examine(shot, list(self._ledger.of(repo)))
                found += self._time(shot)
                if "memories" in self._parts:
                    found += await self._readable(client, repo)
                    found += await self._past(client, shot)
                if "verify" in self._parts:
                    found += await self._graph(client, repo)
                found += await self._vectors(repo)
        return found

    async def everything(self) -> list[Violation]:
        """Every repository that was ever written to; and that background work has come to its end."""
        return [*await self.check(list(self._seen)), *await self._all_embedded()]

    # -- vectors --------------------------------------------------------------------------------------------

    async def _vectors(self, repo: str) -> list[Violation]:
        """Each vector that came since the last check is that of its own text."""
        known = self._vectors_known.setdefault(repo, set())
        given = {"repo": repo, "known": list(known)}
        found = []
        for id_, texts, made in await self._service.rows(VECTORS, given):
            known.add(id_)
            have = [float(x) for x in made[1:-1].split(",")]
            wanted = (embedded_text(*texts), texts[2])  # a sender may send the text's own along
            if not any(_near(have, vector(text)) for text in wanted):
                found.append(Violation(Claim.PARTIAL, f"item {id_} has the vector of another text"))
        return found

    async def _all_embedded(self) -> list[Violation]:
        end = time.monotonic() + EMBEDDED_S
        while True:
            ((left,),) = await self._service.rows(WITHOUT_VECTOR)
            if not left:
                return []
            if time.monotonic() > end:
                return [
                    Violation(Claim.LOST, f"{left} texts have no vector after {EMBEDDED_S:g} s")
                ]
            await asyncio.sleep(0.2)

    async def _snapshot(self, repo: str) -> Snapshot | None:
        async with await self._service.connect() as conn:
            return await take(conn, repo)

    def _missing(self, repo: str) -> list[Violation]:
        lost = [r.id for r in self._ledger.of(repo) if r.acked]
        return [Violation(Claim.LOST, f"repository {repo} with {lost[:5]}")] if lost else []

    def _time(self, shot: Snapshot) -> list[Violation]:
        """Recorded times only grow, whatever the clock does."""
        before, self._clock[shot.repo] = self._clock.get(shot.repo), shot.clock or datetime.min
        if before is not None and (shot.clock is None or shot.clock < before):
            return [
                Violation(
                    Claim.PAST, f"the clock of {shot.repo} went from {before} to {shot.clock}"
                )
            ]
        return []

    # -- through the door -----------------------------------------------------------------------------------

    async def _readable(self, client: AsyncPlaitClient, repo: str) -> list[Violation]:
        """What was acknowledged and nobody tried to close is what a reader gets."""
        listed = {str(e.id): e.content for e in await self._list(client, repo, "")}
        requests = list(self._ledger.of(repo))
        closing = {r.closes for r in requests if r.closes}
        found = []
        for request in requests:
            if request.kind is not Kind.MEMORY or request.answer is None or request.forgotten:
                continue
            entry = request.answer["entry_id"]
            open_ = entry not in closing and request.agent.startswith("agent-")
            if open_ and listed.get(entry) != request.texts[0]:
                found.append(
                    Violation(Claim.LOST, f"a reader does not get {entry} of {request.id}")
                )
        return found

    async def _past(self, client: AsyncPlaitClient, shot: Snapshot) -> list[Violation]:
        """Earlier answers, asked for once more; and one more of now, for later."""
        pasts = self._pasts.setdefault(shot.repo, [])
        again = pasts[-1:] + self._chance.sample(pasts[:-1], min(ASKED_AGAIN, len(pasts[:-1])))
        found = []
        for past in again:
            now = await self._answer(client, shot.repo, past.at)
            if now != past:
                what = f"{shot.repo} as of {past.at}: {past.unlike(now)}"
                found.append(Violation(Claim.PAST, what))
        if shot.clock is not None:
            pasts.append(await self._answer(client, shot.repo, shot.clock))
        return found

    async def _answer(self, client: AsyncPlaitClient, repo: str, at: datetime) -> Past:
        kept = [
            entry
            for entry in await self._list(client, repo, at)
            if entry.agent_id != FORGOTTEN  # what is forgotten is gone from the past, too
        ]
        return Past(repo, at, tuple(kept))

    async def _list(
        self, client: AsyncPlaitClient, repo: str, at: datetime | str
    ) -> list[MemoryEntry]:
        out: list[MemoryEntry] = []
        after = ""
        while True:
            page = await client.list(
                MemoryFilter(repos=(repo,)),
                limit=PAGE,
                after=after,
                valid_as_of=at or None,
                recorded_as_of=at or None,
                timeout_s=CALL_S,
            )
            out += page.entries
            after = page.next
            if not after:
                return out

    async def _graph(self, client: AsyncPlaitClient, repo: str) -> list[Violation]:
        """The service's own comparison. What was queued meanwhile may still be under way."""
        begun = time.monotonic()
        while True:
            took_s = time.monotonic() - begun
            try:
                (compared,) = await client.verify([repo], timeout_s=CALL_S)
            except PlaitRpcError as exc:
                if exc.reason not in {*PASSING, "GRAPH_UPDATING"} or took_s > REST_S:
                    return [Violation(Claim.GRAPH, f"{repo} can't be compared: {exc}")]
                await asyncio.sleep(0.1)
                continue
            if compared.consistent and not compared.waiting:
                return []
            if took_s > (REST_S if compared.waiting else COMPARE_S):
                what = f"{repo}: {compared.waiting} waiting, {compared.differences}"
                return [Violation(Claim.GRAPH, what)]
