"""Code that the texts of agents' items name: looked up when they are stored, checked when they are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from plait.domain.memory import NO_ID, AsOf, MemoryEntry, MemoryId, MemoryMetadata
from plait.domain.recall import AnchorState, Freshness, NamedAnchor
from plait.domain.values import (
    Artifact,
    ArtifactKind,
    Collection,
    Episode,
    Filter,
    ItemId,
    Outcome,
)
from plait.memory.entry import check
from plait.ports import ItemState, Place
from plait.retrieval.ranking.freshness import freshness
from vector.memories import links
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]
ALL = Filter(collections=tuple(Collection))
SAID = Place("r", Collection.MEMORIES, "", "", "memory", False)

BODY = "open_socket close_socket bind_socket listen_socket accept_socket send_all receive_all"
CODE = {
    "src/client.toy": ["send_request: open_socket", "open_socket:", "twice:"],
    "src/server.toy": ["serve: send_request", "twice:", f"accept: {BODY}"],
    "src/old.toy": ["gone: serve", "forever:"],
}


async def remember(store: Store, text: str, path: str = "", symbol: str = "") -> ItemId:
    entry = MemoryEntry(NO_ID, "r", "ada", text, MemoryMetadata(), path=path, symbol=symbol)
    (receipt,) = await store.memories.store("default", [check(entry)])
    assert not isinstance(receipt, Exception)
    return ItemId(receipt.entry.id)


async def item_states(store: Store, id_: ItemId, where: Filter = ALL) -> ItemState:
    return (await store.search.item_states(await store.search.view(where), [id_]))[id_]


async def named(store: Store, id_: ItemId) -> tuple[NamedAnchor, ...]:
    return (await item_states(store, id_)).named


async def fresh(store: Store, id_: ItemId) -> Freshness:
    return freshness(SAID, await item_states(store, id_))


SENDS = ("src/client.toy", "src.client.send_request")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`send_request` retries three times", [SENDS]),
        ("call send_request() twice", [SENDS]),
        ("client.send_request in src/client.toy is slow", [SENDS]),
        ("src/server.toy has the loop", [("src/server.toy", "")]),
        ("see src/server.toy:12 and send_request", [SENDS, ("src/server.toy", "")]),
        ("see src/server.toy:1-2", [("src/server.toy", "src.server.serve")]),
        ("`accept` fails at src/server.toy:1", [("src/server.toy", "src.server.accept")]),
        ("serve it and accept what comes", []),  # words, not spelled as code
        ("`twice` is in two files", []),
        ("`twice` in src/server.toy", [("src/server.toy", "src.server.twice")]),
        ("`twice` in server.toy", [("src/server.toy", "src.server.twice")]),
        ("`no_such_name` in src/none.toy", []),
    ],
)
async def test_what_a_text_names_is_kept(
    store: Store, index: IndexFiles, text: str, expected: list[tuple[str, str]]
) -> None:
    await index(store, "r", CODE)
    found = await named(store, await remember(store, text))
    assert found == tuple(NamedAnchor(path, symbol, AnchorState.SAME) for path, symbol in expected)


async def test_a_name_that_many_have_is_found_where_it_went(
    store: Store, index: IndexFiles
) -> None:
    others = {f"src/a{n}.toy": [f"handle: a{n}"] for n in range(60)}
    before = {"src/zoo.toy": [f"handle: {BODY}"], "src/yak.toy": [f"handle: {BODY} twice"]}
    await index(store, "r", {**others, **before})
    text = "`zoo.handle` in src/zoo.toy and `yak.handle` in src/yak.toy are slow"
    id_ = await remember(store, text)
    after = {"z/zoo.toy": before["src/zoo.toy"], "z/yak.toy": ["handle: open_socket"]}
    await index(store, "r", {**others, **after})
    assert await named(store, id_) == (
        NamedAnchor("src/zoo.toy", "src.zoo.handle", AnchorState.MOVED, "z/zoo.toy"),
        NamedAnchor("src/yak.toy", "src.yak.handle", AnchorState.CHANGED, "z/yak.toy"),
    )


async def test_a_common_name_takes_no_other_with_it(
    store: Store, index: IndexFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of a batch are looked up together; what is too common for that is left out alone."""
    many = {f"src/a{n}.toy": ["get_it:"] for n in range(12)}
    await index(store, "r", {**CODE, **many})
    monkeypatch.setattr(links, "MAX_SYMBOLS", 10)
    texts = ["`get_it` is in all of them, src/a3.toy say", "`send_request` retries"]
    entries = [MemoryEntry(NO_ID, "r", "ada", text, MemoryMetadata()) for text in texts]
    common, rare = await store.memories.store("default", [check(entry) for entry in entries])
    assert not isinstance(common, Exception)
    assert not isinstance(rare, Exception)
    assert await named(store, ItemId(rare.entry.id)) == (NamedAnchor(*SENDS, AnchorState.SAME),)
    assert await named(store, ItemId(common.entry.id)) == (
        NamedAnchor("src/a3.toy", "", AnchorState.SAME),
    )


