"""Opening a database: migrations run once, and a database of another version is refused by name."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import psycopg
import pytest
from msgspec import structs
from psycopg import sql

from etl.pipeline import IndexRequest, index_repository
from etl.project import Projector
from etl.truth import open as open_truth
from plait.domain.errors import SchemaMismatch, StoreUnavailable
from plait.domain.memory import MemoryFilter
from plait.domain.values import Artifact, ArtifactKind, Episode, EpisodeReceipt, Outcome
from plait.ports import GraphDelta, GraphStore
from plait.settings import Settings, load
from tests.processes import eventually
from vector.connection.migrate import LOCK, Migration, migrate, migrations
from vector.connection.pool import Database
from vector.store import Store


@pytest.fixture
async def recorded(store: Store, truth_dsn: str) -> AsyncIterator[None]:
    """The record of migrations as it was, afterwards."""
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        rows = conn.execute("SELECT number, name, checksum FROM plait.schema_migration").fetchall()
        yield
        conn.execute("DELETE FROM plait.schema_migration")
        with conn.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO plait.schema_migration (number, name, checksum) VALUES (%s, %s, %s)",
                rows,
            )


async def test_several_processes_may_open_at_once(store: Store, truth_settings: Settings) -> None:
    stores = await asyncio.gather(*(open_truth(truth_settings) for _ in range(4)))
    for opened in stores:
        await opened.close()
        await opened.close()


async def test_another_process_that_migrates_for_long_is_waited_for(
    store: Store, truth_dsn: str, truth_settings: Settings
) -> None:
    hasty = structs.replace(
        truth_settings, postgres=structs.replace(truth_settings.postgres, statement_timeout_s=3.0)
    )
    async with await psycopg.AsyncConnection.connect(truth_dsn, autocommit=True) as conn:
        await conn.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
        opening = asyncio.create_task(open_truth(hasty))
        await asyncio.wait({opening}, timeout=3.6)
        assert not opening.done()
    await (await opening).close()


async def test_a_migration_that_deadlocks_with_a_reader_is_tried_again(
    recorded: None, truth_dsn: str, truth_settings: Settings
) -> None:
    body = (
        "LOCK TABLE plait.outbox IN ACCESS EXCLUSIVE MODE;"
        " SELECT pg_advisory_xact_lock(998); LOCK TABLE plait.dead_letter IN ACCESS EXCLUSIVE MODE"
    )
    connect = psycopg.AsyncConnection.connect
    async with (
        await connect(truth_dsn, autocommit=True) as gate,
        await connect(truth_dsn) as reader,
        await connect(truth_dsn, autocommit=True) as conn,
    ):
        await gate.execute("SELECT pg_advisory_lock(998)")
        await reader.execute("SELECT count(*) FROM plait.dead_letter")
        shipped = [*migrations(), Migration(998, "later", body)]
        applying = asyncio.create_task(migrate(conn, shipped))
        await eventually(lambda: _locks(gate, "locktype = 'advisory' AND objid = 998"))
        reading = asyncio.create_task(reader.execute("SELECT count(*) FROM plait.outbox"))
        await eventually(lambda: _locks(gate, "relation = 'plait.outbox'::regclass"))
        # Who waits looks for a deadlock once, after `deadlock_timeout` (1 s): then it is the migration that ends.
        await asyncio.sleep(1.5)
        await gate.execute("SELECT pg_advisory_unlock(998)")
        await reading
        await reader.commit()
        await applying
        done = await gate.execute("SELECT 1 FROM plait.schema_migration WHERE number = 998")
        assert await done.fetchall() == [(1,)]


async def _locks(conn: psycopg.AsyncConnection, which: str) -> bool:
    """Whether somebody waits for such a lock."""
    found = await conn.execute(
        sql.SQL("SELECT 1 FROM pg_locks WHERE NOT granted AND {}").format(sql.SQL(which))
    )
    return bool(await found.fetchall())


async def test_a_changed_migration_is_named(
    recorded: None, truth_dsn: str, truth_settings: Settings
) -> None:
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        conn.execute("UPDATE plait.schema_migration SET checksum = 'x' WHERE number = 1")
    with pytest.raises(SchemaMismatch, match="0001_schema") as caught:
        await open_truth(truth_settings)
    assert caught.value.metadata["migration"] == "0001_schema"


async def test_an_unknown_migration_is_named(
    recorded: None, truth_dsn: str, truth_settings: Settings
) -> None:
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO plait.schema_migration (number, name, checksum) VALUES (999, 'future', 'x')"
        )
    with pytest.raises(SchemaMismatch, match="0999_future"):
        await open_truth(truth_settings)


async def test_a_migration_that_fails_leaves_nothing(
    recorded: None, truth_dsn: str, truth_settings: Settings
) -> None:
    broken = replace(
        migrations()[0], number=900, name="broken", body="CREATE TABLE half (); SELECT nonsense;"
    )
    conn = await Database(truth_dsn, truth_settings).dedicated()
    try:
        with pytest.raises(psycopg.errors.UndefinedColumn):
            await migrate(conn, [*migrations(), broken])
        cursor = await conn.execute(
            "SELECT to_regclass('plait.half'), (SELECT max(number) FROM plait.schema_migration)"
        )
        assert await cursor.fetchone() == (None, max(m.number for m in migrations()))
    finally:
        await conn.close()


async def test_a_server_that_is_not_there_is_said_to_be(truth_settings: Settings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dsn = f"host=127.0.0.1 port={taken.getsockname()[1]} dbname=x user=x"
        gone = load(
            environ={
                "PLAIT_HOME": str(truth_settings.home),
                "PLAIT_POSTGRES__DSN": dsn,
                "PLAIT_POSTGRES__CONNECT_TIMEOUT_S": "2",
            }
        )
        with pytest.raises(StoreUnavailable, match=r"postgres\.dsn"):
            await open_truth(gone)


@pytest.fixture
async def before(store: Store, truth_dsn: str) -> AsyncIterator[None]:
    """An empty database, for as long as the test takes."""
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        conn.execute("ALTER SCHEMA plait RENAME TO plait_away")
        yield
        conn.execute("DROP SCHEMA IF EXISTS plait CASCADE")
        conn.execute("ALTER SCHEMA plait_away RENAME TO plait")


OLD_ROWS = """
INSERT INTO repository (name, published, last_number, published_at) VALUES ('r', 3, 3, now()), ('s', 1, 1, now());
INSERT INTO episode (id, repo_id, recorded_at, outcome, projected)
SELECT ('00000000-0000-7000-8000-00000000000' || n)::uuid, r.id, '2026-01-01'::timestamptz + n * interval '1 day',
       '{"status": "success"}', n = 1
  FROM repository r, generate_series(1, 2) n WHERE r.name = 'r';
