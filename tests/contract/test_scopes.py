"""Tenant → repository → agent → session: nothing crosses, in what is found and in what is refused.

The stores as serving uses them. What SQL alone could reach is in test_row_security.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plait.domain.errors import (
    CompactionUnknown,
    InvalidInput,
    MemoryNotFound,
    PlaitError,
    RepositoryNameTaken,
    RepositoryNotIndexed,
    ScopeMissing,
)
from plait.domain.memory import (
    MemoryEntry,
    MemoryFilter,
    MemoryId,
    MemoryMetadata,
    MemoryQueryOptions,
    MemoryReceipt,
    MemoryWrite,
)
from plait.domain.retention import Action, CompactionPlan, Step
from plait.domain.scope import Scope, qualify
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, Outcome
from plait.memory.entry import check
from tests.contract.test_search_store import embed, unit
from tests.memory_queries import query
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]

TENANTS = ("default", "acme", "zeta")
EVERY = tuple(Collection)
_fresh = count()


@pytest.fixture
async def webs(store: Store, index: IndexFiles) -> dict[str, Filter]:
    """The same repository, by name, of each tenant: code, an episode and vectors; how to ask for it."""
    out = {}
    for tenant in TENANTS:
        repo = qualify(tenant, "web")
        draft_files = {"a.toy": [f"open_socket: of_{tenant}", f"only_{tenant}:"]}
        await index_for(store, tenant, repo, draft_files)
        note = Artifact(ArtifactKind.NOTE, f"open_socket leaks at {tenant}")
        await store.episodes.append(an_episode(tenant, repo, "q", (note,)))
        await embed(store, repo)
        out[tenant] = Filter(repos=(repo,), tenant=tenant, collections=EVERY)
    return out


async def index_for(store: Store, tenant: str, repo: str, files: dict[str, list[str]]) -> None:
    """As `conftest.index_files`, for one tenant."""
    from plait.ports import FileRow, IndexStats
    from tests.contract.conftest import chunks_of, digest, resolve, segment_of

    draft = await store.index.begin(repo, f"/src/{tenant}", tenant=tenant)
    rows = [FileRow(p, digest(ls), "toy", len(ls), 9, b"facts") for p, ls in files.items()]
    await store.index.write_files(draft, rows)
    chunks = [chunk for path, lines in files.items() for chunk in chunks_of(path, lines)]
    await store.index.write_chunks(draft, chunks)
    await store.index.write_segment(draft, segment_of(chunks))
    await store.index.write_graph(draft, resolve(repo, files))
    await store.index.publish(draft, IndexStats(files=len(files), chunks=len(chunks)))


def an_episode(
    tenant: str,
    repo: str,
    request_id: str,
    artifacts: tuple[Artifact, ...],
    agent_id: str = "",
    session_key: str = "",
) -> Episode:
    body = hashlib.blake2b("".join(a.content for a in artifacts).encode(), digest_size=16).digest()
    return Episode(
        request_id, repo, Outcome("success"), artifacts, agent_id=agent_id,
        session_key=session_key, body_hash=body, tenant=tenant,
    )  # fmt: skip


def a_memory(repo: str, content: str, agent: str = "", session: str = "") -> MemoryWrite:
    entry = MemoryEntry(
        MemoryId(UUID(int=0)), repo, agent, content, MemoryMetadata(session_key=session)
    )
    return check(entry, uuid4().hex)


async def everything(store: Store, where: Filter) -> set[str]:
    """The texts that any arm, `places` and `fetch` find."""
    view = await store.search.view(where)
    found = [
        *await store.search.lexical(view, ["open_socket", "toy"], where, 50),
        *await store.search.phrase(view, "open socket", where, 50),
        *await store.search.identifiers(view, "open_socket", where, 50),
        *await store.search.identifiers(view, "opne_socket", where, 50),
        *await store.search.nearest(view, unit(1, 2, 3, 4), where, 50),
    ]
    ids = [c.id for c in found]
    items = await store.search.fetch(view, ids)
    places = await store.search.places(view, ids)
    assert set(items) == set(places) == set(ids)
    assert {i.repo for i in items.values()} <= {r.repo for r in view.revisions}
    return {i.content for i in items.values()}


# -- search --------------------------------------------------------------------------------------------------


async def test_the_same_name_is_another_repository_for_each_tenant(
    store: Store, webs: dict[str, Filter]
) -> None:
    for tenant, where in webs.items():
        mine = {f"open_socket: of_{tenant}", f"only_{tenant}:", f"open_socket leaks at {tenant}"}
        assert await everything(store, where) == mine
        assert await everything(store, replace(where, repos=())) == mine
        assert [r.repo for r in await store.repositories.list(tenant)] == [qualify(tenant, "web")]
    assert len(await store.repositories.list()) == len(TENANTS)


async def test_another_tenants_repository_looks_like_none_at_all(
    store: Store, webs: dict[str, Filter]
) -> None:
    for tenant in TENANTS:
        for other in TENANTS:
            if other == tenant:
                continue
            theirs = qualify(other, "web")
            there = await refused(store.search.view(Filter(repos=(theirs,), tenant=tenant)))
            nowhere = await refused(
                store.search.view(Filter(repos=(qualify(other, "nil"),), tenant=tenant))
            )
            assert isinstance(there, RepositoryNotIndexed)
            assert str(there).replace("web", "nil") == str(nowhere)


async def refused(call: Coroutine[Any, Any, Any]) -> PlaitError:
    with pytest.raises(PlaitError) as caught:
        await call
    return caught.value


async def test_a_view_of_another_tenants_revisions_shows_nothing(
    store: Store, webs: dict[str, Filter]
) -> None:
    """The first wall broken: the second holds. Ids, segments and revisions are all the other's."""
    for tenant in TENANTS:
        for other in TENANTS:
            if other == tenant:
                continue
            where = webs[other]
            theirs = await store.search.view(where)
            ids = [c.id for c in await store.search.lexical(theirs, ["open_socket"], where, 50)]
            assert ids
            store.search._lexical._spaces = type(store.search._lexical._spaces)()
            forged = replace(theirs, tenant=tenant)
            assert await store.search.fetch(forged, ids) == {}
            assert await store.search.places(forged, ids) == {}
            assert await store.search.lexical(forged, ["open_socket"], where, 50) == []
            assert await store.search.phrase(forged, "open socket", where, 50) == []
            assert await store.search.identifiers(forged, "open_socket", where, 50) == []
            assert await store.search.identifiers(forged, "opne_socket", where, 50) == []
            assert await store.search.nearest(forged, unit(1, 2, 3, 4), where, 50) == []
            # A segment is remembered by its id: what the forged view read must not be kept for others.
            store.search._lexical._spaces = type(store.search._lexical._spaces)()


