"""A real grpc.aio server over the embedded stores, spoken to over its socket and over TCP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from msgspec import structs

from plait.client import AsyncPlaitClient, IndexJob, PlaitClient, PlaitRpcError
from plait.client.errors import from_rpc
from plait.domain.errors import PortTaken, StoreUnavailable
from plait.domain.options import SearchOptions
from plait.domain.values import Collection, Filter
from plait.memory.episode import parse
from plait.settings import Settings
from plait.v1 import index_service_pb2 as index_pb
from plait.v1 import knowledge_service_pb2, knowledge_service_pb2_grpc, types_pb2
from server.app import App
from server.grpc.server import SERVICES, Server, running
from tests.e2e.conftest import at_rest, own_server
from tests.processes import LIMIT_S, eventually

REPO = "served"
S = knowledge_service_pb2.SearchRequest


async def refused(call: Any) -> PlaitRpcError:
    with pytest.raises(PlaitRpcError) as caught:
        await call
    return caught.value


async def ended(client: AsyncPlaitClient, job: IndexJob) -> IndexJob:
    """The last state of `job`."""
    *_, last = [state async for state in client.watch_index_job(job.id)]
    return last


def raw(channel: grpc.aio.Channel, method: str, request: Any, response: Any) -> Any:
    return channel.unary_unary(
        f"/plait.v1.{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=response.FromString,
    )


async def status_of(call: Any) -> PlaitRpcError:
    """What a raw call ends with, read as the client reads it."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc(caught.value)


EVERYWHERE = Filter(all_repos=True)


# -- search ------------------------------------------------------------------------------------------------


async def test_search_finds_code_with_place_and_score(
    client: AsyncPlaitClient, indexed: str, source: Path
) -> None:
    answer = await client.search(
        "exponential wait between attempts", where=Filter(repos=(indexed,))
    )
    best = answer.hits[0]
    assert best.item.path == "pkg/retries.py"
    assert best.item.symbol.endswith(("backoff", "fetch_with_retries"))
    assert 0.0 < best.score <= 1.0
    lines = (source / best.item.path).read_text().splitlines()
    assert lines[best.item.start_line - 1].startswith(("def ", '"""'))
    assert not best.arms
    assert [r.repository for r in answer.revisions] == [indexed]
    assert answer.degraded == ()


async def test_explain_tells_each_arm_and_stage(client: AsyncPlaitClient, indexed: str) -> None:
    answer = await client.search(
        "backoff", where=Filter(repos=(indexed,)), options=SearchOptions(explain=True)
    )
    assert {"lexical", "semantic"} <= set(answer.hits[0].arms)
    assert answer.timings


async def test_rrf_is_selectable(client: AsyncPlaitClient, indexed: str) -> None:
    answer = await client.search(
        "backoff", where=Filter(repos=(indexed,)), options=SearchOptions(fusion="rrf")
    )
    assert answer.hits[0].item.symbol.endswith("backoff")


async def test_k_and_min_score_cut(client: AsyncPlaitClient, indexed: str) -> None:
    where = Filter(repos=(indexed,))
    assert len((await client.search("retries", where=where, k=1)).hits) == 1
    scores = [h.score for h in (await client.search("retries", where=where, min_score=0.9)).hits]
    assert all(score >= 0.9 for score in scores)


async def test_the_sync_client_gets_the_same(
    client: AsyncPlaitClient, server: Server, indexed: str
) -> None:
    def ask() -> list[str]:
        with PlaitClient(server.target) as sync:
            assert sync.healthy(timeout_s=LIMIT_S)
            return [str(h.item.id) for h in sync.search("backoff", where=where).hits]

    where = Filter(repos=(indexed,))
    expected = [str(h.item.id) for h in (await client.search("backoff", where=where)).hits]
    assert await asyncio.to_thread(ask) == expected


async def test_a_repository_that_is_not_indexed_is_not_found(client: AsyncPlaitClient) -> None:
    error = await refused(client.search("x", where=Filter(repos=("nowhere",))))
    assert (error.code, error.reason) == (grpc.StatusCode.NOT_FOUND, "REPOSITORY_NOT_INDEXED")
    assert error.metadata["repository"] == "nowhere"


