"""Servers die, disks fill, clocks jump under load, and nothing acknowledged is lost. docs/faults.md."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import pytest

from benchmarks.soak import bodies
from benchmarks.soak.check import Checker
from benchmarks.soak.examine import Claim
from benchmarks.soak.faults import FAULTS
from benchmarks.soak.ledger import Kind, Ledger, Request
from benchmarks.soak.load import Sender, Stage
from benchmarks.soak.run import PARTS, soak
from benchmarks.soak.service import Service, workplace
from graph.bolt import Bolt
from plait.client import AsyncPlaitClient
from plait.domain import failpoint

# The plan's smallest that has every fault and every failpoint; `benchmarks.soak` runs thousands.
CYCLES = 30


@pytest.mark.timeout(1800)
async def test_every_fault_once_loses_nothing(
    record_property: Callable[[str, object], None],
) -> None:
    lines: list[str] = []
    report = await soak(CYCLES, seed=4, say=lines.append)
    record_property("printed", str(report))
    assert not report.violations, "\n".join([*lines, report.log])
    assert report.cycles == CYCLES
    assert set(report.failpoints) == set(failpoint.POINTS)
    assert set(report.faults) == set(FAULTS) - set(report.left_out.split(", "))
    assert report.acked > CYCLES
    assert report.counts["repeats"] > 0
    assert report.counts["reuses"] > 0


# -- the checker can fail: damage by hand is seen -----------------------------------------------------------


@dataclass
class Damaged:
    """A service with a few acknowledged requests in a repository of the test's own, in order."""

    service: Service
    checker: Checker
    client: AsyncPlaitClient
    repo: str
    episodes: list[Request]
    memories: list[Request]
    deleted: Request

    async def sql(self, statement: str, **given: object) -> None:
        await self.service.rows(statement, {"repo": self.repo, **given})

    async def claims(self) -> set[Claim]:
        return {violation.claim for violation in await self.checker.check([self.repo])}


@pytest.fixture(scope="module")
async def service() -> AsyncIterator[tuple[Service, Checker, Ledger]]:
    with workplace() as (base, _):
        one = Service(base)
        ledger = Ledger(base / "ledger.jsonl")
        try:
            await one.open()
            yield one, Checker(one, ledger, PARTS), ledger
        finally:
            await one.close()
            ledger.close()


@pytest.fixture
async def damaged(
    service: tuple[Service, Checker, Ledger], request: pytest.FixtureRequest
) -> AsyncIterator[Damaged]:
    one, checker, ledger = service
    repo = re.sub(r"[^a-z_]", "-", request.node.name)
    chance = random.Random(repo)
    async with AsyncPlaitClient(one.target) as client:
        stage = Stage(ledger, [repo])
        sender = Sender("agent-0", client, stage, chance)
        episodes = [an_episode(repo, chance) for _ in range(3)]
        memories = [a_memory(repo, chance, group=repo) for _ in range(4)]
        ledger.sent(*episodes, *memories)
        for one_episode in episodes:
            await sender.send_episode(one_episode)
        await sender.send_memories(memories)
        assert memories[3].answer is not None
        closed = memories[3].answer["entry_id"]
        deleted = Request(f"{repo}-delete", Kind.DELETE, repo, (), "agent-0", closes=closed)
        ledger.sent(deleted)
        await sender.send_delete(deleted)
        for _ in range(1200):
            if not (await one.rows("SELECT count(*) FROM outbox"))[0][0]:
                break
            await asyncio.sleep(0.05)
        assert not stage.findings
        found = Damaged(one, checker, client, repo, episodes, memories, deleted)
        assert await found.claims() == set()
        yield found


def an_episode(repo: str, chance: random.Random) -> Request:
    while True:
        episode, shape = bodies.an_episode(repo, "agent-0", chance)
        if shape == "run":
            texts = tuple(artifact.content for artifact in episode.artifacts)
            return Request(
                episode.request_id, Kind.EPISODE, repo, texts, "agent-0", shape, payload=episode
            )


def a_memory(repo: str, chance: random.Random, *, group: str) -> Request:
    text = bodies.a_text(chance)
    # Nothing is indexed, so no vector's model is known yet: the server makes it.
    entry = replace(bodies.an_entry(repo, "agent-0", text), embedding=None)
    id_ = bodies.request_id(chance)
    return Request(id_, Kind.MEMORY, repo, (text,), "agent-0", group=group, payload=entry)


OF_REPO = "repo_id = (SELECT id FROM repository WHERE name = %(repo)s)"


async def test_a_lost_episode_is_seen(damaged: Damaged) -> None:
    await damaged.sql(
        f"DELETE FROM request WHERE {OF_REPO} AND request_id = %(id)s", id=damaged.episodes[0].id
    )
    assert Claim.LOST in await damaged.claims()


