"""Outbox's promises on every PostgreSQL."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from plait.domain.errors import InvalidInput, PlaitError, RepositoryNotIndexed
from plait.domain.values import Artifact, ArtifactKind, Episode, Outcome
from plait.ports import GraphDelta
from tests.contract.conftest import end_sessions
from tests.processes import LIMIT_S, eventually
from vector.projection.store import queue_forget, queue_memories
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]

CODE = {"a.toy": ["alpha: beta"], "b.toy": ["beta:"]}


def note(repo: str, n: int = 1, **meta: Any) -> Episode:
    artifact = Artifact(ArtifactKind.NOTE, "text", path="a.toy", meta=meta)
    return Episode(
        f"{repo}-{n}", repo, Outcome("success", "Fix\nit"), [artifact], "agent-1", body_hash=b"h"
    )


def same(delta: GraphDelta) -> GraphDelta:
    """Without what tells one claim from another."""
    return replace(delta, fence=0, attempt=1)


async def claimed(store: Store) -> GraphDelta:
    delta = await store.outbox.claim()
    assert delta is not None
    return delta


async def drain(store: Store) -> list[GraphDelta]:
    out = []
    while (delta := await store.outbox.claim()) is not None:
        out.append(delta)
        await store.outbox.done(delta.event_id)
    return out


def sql(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=plait") as conn:
        cursor = conn.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


async def test_a_first_revision_is_everything(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    assert await store.outbox.waiting() == 1
    (delta,) = await drain(store)
    assert (delta.repo, delta.number, delta.fresh) == ("r", 1, True)
    assert [n.id for n in delta.nodes] == [
        "r:", "r:/a.toy", "r:a.alpha", "r:/b.toy", "r:b.beta",
    ]  # fmt: skip
    assert (delta.nodes[0].label, delta.nodes[0].name) == ("Repo", "r")
    assert ("CALLS", "r:a.alpha", "r:b.beta") in {
        (e.relation, e.source, e.target) for e in delta.edges
    }
    assert await store.outbox.waiting() == 0
    assert (await store.repositories.revision("r")).graph_number == 1
    assert await store.outbox.claim() is None


async def test_an_update_is_what_differs(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    await drain(store)
    await index(store, "r", {**CODE, "b.toy": ["# moved", "beta:", "gamma:"]})
    (delta,) = await drain(store)
    assert not delta.fresh
    assert delta.drop_nodes == []
    # `beta` moved down a line: updated in place, so that a.alpha's edge to it stays.
    assert [n.id for n in delta.nodes] == ["r:/b.toy", "r:b.# moved", "r:b.beta", "r:b.gamma"]
    assert all(e.relation == "CONTAINS" for e in delta.edges)
    assert delta.drop_edges == []


async def test_a_symbol_that_moves_between_files_is_no_drop(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", {"a.toy": ["alpha: beta"], "b.toy": ["beta:"], "c.toy": ["x:"]})
    await drain(store)
    await index(store, "r", {"a.toy": ["alpha: beta"], "c.toy": ["beta:"]})
    (delta,) = await drain(store)
    assert set(delta.drop_nodes) == {"r:/b.toy", "r:b.beta", "r:c.x"}
    dropped = {(e.relation, e.source, e.target) for e in delta.drop_edges}
    assert ("CALLS", "r:a.alpha", "r:b.beta") in dropped


async def test_waiting_revisions_become_one_delta(store: Store, index: IndexFiles) -> None:
    for n in range(4):
        await index(store, "r", {"a.toy": [f"name{n}:"]})
    assert await store.outbox.waiting() == 4
    (delta,) = await drain(store)
    assert (delta.number, delta.fresh) == (4, True)
    assert "r:a.name3" in {n.id for n in delta.nodes}
    assert "r:a.name0" not in {n.id for n in delta.nodes}


async def test_one_claim_a_repository_and_others_meanwhile(
    store: Store, other: Store, index: IndexFiles
) -> None:
    await index(store, "one", CODE)
    await index(store, "one", {"a.toy": ["alpha:"]})
    await index(store, "two", CODE)
    first = await claimed(store)
    second = await claimed(other)
    assert {first.repo, second.repo} == {"one", "two"}
    assert await store.outbox.claim() is None
    assert await other.outbox.claim() is None
    await store.outbox.done(first.event_id)
    await other.outbox.done(second.event_id)
    assert await store.outbox.waiting() == 0


async def test_a_claim_that_was_not_done_comes_again_unchanged(
    store: Store, other: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    first = await claimed(store)
    await store.outbox.close()  # as dying does
    await index(store, "r", {"a.toy": ["alpha:"]})
    # The first delta may be in the graph by half: it is completed before the next begins.
    again = await claimed(other)
    assert same(again) == same(first)
    assert again.fence > first.fence
    await other.outbox.done(first.event_id)
    (second,) = await drain(other)
    assert (second.number, second.fresh) == (2, False)
    assert second.drop_nodes == ["r:/b.toy", "r:b.beta"]


async def test_a_killed_claimer_loses_its_lease_at_once(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", CODE)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLAIMS, truth_dsn, stdin=PIPE, stdout=PIPE
    )
    assert child.stdout is not None
    assert (await child.stdout.readline()).strip() == b"claimed"
    assert await store.outbox.claim() is None
    assert (await store.outbox.epoch(["r"]))[1]
    child.kill()
    await child.wait()
    delta = await eventually(store.outbox.claim)
    assert delta.fresh
    await store.outbox.done(delta.event_id)


CLAIMS = """
import asyncio, sys
from etl.truth import open as open_truth
from plait.settings import load