# -- the graph ------------------------------------------------------------------------------------------------


async def test_cypher_answers_typed(client: AsyncPlaitClient, indexed: str) -> None:
    answer = await client.graph_query(
        "MATCH (a:Function)-[c:CALLS]->(b:Function) WHERE a.repo = $repo "
        "RETURN a, c, b.name AS name, b.start_line AS line, [1, 'x'] AS list",
        {"repo": indexed},
        repositories=[indexed],
    )
    assert answer.columns == ("a", "c", "name", "line", "list")
    ((node, edge, name, line, items),) = answer.rows
    assert node.properties["qualified_name"].endswith("fetch_with_retries")
    assert (edge.relation, edge.source) == ("CALLS", node.id)
    assert edge.properties["lines"] == [12]
    assert (name, line, items) == ("backoff", 4, [1, "x"])
    assert [n.id for n in answer.nodes] == [node.id]
    assert not answer.truncated


async def test_rows_are_capped_and_said_to_be(client: AsyncPlaitClient, indexed: str) -> None:
    answer = await client.graph_query("MATCH (n) RETURN n.id", all_repositories=True, max_rows=1)
    assert len(answer.rows) == 1
    assert answer.truncated


async def test_callers_by_template(client: AsyncPlaitClient, indexed: str) -> None:
    answer = await client.template(
        "callers", {"symbol": "pkg.retries.backoff"}, repositories=[indexed]
    )
    assert any("fetch_with_retries" in str(row) for row in answer.rows)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE (n) RETURN n",
        "MATCH (n) DETACH DELETE n",
        "LOAD CSV FROM 'file:///etc/passwd' AS l RETURN l",
    ],
)
async def test_cypher_that_is_not_a_read_is_refused(client: AsyncPlaitClient, text: str) -> None:
    error = await refused(client.graph_query(text, all_repositories=True))
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "CYPHER_REFUSED")


async def test_an_unknown_template_is_refused(client: AsyncPlaitClient) -> None:
    assert (
        await refused(client.template("nonsense", all_repositories=True))
    ).reason == "UNKNOWN_TEMPLATE"


# -- episodes ----------------------------------------------------------------------------------------------------


def an_episode(summary: str, **changes: Any) -> Any:
    document = {
        "repo": REPO,
        "outcome": {"status": "success", "summary": summary, "metrics": {"passed": 3}},
        "artifacts": [
            {"kind": "reflection", "content": f"{summary}: the ceiling of zebra backoff is 30 s"},
            {
                "kind": "diff",
                "path": "pkg/retries.py",
                "content": "--- a\n+++ b\n",
                "meta": {"n": 1},
            },
        ],
        "tags": ["retries"],
        **changes,
    }
    return parse(document)


async def test_an_episode_is_stored_once_and_found(client: AsyncPlaitClient, indexed: str) -> None:
    episode = an_episode("stored once")
    first = await client.append_episode(episode)
    again = await client.append_episode(episode)
    assert (first.repeated, again.repeated) == (False, True)
    assert (first.episode_id, first.item_ids) == (again.episode_id, again.item_ids)
    assert len(first.item_ids) == 2
    where = Filter(repos=(REPO,), collections=(Collection.REFLECTIONS,), tags_any=("retries",))
    answer = await client.search("ceiling of zebra", where=where)
    assert first.item_ids[0] in {str(hit.item.id) for hit in answer.hits}


async def test_an_episode_reaches_the_graph(
    client: AsyncPlaitClient, app: App, indexed: str
) -> None:
    await client.append_episode(an_episode("for the graph"))
    await at_rest(app)
    answer = await client.graph_query(
        "MATCH (e:Episode)-[:TOUCHES]->(f) RETURN DISTINCT f.path AS path", repositories=[REPO]
    )
    assert ("pkg/retries.py",) in answer.rows


async def test_a_request_id_with_another_body_is_refused(
    client: AsyncPlaitClient, indexed: str
) -> None:
    await client.append_episode(an_episode("one", request_id="reused-1"))
    error = await refused(client.append_episode(an_episode("two", request_id="reused-1")))
    assert (error.code, error.reason) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")