async def test_a_filter_given_later_widens_nothing(store: Store, webs: dict[str, Filter]) -> None:
    view = await store.search.view(webs["acme"])
    for wider in (
        webs["zeta"],
        Filter(collections=EVERY),
        Filter(tenant="zeta", collections=EVERY),
    ):
        found = await store.search.lexical(view, ["open_socket"], wider, 50)
        items = await store.search.fetch(view, [c.id for c in found])
        assert {i.repo for i in items.values()} == {"acme@web"}


@pytest.mark.parametrize("tenant", ["", "ACME", "a b", "acme'--", "acme@web", "*"])
async def test_a_tenant_that_is_none_is_refused(store: Store, tenant: str) -> None:
    with pytest.raises(InvalidInput, match="tenant"):
        await store.search.view(Filter(tenant=tenant))
    with pytest.raises(InvalidInput, match="tenant"):
        await store.index.begin("web", "/src", tenant=tenant)


# -- names ---------------------------------------------------------------------------------------------------


async def test_a_tenant_takes_no_name_inside_another(
    store: Store, webs: dict[str, Filter], truth_dsn: str
) -> None:
    """Refused by its form, the same whether it exists or not."""
    before = names(truth_dsn)
    for name in ("acme@web", "acme@nil"):
        for tenant in ("default", "zeta"):
            with pytest.raises(InvalidInput, match="tenant 'acme'"):
                await store.index.begin(name, "/src", tenant=tenant)
            with pytest.raises(InvalidInput, match="tenant 'acme'"):
                await store.episodes.append(an_episode(tenant, name, "fresh", ()))
    with pytest.raises(InvalidInput, match="tenant 'default'"):
        await store.index.begin("web", "/src", tenant="acme")
    assert names(truth_dsn) == before


async def test_a_name_held_from_before_tenants_is_taken(store: Store, truth_dsn: str) -> None:
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        conn.execute("INSERT INTO plait.repository (name, root) VALUES ('acme@web', '/secret')")
    with pytest.raises(RepositoryNameTaken) as caught:
        await store.index.begin("acme@web", "/src", tenant="acme")
    assert "secret" not in str(caught.value) + str(caught.value.metadata)
    with pytest.raises(RepositoryNameTaken):
        await store.episodes.append(an_episode("acme", "acme@web", "q", ()))
    # Whose it is goes on as before.
    await store.episodes.append(an_episode("default", "acme@web", "q", ()))