async def main():
    settings = load(environ={"PLAIT_HOME": "/nonexistent", "PLAIT_POSTGRES__DSN": sys.argv[1]})
    store = await open_truth(settings)
    assert await store.outbox.claim()
    print("claimed", flush=True)
    sys.stdin.read()  # until it is killed, or the tests have ended

asyncio.run(main())
"""


async def test_the_epoch_tells_readers_of_every_change(
    store: Store, other: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    await index(store, "s", CODE)
    before = await other.outbox.epoch(["r"])
    assert not before[1]
    delta = await claimed(store)
    during = await other.outbox.epoch([delta.repo])
    assert during[1]
    assert (await other.outbox.epoch([]))[1]
    await store.outbox.done(delta.event_id)
    after = await other.outbox.epoch([delta.repo])
    assert not after[1]
    assert after[0] > before[0]
    assert await other.outbox.epoch(["missing"]) == (0, False)
    await drain(store)


async def test_a_failed_event_waits_and_the_graph_stays_in_doubt(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", CODE)
    # After ten tries it waits for 15 s and more: none of a first try's one or two are left when the
    # disk takes a second to commit.
    sql(truth_dsn, "UPDATE outbox SET attempts = 10")
    delta = await claimed(store)
    await store.outbox.failed(delta.event_id, "the graph \0 is away", permanent=False)
    assert await store.outbox.claim() is None
    assert await store.outbox.waiting() == 1
    assert (await store.outbox.epoch(["r"]))[1]
    sql(truth_dsn, "UPDATE outbox SET not_before = now()")
    assert same(await claimed(store)) == same(delta)
    await store.outbox.done(delta.event_id)
    assert not (await store.outbox.epoch(["r"]))[1]


async def test_later_tries_wait_longer(store: Store, index: IndexFiles, truth_dsn: str) -> None:
    await index(store, "r", CODE)
    waits = []
    for _ in range(8):
        delta = await claimed(store)
        await store.outbox.failed(delta.event_id, "away", permanent=False)
        ((wait,),) = sql(
            truth_dsn, "SELECT extract(epoch FROM not_before - now())::float FROM outbox"
        )
        waits.append(wait)
        sql(truth_dsn, "UPDATE outbox SET not_before = now()")
    assert waits[0] <= 2.0
    assert waits[4] > waits[0]
    assert max(waits) <= 30.0


async def test_a_permanent_failure_is_a_dead_letter_and_the_next_publish_starts_anew(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", CODE)
    await store.episodes.append(note("r"))
    delta = await claimed(store)
    await store.outbox.failed(delta.event_id, "CYPHER_INVALID: nonsense", permanent=True)
    ((kind, cause, event),) = sql(truth_dsn, "SELECT kind, cause, event_id FROM dead_letter")
    assert (kind, cause, event) == ("index", "CYPHER_INVALID: nonsense", delta.event_id)
    assert (await store.repositories.revision("r")).graph_number == 0
    assert not (await store.outbox.epoch(["r"]))[1]
    await drain(store)
    await index(store, "r", {"a.toy": ["alpha:"]})
    removal, everything, episode = await drain(store)
    assert removal.remove_repo
    assert (everything.number, everything.fresh) == (2, True)
    assert episode.nodes[0].label == "Episode"


async def test_a_dead_letter_with_more_behind_it_starts_anew_now(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    delta = await claimed(store)
    await index(store, "r", {"a.toy": ["alpha:"]})
    await store.outbox.failed(delta.event_id, "nonsense", permanent=True)
    removal, everything = await drain(store)
    assert removal.remove_repo
    assert (everything.number, everything.fresh) == (2, True)


async def test_an_episode_links_to_what_exists(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    receipt = await store.episodes.append(
        note("r", symbols=["b.beta", "b.missing"], symbol="a.alpha")
    )
    _, delta = await drain(store)
    id_ = f"r:episode/{receipt.episode_id}"
    node, memory = delta.nodes
    assert (node.id, node.label, node.name) == (id_, "Episode", "Fix")
    assert (memory.label, memory.name, memory.kind) == ("Memory", "text", "note")
    assert node.qualified_name == f"episode/{receipt.episode_id}"
    assert delta.edges == ()
    assert {(e.relation, e.source, e.target) for e in delta.links} == {
        ("CONTAINS", id_, memory.id),
        ("MENTIONS", id_, "r:/a.toy"),
        ("MENTIONS", id_, "r:a.alpha"),
        ("MENTIONS", id_, "r:b.beta"),
        ("MENTIONS", id_, "r:b.missing"),  # the graph leaves it out until it comes
    }
    assert delta.properties[id_]["agent_id"] == "agent-1"
    assert delta.properties[id_]["status"] == "success"
    assert (delta.number, delta.fresh, delta.remove_repo) == (0, False, False)


async def test_links_to_code_that_comes_later_come_with_it(store: Store, index: IndexFiles) -> None:
    await store.episodes.append(note("r", symbol="b.beta"))
    (before,) = await drain(store)
    # The graph leaves them out.
    assert {e.target for e in before.links if e.relation == "MENTIONS"} == {"r:/a.toy", "r:b.beta"}
    await index(store, "r", CODE)
    (delta,) = await drain(store)
    assert {e.target for e in delta.links if e.relation == "MENTIONS"} == {"r:/a.toy", "r:b.beta"}


async def test_a_deleted_repository_leaves_the_graph_and_may_come_back(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    await drain(store)
    await store.episodes.append(note("r"))
    await store.repositories.delete("r")
    await index(store, "r", CODE)
    removal, again = await drain(store)
    assert removal.remove_repo
    assert (again.number, again.fresh) == (2, True)


async def test_a_repository_deleted_while_it_is_projected(
    store: Store, other: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    delta = await claimed(store)
    await other.repositories.delete("r")
    await store.outbox.done(delta.event_id)
    (removal,) = await drain(store)
    assert removal.remove_repo
    assert await store.outbox.waiting() == 0


async def test_reset_projects_all_of_it_again(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    await store.episodes.append(note("r"))
    await drain(store)
    await store.outbox.reset("r")
    removal, everything, episode = await drain(store)
    assert removal.remove_repo
    assert everything.fresh
    assert len(everything.nodes) == 5
    assert {e.relation for e in episode.links} == {"CONTAINS", "MENTIONS"}
    with pytest.raises(RepositoryNotIndexed):
        await store.outbox.reset("missing")


async def test_reset_while_an_older_event_is_claimed(
    store: Store, other: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    delta = await claimed(store)
    await other.outbox.reset("r")
    await store.outbox.done(delta.event_id)
    removal, everything = await drain(store)
    assert removal.remove_repo
    assert everything.fresh


async def test_history_is_kept_for_a_graph_that_lags(store: Store, index: IndexFiles) -> None:
    """The collector takes nothing that the next delta is computed from."""
    await index(store, "r", {"a.toy": ["first:"], "b.toy": ["stays:"]})
    await drain(store)
    for n in range(6):
        await index(store, "r", {"a.toy": [f"name{n}:"], "b.toy": ["stays:"]})
    (delta,) = await drain(store)
    assert delta.drop_nodes == ["r:a.first"]
    assert {n.id for n in delta.nodes} == {"r:a.name5"}


async def test_only_the_claimer_ends_a_claim(store: Store, other: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    delta = await claimed(store)
    with pytest.raises(PlaitError):
        await other.outbox.done(delta.event_id)
    with pytest.raises(PlaitError):
        await other.outbox.failed(delta.event_id, "x", permanent=False)
    await store.outbox.done(delta.event_id)


async def test_a_projector_survives_the_loss_of_its_idle_connections(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "lost", {"a.toy": ["f: g", "g:"]})
    assert await drain(store)
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        end_sessions(conn, "application_name = 'plait'")
    await index(store, "lost", {"a.toy": ["f: g", "g: f"]})
    assert await drain(store)


async def test_an_event_from_a_time_when_the_clock_was_ahead_is_not_waited_for(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", CODE)
    sql(truth_dsn, "UPDATE outbox SET not_before = now() + interval '20 seconds'")
    assert await store.outbox.claim() is None
    sql(truth_dsn, "UPDATE outbox SET not_before = now() + interval '1 hour'")
    assert len(await drain(store)) == 1


# -- episodes, memories and removals: one delta for many events ---------------------------------------


async def queued(store: Store, repo: str, *events: dict[str, Any]) -> None:
    """Events as their writers queue them."""
    async with store.db.transaction() as conn:
        cursor = await conn.execute("SELECT id FROM repository WHERE name = %s", (repo,))
        row = await cursor.fetchone()
        assert row is not None
        for event in events:
            if "nodes" in event:
                await queue_forget(conn, row[0], event["nodes"])
            else:
                await queue_memories(conn, row[0], event["entries"])


async def test_events_at_the_head_become_one_delta_up_to_a_revision(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    for n in range(3):
        await store.episodes.append(note("r", n))
    await queued(store, "r", {"entries": [uuid4()]}, {"nodes": ["memory/x"]})
    await index(store, "r", CODE)
    await store.episodes.append(note("r", 4))
    first, revision, last = await drain(store)
    assert sum(n.label == "Episode" for n in first.nodes) == 3
    assert "r:memory/x" in first.drop_nodes
    assert revision.number == 1
    assert sum(n.label == "Episode" for n in last.nodes) == 1
    assert await store.outbox.waiting() == 0
    assert sql(truth_dsn, "SELECT count(*) FROM episode WHERE NOT projected") == [(0,)]


async def test_a_delta_is_of_about_500_items(store: Store) -> None:
    await store.episodes.append(note("r"))
    await drain(store)
    for _ in range(4):
        await queued(store, "r", {"entries": [uuid4() for _ in range(200)]})
    await queued(store, "r", {"entries": [uuid4() for _ in range(500)]})
    sizes = [len(delta.drop_nodes) for delta in await drain(store)]
    assert sizes == [400, 400, 500]


async def test_what_a_batch_covers_stays_when_more_comes(store: Store, other: Store) -> None:
    await store.episodes.append(note("r", 1))
    await store.episodes.append(note("r", 2))
    first = await claimed(store)
    await store.outbox.close()  # as dying does
    await store.episodes.append(note("r", 3))
    again = await claimed(other)
    assert same(again) == same(first)
    assert again.fence > first.fence
    assert again.attempt == 2
    await other.outbox.done(again.event_id)
    (rest,) = await drain(other)
    assert sum(n.label == "Episode" for n in rest.nodes) == 1


async def test_only_the_event_to_blame_is_buried(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", CODE)
    await drain(store)
    receipts = [await store.episodes.append(note("r", n)) for n in range(7)]
    poison = f"r:episode/{receipts[4].episode_id}"
    shown: list[str] = []
    while (delta := await store.outbox.claim()) is not None:
        ids = [n.id for n in delta.nodes if n.label == "Episode"]
        if poison in ids:
            split = await store.outbox.failed(
                delta.event_id, "the graph refuses it", permanent=True
            )
            assert split == (len(ids) > 1)
        else:
            shown += ids
            await store.outbox.done(delta.event_id)
    assert shown == [f"r:episode/{r.episode_id}" for n, r in enumerate(receipts) if n != 4]
    (letter,) = await store.outbox.dead(["r"])
    assert (letter.kind, letter.cause, letter.repo) == ("episode", "the graph refuses it", "r")
    assert await store.outbox.dead(["other"]) == []
    assert not (await store.outbox.epoch(["r"]))[1]
    # The code is as it was: an episode that is refused doesn't make the graph anew.
    assert (await store.repositories.revision("r")).graph_number == 1
    assert await store.outbox.revive(["other"]) == 0
    assert await store.outbox.revive(["r"]) == 1
    assert await store.outbox.dead([]) == []
    (delta,) = await drain(store)
    assert poison in {n.id for n in delta.nodes}


async def test_a_revived_revision_projects_everything_anew(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    delta = await claimed(store)
    await store.outbox.failed(delta.event_id, "nonsense", permanent=True)
    assert await store.outbox.revive([]) == 1
    removal, everything = await drain(store)
    assert removal.remove_repo
    assert everything.fresh
    assert await store.outbox.dead([]) == []


async def test_readers_see_that_episodes_are_being_projected(
    store: Store, other: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    await drain(store)
    await store.episodes.append(note("r"))
    before, _ = await other.outbox.epoch(["r"])
    delta = await claimed(store)
    number, changing = await other.outbox.epoch(["r"])
    assert changing
    assert number > before
    await store.outbox.done(delta.event_id)
    assert await other.outbox.epoch(["r"]) == (number, False)
    assert not (await other.outbox.epoch([]))[1]


async def test_what_is_gone_from_the_rows_leaves_the_graph(store: Store) -> None:
    receipt = await store.episodes.append(note("r"))
    await drain(store)
    await queued(store, "r", {"nodes": [f"episode/{receipt.episode_id}"]}, {"entries": [uuid4()]})
    (delta,) = await drain(store)
    # The episode is still a row: removed and there again, it is made anew.
    assert f"r:episode/{receipt.episode_id}" in delta.drop_nodes
    assert len(delta.drop_nodes) == 2


async def test_a_forget_event_that_names_no_link_is_buried_alone(store: Store) -> None:
    await store.episodes.append(note("r"))
    await queued(store, "r", {"nodes": ["link/x/FIXES/episode/1"]}, {"entries": [uuid4()]})
    causes = []
    for _ in range(10):
        try:
            if not await drain(store):
                break
        except InvalidInput as exc:
            causes.append(str(exc))
    assert causes
    assert await store.outbox.waiting() == 0
    assert [letter.kind for letter in await store.outbox.dead(["r"])] == ["forget"]


async def test_two_tasks_of_one_process_never_claim_one_repository(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    await index(store, "s", CODE)
    found = [
        delta for delta in await asyncio.gather(*(store.outbox.claim() for _ in range(6))) if delta
    ]
    assert sorted(delta.repo for delta in found) == ["r", "s"]
    for delta in found:
        await store.outbox.done(delta.event_id)


async def test_claims_that_are_the_first_of_a_process_are_all_held(
    store: Store, other: Store, index: IndexFiles
) -> None:
    """One connection holds them: of two that were opened at once, one would be lost with its lock."""
    await index(store, "r", CODE)
    await index(store, "s", CODE)
    await store.outbox.close()
    found = [
        delta for delta in await asyncio.gather(store.outbox.claim(), store.outbox.claim()) if delta
    ]
    assert sorted(delta.repo for delta in found) == ["r", "s"]
    gc.collect()
    assert await other.outbox.claim() is None
    for delta in found:
        await store.outbox.done(delta.event_id)
    assert await other.outbox.waiting() == 0


async def test_an_event_that_another_ended_is_not_ended_again(
    store: Store, other: Store, index: IndexFiles
) -> None:
    """A projector that lost its lease wakes up behind the one that went on."""
    await index(store, "r", CODE)
    slept = await claimed(store)
    claims = dict(store.outbox._claims)
    await store.outbox.close()
    await drain(other)
    await index(other, "r", {"a.toy": ["alpha:"]})
    working = await claimed(other)
    store.outbox._claims.update(claims)
    await store.outbox.done(slept.event_id)
    assert (await other.outbox.epoch(["r"]))[1]
    assert (await other.repositories.revision("r")).graph_number == 1
    await other.outbox.done(working.event_id)
    assert (await other.repositories.revision("r")).graph_number == 2


async def test_an_event_that_failed_for_a_day_is_given_back_still(
    store: Store, truth_dsn: str
) -> None:
    await store.episodes.append(note("r"))
    await store.outbox.failed((await claimed(store)).event_id, "away", permanent=False)
    sql(truth_dsn, "UPDATE outbox SET attempts = 5000, not_before = now()")
    delta = await claimed(store)
    assert await store.outbox.failed(delta.event_id, "away", permanent=False) is False
    ((attempts, due),) = sql(
        truth_dsn, "SELECT attempts, not_before < now() + interval '31 s' FROM outbox"
    )
    assert (attempts, due) == (5001, True)


async def test_a_server_that_answers_nothing_holds_up_no_end(
    store: Store, other: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    await claimed(other)
    assert other.outbox._claiming is not None
    frozen = other.outbox._claiming.info.backend_pid
    os.kill(frozen, signal.SIGSTOP)
    try:
        async with asyncio.timeout(LIMIT_S):
            await other.close()
    finally:
        os.kill(frozen, signal.SIGCONT)
    # Told by the end of its connection, the server lets go of the claim.
    delta = await eventually(store.outbox.claim)
    assert delta.repo == "r"


# -- a graph that nobody asks --------------------------------------------------------------------------


async def test_more_events_than_worth_keeping_become_one_that_makes_the_graph_anew(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    await drain(store)
    await index(store, "quiet", CODE)
    for n in range(1, 5):
        await store.episodes.append(note("r", n))
    await store.outbox.settle()
    assert await store.outbox.shorten(most=4) == 0
    await store.episodes.append(note("r", 5))
    assert await store.outbox.shorten(most=4) == 0, "the last one is not settled yet"
    await store.outbox.settle()
    assert await store.outbox.shorten(most=4) == 1
    assert await store.outbox.waiting(["r"]) == 1
    assert await store.outbox.waiting(["quiet"]) == 1
    assert (await store.repositories.revision("r")).graph_number == 0
    await store.episodes.append(note("r", 6))  # comes with all of it
    removal, *rest = [delta for delta in await drain(store) if delta.repo == "r"]
    assert removal.remove_repo
    assert [delta.number for delta in rest] == [1, 0]
    assert rest[0].fresh
    episodes = [node.id for node in rest[1].nodes if node.label == "Episode"]
    assert len(episodes) == 6
    assert await store.outbox.waiting() == 0
    assert (await store.repositories.revision("r")).graph_number == 1


async def test_parts_of_old_revisions_are_not_kept_for_a_graph_that_lags(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", CODE)
    await drain(store)
    parts = "SELECT count(*) FROM file_graph WHERE rev_to IS NOT NULL"
    for n in range(6):
        await index(store, "r", {**CODE, "b.toy": [f"beta{n}:"]})
    assert sql(truth_dsn, parts)[0][0] > 4, "the difference needs them"
    assert await store.outbox.shorten(most=4) == 1
    await index(store, "r", {**CODE, "b.toy": ["last:"]})
    assert sql(truth_dsn, parts)[0][0] <= 2, "a reader of the revision before may"
    deltas = await drain(store)
    assert [(d.remove_repo, d.number) for d in deltas] == [(True, 0), (False, 8)]
    assert "r:b.last" in [node.id for node in deltas[1].nodes]


async def test_a_question_knows_when_the_graph_holds_what_it_asked_after(
    store: Store, index: IndexFiles
) -> None:
    assert not await store.outbox.behind(["r"], await store.outbox.last_event())
    await index(store, "r", CODE)
    last = await store.outbox.last_event()
    assert await store.outbox.behind(["r"], last)
    assert await store.outbox.behind([], last)
    assert not await store.outbox.behind(["other"], last)
    await drain(store)
    await store.episodes.append(note("r"))  # after the question: not waited for
    assert not await store.outbox.behind(["r"], last)
    await index(store, "r", {"a.toy": ["alpha:"]})  # new code is
    assert await store.outbox.behind(["r"], last)
