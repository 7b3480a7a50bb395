"""A home that an older version filled opens with this one: its rows are migrated, found, and in the graph.

tests/data/home_0014.sql.gz is the database of such a home at migration 14, as `python -m benchmarks.goldens home`
dumped it with the code of that day. It is never made anew: it is what users have.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from benchmarks.goldens import tale
from plait.client import AsyncPlaitClient, Filter, MemoryFilter, new_memory
from plait.domain.values import Collection
from plait.settings import load
from server.app import open_app
from tests.e2e.conftest import at_rest, own_server
from tests.processes import PATIENT, remove_home
from vector.connection.migrate import migrations
from vector.server import embedded as postgres

DUMP = Path(__file__).parents[1] / "data" / "home_0014.sql.gz"
REPO = "shop"
WHERE = Filter(repos=(REPO,))
MEMORIES = MemoryFilter(repos=(REPO,))


def restore(dsn: str) -> None:
    """The dump into an empty database of a server that has our binaries and nothing of ours."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
        conn.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public")
        conn.execute(gzip.decompress(DUMP.read_bytes()))
        # Receipts go after 30 days; these are as old as the dump.
        conn.execute("UPDATE plait.recall SET created_at = now()")


@pytest.fixture(scope="module")
def old_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="plait-test-", dir="/tmp"))
    if os.geteuid() == 0:
        home.chmod(0o711)
    yield home
    remove_home(home)


@pytest.fixture(scope="module")
def dsn(old_home: Path) -> Iterator[str]:
    settings = load(environ={**PATIENT, "PLAIT_HOME": str(old_home)})
    with postgres.ensure(settings) as lease:
        restore(lease.dsn)
        yield lease.dsn


@pytest.fixture(scope="module")
async def target(old_home: Path, dsn: str) -> AsyncIterator[str]:
    """A server of this code over the old home, whose graph is empty, at rest."""
    settings = load(environ={**PATIENT, "PLAIT_HOME": str(old_home)})
    async with open_app(settings, background=True) as app, own_server(app) as server:
        async with AsyncPlaitClient(server.target) as client:
            await client.rebuild([REPO])
        await at_rest(app)
        yield server.target


@pytest.fixture
async def old(target: str) -> AsyncIterator[AsyncPlaitClient]:
    async with AsyncPlaitClient(target) as client:
        yield client