async def test_a_lost_memory_is_seen(damaged: Damaged) -> None:
    text = damaged.memories[0].texts[0]
    await damaged.sql(f"DELETE FROM memories WHERE {OF_REPO} AND content = %(text)s", text=text)
    assert Claim.LOST in await damaged.claims()


async def test_a_changed_text_is_seen(damaged: Damaged) -> None:
    text = damaged.memories[0].texts[0]
    statement = f"UPDATE memories SET content = 'other' WHERE {OF_REPO} AND content = %(text)s"
    await damaged.sql(statement, text=text)
    assert Claim.LOST in await damaged.claims()


async def test_half_an_episode_without_an_answer_is_seen(damaged: Damaged) -> None:
    damaged.episodes[0].answer = None
    text = damaged.episodes[0].texts[0]
    await damaged.sql(f"DELETE FROM item WHERE {OF_REPO} AND content = %(text)s", text=text)
    assert Claim.PARTIAL in await damaged.claims()


async def test_items_without_their_request_are_seen(damaged: Damaged) -> None:
    damaged.episodes[0].answer = None
    await damaged.sql(
        f"DELETE FROM request WHERE {OF_REPO} AND request_id = %(id)s", id=damaged.episodes[0].id
    )
    assert Claim.PARTIAL in await damaged.claims()


@pytest.mark.parametrize("table", ["hunk", "evidence", "test_result"])
async def test_an_episode_with_fewer_rows_than_its_like_is_seen(
    damaged: Damaged, table: str
) -> None:
    answer = damaged.episodes[0].answer
    assert answer is not None
    statement = f"DELETE FROM {table} WHERE {OF_REPO} AND episode_id = %(id)s"
    await damaged.sql(statement, id=answer["episode_id"])
    assert Claim.PARTIAL in await damaged.claims()


async def test_half_a_batch_without_an_answer_is_seen(damaged: Damaged) -> None:
    for request in damaged.memories:
        request.answer = None
    statement = f"DELETE FROM memory_request WHERE {OF_REPO} AND request_id = %(id)s"
    await damaged.sql(statement, id=damaged.memories[0].id)
    assert Claim.PARTIAL in await damaged.claims()


async def test_a_text_that_left_the_text_index_is_seen(damaged: Damaged) -> None:
    await damaged.sql(f"DELETE FROM segment WHERE {OF_REPO} AND collection = 'plans'")
    assert Claim.PARTIAL in await damaged.claims()


async def test_an_effect_that_came_twice_is_seen(damaged: Damaged) -> None:
    await damaged.sql(
        "INSERT INTO episode (id, repo_id, outcome, projected)"
        f" SELECT gen_random_uuid(), repo_id, outcome, true FROM episode WHERE {OF_REPO} LIMIT 1"
    )
    assert Claim.EFFECT in await damaged.claims()


async def test_a_request_that_nobody_sent_is_seen(damaged: Damaged) -> None:
    await damaged.sql(
        "INSERT INTO request (tenant, request_id, repo_id, body_hash, episode_id, item_ids)"
        f" SELECT tenant, 'stray', repo_id, body_hash, episode_id, item_ids FROM request"
        f" WHERE {OF_REPO} LIMIT 1"
    )
    assert Claim.EFFECT in await damaged.claims()


async def test_a_deletion_that_was_undone_is_seen(damaged: Damaged) -> None:
    statement = f"UPDATE memories SET superseded_at = NULL WHERE {OF_REPO} AND entry_id = %(id)s"
    await damaged.sql(statement, id=damaged.deleted.closes)
    assert Claim.LOST in await damaged.claims()


async def test_a_changed_past_is_seen(damaged: Damaged) -> None:
    text = damaged.memories[0].texts[0]
    statement = f"UPDATE memories SET importance = 0.9 WHERE {OF_REPO} AND content = %(text)s"
    await damaged.sql(statement, text=text)
    assert Claim.PAST in await damaged.claims()


async def test_a_clock_that_went_back_is_seen(damaged: Damaged) -> None:
    await damaged.sql(f"UPDATE repo_clock SET at = at - interval '1 hour' WHERE {OF_REPO}")
    assert Claim.PAST in await damaged.claims()


async def test_an_event_that_was_given_up_is_seen(damaged: Damaged) -> None:
    await damaged.sql(
        "INSERT INTO dead_letter (event_id, repo_id, kind, number, attempts, cause, created_at)"
        " SELECT 0, id, 'episode', 0, 1, 'by hand', now() FROM repository WHERE name = %(repo)s"
    )
    assert Claim.GRAPH in await damaged.claims()


async def test_a_node_that_left_the_graph_is_seen(damaged: Damaged) -> None:
    bolt = Bolt(damaged.service.graph_endpoint())
    try:
        statement = "MATCH (n:Episode) WHERE n.repo = $repo WITH n LIMIT 1 DETACH DELETE n"
        await bolt.write((statement, {"repo": damaged.repo}))
    finally:
        await bolt.close()
    assert Claim.GRAPH in await damaged.claims()
