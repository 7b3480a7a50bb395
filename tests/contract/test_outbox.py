"""Outbox's promises on every PostgreSQL."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from plait.domain.errors import PlaitError, RepositoryNotIndexed
from plait.domain.values import Artifact, ArtifactKind, Episode, Outcome
from plait.ports import GraphDelta
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
    delta = await store.claim()
    assert delta is not None
    return delta


async def drain(store: Store) -> list[GraphDelta]:
    out = []
    while (delta := await store.claim()) is not None:
        out.append(delta)
        await store.done(delta.event_id)
    return out


def sql(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=plait") as conn:
        cursor = conn.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


async def test_a_first_revision_is_everything(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    assert await store.waiting() == 1
    (delta,) = await drain(store)
    assert (delta.repo, delta.number, delta.fresh) == ("r", 1, True)
    assert [n.id for n in delta.nodes] == [
        "r:", "r:/a.toy", "r:a.alpha", "r:/b.toy", "r:b.beta",
    ]  # fmt: skip
    assert (delta.nodes[0].label, delta.nodes[0].name) == ("Repo", "r")
    assert ("CALLS", "r:a.alpha", "r:b.beta") in {
        (e.relation, e.source, e.target) for e in delta.edges
    }
    assert await store.waiting() == 0
    assert (await store.revision("r")).graph_number == 1
    assert await store.claim() is None


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
    assert await store.waiting() == 4
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
    assert await store.claim() is None
    assert await other.claim() is None
    await store.done(first.event_id)
    await other.done(second.event_id)
    assert await store.waiting() == 0


async def test_a_claim_that_was_not_done_comes_again_unchanged(
    store: Store, other: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    first = await claimed(store)
    await store._close_claims()  # as dying does
    await index(store, "r", {"a.toy": ["alpha:"]})
    # The first delta may be in the graph by half: it is completed before the next begins.
    again = await claimed(other)
    assert same(again) == same(first)
    assert again.fence > first.fence
    await other.done(first.event_id)
    (second,) = await drain(other)
    assert (second.number, second.fresh) == (2, False)
    assert second.drop_nodes == ["r:/b.toy", "r:b.beta"]


async def test_a_killed_claimer_loses_its_lease_at_once(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", CODE)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLAIMS, truth_dsn, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    assert (await child.stdout.readline()).strip() == b"claimed"
    assert await store.claim() is None
    assert (await store.epoch(["r"]))[1]
    child.kill()
    await child.wait()
    for _ in range(100):
        if delta := await store.claim():
            break
        await asyncio.sleep(0.05)
    assert delta is not None
    assert delta.fresh
    await store.done(delta.event_id)


CLAIMS = """
import asyncio, sys, time
import vector
from plait.settings import load

async def main():
    settings = load(environ={"PLAIT_HOME": "/nonexistent", "PLAIT_POSTGRES__DSN": sys.argv[1]})
    store = await vector.open(settings)
    assert await store.claim()
    print("claimed", flush=True)
    time.sleep(60)

