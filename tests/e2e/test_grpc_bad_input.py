"""Input that is wrong, over a real server: each is refused with its code and the field at fault."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from plait.client import AsyncPlaitClient, PlaitRpcError
from plait.client.errors import from_rpc
from plait.settings import Settings
from plait.v1 import graph_pb2, knowledge_service_pb2, types_pb2
from plait.v1 import index_service_pb2 as index_pb
from plait.v1 import memory_service_pb2 as M  # noqa: N812


async def refused(call: Any) -> PlaitRpcError:
    with pytest.raises(PlaitRpcError) as caught:
        await call
    return caught.value


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


def _bytes(channel: grpc.aio.Channel) -> Any:
    """Search, with the request's bytes as they are given."""
    return channel.unary_unary("/plait.v1.KnowledgeService/Search", None, None)


UUID = "01a2016a-9e55-7000-8000-016f85624547"
S = knowledge_service_pb2.SearchRequest
G = knowledge_service_pb2.GraphQueryRequest


def search(**fields: Any) -> S:
    where: Any = {"all_repositories": True, **fields.pop("filter", {})}
    return S(filter=where, **fields)


def ask(**fields: Any) -> G:
    return G(all_repositories=True, **fields)


def cypher(text: str, **parameters: Any) -> G:
    return ask(cypher={"text": text, "parameters": parameters})


DEEP = graph_pb2.GraphValue(int_value=1)
for _ in range(40):
    DEEP = graph_pb2.GraphValue(list_value=graph_pb2.GraphList(values=[DEEP]))

BAD_SEARCHES: list[tuple[str, S, str]] = [
    ("no query", search(), "query"),
    ("white space", search(query=" \n"), "query"),
    ("long query", search(query="x" * 8193), "query"),
    ("k too large", search(query="x", k=201), "k"),
    ("k negative", search(query="x", k=-1), "k"),
    ("score too large", search(query="x", min_score=1.5), "min_score"),
    ("score of NaN", search(query="x", min_score=float("nan")), "min_score"),
    ("unknown mode", search(query="x", mode=9), "mode"),
    ("unknown fusion", search(query="x", fusion=9), "fusion"),
    ("unset collection", search(query="x", filter={"collections": [0]}), "filter.collections[0]"),
    (
        "unknown collection",
        search(query="x", filter={"collections": [77]}),
        "filter.collections[0]",
    ),
    (
        "empty repository",
        S(query="x", filter=types_pb2.Filter(repositories=[""])),
        "filter.repositories[0]",
    ),
    ("too many kinds", search(query="x", filter={"kinds": ["a"] * 51}), "filter.kinds"),
    ("empty tag", search(query="x", filter={"tags_any": [""]}), "filter.tags_any[0]"),
    ("NUL in a tag", search(query="x", filter={"tags_all": ["a\0"]}), "filter.tags_all[0]"),
    ("long glob", search(query="x", filter={"path_glob": "*" * 513}), "filter.path_glob"),
    (
        "until before since",
        search(query="x", filter={"since": Timestamp(seconds=9), "until": Timestamp(seconds=9)}),
        "filter.until",
    ),
    (
        "impossible time",
        search(query="x", filter={"since": Timestamp(seconds=2**60)}),
        "filter.since",
    ),
]
BAD_GRAPH_QUERIES: list[tuple[str, G, str]] = [
    ("nothing asked", ask(), "query"),
    ("empty cypher", cypher(" "), "cypher.text"),
    ("long cypher", cypher("x" * 65_537), "cypher.text"),
    ("rows negative", ask(template={"name": "callers"}, max_rows=-1), "max_rows"),
    ("rows too many", ask(template={"name": "callers"}, max_rows=100_001), "max_rows"),
    ("a node as parameter", cypher("RETURN $a", a={"node_value": {}}), "cypher.parameters[a]"),
    ("a NaN", cypher("RETURN $a", a={"double_value": float("nan")}), "cypher.parameters[a]"),
    ("too deep", cypher("RETURN $a", a=DEEP), "cypher.parameters[a]"),
    ("no identifier", cypher("RETURN 1", **{"a b": {"int_value": 1}}), "cypher.parameters"),
    (
        "too large",
        cypher("RETURN $a", a={"string_value": "x" * 2**20}),
        "cypher.parameters",
    ),
]


@pytest.mark.parametrize(
    ("request_", "field"), [b[1:] for b in BAD_SEARCHES], ids=[b[0] for b in BAD_SEARCHES]
)
async def test_a_bad_search_names_its_field(
    channel: grpc.aio.Channel, request_: S, field: str
) -> None:
    call = raw(channel, "KnowledgeService/Search", request_, knowledge_service_pb2.SearchResponse)
    error = await status_of(call(request_))
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT, error
    assert error.reason == "INVALID_INPUT"
    assert list(error.fields) == [field]


