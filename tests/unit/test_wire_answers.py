"""Every answer and every set of options: value → message → bytes → message → value is the identity."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, Literal
from uuid import UUID

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.domain.access import Caller
from plait.domain.answers.graph import GraphAnswer
from plait.domain.answers.indexing import IndexJob, Repository
from plait.domain.answers.keys import NewSecret
from plait.domain.answers.memories import (
    AppendedEpisode,
    Learned,
    Memories,
    MemoryAnswer,
    StoredMemory,
    Tool,
)
from plait.domain.answers.recalls import FeedbackTaken, RecallResult
from plait.domain.answers.search import SearchResult
from plait.domain.answers.status import Stats
from plait.domain.answers.upkeep import Compacted, Comparison, DeadLetters, Difference, Forgotten
from plait.domain.keys import ApiKey
from plait.domain.memory import MemoryEntry, MemoryMetadata
from plait.domain.options import RecallOptions, SearchOptions
from plait.domain.recall import Dropped, Impact, ItemVerdict, RecallFormat, StageRank
from plait.domain.remarks import FileEdit, Remark
from plait.domain.retention import Selector, Step
from plait.domain.savings import Savings
from plait.v1 import hook_service_pb2
from plait.v1 import knowledge_service_pb2 as pb
from plait.wire import (
    episodes,
    graph,
    hooks,
    indexing,
    keys,
    memory_answers,
    recalls,
    savings,
    search,
    status,
    upkeep,
)

text = st.text(max_size=8)
times = st.datetimes(
    min_value=datetime(1970, 1, 1), max_value=datetime(9000, 1, 1), timezones=st.just(UTC)
)
LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    str: text,
    int: st.integers(0, 2**31 - 1),
    float: st.floats(0, 1),
    bool: st.booleans(),
    bytes: st.binary(max_size=4),
    datetime: times,
    UUID: st.uuids(),
    Any: text,
}
eighths = st.integers(0, 10**6).map(lambda n: n / 8)  # seconds that a duration holds exactly
# What a type alone does not say: states that are linked, and what does not travel.
FIELDS: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (IndexJob, "state"): st.sampled_from(sorted(indexing.STATES)),
    (IndexJob, "elapsed_s"): eighths,
    (IndexJob, "counts"): st.fixed_dictionaries(dict.fromkeys(indexing.COUNTS, st.integers(0, 9))),
    (IndexJob, "error_reason"): st.sampled_from(["BUSY", "STORE_FULL"]),
    (Difference, "kind"): st.sampled_from(["missing", "extra", "different"]),
    (MemoryEntry, "kind"): st.just("note"),
    (MemoryEntry, "version"): st.integers(1, 9),
    (MemoryEntry, "embedding"): st.none(),
    (MemoryMetadata, "tags"): st.frozensets(text, max_size=2).map(lambda tags: tuple(sorted(tags))),
    (Impact, "truncated"): st.just(False),
    (Step, "version"): st.just(1),
    (Step, "into_version"): st.just(0),
    (NewSecret, "old_until"): times,
    (Caller, "local"): st.just(False),
    (Selector, "source"): st.sampled_from(["", "agent", "user", "system"]),
    (Selector, "ids"): st.lists(st.uuids(), max_size=2, unique=True).map(tuple),
    # Of items in the answer alone; see `with_ranks`.
    (SearchResult, "ranks"): st.just({}),
    (RecallResult, "ranks"): st.just({}),
    (RecallOptions, "why_not"): st.lists(text, max_size=2).map(tuple),
    (SearchOptions, "why_not"): st.lists(text, max_size=2).map(tuple),
    (RecallOptions, "cooldown_s"): st.none() | eighths,
    (RecallOptions, "format"): st.sampled_from(RecallFormat),
}


@cache
def of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type as the domain's fields name it."""
    if isinstance(hint, typing.NewType):
        return of(hint.__supertype__)
    if hint in LEAVES:
        return LEAVES[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(of, inner))
    if origin is tuple and inner[-1] is not Ellipsis:
        return st.tuples(*map(of, inner))
    if origin in (tuple, Sequence):
        return st.lists(of(inner[0]), max_size=2).map(tuple)
    if origin is frozenset:
        return st.frozensets(of(inner[0]), max_size=2)
    if origin is Mapping:
        return st.dictionaries(of(inner[0]), of(inner[1]), max_size=2)
    if hint is types.NoneType:
        return st.none()
    if issubclass(hint, StrEnum):
        return st.sampled_from(hint)
    return record(hint)


# What modules import for their types alone.
LATER = {"RecallFormat": RecallFormat, "Dropped": Dropped, "StageRank": StageRank}


