"""Search as of a time: code at the revision of that time, agents' items by their two times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from etl.truth import open as open_truth
from plait.domain.errors import HistoryGone, RepositoryNotIndexed
from plait.domain.memory import AsOf
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, Outcome
from plait.ports import Vectors
from plait.retrieval.search import SearchQuery, SearchService
from plait.settings import IndexSettings, SearchSettings, Settings
from tests.contract.test_search_store import embed, unit
from tests.processes import LIMIT_S
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]

_fresh = count()
NAMES = ("open_socket", "open_sockets", "close_socket", "parse_header")
PATHS = ("a.toy", "src/b.toy", "test_c.toy")
NOTES = (Collection.MEMORIES,)


@pytest.fixture
async def keeper(store: Store, truth_settings: Settings) -> AsyncIterator[Store]:
    """A store that keeps every revision."""
    index = IndexSettings(keep_s=1e6)
    kept = await open_truth(replace(truth_settings, index=index))
    yield kept
    await kept.close()


# -- code --------------------------------------------------------------------------------------------

files = st.dictionaries(
    st.sampled_from(PATHS),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True).map(
        lambda names: [f"{n}: {' '.join(names)}" for n in names]
    ),
    min_size=1,
)


async def answers(store: Store, where: Filter) -> dict[str, Any]:
    """What every arm says, as paths, symbols and scores."""
    view = await store.search.view(where)
    found = {
        "lexical": await store.search.lexical(view, ["open_socket", "header"], where, 20),
        "phrase": await store.search.phrase(view, "open socket", where, 20),
        "exact": await store.search.identifiers(view, "open_sockets", where, 20),
        "misspelt": await store.search.identifiers(view, "open_sokcet", where, 20),
        "nearest": await store.search.nearest(view, unit(1, 2, 3, 4), where, 20),
    }
    told: dict[str, Any] = {}
    for arm, candidates in found.items():
        items = await store.search.fetch(view, [c.id for c in candidates])
        places = await store.search.places(view, [c.id for c in candidates])
        assert len(items) == len(candidates) == len(places), arm
        told[arm] = [(c.id, c.score, items[c.id].content, items[c.id].path) for c in candidates]
    revisions = [(r.repo, r.number, r.files, r.chunks, r.embedded) for r in view.revisions]
    return told | {"revisions": revisions}


@settings(
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=st.lists(files, min_size=2, max_size=5))
async def test_a_search_as_of_an_earlier_revision_returns_what_it_returned_then(
    keeper: Store, index: IndexFiles, history: list[dict[str, list[str]]]
) -> None:
    repo = f"r{next(_fresh)}"
    where = Filter(repos=(repo,))
    then: list[tuple[datetime, dict[str, Any]]] = []
    for edit in history:
        revision = await index(keeper, repo, edit)
        await embed(keeper, repo)
        if not then or revision.published_at > then[-1][0]:
            then.append((revision.published_at, await answers(keeper, where)))
    for i, (at, told) in enumerate(then):
        until = then[i + 1][0] - timedelta(microseconds=1) if i + 1 < len(then) else at
        for moment in (at, until):
            as_of = Filter(repos=(repo,), as_of=AsOf(recorded=moment))
            assert await answers(keeper, as_of) == told
    before = then[0][0] - timedelta(microseconds=1)
    nothing = await answers(keeper, Filter(repos=(repo,), as_of=AsOf(recorded=before)))
    assert nothing == {
        "lexical": [], "phrase": [], "exact": [], "misspelt": [], "nearest": [],
        "revisions": [(repo, 0, 0, 0, 0)],
    }  # fmt: skip
    # A valid time says nothing about code: it is what was published.
    long_ago = Filter(repos=(repo,), as_of=AsOf(valid=before))
    assert await answers(keeper, long_ago) == then[-1][1]


async def test_a_revision_that_is_not_kept_is_refused_by_name(
    store: Store, index: IndexFiles
) -> None:
    first = await index(store, "r", {"a.toy": ["one:"]})
    second = await index(store, "r", {"a.toy": ["two:"]})
    where = Filter(repos=("r",), as_of=AsOf(recorded=first.published_at))
    assert (await store.search.view(where)).revisions[
        0
    ].number == 1  # kept until the run after the next
    for word in ("three", "four"):
        await index(store, "r", {"a.toy": [f"{word}:"]})
    with pytest.raises(HistoryGone, match=r"index\.keep_s") as caught:
        await store.search.view(where)
    assert caught.value.metadata["repository"] == "r"
    assert caught.value.metadata["kept_from"] == second.published_at.isoformat()
    # Agents' items have their own history.
    await store.search.view(Filter(repos=("r",), collections=NOTES, as_of=where.as_of))


async def test_what_was_before_a_delete_is_gone(store: Store, index: IndexFiles) -> None:
    first = await index(store, "r", {"a.toy": ["one:"]})
    await store.repositories.delete("r")
    await index(store, "r", {"a.toy": ["two:"]})
    with pytest.raises(HistoryGone):
        await store.search.view(Filter(repos=("r",), as_of=AsOf(recorded=first.published_at)))
    with pytest.raises(RepositoryNotIndexed):
        await store.search.view(Filter(repos=("q",), as_of=AsOf(recorded=first.published_at)))


async def test_a_short_time_to_keep_collects_what_is_older(
    store: Store, index: IndexFiles, truth_settings: Settings, truth_dsn: str
) -> None:
    kept = await open_truth(replace(truth_settings, index=IndexSettings(keep_s=3600.0)))
    try:
        for word in ("one", "two", "three", "four"):
            await index(kept, "r", {"a.toy": [f"{word}:"]})
        age_revisions(truth_dsn, {1: "3 hours", 2: "2 hours", 3: "20 minutes"})
        await index(kept, "r", {"a.toy": ["five:"]})
        now = datetime.now(UTC)
        # Revision 2 was what readers saw when the hour began.
        for ago, number in ((timedelta(minutes=55), 2), (timedelta(minutes=10), 3)):
            view = await kept.search.view(Filter(as_of=AsOf(recorded=now - ago)))
            assert [r.number for r in view.revisions] == [number]
            assert len(await kept.search.lexical(view, ["toy"], Filter(), 5)) == 1
        with pytest.raises(HistoryGone):
            await kept.search.view(
                Filter(as_of=AsOf(recorded=now - timedelta(hours=2, minutes=30)))
            )
    finally:
        await kept.close()


def age_revisions(dsn: str, ages: dict[int, str]) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for number, age in ages.items():
            conn.execute(
                "UPDATE plait.revision_log SET published_at = now() - %s::interval"
                " WHERE number = %s",
                (age, number),
            )


async def test_the_pipeline_answers_from_the_revision_of_that_time(
    keeper: Store, index: IndexFiles
) -> None:
    service = SearchService(keeper.search, Words(), SearchSettings(timeout_s=LIMIT_S))
    first = await index(keeper, "r", {"a.toy": ["open_socket: one"]})
    await embed(keeper, "r")
    before = await service.search(SearchQuery("open_socket", Filter(repos=("r",))))
    await index(keeper, "r", {"a.toy": ["open_socket: two", "close_socket:"]})
    at = Filter(repos=("r",), as_of=AsOf(recorded=first.published_at))
    then = await service.search(SearchQuery("open_socket", at))
    assert then.hits == before.hits
    assert then.coverage == before.coverage == (1, 1)
    assert [r.number for r in then.view.revisions] == [1]
    assert then.degraded == ()
    now = await service.search(SearchQuery("open_socket", Filter(repos=("r",))))
    assert {hit.item.content for hit in now.hits} == {"open_socket: two", "close_socket:"}


class Words:
    """A provider for `toy-model`: every text is the same vector."""

    model, dim = "toy-model", 4

    async def embed_query(self, text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        return unit(1, 2, 3, 4)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return np.stack([unit(1, 2, 3, 4)] * len(texts))

    async def close(self) -> None:
        pass


# -- agents' items -----------------------------------------------------------------------------------------

BASE = datetime(2024, 1, 1, tzinfo=UTC)


def day(n: int | None) -> datetime | None:
    return None if n is None else BASE + timedelta(days=n)


@dataclass(frozen=True)
class Times:
    recorded: int
    superseded: int | None
    valid_from: int | None
    valid_to: int | None

    def holds(self, valid: int, recorded: int | None) -> bool:
        known = (
            self.superseded is None
            if recorded is None
            else self.recorded <= recorded
            and (self.superseded is None or self.superseded > recorded)
        )
        return (
            known
            and (self.valid_from is None or self.valid_from <= valid)
            and (self.valid_to is None or self.valid_to > valid)
        )


some_day = st.integers(0, 6)
times = st.builds(
    lambda recorded, closed, start, end: Times(
        recorded, None if closed is None else recorded + closed, start, end
    ),
    some_day,
    st.none() | st.integers(1, 4),
    st.none() | some_day,
    st.none() | some_day,
)


async def remember(store: Store, dsn: str, repo: str, all_times: list[Times]) -> dict[Any, Times]:
    """One note for each of `all_times`, with a vector; by id."""
    notes = [Artifact(ArtifactKind.NOTE, f"the disk is cold {i}") for i in range(len(all_times))]
    stored = await store.episodes.append(
        Episode(repo, repo, Outcome("success"), notes, body_hash=b"h")
    )
    await embed(store, repo)
    with psycopg.connect(dsn, autocommit=True) as conn:
        for id_, t in zip(stored.item_ids, all_times, strict=True):
            conn.execute(
                "UPDATE plait.memories SET recorded_at = %s, superseded_at = %s, valid_from = %s,"
                " valid_to = %s WHERE id = %s",
                (day(t.recorded), day(t.superseded), day(t.valid_from), day(t.valid_to), id_),
            )
    return dict(zip(stored.item_ids, all_times, strict=True))


@settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(times, min_size=1, max_size=12),
    st.none() | some_day,
    st.none() | some_day,
    st.integers(1, 12),
)
async def test_items_are_read_as_of_both_times_and_closed_ones_take_no_place(
    store: Store,
    truth_dsn: str,
    all_times: list[Times],
    valid: int | None,
    recorded: int | None,
    k: int,
) -> None:
    repo = f"m{next(_fresh)}"
    known = await remember(store, truth_dsn, repo, all_times)
    where = Filter(
        repos=(repo,), collections=NOTES, as_of=AsOf(valid=day(valid), recorded=day(recorded))
    )
    # Without a valid time it is today, long after every day here.
    living = {i for i, t in known.items() if t.holds(10_000 if valid is None else valid, recorded)}
    view = await store.search.view(where)
    for found in (
        await store.search.lexical(view, ["cold", "disk"], where, k),
        await store.search.phrase(view, "disk is cold", where, k),
        await store.search.nearest(view, unit(1, 2, 3, 4), where, k),
    ):
        ids = {c.id for c in found}
        assert ids <= living
        assert len(found) == min(k, len(living))
    assert set(await store.search.fetch(view, list(known))) == living
    assert set(await store.search.places(view, list(known))) == living


async def test_code_and_items_are_searched_together_as_of_one_time(
    keeper: Store, index: IndexFiles
) -> None:
    first = await index(keeper, "r", {"a.toy": ["cold_disk:"]})
    note = Artifact(ArtifactKind.NOTE, "the cold_disk is slow")
    await keeper.episodes.append(Episode("q", "r", Outcome("success"), [note], body_hash=b"h"))
    await asyncio.sleep(0.01)
    second = await index(keeper, "r", {"a.toy": ["warm_disk:"]})
    both = (Collection.FILES, Collection.MEMORIES)
    for at, texts in (
        (first.published_at, {"cold_disk:"}),
        (second.published_at - timedelta(microseconds=1), {"cold_disk:", "the cold_disk is slow"}),
        (second.published_at, {"the cold_disk is slow"}),
    ):
        where = Filter(repos=("r",), collections=both, as_of=AsOf(recorded=at))
        view = await keeper.search.view(where)
        found = await keeper.search.lexical(view, ["cold_disk"], where, 10)
        items = await keeper.search.fetch(view, [c.id for c in found])
        assert {i.content for i in items.values()} == texts


async def test_a_phrase_is_looked_for_in_what_matches_however_much_does_not(
    store: Store, truth_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vector.search.store.PHRASE_TEXTS", 2)
    closed = Times(0, 1, None, None)
    known = await remember(store, truth_dsn, "r", [closed] * 8 + [Times(0, None, None, None)])
    where = Filter(repos=("r",), collections=NOTES)
    found = await store.search.phrase(await store.search.view(where), "disk is cold", where, 5)
    assert [known[c.id].superseded for c in found] == [None]