@pytest.mark.parametrize(
    ("request_", "field"), [b[1:] for b in BAD_GRAPH_QUERIES], ids=[b[0] for b in BAD_GRAPH_QUERIES]
)
async def test_a_bad_graph_query_names_its_field(
    channel: grpc.aio.Channel, request_: G, field: str
) -> None:
    response = knowledge_service_pb2.GraphQueryResponse
    call = raw(channel, "KnowledgeService/GraphQuery", request_, response)
    error = await status_of(call(request_))
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT, error
    assert list(error.fields) == [field]


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff", b"\x0a\x02\xff\xfe"], ids=["no message", "no UTF-8"]
)
async def test_broken_bytes_are_the_callers_fault(channel: grpc.aio.Channel, data: bytes) -> None:
    call = _bytes(channel)
    error = await status_of(call(data))
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_MALFORMED")


async def test_a_message_over_the_limit_is_refused(
    channel: grpc.aio.Channel, settings: Settings
) -> None:
    call = _bytes(channel)
    error = await status_of(call(b"\0" * (settings.server.max_message_bytes + 1)))
    assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("path", "field"), [("", "path"), ("relative/path", "path"), ("/a\0b", "path")]
)
async def test_a_bad_path_is_refused(client: AsyncPlaitClient, path: str, field: str) -> None:
    error = await refused(client.start_index(path))
    assert list(error.fields) == [field]


@pytest.mark.parametrize("token", ["x", "e30=", "bm9uc2Vuc2U=", "ä"])
async def test_a_page_token_of_others_is_refused(channel: grpc.aio.Channel, token: str) -> None:
    request = index_pb.ListRepositoriesRequest(page_token=token)
    method = "IndexService/ListRepositories"
    call = raw(channel, method, request, index_pb.ListRepositoriesResponse)
    assert (await status_of(call(request))).reason == "PAGE_TOKEN_INVALID"


async def test_a_bad_episode_names_its_field(channel: grpc.aio.Channel) -> None:
    pb = knowledge_service_pb2
    episode: Any = {
        "repository": "x",
        "outcome": {"status": 1},
        "artifacts": [{"kind": 1, "content": ""}],
    }
    request = pb.AppendEpisodeRequest(episode=episode)
    call = raw(channel, "KnowledgeService/AppendEpisode", request, pb.AppendEpisodeResponse)
    error = await status_of(call(request))
    assert error.reason == "EPISODE_INVALID"
    assert list(error.fields) == ["episode.artifacts[0].content"]


SCOPED = types_pb2.Filter(all_repositories=True)
UNSCOPED: list[tuple[str, str, Any, Any]] = [
    ("a search", "KnowledgeService/Search", S(query="x"), knowledge_service_pb2.SearchResponse),
    (
        "a template",
        "KnowledgeService/GraphQuery",
        G(template={"name": "callers"}),  # type: ignore[arg-type]
        knowledge_service_pb2.GraphQueryResponse,
    ),
    (
        "Cypher",
        "KnowledgeService/GraphQuery",
        G(cypher={"text": "RETURN 1"}),  # type: ignore[arg-type]
        knowledge_service_pb2.GraphQueryResponse,
    ),
    ("a list", "MemoryService/ListMemories", M.ListMemoriesRequest(), M.ListMemoriesResponse),
    (
        "a query",
        "MemoryService/QueryMemories",
        M.QueryMemoriesRequest(query="x"),
        M.QueryMemoriesResponse,
    ),
    ("a get", "MemoryService/GetMemory", M.GetMemoryRequest(id=UUID), M.GetMemoryResponse),
    (
        "a delete",
        "MemoryService/DeleteMemory",
        M.DeleteMemoryRequest(id=UUID),
        M.DeleteMemoryResponse,
    ),
    (
        "a store",
        "MemoryService/StoreMemory",
        M.StoreMemoryRequest(memory=M.Memory(content="x")),
        M.StoreMemoryResponse,
    ),
    ("a turn", "MemoryService/Learn", M.LearnRequest(user_message="x"), M.LearnResponse),
    ("savings", "MemoryService/GetSavings", M.GetSavingsRequest(), M.GetSavingsResponse),
]


@pytest.mark.parametrize(
    ("method", "request_", "response"), [u[1:] for u in UNSCOPED], ids=[u[0] for u in UNSCOPED]
)
async def test_what_names_no_repository_is_refused_never_taken_for_all(
    channel: grpc.aio.Channel, method: str, request_: Any, response: Any
) -> None:
    error = await status_of(raw(channel, method, request_, response)(request_))
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "SCOPE_MISSING")


def memory(**fields: Any) -> M.StoreMemoryRequest:
    return M.StoreMemoryRequest(memory=M.Memory(**{"content": "x", "repository": "app", **fields}))


def listing(**fields: Any) -> M.ListMemoriesRequest:
    return M.ListMemoriesRequest(filter=M.MemoryFilter(**{"repositories": ["app"], **fields}))


def asking(**fields: Any) -> M.QueryMemoriesRequest:
    where = M.MemoryFilter(repositories=["app"])
    return M.QueryMemoriesRequest(**{"query": "x", "filter": where, **fields})