async def test_it_has_every_migration(old: AsyncPlaitClient, dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        rows = conn.execute("SELECT number FROM plait.schema_migration ORDER BY number").fetchall()
    assert [number for (number,) in rows] == [m.number for m in migrations()]


async def test_its_code_is_found_by_meaning_and_by_words(old: AsyncPlaitClient) -> None:
    for query, symbol in (
        ("how long to wait between attempts", "shop.retries.wait"),
        ("fetch_all", "shop.fetch.fetch_all"),
        ("sum of a cart in cents", "web.cart.total"),
    ):
        answer = await old.search(query, where=WHERE)
        assert symbol in [hit.item.symbol for hit in answer.hits[:2]], query
        assert answer.degraded == ()


@pytest.mark.parametrize(
    ("collection", "query", "text"),
    [
        (Collection.PLANS, "raise the ceiling", "1. Read shop/retries.py."),
        (Collection.DIFFS, "ceiling of backoff", "+        return min(60.0"),
        (Collection.TESTS, "ceiling test failed", "1 failed, 1 passed"),
        (Collection.REFLECTIONS, "who calls backoff", "wait() is the only caller"),
        (Collection.MEMORIES, "what waits twice as long", "uses Patient"),
        (Collection.MEMORIES, "which staging server", "shop-7, port 8443"),
    ],
)
async def test_what_its_runs_left_is_found(
    old: AsyncPlaitClient, collection: Collection, query: str, text: str
) -> None:
    answer = await old.search(query, where=Filter(repos=(REPO,), collections=(collection,)))
    assert any(text in hit.item.content for hit in answer.hits[:2])


async def test_a_recall_packs_code_and_memories(old: AsyncPlaitClient) -> None:
    answer = await old.recall("where do retries live", where=WHERE)
    assert "Retries live in shop/waiting.py now." in answer.context
    assert "shop/retries.py" in answer.context
    assert "Retries live in shop/retries.py;" not in answer.context  # superseded
    assert answer.degraded == ()


async def test_its_memories_are_queried_and_listed_with_their_history(
    old: AsyncPlaitClient,
) -> None:
    found = await old.query("how do we release", MEMORIES, top_k=2)
    assert [m.entry.content.partition(",")[0] for m in found.matches] == ["To release"] * 2
    assert sorted(m.entry.pinned for m in found.matches) == [False, True]
    assert found.degraded == ()
    kinds = MemoryFilter(repos=(REPO,), kinds=("memory",))
    living = [e.content for e in (await old.list(kinds)).entries]
    listed = (await old.list(kinds, include_superseded=True)).entries
    closed = [e for e in listed if e.superseded_at is not None]
    assert "Retries live in shop/waiting.py now." in living
    for text in ("Retries live in shop/retries.py;", "The payment provider was down"):
        assert not any(content.startswith(text) for content in living)
        assert any(entry.content.startswith(text) for entry in closed)


async def test_its_graph_is_made_again_from_its_rows(old: AsyncPlaitClient) -> None:
    (compared,) = await old.verify([REPO])
    assert compared.consistent, compared
    assert (compared.waiting, compared.dead_letters) == (0, 0)
    assert compared.nodes > 40
    callers = await old.template("callers", {"symbol": "shop.retries.wait"}, repositories=[REPO])
    assert [row[0].id for row in callers.rows] == ["shop:shop.fetch.fetch"]
    fixes = await old.template("chain", {"issue": "#12"}, repositories=[REPO])
    assert "shop:shop.retries.Policy.backoff" in [node.id for node in fixes.nodes]
    runs = await old.template("history", {"thing": "shop/retries.py"}, repositories=[REPO])
    assert runs.rows


async def test_its_recalls_are_answered_again_and_counted(old: AsyncPlaitClient, dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        ((recall_id,),) = conn.execute(
            "SELECT recall_id FROM plait.feedback ORDER BY created_at LIMIT 1"
        ).fetchall()
    again = await old.replay(recall_id)
    assert "Policy.backoff" in again.recall.context
    savings = await old.savings([REPO])
    assert {"s-shopfront", "s1"} <= {session.session_key for session in savings.sessions}


async def test_its_requests_are_known(old: AsyncPlaitClient) -> None:
    """A client that sends again what the old version has stored is told so, and nothing is stored twice."""
    told = tale.memories(REPO)[0]
    memory = new_memory(
        told["content"],
        repo=REPO,
        agent_id=told["agent_id"],
        path=told["path"],
        symbol=told["symbol"],
        tags=told["tags"],
        importance=told["importance"],
        custom=told["meta"],
    )
    assert (await old.store(memory, request_id="note-1")).repeated


async def test_its_keys_are_there(old: AsyncPlaitClient) -> None:
    assert [key.name for key in await old.list_keys()] == ["reader"]
    assert {key.name for key in await old.list_keys(include_ended=True)} == {"ci", "reader"}


async def test_its_tenants_are_apart(target: str) -> None:
    async with AsyncPlaitClient(target, tenant="guest") as guest:
        listed = await guest.list(MEMORIES)
    assert [e.content for e in listed.entries] == ["The guest's release is made by hand."]


async def _changed_files(client: AsyncPlaitClient, root: Path) -> int:
    """Of an index run."""
    begun = await client.start_index(str(root), repository=REPO, move=True)
    *_, job = [state async for state in client.watch_index_job(begun.id)]
    assert job.state == "succeeded", (job.error_reason, job.error_message)
    return job.counts["changed_files"]


async def test_its_folder_is_indexed_on(old: AsyncPlaitClient, tmp_path: Path) -> None:
    """The old revision is the one before. Its facts are of an older shape, so the first run reads every file
    again; from then on what has not changed is not read as new."""
    root = tmp_path / REPO
    tale.write(root, tale.FILES)
    code = [name for name in tale.FILES if not name.endswith(".md")]
    assert await _changed_files(old, root) == len(code)
    tale.write(
        root,
        {"shop/fetch.py": tale.FILES["shop/fetch.py"] + "\n\ndef late():\n    wait(Policy(), 1)\n"},
    )
    assert await _changed_files(old, root) == 1
    callers = await old.template("callers", {"symbol": "shop.retries.wait"}, repositories=[REPO])
    assert [row[0].id for row in callers.rows] == ["shop:shop.fetch.fetch", "shop:shop.fetch.late"]
