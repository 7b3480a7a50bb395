"""`SearchStore.located`: the chunks at the places that a text names, on every PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from plait.domain.values import Collection, Filter, ItemId
from plait.ports import Spot, View
from vector.search.located import MAX_FILES, MAX_NAMED, PathCache
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]

CODE = {
    "src/http/client.toy": ["send_request: open_socket", "open_socket:", "parseHeaders:"],
    "src/http/server/client.toy": ["serve_forever: send_request", "send_request:"],
    "src/util.toy": ["join_paths:", "open_file: open_socket"],
    "tests/test_client.toy": ["test_send: send_request"],
}
FILES = Filter()


async def found(
    store: Store, spots: Sequence[Spot], where: Filter = FILES, k: int = 20
) -> list[list[str]]:
    """As `path:line` by spot."""
    view = await store.search.view(where)
    ids = await store.search.located(view, spots, where, k)
    assert len(ids) == len(spots)
    return [await _places(store, view, one) for one in ids]


async def _places(store: Store, view: View, ids: Sequence[ItemId]) -> list[str]:
    places = await store.search.places(view, ids)
    assert len(places) == len(ids)
    return [f"{p.path}:{p.start_line}" for p in places.values()]


async def one(store: Store, spot: Spot, where: Filter = FILES) -> list[str]:
    return (await found(store, [spot], where))[0]


async def test_a_path_is_whole_or_the_end_of_one_or_longer(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    here = ["src/util.toy:1", "src/util.toy:2"]
    for path in ("src/util.toy", "util.toy", "/home/ci/build/src/util.toy", "/src/util.toy"):
        assert await one(store, Spot(path)) == here
    assert await one(store, Spot("server/client.toy")) == [
        "src/http/server/client.toy:1",
        "src/http/server/client.toy:2",
    ]
    # Two files are called so: both are meant.
    assert len(await one(store, Spot("client.toy"))) == 5
    assert await one(store, Spot("nowhere.toy")) == []
    assert await one(store, Spot("til.toy")) == []


async def test_another_packages_file_of_that_name_is_none_of_ours(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    assert await one(store, Spot("other/lib/util.toy", "", 1, 1)) == []
    assert await one(store, Spot("other/lib/util.toy", "elsewhere", 1, 1)) == []
    # The folder is called otherwise there, but the function is ours.
    assert await one(store, Spot("other/lib/util.toy", "open_file", 9, 9)) == ["src/util.toy:2"]
    assert await one(store, Spot("app/http/server/client.toy", "", 2, 2)) == [
        "src/http/server/client.toy:2"
    ]


async def test_a_file_in_the_root_needs_a_function_to_be_meant(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", {**CODE, "setup.toy": ["configure:", "run:"]})
    assert await one(store, Spot("setup.toy", "", 2, 2)) == ["setup.toy:2"]
    assert await one(store, Spot("/home/x/another/setup.toy", "", 2, 2)) == []
    assert await one(store, Spot("/home/x/another/setup.toy", "main", 2, 2)) == []
    assert await one(store, Spot("/home/ci/r/setup.toy", "configure", 1, 1)) == ["setup.toy:1"]


async def test_lines_and_names_choose_within_a_file(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    path = "src/http/client.toy"
    assert await one(store, Spot(path, "", 2, 2)) == [f"{path}:2"]
    assert await one(store, Spot(path, "", 2, 3)) == [f"{path}:2", f"{path}:3"]
    assert await one(store, Spot(path, "", 40, 50)) == []
    # Lines move, names stay.
    assert await one(store, Spot(path, "parseHeaders", 1, 1)) == [f"{path}:3"]
    # A function that the index doesn't know is in the chunk that holds its line.
    assert await one(store, Spot(path, "lambda_of_it", 2, 2)) == [f"{path}:2"]


async def test_a_name_is_whole_or_the_end_of_one(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    both = ["src/http/client.toy:1", "src/http/server/client.toy:2"]
    assert await one(store, Spot("", "send_request")) == both
    assert await one(store, Spot("", "end_request")) == []
    view = await store.search.view(FILES)
    (ids,) = await store.search.located(view, [Spot("", "open_file")], FILES, 5)
    symbol = (await store.search.places(view, ids))[ids[0]].symbol
    for name in (symbol, f"package.{symbol}"):
        assert await one(store, Spot("", name)) == ["src/util.toy:2"]
    assert await one(store, Spot("", "Another.open_file")) == []


async def test_answers_are_by_spot_cut_and_in_order(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    spots = [Spot("gone.toy"), Spot("util.toy"), Spot("", "send_request"), Spot("", "gone")]
    assert [len(one) for one in await found(store, spots)] == [0, 2, 2, 0]
    assert [len(one) for one in await found(store, spots, k=1)] == [0, 1, 1, 0]
    assert await found(store, []) == []
    many = [Spot("util.toy", "", n % 2 + 1, n % 2 + 1) for n in range(300)]
    assert len(await found(store, many)) == 300


async def test_a_filter_a_repository_and_a_revision_narrow(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    await index(store, "other", {"src/util.toy": ["join_paths:"]})
    spot = Spot("src/util.toy")
    assert len(await one(store, spot)) == 3
    assert len(await one(store, spot, Filter(repos=("other",)))) == 1
    assert len(await one(store, Spot("src/util.toy", repo="other"))) == 1
    assert await one(store, spot, Filter(path_glob="tests/**")) == []
    assert await one(store, spot, Filter(collections=(Collection.MEMORIES,))) == []
    before = await store.search.view(Filter(repos=("r",)))
    await index(store, "r", {**CODE, "src/util.toy": ["renamed:"], "src/new/util.toy": ["added:"]})
    assert await one(store, Spot("src/util.toy"), Filter(repos=("r",))) == ["src/util.toy:1"]
    assert len(await one(store, Spot("util.toy"), Filter(repos=("r",)))) == 2
    assert await one(store, Spot("", "renamed"), Filter(repos=("r",))) == ["src/util.toy:1"]
    (ids,) = await store.search.located(before, [Spot("", "renamed")], Filter(repos=("r",)), 5)
    assert ids == []


async def test_what_everything_is_called_names_nothing(store: Store, index: IndexFiles) -> None:
    await index(
        store, "r", {f"pkg{n}/init.toy": ["setup:", f"own{n}:"] for n in range(MAX_NAMED + 5)}
    )
    assert MAX_FILES < MAX_NAMED
    assert await found(store, [Spot("", "setup"), Spot("init.toy")]) == [[], []]
    assert await one(store, Spot("pkg3/init.toy", "setup")) == ["pkg3/init.toy:1"]


async def test_hostile_spots_find_nothing(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    spots = [
        Spot("\0"),
        Spot("", "\0"),
        Spot("/"),
        Spot("..", "..", 1, 1),
        Spot("a" * 10_000),
        Spot("", "." * 500),
        Spot("util.toy/", "%", -5, -1),
        Spot("", "'; DROP TABLE item; --"),
    ]
    assert all(
        one in ([], ["src/util.toy:1", "src/util.toy:2"]) for one in await found(store, spots)
    )


def test_paths_of_the_revisions_longest_unused_are_let_go() -> None:
    cache = PathCache(most=5)
    cache.put((1, 1), ["a/x", "b/x"])
    cache.put((2, 1), ["c", "d"])
    assert cache.get((1, 1)) == {"x": ["a/x", "b/x"]}
    cache.put((3, 1), ["e", "f"])
    assert cache.get((2, 1)) is None
    assert cache.get((1, 1)) is not None
    cache.put((4, 1), [str(n) for n in range(9)])  # one alone may be larger
    assert cache.get((4, 1)) is not None
    assert cache.get((1, 1)) is None