def record(kind: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind, localns=LATER)
    return st.builds(
        kind,
        **{
            f.name: FIELDS[kind, f.name] if (kind, f.name) in FIELDS else of(hints[f.name])
            for f in dataclasses.fields(kind)
        },
    )


def with_ranks(answer: Any) -> Any:
    """`answer` with a rank for its first item, if it has one."""
    found = answer.hits if isinstance(answer, SearchResult) else answer.items
    ranks = {
        one.item.id: (StageRank("fuse", 2, 0.5), StageRank("cut", 1, 0.5)) for one in found[:1]
    }
    return dataclasses.replace(answer, ranks=ranks)


PAIRS: list[tuple[Any, Callable[[Any], Message], Callable[[Any], Any]]] = [
    (GraphAnswer, graph.answer, graph.answer_of),
    (AppendedEpisode, episodes.appended, episodes.appended_of),
    (Repository, indexing.repository, indexing.repository_of),
    (IndexJob, indexing.job, indexing.job_of),
    (ApiKey, keys.key, keys.key_of),
    (NewSecret, keys.rotated, keys.rotated_of),
    (StoredMemory, memory_answers.stored, memory_answers.stored_of),
    (Memories, memory_answers.page, memory_answers.page_of),
    (MemoryAnswer, memory_answers.answer, memory_answers.answer_of),
    (Tool, memory_answers.tool, memory_answers.tool_of),
    (Learned, memory_answers.learned, memory_answers.learned_of),
    (FeedbackTaken, recalls.taken, recalls.taken_of),
    (Stats, status.stats, status.stats_of),
    (Comparison, upkeep.comparison, upkeep.comparison_of),
    (Compacted, upkeep.compacted, upkeep.compacted_of),
    (Selector, upkeep.selector, upkeep.selector_of),
    (Forgotten, upkeep.forgotten, upkeep.forgotten_of),
    (DeadLetters, upkeep.letters, upkeep.letters_of),
    (Savings, savings.response, savings.savings_of),
    (SearchResult, search.response, search.response_of),
    (RecallResult, recalls.response, recalls.response_of),
]


@pytest.mark.parametrize(("kind", "made", "read"), PAIRS, ids=[kind.__name__ for kind, *_ in PAIRS])
@settings(max_examples=10)  # each draws dozens of fields
@given(data=st.data())
def test_an_answer_comes_back(
    kind: Any, made: Callable[[Any], Message], read: Callable[[Any], Any], data: st.DataObject
) -> None:
    value = data.draw(of(kind))
    if kind in (SearchResult, RecallResult):
        value = with_ranks(value)
    message = made(value)
    assert read(type(message).FromString(message.SerializeToString())) == value


@given(of(SearchOptions))
def test_options_of_a_search_come_back(options: SearchOptions) -> None:
    sent = search.request("x", None, 3, 0.25, options).SerializeToString()
    assert search.options_of(pb.SearchRequest.FromString(sent)) == options


@given(of(RecallOptions))
def test_options_of_a_recall_come_back(options: RecallOptions) -> None:
    sent = recalls.request("x", None, "", options).SerializeToString()
    assert recalls.options_of(pb.RecallRequest.FromString(sent)) == options


@given(of(ItemVerdict))
def test_verdicts_come_back(verdict: ItemVerdict) -> None:
    (sent,) = recalls.verdicts([verdict])
    assert recalls.verdict_of(pb.ItemFeedback.FromString(sent.SerializeToString())) == verdict


def test_a_job_that_has_not_begun_or_failed_has_no_summary_and_no_error() -> None:
    job = IndexJob("1", "app", "/app", "queued", "", 0, 0, "", 0.0)
    message = indexing.job(job)
    assert not message.HasField("summary")
    assert not message.HasField("error")
    assert not message.HasField("elapsed")
    assert indexing.job_of(message) == job


@given(st.lists(of(FileEdit), max_size=3).map(tuple), st.lists(of(Remark), max_size=3).map(tuple))
def test_edits_and_remarks_of_hooks_come_back(
    edits: tuple[FileEdit, ...], remarks: tuple[Remark, ...]
) -> None:
    request = hook_service_pb2.AdviseEditRequest(edits=hooks.edits(edits))
    assert hooks.edits_of(type(request).FromString(request.SerializeToString()).edits) == edits
    answer = hook_service_pb2.AdviseEditResponse(remarks=hooks.remarks(remarks))
    assert hooks.remarks_of(type(answer).FromString(answer.SerializeToString()).remarks) == remarks
