"""Two tenants on one server with stores of its own: over gRPC nothing of one is seen by the other."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from plait.client import AsyncPlaitClient, PlaitRpcError, new_memory
from plait.domain.memory import MemoryEntry, MemoryFilter
from plait.domain.options import RecallOptions
from plait.domain.retention import Selector
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, Outcome
from plait.settings import load
from server.app import App, open_app
from tests.e2e.conftest import at_rest, own_server
from tests.processes import PATIENT, remove_home

REPO = "shared-name"  # both tenants have a repository of this name
SECRET = {"acme": "zanzibar", "globex": "quixotic"}
SOURCE = "def {0}_price(order):\n    return {0}_rate(order) * 2\n\n\ndef {0}_rate(order):\n    return 1\n"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A second tenant makes free Cypher refused, so the session's server is not for this."""
    base = Path(tempfile.mkdtemp(prefix="plait-test-", dir="/tmp"))
    if os.geteuid() == 0:
        base.chmod(0o711)
    yield base / "home"
    remove_home(base)


@pytest.fixture(scope="module")
async def own(home: Path) -> AsyncIterator[App]:
    async with open_app(
        load(environ={**PATIENT, "PLAIT_HOME": str(home)}), background=True
    ) as opened:
        yield opened


Clients = dict[str, AsyncPlaitClient]
Ids = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
async def clients(own: App) -> AsyncIterator[Clients]:
    async with own_server(own) as server:
        target = server.target
        async with (
            AsyncPlaitClient(target, tenant="acme") as acme,
            AsyncPlaitClient(target, tenant="globex") as globex,
        ):
            yield {"acme": acme, "globex": globex}


@pytest.fixture(scope="module")
async def filled(clients: Clients, own: App, tmp_path_factory: pytest.TempPathFactory) -> Ids:
    """Each tenant: code, an episode, a memory, all with its own word in them."""
    ids: Ids = {}
    for tenant, client in clients.items():
        word = SECRET[tenant]
        root = tmp_path_factory.mktemp(tenant)
        (root / "pricing.py").write_text(SOURCE.format(word))
        job = await client.start_index(str(root), repository=REPO, embed=False)
        *_, job = [state async for state in client.watch_index_job(job.id)]
        assert (job.state, job.repository) == ("succeeded", REPO), job
        stored = await client.append_episode(an_episode(f"{word} run"))
        memory = await client.store(a_memory(f"{word} rates are doubled"))
        ids[tenant] = {
            "job": job.id,
            "episode": stored.episode_id,
            "item": stored.item_ids[0],
            "memory": str(memory.entry.id),
        }
    await at_rest(own)
    return ids


def an_episode(text: str) -> Episode:
    note = Artifact(ArtifactKind.REFLECTION, text)
    return Episode("", REPO, Outcome("success", text), (note,), agent_id="fixer")


def a_memory(text: str) -> MemoryEntry:
    return new_memory(text, repo=REPO, agent_id="fixer")


async def refused(call: Any) -> PlaitRpcError:
    with pytest.raises(PlaitRpcError) as caught:
        await call
    return caught.value


ALL = tuple(Collection)
SIDES = [("acme", "globex"), ("globex", "acme")]
sides = pytest.mark.parametrize(("mine", "theirs"), SIDES)


@sides
async def test_search_finds_ones_own_and_never_the_others(
    clients: Clients, filled: Ids, mine: str, theirs: str
) -> None:
    where = Filter(all_repos=True, collections=ALL)
    own = await clients[mine].search(SECRET[mine], where=where, k=200)
    assert own.hits
    assert {hit.item.repo for hit in own.hits} == {REPO}
    assert [r.repository for r in own.revisions] == [REPO]
    for words in (SECRET[theirs], f"{SECRET[theirs]}_price", f'"{SECRET[theirs]} rates"'):
        other = await clients[mine].search(words, where=where, k=200)
        assert SECRET[theirs] not in "".join(hit.item.content for hit in other.hits)


