"""A store that is dead, stopped or silent: every RPC says so, with its reason, before its deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import grpc
import grpc.aio
import psutil
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

import plait.v1.access_service_pb2 as access
import plait.v1.admin_service_pb2 as admin
import plait.v1.hook_service_pb2 as hook
import plait.v1.index_service_pb2 as index
import plait.v1.knowledge_service_pb2 as knowledge
import plait.v1.memory_service_pb2 as memory
from plait.client import AsyncPlaitClient, PlaitRpcError
from plait.settings import load
from plait.v1 import episode_pb2, types_pb2
from server.app import App, open_app
from server.grpc.server import SERVICES, running
from tests.cut_off import Behind, Proxy
from tests.processes import eventually

DEADLINE_S = 3.0
REPO = "away"
MODULES = (access, admin, hook, index, knowledge, memory)


def methods() -> dict[str, Any]:
    """Every method of every service by its path, from the descriptors: a new one can't be missed."""
    return {
        f"/{service.full_name}/{method.name}": method
        for module in MODULES
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


def requests(root: Path) -> dict[str, Any]:
    """A request of each method that gets as far as the stores."""
    made = knowledge.AppendEpisodeRequest(
        request_id=str(uuid4()),
        episode=episode_pb2.Episode(
            repository=REPO,
            outcome=episode_pb2.Outcome(status=episode_pb2.OUTCOME_STATUS_SUCCESS),
            artifacts=[
                episode_pb2.Artifact(
                    kind=episode_pb2.ARTIFACT_KIND_NOTE, content="Totals are rounded."
                )
            ],
        ),
    )
    kept = memory.StoreMemoryRequest(
        request_id=str(uuid4()),
        memory=memory.Memory(repository=REPO, content="Totals are rounded once."),
    )
    return {
        "CreateKey": access.CreateKeyRequest(
            name=f"k{uuid4()}",
            tenant="default",
            all_repositories=True,
            verbs=[access.KEY_VERB_READ],
        ),
        "ListKeys": access.ListKeysRequest(),
        "RotateKey": access.RotateKeyRequest(key_id="key-0"),
        "RevokeKey": access.RevokeKeyRequest(key_id="key-0"),
        "Compact": admin.CompactRequest(repository=REPO, agent_id="a", dry_run=True),
        "UndoCompaction": admin.UndoCompactionRequest(compaction_id=str(uuid4())),
        "Forget": admin.ForgetRequest(
            repository=REPO, selector=admin.ForgetSelector(ids=[str(uuid4())])
        ),
        "Verify": admin.VerifyRequest(repositories=[REPO]),
        "Rebuild": admin.RebuildRequest(repositories=["nothing"]),
        "ListDeadLetters": admin.ListDeadLettersRequest(all_repositories=True),
        "RetryDeadLetters": admin.RetryDeadLettersRequest(all_repositories=True),
        "Stats": admin.StatsRequest(),
        "DescribeFolder": hook.DescribeFolderRequest(folder=str(root)),
        "AdviseEdit": hook.AdviseEditRequest(
            edits=[hook.FileEdit(path=str(root / "shop.py"), hunks="@@ -1 +1 @@\n-a\n+b\n")]
        ),
        "NameSymbols": hook.NameSymbolsRequest(folder=str(root), names=["total"]),
        "ListRepositories": index.ListRepositoriesRequest(),
        "DeleteRepository": index.DeleteRepositoryRequest(name="nothing"),
        "Search": knowledge.SearchRequest(
            query="total", filter=types_pb2.Filter(repositories=[REPO])
        ),
        "Recall": knowledge.RecallRequest(
            query="total", filter=types_pb2.Filter(repositories=[REPO])
        ),
        "ReplayRecall": knowledge.ReplayRecallRequest(recall_id=str(uuid4())),
        "GraphQuery": knowledge.GraphQueryRequest(
            cypher=knowledge.CypherQuery(text="MATCH (n:File) RETURN n.path"),
            all_repositories=True,
        ),
        "AppendEpisode": made,
        "IngestEpisodes": knowledge.IngestEpisodesRequest(append=made),
        "ReportFeedback": knowledge.ReportFeedbackRequest(
            request_id=str(uuid4()),
            recall_id=str(uuid4()),
            items=[
                knowledge.ItemFeedback(
                    item_id=str(uuid4()), verdict=knowledge.FEEDBACK_VERDICT_HELPED
                )
            ],
        ),
        "StoreMemory": kept,
        "BatchStoreMemories": memory.BatchStoreMemoriesRequest(requests=[kept]),
        "GetMemory": memory.GetMemoryRequest(id=str(uuid4()), repository=REPO),
        "ListMemories": memory.ListMemoriesRequest(filter=memory.MemoryFilter(repositories=[REPO])),
        "QueryMemories": memory.QueryMemoriesRequest(
            query="total", filter=memory.MemoryFilter(repositories=[REPO])
        ),
        "DeleteMemory": memory.DeleteMemoryRequest(id=str(uuid4()), repository=REPO),
        "Learn": memory.LearnRequest(repository=REPO, user_message="Round once."),
        "GetSavings": memory.GetSavingsRequest(all_repositories=True),
    }


# These answer from the server's memory.
STORELESS = {"StartIndex", "GetIndexJob", "WatchIndexJob"}


@dataclass
class Place:
    root: Path
    app: App
    channel: grpc.aio.Channel
    client: AsyncPlaitClient
    behind: Behind

    async def call(self, path: str, deadline_s: float = DEADLINE_S) -> str:
        """What the call ends with: "OK", or code and reason; "MISSING" stands for a missing reason."""
        method = methods()[path]
        request = requests(self.root)[method.name]
        serialize = type(request).SerializeToString
        parse = knowledge.DESCRIPTOR.pool.FindMessageTypeByName(method.output_type.full_name)
        from google.protobuf.message_factory import GetMessageClass

        read = GetMessageClass(parse).FromString
        try:
            if method.client_streaming:
                stream = self.channel.stream_stream(path, serialize, read)
                answers = stream(iter([request]), timeout=deadline_s)
                async for _ in answers:
                    pass
            else:
                await self.channel.unary_unary(path, serialize, read)(request, timeout=deadline_s)
        except grpc.aio.AioRpcError as exc:
            return f"{exc.code().name} {reason_of(exc)}"
        return "OK"

    async def all_calls(self) -> dict[str, str]:
        paths = [path for path in methods() if path.rpartition("/")[2] not in STORELESS]
        ends = await asyncio.gather(*(self.call(path) for path in paths))
        return {path.rpartition("/")[2]: end for path, end in zip(paths, ends, strict=True)}


def reason_of(exc: grpc.aio.AioRpcError) -> str:
    status = rpc_status.from_call(exc)  # type: ignore[arg-type]
    for detail in status.details if status else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return str(info.reason)
    return "MISSING"


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory, behind: Behind) -> AsyncIterator[Place]:
    """A server whose stores are external ones behind proxies, with a small repository."""
    root = tmp_path_factory.mktemp("away")
    (root / "shop.py").write_text("def total(items):\n    return sum(items)\n")
    settings = load(environ=behind.environment)
    with TemporaryDirectory(prefix="plait-") as folder:
        socket = Path(folder) / "plait.sock"
        async with (
            open_app(settings, background=True) as app,
            running(app, socket=socket) as server,
            grpc.aio.insecure_channel(server.target) as channel,
            AsyncPlaitClient(server.target) as client,
        ):
            job = await client.start_index(str(root), repository=REPO, embed=False)
            *_, job = [state async for state in client.watch_index_job(job.id)]
            assert job.state == "succeeded", job
            yield Place(root, app, channel, client, behind)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The process and its children hang: they keep their sockets and answer nothing."""
    tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for one in tree:
        one.suspend()
    try:
        yield
    finally:
        for one in reversed(tree):
            one.resume()


@asynccontextmanager
async def silent(proxy: Proxy) -> AsyncIterator[None]:
    proxy.fall_silent()
    try:
        yield
    finally:
        proxy.speak()


@asynccontextmanager
async def cut(proxy: Proxy) -> AsyncIterator[None]:
    await proxy.cut()
    try:
        yield
    finally:
        await proxy.open()


@asynccontextmanager
async def hanging(pid: int) -> AsyncIterator[None]:
    with stopped(pid):
        yield


FAULTS = ["stopped", "dead", "silent"]


def fault(place: Place, store: str, kind: str) -> Any:
    proxy, pid = {
        "truth": (place.behind.truth, place.behind.postgres_pid),
        "graph": (place.behind.graph, place.behind.graph_pid),
    }[store]
    return {"stopped": hanging(pid), "dead": cut(proxy), "silent": silent(proxy)}[kind]


def bad(ends: dict[str, str], *signs: str) -> list[str]:
    """The calls whose end has one of `signs`, in words that pytest shows whole."""
    return [f"{name}: {end}" for name, end in ends.items() if any(sign in end for sign in signs)]


async def recovered(place: Place) -> None:
    """Until every call ends as it does when nothing is wrong."""

    async def well() -> bool:
        ends = await place.all_calls()
        return not bad(ends, "UNAVAILABLE", "DEADLINE")

    await eventually(well)


def test_every_method_has_a_request(tmp_path: Path) -> None:
    assert {name.rpartition("/")[2] for name in methods()} == STORELESS | set(requests(tmp_path))
    assert {name.split("/")[1] for name in methods()} == set(SERVICES)


async def test_requests_get_as_far_as_the_stores(place: Place) -> None:
    await recovered(place)
    ends = await place.all_calls()
    assert not bad(ends, "INVALID", "MISSING", "INTERNAL")


@pytest.mark.parametrize("kind", FAULTS)
async def test_without_postgresql_every_call_says_so_in_time(place: Place, kind: str) -> None:
    await recovered(place)
    async with fault(place, "truth", kind):
        ends = await place.all_calls()
        assert len(ends) == len(methods()) - len(STORELESS)
        others = {end for end in ends.values() if end != "UNAVAILABLE STORE_UNAVAILABLE"}
        assert not bad(ends, *others)
    await recovered(place)


@pytest.mark.parametrize("kind", FAULTS)
async def test_without_a_graph_its_readers_say_so_and_the_others_answer(
    place: Place, kind: str
) -> None:
    await recovered(place)
    async with fault(place, "graph", kind):
        ends = await place.all_calls()
        readers = {name: ends.pop(name) for name in ("GraphQuery", "Verify")}
        assert readers == dict.fromkeys(readers, "UNAVAILABLE GRAPH_UNAVAILABLE")
        assert not bad(ends, "UNAVAILABLE", "MISSING")
    await recovered(place)


async def test_a_store_known_to_be_away_is_told_at_once_and_its_return_is_noticed(
    place: Place,
) -> None:
    await recovered(place)
    async with fault(place, "truth", "stopped"):
        while place.app.stores.truth.away is None:
            await place.call("/plait.v1.IndexService/ListRepositories")
        # A deadline of which no second passes, however busy the machine: the answer needs no store.
        with pytest.raises(PlaitRpcError) as caught:
            await place.client.list_repositories()
        assert caught.value.reason == "STORE_UNAVAILABLE"
        assert caught.value.retry_after_s > 0
    await recovered(place)
    assert place.app.stores.truth.away is None


async def test_nobody_is_asked_while_nobody_waits(place: Place) -> None:
    await recovered(place)
    watch = place.app.stores.truth

    async def rests() -> bool:
        return watch._looking is None or watch._looking.done()

    await eventually(rests)


# -- what gRPC itself would end a call with -------------------------------------------------------------


async def test_an_unknown_method_is_named(place: Place) -> None:
    for path in ("/plait.v1.KnowledgeService/Guess", "/other.Service/Guess"):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await place.channel.unary_unary(path, bytes, bytes)(b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert reason_of(caught.value) == "METHOD_UNKNOWN"


async def test_what_is_too_large_is_named(place: Place) -> None:
    search = "/plait.v1.KnowledgeService/Search"
    limit = place.app.settings.server.max_message_bytes
    request = knowledge.SearchRequest(query="x" * (limit + 10))
    sends = [("grpc.max_send_message_length", 2 * limit)]
    async with grpc.aio.insecure_channel(place.client.target, options=sends) as channel:
        call = channel.unary_unary(search, knowledge.SearchRequest.SerializeToString, bytes)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(request)
    assert reason_of(caught.value) == "MESSAGE_TOO_LARGE"
