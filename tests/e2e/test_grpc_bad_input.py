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
from plait.v1 import graph_pb2, knowledge_service_pb2
from plait.v1 import index_service_pb2 as index_pb


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


S = knowledge_service_pb2.SearchRequest
G = knowledge_service_pb2.GraphQueryRequest


def search(**fields: Any) -> S:
    where = {"all_repositories": True, **fields.pop("filter", {})}
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
        S(query="x", filter={"repositories": [""]}),
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
