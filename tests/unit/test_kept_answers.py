"""Which answers to searches are kept, and how many."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from plait.ports import View
from plait.retrieval.search import Degraded, QueryKind, SearchAnswer
from plait.settings import load
from plait.v1 import knowledge_service_pb2 as pb
from plait.v1 import types_pb2
from server.answers import ENTRY_BYTES, Answer, Answers
from server.grpc.services.searches import is_whole, key_of
from vector.connection.pool import Database
from vector.search.versions import Versions

SETTINGS = load(environ={})
CODE = types_pb2.Filter(repositories=["r"])


def key(n: int) -> tuple[str, bytes]:
    return "t", bytes([n])


def test_the_least_recently_used_answers_go_first_and_the_bytes_are_bounded() -> None:
    size = ENTRY_BYTES + 2 + 1 + 100
    answers = Answers(4 * size)
    for n in range(4):
        answers.put(key(n), Answer("v", bytes(100)))
    assert answers.get(key(0)) is not None
    answers.put(key(4), Answer("v", bytes(100)))
    assert answers.bytes == 4 * size
    assert answers.get(key(1)) is None
    assert answers.get(key(0)) is not None


def test_an_answer_is_replaced_dropped_and_cleared_with_its_bytes() -> None:
    answers = Answers(10_000)
    answers.put(key(0), Answer("old", b"a"))
    answers.put(key(0), Answer("new", b"bb"))
    assert answers.get(key(0)) == Answer("new", b"bb")
    answers.drop(key(0))
    assert (answers.bytes, answers.get(key(0))) == (0, None)
    answers.put(key(1), Answer("v", b"a"))
    answers.clear()
    assert (answers.bytes, answers.is_open) == (0, False)


def test_an_answer_that_would_push_out_most_others_is_not_kept() -> None:
    answers = Answers(4_000)
    answers.put(key(0), Answer("v", bytes(1_000)))
    assert answers.get(key(0)) is None


def test_equal_requests_of_one_tenant_share_a_key() -> None:
    one = key_of("a", pb.SearchRequest(query="q", filter=CODE), SETTINGS)
    assert one == key_of("a", pb.SearchRequest(filter=CODE, query="q"), SETTINGS)
    assert one != key_of("b", pb.SearchRequest(query="q", filter=CODE), SETTINGS)
    assert one != key_of("a", pb.SearchRequest(query="q", filter=CODE, k=3), SETTINGS)


@pytest.mark.parametrize(
    "request_",
    [
        pb.SearchRequest(query="q", filter=types_pb2.Filter(all_repositories=True)),
        pb.SearchRequest(query="q", filter=CODE, mode=pb.SEARCH_MODE_FULL),
        pb.SearchRequest(query="q", filter=CODE, explain=True),
        pb.SearchRequest(query="q", filter=CODE, why_not=["x"]),
        pb.SearchRequest(query="q", filter=CODE, as_of=types_pb2.AsOf(time_zone="UTC")),
        pb.SearchRequest(
            query="q",
            filter=types_pb2.Filter(
                repositories=["r"], collections=[types_pb2.COLLECTION_MEMORIES]
            ),
        ),
    ],
    ids=["all", "full", "explain", "why_not", "as_of", "memories"],
)
def test_what_depends_on_more_than_named_code_has_no_key(request_: pb.SearchRequest) -> None:
    assert key_of("a", request_, SETTINGS) is None


def test_without_room_or_with_names_that_are_still_read_nothing_has_a_key() -> None:
    asked = pb.SearchRequest(query="q", filter=CODE)
    for name, value in (("CACHE_BYTES", "0"), ("EXPANSION", "on")):
        settings = load(environ={f"PLAIT_SEARCH__{name}": value})
        assert key_of("a", asked, settings) is None


def answer(*degraded: Degraded, version: str = "v") -> SearchAnswer:
    view = View((), "", 0, version=version)
    return SearchAnswer((), view, degraded, (), QueryKind.PLAIN)


def test_an_answer_that_lacks_what_a_moment_later_has_is_not_kept() -> None:
    assert is_whole(answer())
    assert is_whole(answer(Degraded("semantic", "coverage")))
    assert not is_whole(answer(Degraded("fts", "deadline")))
    assert not is_whole(answer(Degraded("semantic", "EMBEDDING_UNAVAILABLE")))
    assert not is_whole(answer(version=""))


class Slow:
    """A database whose reads end when told to."""

    def __init__(self) -> None:
        self.reads: list[list[str]] = []
        self.go = asyncio.Event()
        self.fails = False

    async def rows(self, query: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        self.reads.append(params["repos"])
        await self.go.wait()
        if self.fails:
            raise OSError("gone")
        return [(name, f"{len(self.reads)}", "s", None) for name in params["repos"]]


async def test_who_asks_while_a_read_is_under_way_is_answered_by_the_next() -> None:
    slow = Slow()
    versions = Versions(cast(Database, slow))
    first = asyncio.create_task(versions.of(["a"]))
    await asyncio.sleep(0.01)
    later = [asyncio.create_task(versions.of([name])) for name in ("a", "b", "a")]
    await asyncio.sleep(0.01)
    assert slow.reads == [["a"]]
    slow.go.set()
    assert await first == "a 1 s"
    assert await asyncio.gather(*later) == ["a 2 s", "b 2 s", "a 2 s"]
    assert slow.reads == [["a"], ["a", "b"]]
    await versions.close()


async def test_a_read_that_fails_fails_for_those_who_waited_and_the_next_is_made_anew() -> None:
    slow = Slow()
    slow.fails = True
    slow.go.set()
    versions = Versions(cast(Database, slow))
    with pytest.raises(OSError, match="gone"):
        await versions.of(["a"])
    slow.fails = False
    assert await versions.of(["a"]) == "a 2 s"
    await versions.close()