INSERT INTO memories (id, repo_id, collection, kind, content_hash, content, episode_id, recorded_at)
SELECT ('00000000-0000-7000-8000-00000000001' || n)::uuid, e.repo_id, 'memories', 'note', '\\x00', 'same text',
       e.id, e.recorded_at
  FROM episode e, generate_series(1, 2) n WHERE e.id::text LIKE '%1';
INSERT INTO episode_link (repo_id, episode_id, relation, target, path)
SELECT repo_id, id, 'MENTIONS', '/a.py', 'a.py' FROM episode;
INSERT INTO request (request_id, repo_id, body_hash, episode_id, item_ids)
SELECT 'q' || id, repo_id, 'h', id, '{}' FROM episode;
INSERT INTO outbox (repo_id, kind, episode_id)
SELECT repo_id, 'episode', id FROM episode WHERE NOT projected;
INSERT INTO outbox (repo_id, kind, number) SELECT id, 'index', 1 FROM repository WHERE name = 's';
"""


async def test_episodes_from_before_are_kept_and_projected_anew(
    before: None, truth_dsn: str, truth_settings: Settings
) -> None:
    conn = await Database(truth_dsn, truth_settings).dedicated()
    await migrate(conn, migrations()[:1])
    await conn.execute(OLD_ROWS.encode())
    await conn.close()
    stores = await asyncio.gather(*(open_truth(truth_settings) for _ in range(2)))
    try:
        deltas = []
        while (delta := await stores[0].outbox.claim()) is not None:
            deltas.append(delta)
            await stores[0].outbox.done(delta.event_id)
        said = [(d.repo, d.remove_repo, d.number, len(d.nodes), len(d.links)) for d in deltas]
        assert sorted(said) == [
            ("r", False, 0, 4, 4), ("r", False, 3, 1, 0), ("r", True, 0, 0, 0), ("s", False, 1, 1, 0),
        ]  # fmt: skip
        removed, code, memory = (d for d in deltas if d.repo == "r")
        assert removed.remove_repo
        assert (code.number, memory.number) == (3, 0)
        notes = await stores[1].memories.list(MemoryFilter(repos=("r",)), limit=10)
        assert [e.content for e in notes.entries] == ["same text", "same text"]
    finally:
        for opened in stores:
            await opened.close()


OLD_TURNS = """
INSERT INTO repository (name, published, last_number) VALUES ('r', 0, 0);
INSERT INTO memories (id, repo_id, collection, kind, source, agent_id, content_hash, content, entry_id, created_at)
SELECT gen_random_uuid(), r.id, 'memories', 'turn', s.source, s.source, sha256(t.content::bytea), t.content,
       gen_random_uuid(), now()
  FROM repository r, unnest(ARRAY['agent', 'user']) AS s (source),
       unnest(ARRAY['where is it?', 'Let me look at a.py first.', 'It is in a.py. Shall I go on?', 'It is in a.py.'])
         AS t (content);