@sides
async def test_a_recall_finds_ones_own_and_its_id_is_nobody_elses(
    clients: Clients, filled: Ids, mine: str, theirs: str
) -> None:
    where = Filter(all_repos=True, collections=())
    word = SECRET[mine]
    # Not the session of this test's other side, in which both were shown something.
    session = f"session-of-{mine}"
    own = await clients[mine].recall(
        f"{word} price of an order", where=where, options=RecallOptions(session_key=session)
    )
    assert word in own.context
    assert {item.item.repo for item in own.items} == {REPO}
    assert own.recall_id is not None
    assert (await clients[mine].replay(own.recall_id)).recall.context == own.context
    report: dict[str, Any] = {"outcome": Outcome("success"), "helped": [own.items[0].item.id]}
    for call in (
        clients[theirs].replay(own.recall_id),
        clients[theirs].report_feedback(own.recall_id, **report),
    ):
        error = await refused(call)
        assert error.reason == "RECALL_UNKNOWN"
        assert mine not in error.message
    # Nor does what one tenant's session was shown leave anything out for the other's of that name.
    other = await clients[theirs].recall(
        f"{word} price of an order",
        where=where,
        options=RecallOptions(
            session_key=session, explain=True, why_not=[item.item.id for item in own.items][:5]
        ),
    )
    assert word not in other.context
    assert {why.cause for why in other.why_not.values()} == {"not-found"}
    assert (await clients[mine].report_feedback(own.recall_id, **report)).accepted == 1


@sides
async def test_templates_look_names_up_in_ones_own_code(
    clients: Clients, filled: Ids, mine: str, theirs: str
) -> None:
    for scope in ({"repositories": [REPO]}, {"all_repositories": True}):
        symbol = f"{SECRET[mine]}_rate"
        answer = await clients[mine].template("callers", {"symbol": symbol}, **scope)
        (row,) = answer.records()
        assert row["caller"].id == f"{REPO}:pricing.{SECRET[mine]}_price"
        assert row["caller"].properties["repo"] == REPO
        for name in (f"{SECRET[theirs]}_rate", f"{theirs}@{REPO}:pricing.{SECRET[theirs]}_rate"):
            error = await refused(clients[mine].template("callers", {"symbol": name}, **scope))
            assert error.reason in ("UNKNOWN_SYMBOL", "INVALID_INPUT")
            assert f"{SECRET[theirs]}_price" not in error.message


@sides
async def test_a_template_is_given_no_repository_of_others(
    clients: Clients, filled: Ids, mine: str, theirs: str
) -> None:
    asked = {"symbol": f"{SECRET[theirs]}_rate", "repo": f"{theirs}@{REPO}"}
    error = await refused(clients[mine].template("callers", asked, all_repositories=True))
    assert error.reason == "INVALID_INPUT"


async def test_free_cypher_is_refused_where_there_are_two_tenants(
    clients: Clients, filled: Ids
) -> None:
    error = await refused(
        clients["acme"].graph_query("MATCH (n) RETURN n.name", all_repositories=True)
    )
    assert error.reason == "CYPHER_REFUSED"
    assert "template" in error.message


@sides
async def test_memories_do_not_cross(clients: Clients, filled: Ids, mine: str, theirs: str) -> None:
    client, foreign = clients[mine], filled[theirs]["memory"]
    everywhere = MemoryFilter(all_repos=True)
    listed = await client.list(everywhere, include_superseded=True)
    assert [str(e.id) for e in listed.entries] == [filled[mine]["memory"]]
    found = await client.query(SECRET[theirs], everywhere, top_k=200)
    assert foreign not in {str(m.entry.id) for m in found.matches}
    for call in (client.get(foreign, REPO), client.delete(foreign, REPO)):
        assert (await refused(call)).reason == "MEMORY_NOT_FOUND"
    superseding = client.store(
        a_memory("takes the place of another tenant's"),
        supersedes=(await clients[theirs].get(foreign, REPO)).id,
    )
    assert (await refused(superseding)).reason == "MEMORY_NOT_FOUND"
    assert (await clients[theirs].get(foreign, REPO)).superseded_at is None


