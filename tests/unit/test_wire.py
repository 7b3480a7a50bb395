"""Values → messages → bytes → messages → values is the identity."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.answers.graph import GraphEdge, GraphNode, GraphPath
from plait.domain.memory import (
    AsOf,
    MemoryEntry,
    MemoryFilter,
    MemoryId,
    MemoryMetadata,
    MemorySource,
    MemoryType,
)
from plait.domain.values import (
    Artifact,
    ArtifactKind,
    Collection,
    Episode,
    Evidence,
    Filter,
    Item,
    ItemId,
    Outcome,
)
from plait.v1 import episode_pb2, graph_pb2, memory_service_pb2, types_pb2
from plait.wire import episodes, graph, items, memories, read_times, scalars

text = st.text(max_size=20)
times = st.datetimes(
    min_value=datetime(1970, 1, 1),
    max_value=datetime(9999, 12, 31),
    timezones=st.just(UTC),
)
whole = st.integers(min_value=-(2**53), max_value=2**53)
# As Struct holds them: a float that is whole comes back as an integer.
fractions = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer())
json_values = st.recursive(
    st.none() | st.booleans() | whole | fractions | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=10,
)
meta = st.dictionaries(text, json_values, max_size=4)
plain_values = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**63 - 1)
    | st.floats(allow_nan=False)
    | text
    | st.binary(max_size=10)
)
properties = st.dictionaries(text, plain_values, max_size=3)
nodes = st.builds(GraphNode, text, st.lists(text, max_size=2).map(tuple), properties)
edges = st.builds(GraphEdge, text, text, text, properties)
paths = st.builds(
    GraphPath, st.lists(nodes, max_size=2).map(tuple), st.lists(edges, max_size=2).map(tuple)
)
graph_values = st.recursive(
    plain_values | nodes | edges | paths,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=10,
)


@given(graph_values)
def test_graph_values_come_back_with_their_types(value: Any) -> None:
    data = graph.graph_value(value).SerializeToString()
    back = graph.value_of(graph_pb2.GraphValue.FromString(data))
    assert back == value
    assert type(back) is type(value)


def test_a_graph_value_outside_the_contract_is_refused() -> None:
    with pytest.raises(OverflowError):
        graph.graph_value(2**63)
    with pytest.raises(TypeError):
        graph.graph_value(object())


@given(meta)
def test_json_survives_a_struct(data: dict[str, Any]) -> None:
    assert scalars.dict_of(scalars.struct(data)) == data


@given(
    st.builds(
        Item,
        id=st.uuids().map(ItemId),
        collection=st.sampled_from(Collection),
        repo=text,
        kind=text,
        path=text,
        symbol=text,
        language=text,
        start_line=st.integers(0, 2**31 - 1),
        end_line=st.integers(0, 2**31 - 1),
        content=text,
        ts=times,
        meta=meta,
        tags=st.lists(text, max_size=3).map(tuple),
        is_test=st.booleans(),
    )
)
def test_items_come_back(item: Item) -> None:
    data = items.item(item).SerializeToString()
    assert items.item_of(types_pb2.Item.FromString(data)) == item


names = st.lists(text, max_size=3).map(tuple)


@given(
    st.builds(
        Filter,
        repos=names,
        collections=st.lists(st.sampled_from(Collection), min_size=1, max_size=3).map(tuple),
        kinds=names,
        languages=names,
        path_glob=text,
        tags_any=names,
        tags_all=names,
        since=st.none() | times,
        until=st.none() | times,
        agent_id=text,
        session_key=text,
        all_repos=st.booleans(),
    )
)
def test_filters_come_back(where: Filter) -> None:
    data = items.filter_(where).SerializeToString()
    assert items.filter_of(types_pb2.Filter.FromString(data)) == where


def test_an_empty_filter_means_files() -> None:
    assert items.filter_of(types_pb2.Filter()) == Filter()


artifacts = st.builds(Artifact, st.sampled_from(ArtifactKind), text, text, meta)


@given(
    st.builds(
        Episode,
        request_id=text,
        repo=text,
        outcome=st.builds(
            Outcome,
            status=st.sampled_from(sorted(episodes.STATUSES)),
            summary=text,
            metrics=st.dictionaries(text, st.floats(allow_nan=False), max_size=3),
            commit=text,
            branch=text,
        ),
        artifacts=st.lists(artifacts, max_size=3).map(tuple),
        agent_id=text,
        session_key=text,
        tags=names,
        started_at=st.none() | times,
        evidence=st.lists(st.builds(Evidence, text, text, st.binary(max_size=9)), max_size=2).map(
            tuple
        ),
    )
)
def test_episodes_come_back(episode: Episode) -> None:
    data = episodes.episode(episode).SerializeToString()
    back = episodes.episode_of(episode_pb2.Episode.FromString(data), episode.request_id)
    assert back == episode


def test_stores_may_put_times_and_ids_into_meta() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    data = {"at": at, "id": UUID(int=1), "pair": (1, 2)}
    assert scalars.dict_of(scalars.struct(data)) == {
        "at": "2026-01-02T00:00:00+00:00",
        "id": str(UUID(int=1)),
        "pair": [1, 2],
    }


labels = st.lists(text, max_size=3).map(lambda tags: tuple(sorted(set(tags))))
halves = st.floats(width=32, allow_nan=False, allow_infinity=False)
entries = st.builds(
    MemoryEntry,
    id=st.uuids().map(MemoryId),
    repo=text,
    agent_id=text,
    content=text,
    metadata=st.builds(
        MemoryMetadata,
        source=st.sampled_from(MemorySource),
        session_key=text,
        tags=labels,
        importance=st.floats(0, 1),
        custom=meta,
    ),
    type=st.sampled_from(MemoryType),
    kind=st.sampled_from(["memory", "turn", "note", "summary"]),
    path=text,
    symbol=text,
    pinned=st.booleans(),
    embedding=st.none() | st.lists(halves, min_size=1, max_size=4).map(tuple),
    valid_from=st.none() | times,
    valid_to=st.none() | times,
    created_at=st.none() | times,
    updated_at=st.none() | times,
    superseded_at=st.none() | times,
    superseded_by=st.none() | st.uuids().filter(lambda u: u.int).map(MemoryId),
    version=st.integers(1, 2**31 - 1),
    tokens=st.integers(0, 2**31 - 1),
)


@given(entries.filter(lambda entry: entry.id.int != 0))
def test_memories_travel(entry: MemoryEntry) -> None:
    data = memories.memory(entry).SerializeToString()
    assert memories.memory_of(memory_service_pb2.Memory.FromString(data)) == entry


memory_filters = st.builds(
    MemoryFilter,
    repos=st.lists(text, max_size=2).map(tuple),
    all_repos=st.booleans(),
    agent_id=text,
    session_key=text,
    tags_any=labels,
    tags_all=labels,
    sources=st.lists(st.sampled_from(MemorySource), max_size=2).map(tuple),
    types=st.lists(st.sampled_from(MemoryType), max_size=2).map(tuple),
    kinds=labels,
    importance_min=st.floats(0, 1),
    created_after=st.none() | times,
    created_before=st.none() | times,
)


@given(memory_filters)
def test_memory_filters_travel(where: MemoryFilter) -> None:
    data = memories.filter_(where).SerializeToString()
    assert memories.filter_of(memory_service_pb2.MemoryFilter.FromString(data)) == where


@given(st.builds(AsOf, st.none() | times, st.none() | times))
def test_resolved_times_travel(as_of: AsOf) -> None:
    message = read_times.resolved(as_of) or types_pb2.ResolvedAsOf()
    assert read_times.resolved_of(message) == as_of