"""


async def test_turns_from_before_are_told_from_each_other_as_new_ones_are(
    before: None, truth_dsn: str, truth_settings: Settings
) -> None:
    """What older versions asked of each text at every read is decided once, when the home is opened."""
    conn = await Database(truth_dsn, truth_settings).dedicated()
    await migrate(conn, [m for m in migrations() if m.number < 15])
    await conn.execute(OLD_TURNS.encode())
    await conn.close()
    await (await open_truth(truth_settings)).close()
    with psycopg.connect(truth_dsn, options="-c search_path=plait") as after:
        rows = after.execute(
            "SELECT source, content, is_question, announces_step FROM memories ORDER BY source, content"
        ).fetchall()
    assert rows == [
        ("agent", "It is in a.py.", False, False),
        ("agent", "It is in a.py. Shall I go on?", False, True),
        ("agent", "Let me look at a.py first.", False, True),
        ("agent", "where is it?", True, True),
        ("user", "It is in a.py.", False, False),
        ("user", "It is in a.py. Shall I go on?", False, False),
        ("user", "Let me look at a.py first.", False, False),
        ("user", "where is it?", True, False),
    ]


DIFF = """--- a/a.py
+++ b/a.py
@@ -3,2 +3,2 @@ def two():
 def two():
-    return 1
+    return 2
"""
CODE = "def one():\n    return 1\ndef two():\n    return 2\n"
OLD_EPISODE = """
INSERT INTO repository (name, published, last_number) VALUES ('r', 0, 0);
INSERT INTO episode (id, repo_id, recorded_at, outcome)
SELECT '00000000-0000-7000-8000-000000000001', id, '2026-01-01', '{"status": "success", "summary": "fixes #12"}'
  FROM repository;
INSERT INTO diffs (id, repo_id, collection, kind, content_hash, path, content, episode_id, recorded_at)
SELECT '00000000-0000-7000-8000-000000000011', e.repo_id, 'diffs', 'diff', '\\x00', 'a.py', $1, e.id, e.recorded_at
  FROM episode e;