def names(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as conn:
        return conn.execute("SELECT name, tenant FROM plait.repository ORDER BY 1").fetchall()


async def test_only_its_tenant_deletes_a_repository(store: Store, webs: dict[str, Filter]) -> None:
    for tenant in ("default", "zeta"):
        with pytest.raises(RepositoryNotIndexed):
            await store.repositories.delete("acme@web", tenant)
    assert len(await store.repositories.list("acme")) == 1
    await store.repositories.delete("acme@web", "acme")
    assert await store.repositories.list("acme") == []
    for tenant in ("default", "zeta"):
        assert len(await everything(store, webs[tenant])) == 3


# -- episodes ------------------------------------------------------------------------------------------------


async def test_request_ids_are_a_tenants_own(store: Store) -> None:
    stored = []
    for tenant in TENANTS:
        note = Artifact(ArtifactKind.NOTE, f"of {tenant}")
        stored.append(
            await store.episodes.append(an_episode(tenant, qualify(tenant, "web"), "q", (note,)))
        )
    assert not any(receipt.repeated for receipt in stored)
    assert len({receipt.episode_id for receipt in stored}) == len(TENANTS)
    mixed = [an_episode(t, qualify(t, "web"), "many", ()) for t in TENANTS]
    answers = await store.episodes.append_many(mixed)
    assert len({a.episode_id for a in answers if not isinstance(a, PlaitError)}) == len(TENANTS)


# -- memories ------------------------------------------------------------------------------------------------


async def remember(store: Store, tenant: str, *writes: MemoryWrite) -> list[MemoryReceipt]:
    receipts = await store.memories.store(tenant, writes)
    return [r for r in receipts if isinstance(r, MemoryReceipt)]


async def test_a_memory_is_its_tenants_by_whatever_name_it_is_asked_for(store: Store) -> None:
    ids = {}
    for tenant in TENANTS:
        write = a_memory(qualify(tenant, "web"), "the cache is cold")
        (receipt,) = await remember(store, tenant, write)
        assert not receipt.duplicate  # equal text in another tenant is no duplicate
        ids[tenant] = receipt.entry.id
    for tenant in TENANTS:
        assert (await store.memories.get(tenant, qualify(tenant, "web"), ids[tenant])).id == ids[
            tenant
        ]
        for other in TENANTS:
            if other == tenant:
                continue
            for repo in (qualify(tenant, "web"), qualify(other, "web")):
                with pytest.raises(MemoryNotFound):
                    await store.memories.get(tenant, repo, ids[other])
                with pytest.raises(MemoryNotFound):
                    await store.memories.delete(tenant, repo, ids[other])
            stolen = replace(a_memory(qualify(tenant, "web"), "mine"), supersedes=ids[other])
            (refused,) = await store.memories.store(tenant, [stolen])
            assert isinstance(refused, MemoryNotFound)
            assert str(refused) == str(MemoryNotFound(ids[other], qualify(tenant, "web")))
    for tenant in TENANTS:
        page = await store.memories.list(MemoryFilter(tenant, all_repos=True), limit=10)
        assert [e.id for e in page.entries] == [ids[tenant]]


async def test_another_tenants_memories_are_never_listed_found_or_recalled(store: Store) -> None:
    await remember(store, "acme", a_memory("acme@web", "the cache is cold today"))
    for tenant in ("default", "zeta"):
        for where in (
            MemoryFilter(tenant, repos=("acme@web",)),
            MemoryFilter(tenant, repos=(qualify(tenant, "web"),)),
            MemoryFilter(tenant, all_repos=True),
        ):
            page = await quiet(store.memories.list(where, limit=10))
            assert page is None or page.entries == ()
            options = MemoryQueryOptions(where)
            assert not await quiet(query(store, "cache cold", unit(1, 2, 3, 4), options))
        for repo in ("web", "acme@web"):
            if repo == "acme@web" and tenant != "default":
                continue  # a scope qualifies the name itself
            scope = Scope(tenant, repo)
            assert list(await store.memories.recalled(scope, ["the cache is cold today"])) == [
                False
            ]
    (mine,) = await query(
        store, "cache cold", None, MemoryQueryOptions(MemoryFilter("acme", repos=("acme@web",)))
    )
    assert mine.entry.content == "the cache is cold today"


async def quiet(call: Coroutine[Any, Any, Any]) -> Any:
    """The answer, or None where the repository is said not to be there."""
    try:
        return await call
    except RepositoryNotIndexed:
        return None


async def test_memories_are_never_read_from_everywhere_in_silence(store: Store) -> None:
    with pytest.raises(ScopeMissing):
        await store.memories.list(MemoryFilter(), limit=5)
    with pytest.raises(ScopeMissing):
        await query(store, "x", None, MemoryQueryOptions(MemoryFilter()))


async def test_retention_stays_inside_its_tenant(store: Store) -> None:
    (kept,) = await remember(store, "acme", a_memory("acme@web", "the cache is cold", "ann"))
    for tenant in ("default", "zeta"):
        assert await store.retention.usage(tenant) == {}
        for repo in ("web", "acme@web"):
            if tenant == "zeta" and repo == "acme@web":
                continue  # a scope qualifies the name itself
            assert list(await store.retention.living(Scope(tenant, repo, "ann"))) == []
    assert [e.id for e in await store.retention.living(Scope("acme", "web", "ann"))] == [
        kept.entry.id
    ]
    step = Step(Action.DEDUPLICATE, kept.entry.id, "equal", into=kept.entry.id)
    plan = CompactionPlan("acme@web", "ann", (step,), (), 1, 5, 0, 100)
    for tenant in ("default", "zeta"):
        with pytest.raises(PlaitError):
            await store.retention.compact(tenant, plan, 60.0)
    done = await store.retention.compact("acme", plan, 60.0)
    for tenant in ("default", "zeta"):
        with pytest.raises(CompactionUnknown):
            await store.retention.undo(tenant, done.id)
    assert await store.retention.undo("acme", done.id) == 1


# -- any scope, any question ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    tenant: str
    repo: str  # plain
    agent: str
    session: str
    by_episode: bool


@dataclass(frozen=True)
class Asked:
    tenant: str
    repos: tuple[str, ...]  # plain; () for all
    agent: str
    session: str

    def matches(self, said: Said) -> bool:
        return (
            said.tenant == self.tenant
            and (not self.repos or said.repo in self.repos)
            and self.agent in ("", said.agent)
            and self.session in ("", said.session)
        )


tenants = st.sampled_from(("alpha", "beta"))
repos = st.sampled_from(("web", "api"))
agents = st.sampled_from(("", "ann", "bob"))
sessions = st.sampled_from(("", "s1", "s2"))
saying = st.lists(st.builds(Said, tenants, repos, agents, sessions, st.booleans()), max_size=12)
asking = st.lists(
    st.builds(Asked, tenants, st.sets(repos).map(lambda r: tuple(sorted(r))), agents, sessions),
    min_size=1,
    max_size=6,
)


@settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(saying, asking)
async def test_a_question_is_answered_from_its_scope_and_from_all_of_it(
    store: Store, said: list[Said], asked: list[Asked]
) -> None:
    run = next(_fresh)  # each example has tenants of its own
    texts: dict[str, Said] = {}
    for i, one in enumerate(said):
        texts[f"remark {run} number {i}"] = one
        await say(store, run, one, f"remark {run} number {i}", f"q{i}")
    for question in asked:
        matching = {text for text, one in texts.items() if question.matches(one)}
        assert await searched(store, run, question) == matching
        assert await listed(store, run, question) == matching


async def say(store: Store, run: int, one: Said, text: str, request_id: str) -> None:
    tenant = f"{one.tenant}-{run}"
    repo = qualify(tenant, one.repo)
    if one.by_episode:
        note = Artifact(ArtifactKind.NOTE, text)
        await store.episodes.append(
            an_episode(tenant, repo, request_id, (note,), one.agent, one.session)
        )
    else:
        await remember(store, tenant, a_memory(repo, text, one.agent, one.session))


async def searched(store: Store, run: int, asked: Asked) -> set[str]:
    tenant = f"{asked.tenant}-{run}"
    where = Filter(
        repos=tuple(qualify(tenant, repo) for repo in asked.repos),
        collections=(Collection.MEMORIES,),
        agent_id=asked.agent,
        session_key=asked.session,
        tenant=tenant,
    )
    found: set[str] = set()
    # One that nothing was written to is not there, and is said not to be.
    for repo in where.repos or ("",):
        try:
            view = await store.search.view(replace(where, repos=(repo,) if repo else ()))
        except RepositoryNotIndexed:
            continue
        hits = await store.search.lexical(view, ["remark"], where, 100)
        phrased = await store.search.phrase(view, f"remark {run}", where, 100)
        assert {c.id for c in hits} == {c.id for c in phrased}
        items = await store.search.fetch(view, [c.id for c in hits])
        found |= {item.content for item in items.values()}
    return found


async def listed(store: Store, run: int, asked: Asked) -> set[str]:
    tenant = f"{asked.tenant}-{run}"
    where = MemoryFilter(
        tenant,
        repos=tuple(qualify(tenant, repo) for repo in asked.repos),
        all_repos=not asked.repos,
        agent_id=asked.agent,
        session_key=asked.session,
    )
    page = await store.memories.list(where, limit=100)
    matches = await query(store, "remark", None, MemoryQueryOptions(where, top_k=100))
    contents = {entry.content for entry in page.entries}
    assert {m.entry.content for m in matches} == contents
    return contents
