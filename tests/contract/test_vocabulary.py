"""SearchStore's promises on weighted terms and on the words of a repository's names, on every PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from plait.domain.values import Filter, Revision
from tests.contract.test_search_store import CODE, symbols
from vector.index import vocabulary as vocabulary_module
from vector.index.vocabulary import Vocabulary, VocabularyCache, going_with, related, vocabulary_of
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]
# As many words of a name as it takes: `serialize_item` has serialize, item and itself.
NAMES = {
    "src/a.toy": ["serialize_item:", "serialize_all:", "serializer:", "command_name:"],
    "src/b.toy": ["authenticate_user:", "CookieJar:"],
    "tests/test_a.toy": ["test_deserialization:"],
}


async def test_a_terms_weight_multiplies_what_it_adds(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    view, where = await store.search.view(Filter()), Filter()
    terms = ["join_paths", "parseheader", "parsehead", "header"]
    full = await store.search.lexical(view, ["join_paths", "header"], where, 10)
    told = {s: c.score for s, c in zip(await symbols(store, view, full), full, strict=True)}
    half = await store.search.lexical(view, ["join_paths", "header"], where, 10, {"header": 0.5})
    again = {s: c.score for s, c in zip(await symbols(store, view, half), half, strict=True)}
    assert again["join_paths"] == pytest.approx(told["join_paths"])
    assert again["parseHeaders"] == pytest.approx(told["parseHeaders"] / 2)
    assert await store.search.lexical(view, terms, where, 10, {}) == await store.search.lexical(
        view, terms, where, 10
    )


async def test_a_weighed_term_never_silences_a_common_one(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    view = await store.search.view(Filter())
    found = await store.search.lexical(
        view, ["toy", "join_paths"], Filter(), 10, {"join_paths": 0.3}
    )
    assert len(found) == 7, "`toy` is in all of them"
    assert (await symbols(store, view, found))[0] == "join_paths"


async def test_words_are_told_as_the_names_say_them(store: Store, index: IndexFiles) -> None:
    await index(store, "r", NAMES)
    view = await store.search.view(Filter())
    asked = ["serializ", "serialization", "command_name", "authentication", "nothing", "cookbook"]
    assert await store.search.vocabulary(view, asked, 3) == {
        "serializ": ["serializ"],  # the stem of serialize
        "serialization": ["serializ", "serializer"],
        "command_name": ["command_name"],
        "authentication": ["authenticat"],
    }
    assert (await store.search.vocabulary(view, asked, 1))["serialization"] == ["serializ"]
    assert await store.search.vocabulary(view, [], 3) == {}


async def test_a_view_has_the_names_of_its_own_revision(store: Store, index: IndexFiles) -> None:
    await index(store, "r", NAMES)
    before = await store.search.view(Filter())
    assert await store.search.vocabulary(before, ["cookiejar"], 3) != {}
    await index(store, "r", {"src/a.toy": NAMES["src/a.toy"]})
    after = await store.search.view(Filter())
    assert await store.search.vocabulary(after, ["cookiejar"], 3) == {}
    assert await store.search.vocabulary(before, ["cookiejar"], 3) == {"cookiejar": ["cookiejar"]}


async def test_repositories_do_not_lend_each_other_words(store: Store, index: IndexFiles) -> None:
    await index(store, "one", {"a.toy": ["serialize:"]})
    await index(store, "two", {"a.toy": ["cookie:"]})
    view = await store.search.view(Filter(repos=("two",)))
    assert await store.search.vocabulary(view, ["serialization", "serializ"], 3) == {}
    both = await store.search.view(Filter(repos=("one", "two")))
    found = await store.search.vocabulary(both, ["serializ", "cooki"], 3)
    assert found == {"serializ": ["serializ"], "cooki": ["cooki"]}


async def test_too_many_repositories_have_none(
    store: Store, index: IndexFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    await index(store, "one", NAMES)
    await index(store, "two", NAMES)
    monkeypatch.setattr(vocabulary_module, "MAX_REPOSITORIES", 1)
    assert await store.search.vocabulary(await store.search.view(Filter()), ["serializ"], 3) == {}


async def test_too_many_names_are_none(
    store: Store, index: IndexFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary_module, "MAX_NAMES", 2)
    await index(store, "r", NAMES)
    assert await store.search.vocabulary(await store.search.view(Filter()), ["serializ"], 3) == {}


@pytest.mark.parametrize(
    ("one", "other", "are"),
    [
        ("serializ", "serialization", True),
        ("serializer", "serialization", True),
        ("authenticat", "authentication", True),
        ("config", "configuration", False),  # 7 letters apart
        ("parse", "pars", False),
        ("import", "important", True),  # what it costs
        ("session", "sesame", False),
    ],
)
def test_families_begin_alike_and_end_soon(one: str, other: str, are: bool) -> None:
    assert related(one, other) is are
    assert related(other, one) is are


def test_the_most_used_of_a_family_comes_first_and_ties_are_settled() -> None:
    known = vocabulary_of(["serializer_a", "serializer_b", "serialize"])
    assert going_with("serialization", [known], 3) == ["serializer", "serializ"]
    assert going_with("serialization", [known], 1) == ["serializer"]
    assert going_with("x" * 10_000, [known], 3) == []


def test_the_cache_holds_so_many_terms_and_the_last_one_always() -> None:
    cache = VocabularyCache(terms=3)
    one, two = Revision(1, "r", 1), Revision(1, "r", 2)
    cache.put(one, Vocabulary({"a": 1, "b": 1}, {}))
    cache.put(two, Vocabulary({"a": 1, "b": 1, "c": 1, "d": 1}, {}))
    assert cache.get(one) is None
    assert cache.get(two) is not None