INSERT INTO tests (id, repo_id, collection, kind, content_hash, content, meta, episode_id, recorded_at)
SELECT '00000000-0000-7000-8000-000000000012', e.repo_id, 'tests', 'test_result', '\\x01', '1 passed',
       '{"tests": [{"name": "test_a.py::test_two", "status": "passed"}]}', e.id, e.recorded_at
  FROM episode e;
INSERT INTO episode_link (repo_id, episode_id, relation, target, path)
SELECT repo_id, id, 'TOUCHES', '/a.py', 'a.py' FROM episode;
"""
# What an episode says, apart from its own ids.
SAID = """
SELECT e.relation, replace(replace(e.source, p.id::text, 'me'), coalesce(i.id::text, '-'), 'item'),
       replace(replace(e.target, p.id::text, 'me'), coalesce(i.id::text, '-'), 'item'), e.path
  FROM plait.memory_edge e JOIN plait.episode p ON p.id = e.episode_id
  LEFT JOIN plait.diffs i ON i.episode_id = p.id
 WHERE e.recorded_to IS NULL AND p.id = %s
"""


class Nothing:
    """A graph that takes everything: this test looks at the rows."""

    async def apply(self, delta: GraphDelta) -> None: ...


async def no_graph() -> GraphStore:
    return cast(GraphStore, Nothing())


async def test_an_episode_from_before_is_linked_by_its_text_as_a_new_one_is(
    before: None, truth_dsn: str, truth_settings: Settings, tmp_path: Path
) -> None:
    conn = await Database(truth_dsn, truth_settings).dedicated()
    await migrate(conn, migrations()[:1])
    literal = "$diff$" + DIFF + "$diff$"
    await conn.execute(OLD_EPISODE.replace("$1", literal).encode())
    await conn.close()
    (tmp_path / "a.py").write_text(CODE)
    (tmp_path / "test_a.py").write_text(
        "from a import two\n\ndef test_two():\n    assert two() == 2\n"
    )
    store = await open_truth(truth_settings)
    try:
        request = IndexRequest(tmp_path, "r", embed=False)
        await index_repository(request, truth_settings, store, no_graph, None)
        results = {"tests": [{"name": "test_a.py::test_two", "status": "passed"}]}
        artifacts = [
            Artifact(ArtifactKind.DIFF, DIFF, "a.py"),
            Artifact(ArtifactKind.TEST_RESULT, "1 passed", meta=results),
        ]
        new = await store.episodes.append(
            Episode("new", "r", Outcome("success", "fixes #12"), artifacts, body_hash=b"h")
        )
        assert isinstance(new, EpisodeReceipt)
        await Projector(store.outbox, no_graph).run_until_idle()
        with psycopg.connect(truth_dsn) as rows:
            old = set(rows.execute(SAID, ("00000000-0000-7000-8000-000000000001",)).fetchall())
            assert old == set(rows.execute(SAID, (new.episode_id,)).fetchall())
            assert ("TOUCHES", "diff/item/a.py", "a.two", "a.py") in old
            assert ("VALIDATED_BY", "episode/me", "test_a.test_two", "") in old
            assert rows.execute("SELECT FROM plait.episode WHERE reread").fetchone() is None
        # Projected again, it says the same.
        with psycopg.connect(truth_dsn, autocommit=True) as rows:
            rows.execute("UPDATE plait.episode SET reread = true")
            rows.execute(
                "INSERT INTO plait.outbox (repo_id, kind, episode_id) SELECT repo_id, 'episode', id"
                " FROM plait.episode"
            )
        await Projector(store.outbox, no_graph).run_until_idle()
        with psycopg.connect(truth_dsn) as rows:
            again = rows.execute(SAID, ("00000000-0000-7000-8000-000000000001",)).fetchall()
            assert len(again) == len(old)
            assert set(again) == old
    finally:
        await store.close()