async def test_what_is_named_holds_changes_moves_and_goes(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    texts = [
        "`send_request` retries", "`open_socket` is cheap", "`gone` and `forever` are slow",
        "`accept` is the loop", "`send_request` is called by `gone`", "src/old.toy is legacy",
    ]  # fmt: skip
    ids = [await remember(store, text) for text in texts]
    assert [await fresh(store, id_) for id_ in ids] == [Freshness.FRESH] * 6
    changed = ["send_request: open_socket open_socket", "open_socket:", "twice:"]
    await index(
        store, "r",
        {"src/client.toy": changed, "src/server.toy": ["serve: send_request", "twice:"],
         "lib/loop.toy": [f"accept: {BODY}"]},
    )  # fmt: skip
    assert [await fresh(store, id_) for id_ in ids] == [
        Freshness.DRIFTED, Freshness.FRESH, Freshness.ORPHANED, Freshness.FRESH, Freshness.DRIFTED,
        Freshness.ORPHANED,
    ]  # fmt: skip
    assert await named(store, ids[3]) == (
        NamedAnchor("src/server.toy", "src.server.accept", AnchorState.MOVED, "lib/loop.toy"),
    )
    assert [one.state for one in await named(store, ids[4])] == [
        AnchorState.CHANGED,
        AnchorState.GONE,
    ]


async def test_layout_and_order_are_no_change(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    id_ = await remember(store, "`send_request` retries")
    await index(store, "r", {**CODE, "src/client.toy": ["", "send_request:   open_socket"]})
    assert await fresh(store, id_) is Freshness.FRESH


async def test_what_was_not_there_is_not_missed(store: Store, index: IndexFiles) -> None:
    before = await remember(store, "`send_request` retries")
    await index(store, "r", CODE)
    later = await remember(store, "`send_response` is to be written")
    for id_ in (before, later):
        assert await fresh(store, id_) is Freshness.UNVERIFIABLE
    again = await remember(store, "`send_request` retries")  # said anew, of the code as it is now
    assert again == before


async def test_a_given_anchor_counts_first(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    id_ = await remember(store, "`send_request` and `serve` are slow", SENDS[0], "send_request")
    assert [one.symbol for one in await named(store, id_)] == ["src.server.serve"]
    await index(store, "r", {**CODE, "src/server.toy": ["serve: send_request send_request"]})
    assert await fresh(store, id_) is Freshness.DRIFTED
    await index(store, "r", {**CODE, "src/client.toy": ["open_socket:"]})
    assert await fresh(store, id_) is Freshness.ORPHANED


async def test_a_new_version_has_its_own_anchors(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    old = await remember(store, "`send_request` retries")
    entry = MemoryEntry(NO_ID, "r", "ada", "no: `serve` does", MemoryMetadata())
    (receipt,) = await store.memories.store(
        "default", [replace(check(entry), supersedes=MemoryId(old))]
    )
    assert not isinstance(receipt, Exception)
    assert [one.symbol for one in await named(store, ItemId(receipt.entry.id))] == [
        "src.server.serve"
    ]


async def test_as_of_an_earlier_time_it_was_fresh(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    id_ = await remember(store, "`send_request` retries")
    entry = await store.memories.get("default", "r", MemoryId(id_))
    await index(store, "r", {**CODE, "src/client.toy": ["send_request: serve"]})
    assert await fresh(store, id_) is Freshness.DRIFTED
    then = replace(ALL, as_of=AsOf(recorded=entry.updated_at))
    assert freshness(SAID, await item_states(store, id_, then)) is Freshness.FRESH


async def test_other_repositories_are_not_looked_at(store: Store, index: IndexFiles) -> None:
    await index(store, "other", CODE)
    await index(store, "r", {"src/a.toy": ["run:"]})
    id_ = await remember(store, "`send_request` retries, src/client.toy")
    assert await named(store, id_) == ()


async def test_a_run_names_code_too(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    artifacts = (
        Artifact(ArtifactKind.REFLECTION, "`send_request` must retry"),
        Artifact(ArtifactKind.PLAN, "look at src/server.toy first"),
        Artifact(ArtifactKind.NOTE, "plain words"),
        Artifact(ArtifactKind.TURN, "where is `send_request`?", meta={"role": "user"}),
        Artifact(ArtifactKind.TURN, "src/client.toy: send_request()", meta={"role": "tool"}),
    )
    receipt = await store.episodes.append(Episode("1", "r", Outcome("success"), artifacts))
    now = [await named(store, id_) for id_ in receipt.item_ids]
    sends = (NamedAnchor(*SENDS, AnchorState.SAME),)
    assert now == [sends, (NamedAnchor("src/server.toy", "", AnchorState.SAME),), (), sends, ()]
    await index(store, "r", {**CODE, "src/client.toy": ["send_request: serve"]})
    found = [await fresh(store, id_) for id_ in receipt.item_ids]
    assert found == [
        Freshness.DRIFTED, Freshness.FRESH, Freshness.UNVERIFIABLE, Freshness.DRIFTED,
        Freshness.UNVERIFIABLE,
    ]  # fmt: skip


DIFF = """\
--- a/src/client.toy
+++ b/src/client.toy
@@ -1,2 +1,3 @@
 send_request: open_socket
 open_socket:
+close_socket: open_socket
"""


async def test_code_that_the_run_itself_changed_is_judged_by_its_hunks(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    artifacts = (
        Artifact(ArtifactKind.DIFF, DIFF),
        Artifact(ArtifactKind.REFLECTION, "`send_request` must close too, as `serve` does"),
        Artifact(ArtifactKind.PLAN, "close in src/client.toy"),
    )
    receipt = await store.episodes.append(Episode("1", "r", Outcome("success"), artifacts))
    _, *ids = receipt.item_ids
    added = [*CODE["src/client.toy"], "close_socket: open_socket"]
    added[0] = "send_request: open_socket close_socket"  # of the same change, in another hunk
    await index(store, "r", {**CODE, "src/client.toy": added})
    assert [await fresh(store, id_) for id_ in ids] == [Freshness.FRESH] * 2
    assert len(await named(store, ids[0])) == 2
    await index(store, "r", {**CODE, "src/client.toy": CODE["src/client.toy"][:2]})
    assert [await fresh(store, id_) for id_ in ids] == [Freshness.DRIFTED] * 2
    await index(store, "r", {"src/server.toy": CODE["src/server.toy"]})
    assert [await fresh(store, id_) for id_ in ids] == [Freshness.DRIFTED, Freshness.ORPHANED]


async def test_a_hostile_text_anchors_little(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    names = [f"name_{n}" for n in range(300)]
    await index(store, "r", {"src/many.toy": [f"{name}:" for name in names]})
    id_ = await remember(store, " ".join(f"`{name}`" for name in names))
    assert len(await named(store, id_)) == 8
    with psycopg.connect(truth_dsn, options="-c search_path=plait") as conn:
        row = conn.execute("SELECT anchors FROM memories WHERE id = %s", (id_,)).fetchone()
    assert row is not None
    assert len(row[0]) == 8
