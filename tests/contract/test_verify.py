"""Both stores agree, and it is noticed when they don't: random histories on every graph server."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

import graph
from etl.project import Projector
from etl.truth import open as open_truth
from etl.verify import Verification, Verifier
from graph.store import CypherStore
from plait.domain.errors import RepositoryNotIndexed
from plait.domain.recall import Feedback, ItemVerdict, RecallId, Receipt, Verdict
from plait.domain.values import Artifact, ArtifactKind, Episode, Filter, Outcome
from plait.memory import episode as rules
from plait.ports import GraphStore
from plait.settings import Settings, load
from tests.contract.conftest import TABLES, index_files
from tests.contract.graph_servers import SERVERS, GraphServer, running
from tests.neo4j_server import Neo4jServers
from vector.projection.store import queue_forget, queue_memories
from vector.server import embedded
from vector.store import Store

REPO = "both"


@pytest.fixture(scope="module", params=SERVERS)
def graph_server(
    request: pytest.FixtureRequest, plait_home: Path, neo4j_servers: Neo4jServers
) -> Iterator[GraphServer]:
    with running(request.param, plait_home / "contract-verify", neo4j_servers) as server:
        yield server


@pytest.fixture(scope="module")
def truth_settings(plait_home: Path) -> Iterator[Settings]:
    home = plait_home / "contract-verify-truth"
    with embedded.ensure(load(environ={"PLAIT_HOME": str(home)})) as lease:
        yield load(environ={"PLAIT_HOME": str(home), "PLAIT_POSTGRES__DSN": lease.dsn})


@pytest.fixture(scope="module")
def dsn(truth_settings: Settings) -> str:
    return truth_settings.postgres.dsn.get_secret_value()


@pytest.fixture
async def store(truth_settings: Settings, dsn: str) -> AsyncIterator[Store]:
    opened = await open_truth(truth_settings)
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=plait") as conn:
        conn.execute(f"TRUNCATE {TABLES}")
    yield opened
    await opened.close()


@pytest.fixture
async def held(graph_server: GraphServer) -> AsyncIterator[CypherStore]:
    """The graph, with nothing of an earlier test in it."""
    opened = await graph.open(graph_server.settings)
    await opened._bolt.write(("MATCH (n) WHERE NOT n:PlaitMigration DETACH DELETE n", {}))
    yield opened
    await opened.close()


@pytest.fixture
def verifier(store: Store, held: CypherStore) -> Verifier:
    async def opened() -> GraphStore:
        return held

    return Verifier(store.outbox, opened)


def toy(rng: random.Random) -> dict[str, list[str]]:
    """Some files of the toy language, with functions that come and go."""
    names = [f"n{i}" for i in range(14)]
    files: dict[str, list[str]] = {}
    for name in names:
        if rng.random() < 0.75:
            callees = " ".join(rng.sample(names, rng.randint(0, 3)))
            files.setdefault(f"m{rng.randrange(4)}.toy", []).append(f"{name}: {callees}")
    return files or {"m0.toy": ["n0:"]}


def run_of(rng: random.Random, n: int) -> Episode:
    """An episode that names files and symbols, there or not, an issue and a commit."""
    f, name = rng.randrange(5), f"n{rng.randrange(16)}"
    diff = f"--- a/m{f}.toy\n+++ b/m{f}.toy\n@@ -1,1 +1,1 @@\n-{name}: x\n+{name}: y\n"
    artifacts = [
        Artifact(ArtifactKind.DIFF, diff, f"m{f}.toy"),
        Artifact(ArtifactKind.NOTE, f"note {n}: mind {name}", meta={"symbol": f"m{f}.{name}"}),
        Artifact(ArtifactKind.TEST_RESULT, "1 passed", meta={"symbols": [f"m{f}.{name}"]}),
        Artifact(ArtifactKind.REFLECTION, f"caused by #{rng.randrange(9)}, see deadbee{n % 10}"),
    ]
    outcome = Outcome("success", f"Fix #{rng.randrange(9)} in {name}", {}, "", "")
    return rules.check(Episode(f"v-{n}", REPO, outcome, artifacts, f"agent-{n % 3}"))


async def remember(store: Store, rng: random.Random, known: list[UUID]) -> None:
    """Rows as MemoryStore leaves them: a new entry, a new version, a closed one, a link; one event."""
    async with store.db.transaction() as conn:
        cursor = await conn.execute("SELECT id FROM repository WHERE name = %s", (REPO,))
        row = await cursor.fetchone()
        assert row is not None
        repo_id = row[0]
        if known and rng.random() < 0.4:
            entry = rng.choice(known)
            await conn.execute(
                "UPDATE memories SET superseded_at = now() WHERE entry_id = %s AND superseded_at IS NULL",
                (entry,),
            )
        else:
            entry = uuid4()
        if entry not in known or rng.random() < 0.5:
            version = uuid4() if entry in known else entry
            await conn.execute(
                "INSERT INTO memories (id, repo_id, collection, kind, content_hash, content, entry_id,"
                " version, created_at, importance) SELECT %s, %s, 'memories', 'memory', %s, %s, %s,"
                " 1 + (SELECT count(*) FROM memories WHERE entry_id = %s), now(), %s",
                (version, repo_id, uuid4().bytes, "it is so", entry, entry, rng.random()),
            )
        targets = [f"m{rng.randrange(4)}.n{rng.randrange(14)}", *(f"memory/{id_}" for id_ in known)]
        await conn.execute(
            "INSERT INTO memory_edge (repo_id, entry_id, relation, source, target, recorded_from,"
            " confidence, valid_from) VALUES (%s, %s, 'MENTIONS', %s, %s, clock_timestamp(), %s, now())",
            (repo_id, entry, f"memory/{entry}", rng.choice(targets), rng.random()),
        )
        if rng.random() < 0.3:
            await conn.execute(
                "UPDATE memory_edge SET recorded_to = clock_timestamp() WHERE entry_id = %s",
                (entry,),
            )
        await queue_memories(conn, repo_id, [entry])
    if entry not in known:
        known.append(entry)


async def forget(store: Store, entry: UUID) -> None:
    """Rows of an entry gone, and what of the graph must go."""
    async with store.db.transaction() as conn:
        cursor = await conn.execute(
            "DELETE FROM memories WHERE entry_id = %s RETURNING repo_id", (entry,)
        )
        row = await cursor.fetchone()
        assert row is not None
        name = f"memory/{entry}"
        cursor = await conn.execute(
            "DELETE FROM memory_edge WHERE entry_id = %s OR source = %s OR target = %s"
            " RETURNING id, relation, source",
            (entry, name, name),
        )
        links = [
            (id_, str(relation), str(source)) for id_, relation, source in await cursor.fetchall()
        ]
        assert await queue_forget(conn, row[0], [name], links)


def told(v: Verification) -> str:
    return f"{v}"


@pytest.mark.parametrize("seed", range(2))
async def test_after_random_edits_the_graph_equals_its_projection(
    store: Store, verifier: Verifier, held: CypherStore, seed: int
) -> None:
    rng, known, n = random.Random(seed), list[UUID](), 0
    await store.episodes.append(run_of(rng, 0))
    for _ in range(12):
        match rng.randrange(4):
            case 0:
                await index_files(store, REPO, toy(rng))
            case 1:
                for _ in range(rng.randint(1, 6)):
                    n += 1
                    await store.episodes.append(run_of(rng, n))
            case 2:
                for _ in range(rng.randint(1, 4)):
                    await remember(store, rng, known)
            case 3 if known:
                await forget(store, known.pop(rng.randrange(len(known))))
        if rng.random() < 0.6:
            found = await verifier.verify(REPO)
            assert found.consistent, told(found)
    found = await verifier.verify(REPO)
    assert found.consistent, told(found)
    assert found.nodes > 20
    before = await held.contents(REPO)
    found = await verifier.rebuild(REPO)
    assert found.consistent, told(found)
    assert await held.contents(REPO) == before


@pytest.fixture
async def filled(store: Store, verifier: Verifier) -> Verifier:
    await index_files(store, REPO, {"m0.toy": ["n0: n1", "n1: n2", "n2:"], "m1.toy": ["n3: n0"]})
    rng, known = random.Random(7), list[UUID]()
    for n in range(5):
        await store.episodes.append(run_of(rng, n))
    for _ in range(5):
        await remember(store, rng, known)
    found = await verifier.verify(REPO)
    assert found.consistent, told(found)
    return verifier


@pytest.mark.parametrize(
    ("damage", "kind", "what"),
    [
        ("MATCH (n:Function {id: 'both:m0.n1'}) DETACH DELETE n", "missing", "Symbol"),
        ("MATCH (n:Memory) WITH n LIMIT 1 DETACH DELETE n", "missing", "Memory"),
        ("MATCH ()-[e:CALLS]->() WITH e LIMIT 1 DELETE e", "missing", "CALLS"),
        ("MATCH (:Memory)-[e:MENTIONS]->() WITH e LIMIT 1 DELETE e", "missing", "MENTIONS"),
        ("MATCH (n:Episode) WITH n LIMIT 1 SET n.name = 'other'", "different", "Episode"),
        ("MATCH (n:Function {id: 'both:m0.n1'}) SET n.start_line = 99", "different", "Symbol"),
        ("MATCH ()-[e:CALLS]->() WITH e LIMIT 1 SET e.lines = [7]", "different", "CALLS"),
        ("MATCH ()-[e:MENTIONS]->() WITH e LIMIT 1 SET e.recorded_to = 1", "different", "MENTIONS"),
        ("MATCH (n:File) WITH n LIMIT 1 SET n:Test", "different", "File"),
        ("CREATE (n:Memory {id: 'both:memory/x', repo: 'both'})", "extra", "Memory"),
        ("MATCH (a:File), (b:Repo) WITH a, b LIMIT 1 CREATE (a)-[:CALLS]->(b)", "extra", "CALLS"),
        ("MATCH (a)-[e:CALLS]->(b) WITH a, b, properties(e) AS p LIMIT 1 "
         "CREATE (a)-[f:CALLS]->(b) SET f = p", "different", "CALLS"),
    ],
)  # fmt: skip
async def test_what_was_altered_by_hand_is_found_and_repaired(
    filled: Verifier, held: CypherStore, damage: str, kind: str, what: str
) -> None:
    await held._bolt.write((damage, {}))
    found = await filled.verify(REPO)
    assert not found.consistent
    assert getattr(found, kind).counts.get(what), told(found)
    assert getattr(found, kind).examples
    repaired = await filled.rebuild(REPO)
    assert repaired.consistent, told(repaired)


async def test_an_event_that_comes_again_changes_nothing(
    filled: Verifier, store: Store, held: CypherStore
) -> None:
    before = await held.contents(REPO)
    async with store.db.transaction() as conn:
        await conn.execute(
            "INSERT INTO outbox (repo_id, kind, episode_id) SELECT repo_id, 'episode', id FROM episode"
        )
    delta = await store.outbox.claim()
    assert delta is not None
    assert len(delta.nodes) > 5
    for _ in range(2):
        await held.apply(delta)
    await store.outbox.done(delta.event_id)
    assert await held.contents(REPO) == before
    assert (await filled.verify(REPO)).consistent


async def test_what_waits_is_no_difference_and_no_agreement(
    filled: Verifier, store: Store, dsn: str
) -> None:
    await store.episodes.append(run_of(random.Random(1), 99))
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=plait") as conn:
        conn.execute("UPDATE outbox SET not_before = now() + interval '20 seconds'")
    found = await filled.verify(REPO, timeout_s=0.2)
    assert found.waiting == 1
    assert not found.consistent


async def test_an_episode_of_a_repository_that_is_not_indexed(
    store: Store, verifier: Verifier
) -> None:
    await store.episodes.append(run_of(random.Random(1), 1))
    found = await verifier.verify(REPO)
    assert found.consistent, told(found)
    with pytest.raises(RepositoryNotIndexed):
        await verifier.verify("nobody")


async def test_an_older_state_never_overwrites_a_newer_one(
    filled: Verifier, store: Store, held: CypherStore
) -> None:
    """A projector that slept with a claim in its hands, while others went on."""
    rng, known = random.Random(3), list[UUID]()
    await remember(store, rng, known)
    slept = await store.outbox.claim()
    assert slept is not None
    await store.outbox.close()  # as the server does with a dead connection
    for _ in range(4):
        await remember(store, rng, known)
    await forget(store, known[0])

    async def opened() -> GraphStore:
        return held

    await Projector(store.outbox, opened).run_until_idle()
    before = await held.contents(REPO)
    with pytest.raises(Exception, match="another event took its place"):
        await held.apply(slept)
    assert await held.contents(REPO) == before
    assert (await filled.verify(REPO)).consistent


async def test_links_of_feedback_reach_the_graph_and_both_agree(
    store: Store, held: CypherStore, verifier: Verifier
) -> None:
    files = {"a.toy": ["one: two", "two:"], "test_a.toy": ["test_one: one"]}
    await index_files(store, REPO, files)
    artifacts = [Artifact(ArtifactKind.NOTE, "one before two"), Artifact(ArtifactKind.PLAN, "p")]
    told = await store.episodes.append(
        Episode("e", REPO, Outcome("success"), artifacts, body_hash=b"h")
    )

    async def opened() -> GraphStore:
        return held

    projector = Projector(store.outbox, opened)
    await projector.run_until_idle()
    view = await store.search.view(Filter(repos=(REPO,)))
    receipt = Receipt(
        RecallId(uuid4()), "default", (REPO,), "", "", {}, {}, view.valid or datetime.now(UTC),
        tuple((id_, 0.5) for id_ in told.item_ids),
    )  # fmt: skip
    assert await store.recalls.keep_receipt(receipt)
    verdicts = [ItemVerdict(id_, Verdict.HELPED) for id_ in told.item_ids]
    proof = ("test_a.test_one",)
    got = await store.recalls.report(
        Feedback("f", b"b", receipt.id, verdicts, Outcome("success"), proof)
    )
    assert got.links == 2
    await projector.run_until_idle()
    found = await verifier.verify(REPO)
    assert found.consistent, found
    rows = await held._bolt.read(
        "MATCH (m)-[v:VALIDATED_BY]->(t) WHERE v.resolver = 'feedback' RETURN t.id AS t"
    )
    assert rows == [[f"{REPO}:test_a.test_one"]] * 2