def at(**fields: Any) -> M.ListMemoriesRequest:
    request = listing()
    request.as_of.CopyFrom(types_pb2.AsOf(**fields))
    return request


POINT = types_pb2.TimePoint
BAD_MEMORIES: list[tuple[str, Any, str]] = [
    ("no memory", M.StoreMemoryRequest(), "memory"),
    ("no content", memory(content=" "), "memory.content"),
    ("content too long", memory(content="x" * (2**20 + 1)), "memory.content"),
    ("NUL", memory(content="a\0b"), "memory.content"),
    ("a bad repository", memory(repository="a b"), "memory.repository"),
    ("another tenant's", memory(repository="acme@app"), "memory.repository"),
    ("unknown type", memory(type=9), "memory.type"),
    ("unknown source", memory(source=9), "memory.source"),
    ("importance", memory(importance=1.5), "memory.importance"),
    ("importance NaN", memory(importance=float("nan")), "memory.importance"),
    ("too many tags", memory(tags=[f"t{i}" for i in range(51)]), "memory.tags"),
    ("a path outside", memory(path="../x"), "memory.path"),
    ("half a float", memory(embedding=b"abc"), "memory.embedding"),
    ("a zero vector", memory(embedding=b"\0" * 16), "memory.embedding"),
    ("NaN vector", memory(embedding=b"\xff\xff\xff\x7f" * 4), "memory.embedding"),
    (
        "valid backwards",
        memory(valid_from=Timestamp(seconds=9), valid_to=Timestamp(seconds=9)),
        "memory.valid_to",
    ),
    ("impossible time", memory(valid_from=Timestamp(seconds=2**60)), "memory.valid_from"),
    (
        "a bad request id",
        M.StoreMemoryRequest(request_id="a b", memory=memory().memory),
        "request_id",
    ),
    ("a bad id", M.StoreMemoryRequest(supersedes="x", memory=memory().memory), "supersedes"),
    ("an empty batch", M.BatchStoreMemoriesRequest(), "requests"),
    (
        "a large batch",
        M.BatchStoreMemoriesRequest(requests=[M.StoreMemoryRequest()] * 501),
        "requests",
    ),
    ("no id", M.GetMemoryRequest(repository="app"), "id"),
    ("both scopes", listing(all_repositories=True), "filter.repositories"),
    ("unset source", listing(sources=[0]), "filter.sources[0]"),
    ("unset type", listing(types=[0]), "filter.types[0]"),
    ("empty tag", listing(tags_any=[""]), "filter.tags_any[0]"),
    ("importance_min", listing(importance_min=2.0), "filter.importance_min"),
    (
        "created backwards",
        listing(created_after=Timestamp(seconds=9), created_before=Timestamp(seconds=9)),
        "filter.created_before",
    ),
    (
        "savings' page size",
        M.GetSavingsRequest(all_repositories=True, page_size=-1),
        "page_size",
    ),
    (
        "savings since never",
        M.GetSavingsRequest(all_repositories=True, since=Timestamp(seconds=2**60)),
        "since",
    ),
    ("page size", M.ListMemoriesRequest(page_size=-1, filter=listing().filter), "page_size"),
    ("nothing to look for", asking(query=" "), "query"),
    ("long query", asking(query="x" * 8193), "query"),
    ("top_k", asking(top_k=201), "top_k"),
    ("min_score", asking(min_score=-0.1), "min_score"),
    ("a vector of zeros", asking(embedding=b"\0" * 16), "embedding"),
    ("an empty time", at(valid=POINT()), "as_of.valid"),
    ("words for none", at(valid=POINT(words="banana")), "as_of.valid.words"),
    ("endless words", at(recorded=POINT(words="now " * 99)), "as_of.recorded.words"),
    ("an impossible instant", at(valid=POINT(time=Timestamp(seconds=2**60))), "as_of.valid.time"),
    ("no zone", at(valid=POINT(words="now"), time_zone="Mars/Base"), "as_of.time_zone"),
    (
        "an impossible clock",
        at(valid=POINT(words="now"), caller_time=Timestamp(seconds=2**60)),
        "as_of.caller_time",
    ),
    ("an empty turn", M.LearnRequest(repository="app"), "user_message"),
    (
        "a tool without a name",
        M.LearnRequest(repository="app", tool_outcomes=[M.ToolOutcome(content="x")]),
        "tool_outcomes.tool",
    ),
]


@pytest.mark.parametrize(
    ("request_", "field"), [b[1:] for b in BAD_MEMORIES], ids=[b[0] for b in BAD_MEMORIES]
)
async def test_a_bad_memory_call_names_its_field(
    channel: grpc.aio.Channel, request_: Any, field: str
) -> None:
    name = type(request_).__name__.removesuffix("Request")
    response = getattr(M, f"{name}Response")
    error = await status_of(raw(channel, f"MemoryService/{name}", request_, response)(request_))
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT, error
    assert list(error.fields) == [field]