@sides
async def test_request_ids_are_a_tenants_own(
    clients: Clients, filled: Ids, mine: str, theirs: str
) -> None:
    id_ = f"same-for-{mine}"
    one = await clients[mine].store(a_memory(f"{mine} alone"), request_id=id_)
    two = await clients[theirs].store(a_memory(f"{theirs} alone"), request_id=id_)
    assert one.entry.id != two.entry.id
    for tenant, stored in ((mine, one), (theirs, two)):
        await clients[tenant].forget(REPO, Selector(ids=(stored.entry.id,)))


@sides
async def test_upkeep_sees_ones_own(clients: Clients, filled: Ids, mine: str, theirs: str) -> None:
    client = clients[mine]
    (compared,) = await client.verify(all_repositories=True)
    assert compared.revision.repository == REPO
    assert compared.consistent, compared
    stats = await client.stats(include_graph=True)
    assert [r.repository for r in stats.revisions] == [REPO]
    assert set(stats.memory_usage) == {(REPO, "fixer", "stored")}
    assert [r.name for r in await client.list_repositories()] == [REPO]
    assert (await client.dead_letters(all_repositories=True)).total == 0
    assert (await refused(client.get_index_job(filled[theirs]["job"]))).reason == (
        "INDEX_JOB_UNKNOWN"
    )


@sides
async def test_forgetting_reaches_ones_own_only(
    clients: Clients, filled: Ids, mine: str, theirs: str
) -> None:
    foreign = tuple(UUID(filled[theirs][name]) for name in ("memory", "episode"))
    done = await clients[mine].forget(REPO, Selector(ids=foreign))
    assert (done.memories, done.episodes) == (0, 0)
    assert str((await clients[theirs].get(str(foreign[0]), REPO)).id) == str(foreign[0])


@sides
async def test_errors_name_repositories_as_the_caller_does(
    clients: Clients, filled: Ids, mine: str, theirs: str
) -> None:
    error = await refused(clients[mine].search("x", where=Filter(repos=("nowhere",))))
    assert error.reason == "REPOSITORY_NOT_INDEXED"
    assert "@" not in error.message
    assert error.metadata["repository"] == "nowhere"
    for name in (f"{theirs}@{REPO}", f"{mine}@{REPO}"):
        error = await refused(clients[mine].search("x", where=Filter(repos=(name,))))
        assert error.reason == "INVALID_INPUT"


async def test_the_default_tenant_can_not_name_another_ones_repository(
    clients: Clients, filled: Ids
) -> None:
    async with AsyncPlaitClient(clients["acme"].target) as default:
        assert await default.list_repositories() == ()
        name = f"acme@{REPO}"
        for call in (
            default.search("x", where=Filter(repos=(name,), collections=ALL)),
            default.template("callers", {"symbol": "zanzibar_rate"}, repositories=[name]),
            default.store(new_memory("x", repo=name)),
            default.verify([name]),
            default.rebuild([name]),
            default.delete_repository(name),
            default.list(MemoryFilter(repos=(name,))),
            default.forget(name, Selector(agent_id="fixer")),
        ):
            outcome = (await asyncio.gather(call, return_exceptions=True))[0]
            if isinstance(outcome, PlaitRpcError):
                assert outcome.code.name in ("NOT_FOUND", "INVALID_ARGUMENT"), outcome
                assert "zanzibar" not in outcome.message
            else:
                assert not isinstance(outcome, BaseException), outcome
                assert not getattr(outcome, "entries", ()), outcome
                assert not getattr(outcome, "memories", 0), outcome
    assert (await clients["acme"].get(filled["acme"]["memory"], REPO)).superseded_at is None