async def test_a_caller_who_leaves_does_not_cut_a_write_in_two(app: App, indexed: str) -> None:
    begun, let_go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await let_go.wait()
        ended.set()

    caller = asyncio.create_task(app.commit(work()))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not ended.is_set()
    let_go.set()
    await app.settle()
    assert ended.is_set()


# -- deadlines --------------------------------------------------------------------------------------------------------


class Slow:
    """A search that never ends, and knows how it ended."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def search(self, query: Any) -> Any:
        self.begun.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest.fixture
def slow(app: App, monkeypatch: pytest.MonkeyPatch) -> Slow:
    out = Slow()
    monkeypatch.setattr(app, "search", out)
    return out


async def test_a_deadline_ends_the_work_too(client: AsyncPlaitClient, slow: Slow) -> None:
    for timeout_s in (1.5, 15.0, LIMIT_S):
        error = await refused(client.search("x", where=EVERYWHERE, timeout_s=timeout_s))
        assert error.code is grpc.StatusCode.DEADLINE_EXCEEDED
        if slow.begun.is_set():  # else the time was up on the way
            break
    await asyncio.wait_for(slow.cancelled.wait(), LIMIT_S)


async def test_a_call_without_a_deadline_gets_the_servers(
    app: App, slow: Slow, settings: Settings
) -> None:
    quick = structs.replace(settings, search=structs.replace(settings.search, timeout_s=0.2))
    app.settings = quick
    try:
        async with own_server(app) as second:
            async with grpc.aio.insecure_channel(second.target) as channel:
                stub: Any = knowledge_service_pb2_grpc.KnowledgeServiceStub(channel)
                error = await status_of(
                    stub.Search(S(query="x", filter=types_pb2.Filter(all_repositories=True)))
                )
    finally:
        app.settings = settings
    assert (error.code, error.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")


async def test_a_cancelled_call_cancels_the_work(server: Server, slow: Slow) -> None:
    async with grpc.aio.insecure_channel(server.target) as channel:
        stub: Any = knowledge_service_pb2_grpc.KnowledgeServiceStub(channel)
        call = stub.Search(S(query="x", filter=types_pb2.Filter(all_repositories=True)))
        await asyncio.wait_for(slow.begun.wait(), LIMIT_S)
        call.cancel()
        await asyncio.wait_for(slow.cancelled.wait(), LIMIT_S)
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_short_deadline_reaches_the_graph(
    client: AsyncPlaitClient, app: App, indexed: str
) -> None:
    await at_rest(app)  # a graph that changes all the while is another error
    text = "MATCH (a), (b), (c), (d), (e), (f), (g), (h) RETURN count(DISTINCT a.id + h.id)"
    error = await refused(client.graph_query(text, all_repositories=True, timeout_s=1.0))
    assert error.code is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_an_internal_fault_leaks_nothing(
    client: AsyncPlaitClient, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def search(query: Any) -> Any:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(app.search, "search", search)
    error = await refused(client.search("x", where=EVERYWHERE))
    assert (error.code, error.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert "hunter2" not in str(error)
    assert error.metadata["error_id"]


# -- times, what runs ------------------------------------------------------------------------------------


async def test_a_search_as_of_before_anything_was_recorded_says_so(
    client: AsyncPlaitClient, indexed: str
) -> None:
    where = Filter(repos=(indexed,), collections=(Collection.REFLECTIONS, Collection.MEMORIES))
    answer = await client.search(
        "anything", where=where, options=SearchOptions(recorded_as_of="2001-01-01")
    )
    assert answer.hits == ()
    assert answer.as_of.recorded is not None
    assert answer.as_of.recorded.year == 2001
    now = await client.search(
        "backoff", where=Filter(repos=(indexed,)), options=SearchOptions(recorded_as_of="now")
    )
    assert now.hits[0].item.path == "pkg/retries.py"


async def test_health_of_every_service(channel: grpc.aio.Channel) -> None:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    for service in ("", *SERVICES):
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    error = await status_of(stub.Check(health_pb2.HealthCheckRequest(service="nope")))
    assert error.code is grpc.StatusCode.NOT_FOUND


async def test_health_follows_the_store(
    app: App, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = health_pb2.HealthCheckResponse

    async def away() -> int:
        raise StoreUnavailable("PostgreSQL is away; wait")

    often = structs.replace(settings.server, health_s=0.02)
    monkeypatch.setattr(app, "settings", structs.replace(settings, server=often))
    async with own_server(app) as watched:
        async with grpc.aio.insecure_channel(watched.target) as own:
            stub: Any = health_pb2_grpc.HealthStub(own)
            service = "plait.v1.KnowledgeService"
            stream = stub.Watch(health_pb2.HealthCheckRequest(service=service))
            assert (await stream.read()).status == states.SERVING
            with monkeypatch.context() as patch:
                patch.setattr(app.truth.outbox, "waiting", away)
                assert (await stream.read()).status == states.NOT_SERVING
            assert (await stream.read()).status == states.SERVING


async def test_too_many_calls_at_once_are_refused(
    app: App, settings: Settings, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = structs.replace(settings.server, max_concurrent=1)
    monkeypatch.setattr(app, "settings", structs.replace(settings, server=one))
    async with own_server(app) as narrow:
        async with AsyncPlaitClient(narrow.target) as client:
            first = asyncio.create_task(client.search("x", where=EVERYWHERE, timeout_s=LIMIT_S))
            await asyncio.wait_for(slow.begun.wait(), LIMIT_S)
            error = await refused(client.search("x", where=EVERYWHERE))
            assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first


async def test_an_answer_too_large_to_send_is_cut_and_said_to_be(
    app: App, settings: Settings, indexed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = structs.replace(settings.server, max_message_bytes=1024)
    monkeypatch.setattr(app, "settings", structs.replace(settings, server=small))
    async with own_server(app) as narrow:
        async with AsyncPlaitClient(narrow.target) as client:
            answer = await client.search("retries backoff attempts", where=Filter(repos=(indexed,)))
    assert ("hits", "message_size") in {(d.part, d.cause) for d in answer.degraded}


async def reflected(channel: grpc.aio.Channel) -> set[str]:
    """The services that the server names."""
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    asked = reflection_pb2.ServerReflectionRequest(list_services="")

    async def requests() -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
        yield asked

    answers = [answer async for answer in stub.ServerReflectionInfo(requests())]
    return {service.name for service in answers[0].list_services_response.service}


async def test_reflection_is_off_until_it_is_asked_for(
    app: App, channel: grpc.aio.Channel, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = await status_of(reflected(channel))
    assert error.code is grpc.StatusCode.UNIMPLEMENTED
    wanted = structs.replace(settings.server, reflection=True)
    monkeypatch.setattr(app, "settings", structs.replace(settings, server=wanted))
    async with own_server(app) as open_:
        async with grpc.aio.insecure_channel(open_.target) as own:
            assert {*SERVICES, "grpc.health.v1.Health"} <= await reflected(own)


async def test_repositories_are_listed_by_page(
    client: AsyncPlaitClient, channel: grpc.aio.Channel, indexed: str
) -> None:
    every = await client.list_repositories()
    mine = next(r for r in every if r.name == indexed)
    assert mine.files == 3
    request = index_pb.ListRepositoriesRequest(page_size=1)
    call = raw(channel, "IndexService/ListRepositories", request, index_pb.ListRepositoriesResponse)
    names = []
    while True:
        page = await call(request)
        names += [r.name for r in page.repositories]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert names == sorted(r.name for r in every)


async def test_a_deleted_repository_is_gone(
    client: AsyncPlaitClient, app: App, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("def gone():\n    return 1\n")
    job = await ended(
        client, await client.start_index(str(tmp_path), repository="brief", embed=False)
    )
    assert job.state == "succeeded", job
    await client.delete_repository("brief")
    assert "brief" not in {r.name for r in await client.list_repositories()}
    error = await refused(client.delete_repository("brief"))
    assert error.reason == "REPOSITORY_NOT_INDEXED"


async def test_an_index_that_fails_says_why(client: AsyncPlaitClient, tmp_path: Path) -> None:
    job = await ended(client, await client.start_index(str(tmp_path / "missing")))
    assert (job.state, job.error_reason) == ("failed", "NOT_A_REPOSITORY")
    assert (await refused(client.get_index_job("none"))).reason == "INDEX_JOB_UNKNOWN"


async def test_the_same_request_id_gets_the_same_job(
    client: AsyncPlaitClient, tmp_path: Path
) -> None:
    one = await client.start_index(str(tmp_path), request_id="index-1")
    two = await client.start_index(str(tmp_path), request_id="index-1")
    assert one.id == two.id
    await ended(client, one)


async def test_a_job_ends_at_publish_and_cypher_waits_for_the_graph_to_follow(
    client: AsyncPlaitClient, app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("def one():\n    return 1\n")
    let_go = asyncio.Event()
    store: Any = await app.graph()
    apply = store.apply

    async def held(delta: Any) -> None:
        if delta.repo == "followed":
            await let_go.wait()
        await apply(delta)

    monkeypatch.setattr(store, "apply", held)
    job = await ended(
        client, await client.start_index(str(tmp_path), repository="followed", embed=False)
    )
    assert job.state == "succeeded", job
    assert job.revision is not None
    assert job.revision.graph_revision == 0
    names = "MATCH (f:Function {repo: 'followed'}) RETURN f.name AS name"
    error = await refused(client.graph_query(names, repositories=["followed"], timeout_s=0.5))
    assert error.reason == "GRAPH_UPDATING"
    assert "followed" in error.message
    assert "background" in error.message
    let_go.set()  # the work went on meanwhile
    answer = await client.graph_query(names, repositories=["followed"])
    assert [list(row) for row in answer.rows] == [["one"]]
    assert answer.revisions[0].graph_revision == answer.revisions[0].revision == 1


async def test_stats_and_rebuild(client: AsyncPlaitClient, app: App, indexed: str) -> None:
    await client.rebuild([indexed])

    async def projected() -> bool:
        return (await client.stats()).waiting_projections == 0

    await eventually(projected)
    stats = await client.stats(include_graph=True)
    assert stats.graph_counts["Function"] >= 2
    assert stats.embedding_dimension == 384
    answer = await client.graph_query(
        "MATCH (n:Function {name: 'backoff'}) RETURN n.repo", repositories=[indexed]
    )
    assert answer.rows == ((indexed,),)


# -- ends ---------------------------------------------------------------------------------------------------------------


async def test_a_taken_port_is_said_with_its_fix(app: App, server: Server) -> None:
    with pytest.raises(PortTaken, match="--port"):
        async with running(app, host="127.0.0.1", port=server.port):
            pytest.fail("two servers on one port")


async def test_draining_lets_calls_end_and_takes_no_new_ones(app: App, indexed: str) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()

    class Held:
        async def search(self, query: Any) -> Any:
            begun.set()
            await let_go.wait()
            return await real.search(query)

    real = app.search
    async with contextlib.AsyncExitStack() as stack:
        started = await stack.enter_async_context(own_server(app))
        client = await stack.enter_async_context(AsyncPlaitClient(started.target))
        app.search = Held()  # type: ignore[assignment]
        try:
            call = asyncio.create_task(client.search("backoff", where=Filter(repos=(indexed,))))
            await begun.wait()
            draining = asyncio.create_task(started.drain(LIMIT_S))
            error = None
            while error is None:  # until the server has heard of it
                await asyncio.sleep(0.02)
                try:
                    await client.healthy(timeout_s=LIMIT_S)
                except PlaitRpcError as exc:
                    error = exc
            assert error.code is grpc.StatusCode.UNAVAILABLE
            let_go.set()
            assert (await call).hits
            await draining
        finally:
            app.search = real


async def test_no_server_is_an_error_with_a_fix(tmp_path: Path) -> None:
    async with AsyncPlaitClient(f"unix:{tmp_path}/none.sock") as client:
        error = await refused(client.search("x", where=EVERYWHERE))
    assert error.code is grpc.StatusCode.UNAVAILABLE
    assert "plait serve" in error.message
