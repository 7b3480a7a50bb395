"""EpisodeStore's promises on every PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from plait.domain.errors import RequestIdReused
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, Outcome
from vector.index.merger import MERGE_EVERY
from vector.store import Store

ALL = tuple(Collection)
EVERY_KIND = [Artifact(kind, f"about {kind.value} matters") for kind in ArtifactKind]


def episode(
    request_id: str = "q",
    artifacts: Sequence[Artifact] = EVERY_KIND,
    body: bytes = b"h",
    repo: str = "r",
) -> Episode:
    outcome = Outcome("success", "fixed it", {"tests": 3.0}, "abc123", "main")
    return Episode(
        request_id, repo, outcome, artifacts, "agent-1", "s-1", ("a", "b"),
        datetime(2026, 1, 2, tzinfo=UTC), body,
    )  # fmt: skip


def count(dsn: str, table: str) -> int:
    with psycopg.connect(dsn) as conn:
        row = conn.execute(f"SELECT count(*) FROM plait.{table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


async def test_each_artifact_goes_to_its_collection(store: Store) -> None:
    receipt = await store.episodes.append(episode())
    assert not receipt.repeated
    view = await store.search.view(Filter(collections=ALL))
    items = await store.search.fetch(view, receipt.item_ids)
    assert {i.kind: i.collection.value for i in items.values()} == {
        "plan": "plans",
        "diff": "diffs",
        "reflection": "reflections",
        "test_result": "tests",
        "note": "memories",
        "turn": "memories",
    }
    assert [i.kind for i in items.values()] == [k.value for k in ArtifactKind]
    assert {i.tags for i in items.values()} == {("a", "b")}


async def test_a_repeated_request_gets_the_same_answer(store: Store, truth_dsn: str) -> None:
    first = await store.episodes.append(episode())
    again = await store.episodes.append(episode())
    assert again.repeated
    assert (again.episode_id, again.item_ids) == (first.episode_id, first.item_ids)
    assert count(truth_dsn, "item") == len(EVERY_KIND)
    assert count(truth_dsn, "outbox") == 1


async def test_a_request_id_with_another_body_is_refused(store: Store, truth_dsn: str) -> None:
    await store.episodes.append(episode())
    with pytest.raises(RequestIdReused):
        await store.episodes.append(episode(body=b"other"))
    assert count(truth_dsn, "episode") == 1


async def test_the_same_request_from_eight_sides_at_once(
    store: Store, other: Store, truth_dsn: str
) -> None:
    receipts = await asyncio.gather(*(s.episodes.append(episode()) for s in (store, other) * 4))
    assert len({r.episode_id for r in receipts}) == 1
    assert [r.repeated for r in receipts].count(False) == 1
    assert count(truth_dsn, "episode") == 1
    assert count(truth_dsn, "item") == len(EVERY_KIND)


async def test_many_episodes_at_once_all_arrive_and_segments_stay_few(
    store: Store, other: Store, truth_dsn: str
) -> None:
    note = [Artifact(ArtifactKind.NOTE, "the zebra")]
    await asyncio.gather(
        *(
            s.episodes.append(episode(f"q{i}", note))
            for i in range(60)
            for s in ((store, other)[i % 2],)
        )
    )
    where = Filter(collections=(Collection.MEMORIES,))
    view = await store.search.view(where)
    assert len(await store.search.lexical(view, ["zebra"], where, 100)) == 60
    # The last ones alone: no merge is skipped for another's lock, and one begins behind all the others.
    await other.merger.finished()
    for i in range(MERGE_EVERY):
        await store.merger.finished()
        await store.episodes.append(episode(f"last{i}", note))
    await store.merger.finished()
    view = await store.search.view(where)
    assert len(await store.search.lexical(view, ["zebra"], where, 100)) == 60 + MERGE_EVERY
    assert len(getattr(view, "segments")) <= 24  # noqa: B009


async def test_a_reader_keeps_its_view_over_a_merge(store: Store) -> None:
    note = [Artifact(ArtifactKind.NOTE, "the zebra")]
    for i in range(5):
        await store.episodes.append(episode(f"q{i}", note))
    where = Filter(collections=(Collection.MEMORIES,))
    view = await store.search.view(where)
    for i in range(5, 20):
        await store.episodes.append(episode(f"q{i}", note))
    assert len(await store.search.lexical(view, ["zebra"], where, 100)) == 5


async def test_text_that_postgresql_cannot_hold_is_made_storable(store: Store) -> None:
    meta: dict[str, Any] = {"k\0": "v\0", "list": ["\ud800"], "n": 1.5}
    nasty = Artifact(ArtifactKind.NOTE, "nul \0 half \ud800 end", path="p\0", meta=meta)
    receipt = await store.episodes.append(episode(artifacts=[nasty]))
    view = await store.search.view(Filter(collections=ALL))
    (item,) = (await store.search.fetch(view, receipt.item_ids)).values()
    assert item.content == "nul \ufffd half ? end"
    assert item.path == "p\ufffd"
    assert item.meta == {"k\ufffd": "v\ufffd", "list": ["?"], "n": 1.5}


async def test_an_episode_without_artifacts(store: Store, truth_dsn: str) -> None:
    receipt = await store.episodes.append(episode(artifacts=[]))
    assert receipt.item_ids == ()
    assert count(truth_dsn, "outbox") == 1


async def test_everything_or_nothing(store: Store, truth_dsn: str) -> None:
    """What the last statement refuses takes all the others back."""
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        conn.execute("ALTER TABLE plait.outbox ADD CONSTRAINT t CHECK (kind <> 'episode')")
    try:
        with pytest.raises(psycopg.errors.CheckViolation):
            await store.episodes.append(episode())
    finally:
        with psycopg.connect(truth_dsn, autocommit=True) as conn:
            conn.execute("ALTER TABLE plait.outbox DROP CONSTRAINT t")
    for table in ("episode", "item", "request", "segment", "outbox"):
        assert count(truth_dsn, table) == 0, table
    assert not (await store.episodes.append(episode())).repeated
