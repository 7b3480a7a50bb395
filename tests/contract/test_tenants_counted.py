"""Which tenants count: those of whose text something may still be in the graph."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg

from plait.domain.memory import NO_ID, MemoryEntry, MemoryId, MemoryMetadata
from plait.domain.retention import Selector
from plait.domain.values import Artifact, ArtifactKind, Episode, Outcome
from plait.memory.entry import check
from tests.contract.conftest import IndexFiles
from vector.store import Store

CODE = {"a.toy": ["alpha:"]}


async def project(store: Store) -> None:
    """As a projector that succeeds."""
    while (delta := await store.outbox.claim()) is not None:
        await store.outbox.done(delta.event_id)


async def remember(store: Store, tenant: str, supersedes: MemoryId | None = None) -> object:
    entry = MemoryEntry(NO_ID, f"{tenant}@web", "a", "the cache is cold", MemoryMetadata())
    (answer,) = await store.memories.store(tenant, [check(entry, str(uuid4()), supersedes)])
    return answer


def note(tenant: str) -> Episode:
    said = [Artifact(ArtifactKind.NOTE, "the cache is cold")]
    outcome = Outcome("success", "s")
    return Episode("e", f"{tenant}@web", outcome, said, body_hash=b"h", tenant=tenant)


async def test_a_tenant_counts_from_its_first_text_until_the_graph_has_none(store: Store) -> None:
    await remember(store, "typo")
    assert await store.repositories.tenants() == ["typo"]
    await project(store)
    assert await store.repositories.tenants() == ["typo"]
    await store.repositories.delete("typo@web", "typo")
    assert await store.repositories.tenants() == ["typo"]  # the graph has it still
    await project(store)
    assert await store.repositories.tenants() == []
    await remember(store, "typo")
    assert await store.repositories.tenants() == ["typo"]


async def test_code_and_episodes_count(store: Store, index: IndexFiles) -> None:
    await index(store, "web", CODE)
    await store.episodes.append(note("acme"))
    await project(store)
    assert await store.repositories.tenants() == ["acme", "default"]
    await store.repositories.delete("web")
    await project(store)
    assert await store.repositories.tenants() == ["acme"]


async def test_what_is_forgotten_counts_until_the_graph_follows(store: Store) -> None:
    answer: Any = await remember(store, "acme")
    await project(store)
    receipt = await store.forgetting.forget(
        "acme", "acme@web", Selector(ids=(answer.entry.id,)), dry_run=False
    )
    assert receipt.entries
    assert await store.repositories.tenants() == ["acme"]
    await project(store)
    assert await store.repositories.tenants() == []


async def test_a_removal_that_was_given_up_counts(store: Store, truth_dsn: str) -> None:
    await remember(store, "acme")
    delta = await store.outbox.claim()
    assert delta is not None
    await store.outbox.failed(delta.event_id, "broken", permanent=True)
    await store.repositories.delete("acme@web", "acme")
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        dead = conn.execute("SELECT count(*) FROM plait.dead_letter").fetchall()
    assert dead == [(0,)]  # the removal takes along what it left
    removal = await store.outbox.claim()
    assert removal is not None
    assert removal.remove_repo
    await store.outbox.failed(removal.event_id, "broken", permanent=True)
    assert await store.repositories.tenants() == ["acme"]
    await store.outbox.revive(())
    await project(store)
    assert await store.repositories.tenants() == []


async def test_a_write_that_is_refused_makes_no_tenant(store: Store) -> None:
    await remember(store, "acme", supersedes=MemoryId(uuid4()))
    assert await store.repositories.tenants() == []