asyncio.run(main())
"""


async def test_the_epoch_tells_readers_of_every_change(
    store: Store, other: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    await index(store, "s", CODE)
    before = await other.epoch(["r"])
    assert not before[1]
    delta = await claimed(store)
    during = await other.epoch([delta.repo])
    assert during[1]
    assert (await other.epoch([]))[1]
    await store.done(delta.event_id)
    after = await other.epoch([delta.repo])
    assert not after[1]
    assert after[0] > before[0]
    assert await other.epoch(["missing"]) == (0, False)
    await drain(store)


async def test_a_failed_event_waits_and_the_graph_stays_in_doubt(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", CODE)
    delta = await claimed(store)
    await store.failed(delta.event_id, "the graph \0 is away", permanent=False)
    assert await store.claim() is None
    assert await store.waiting() == 1
    assert (await store.epoch(["r"]))[1]
    sql(truth_dsn, "UPDATE outbox SET not_before = now()")
    assert same(await claimed(store)) == same(delta)
    await store.done(delta.event_id)
    assert not (await store.epoch(["r"]))[1]


async def test_later_tries_wait_longer(store: Store, index: IndexFiles, truth_dsn: str) -> None:
    await index(store, "r", CODE)
    waits = []
    for _ in range(8):
        delta = await claimed(store)
        await store.failed(delta.event_id, "away", permanent=False)
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
    await store.append(note("r"))
    delta = await claimed(store)
    await store.failed(delta.event_id, "CYPHER_INVALID: nonsense", permanent=True)
    ((kind, cause, event),) = sql(truth_dsn, "SELECT kind, cause, event_id FROM dead_letter")
    assert (kind, cause, event) == ("index", "CYPHER_INVALID: nonsense", delta.event_id)
    assert (await store.revision("r")).graph_number == 0
    assert not (await store.epoch(["r"]))[1]
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
    await store.failed(delta.event_id, "nonsense", permanent=True)
    removal, everything = await drain(store)
    assert removal.remove_repo
    assert (everything.number, everything.fresh) == (2, True)


async def test_an_episode_links_to_what_exists(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    receipt = await store.append(note("r", symbols=["b.beta", "b.missing"], symbol="a.alpha"))
    _, delta = await drain(store)
    id_ = f"r:episode/{receipt.episode_id}"
    node, memory = delta.nodes
    assert (node.id, node.label, node.name) == (id_, "Episode", "Fix")
    assert (memory.label, memory.name, memory.kind) == ("Memory", "text", "note")
    assert node.qualified_name == f"episode/{receipt.episode_id}"
    assert delta.edges == ()
    assert {(e.relation, e.source, e.target) for e in delta.links} == {
        ("MENTIONS", id_, "r:/a.toy"),
        ("MENTIONS", id_, "r:a.alpha"),
        ("MENTIONS", id_, "r:b.beta"),
        ("MENTIONS", id_, "r:b.missing"),  # the graph leaves it out until it comes
    }
    assert delta.properties[id_]["agent_id"] == "agent-1"
    assert delta.properties[id_]["status"] == "success"
    assert (delta.number, delta.fresh, delta.remove_repo) == (0, False, False)


async def test_links_to_code_that_comes_later_come_with_it(store: Store, index: IndexFiles) -> None:
    await store.append(note("r", symbol="b.beta"))
    (before,) = await drain(store)
    assert {e.target for e in before.links} == {"r:/a.toy", "r:b.beta"}  # the graph leaves them out
    await index(store, "r", CODE)
    (delta,) = await drain(store)
    assert {e.target for e in delta.links if e.relation == "MENTIONS"} == {"r:/a.toy", "r:b.beta"}


async def test_a_deleted_repository_leaves_the_graph_and_may_come_back(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    await drain(store)
    await store.append(note("r"))
    await store.delete_repository("r")
    await index(store, "r", CODE)
    removal, again = await drain(store)
    assert removal.remove_repo
    assert (again.number, again.fresh) == (2, True)


async def test_a_repository_deleted_while_it_is_projected(
    store: Store, other: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    delta = await claimed(store)
    await other.delete_repository("r")
    await store.done(delta.event_id)
    (removal,) = await drain(store)
    assert removal.remove_repo
    assert await store.waiting() == 0


async def test_reset_projects_all_of_it_again(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    await store.append(note("r"))
    await drain(store)
    await store.reset("r")
    removal, everything, episode = await drain(store)
    assert removal.remove_repo
    assert everything.fresh
    assert len(everything.nodes) == 5
    assert len(episode.links) == 1
    with pytest.raises(RepositoryNotIndexed):
        await store.reset("missing")


async def test_reset_while_an_older_event_is_claimed(
    store: Store, other: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    delta = await claimed(store)
    await other.reset("r")
    await store.done(delta.event_id)
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
        await other.done(delta.event_id)
    with pytest.raises(PlaitError):
        await other.failed(delta.event_id, "x", permanent=False)
    await store.done(delta.event_id)


async def test_a_projector_survives_the_loss_of_its_idle_connections(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "lost", {"a.toy": ["f: g", "g:"]})
    assert await drain(store)
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'plait'"
        )
    await index(store, "lost", {"a.toy": ["f: g", "g: f"]})
    assert await drain(store)


async def test_an_event_from_a_time_when_the_clock_was_ahead_is_not_waited_for(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", CODE)
    sql(truth_dsn, "UPDATE outbox SET not_before = now() + interval '20 seconds'")
    assert await store.claim() is None
    sql(truth_dsn, "UPDATE outbox SET not_before = now() + interval '1 hour'")
    assert len(await drain(store)) == 1
