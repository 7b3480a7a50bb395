"""What the index says of agents' items: anchors that hold, changed and went, proofs, text from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from plait.domain.memory import NO_ID, MemoryEntry, MemoryMetadata, MemorySource
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
from plait.ports import ItemState
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]
ALL = Filter(collections=tuple(Collection))

CODE = {
    "src/client.toy": ["send_request: open_socket", "open_socket:"],
    "src/server.toy": ["serve: send_request"],
    "src/old.toy": ["gone:"],
}


async def remember(
    store: Store,
    path: str = "",
    symbol: str = "",
    *,
    text: str = "",
    source: MemorySource = MemorySource.AGENT,
    custom: Mapping[str, Any] | None = None,
    tags: tuple[str, ...] = (),
) -> ItemId:
    text = text or f"something about {path} {symbol}"
    metadata = MemoryMetadata(source=source, custom=custom or {}, tags=tags)
    entry = MemoryEntry(NO_ID, "r", "ada", text, metadata, path=path, symbol=symbol)
    (receipt,) = await store.memories.store("default", [check(entry)])
    assert not isinstance(receipt, Exception)
    return ItemId(receipt.entry.id)


async def ran(
    store: Store, artifacts: Sequence[Artifact], status: str = "success", request_id: str = "1"
) -> tuple[ItemId, ...]:
    receipt = await store.episodes.append(Episode(request_id, "r", Outcome(status), artifacts))
    return receipt.item_ids


async def item_states(store: Store, *ids: ItemId) -> list[ItemState]:
    view = await store.search.view(ALL)
    found = await store.search.item_states(view, ids)
    return [replace(found[id_], entry=None) for id_ in ids]


async def test_anchors_hold_change_and_go(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    ids = [
        await remember(store, "src/client.toy"),
        await remember(store, "src/client.toy", "src.client.send_request"),
        await remember(store, symbol="client.open_socket"),
        await remember(store, "src/client.toy", "top.src.client.open_socket"),
        await remember(store, "src/server.toy"),
        await remember(store, "src/old.toy"),
        await remember(store, symbol="src.old.gone"),
    ]
    fresh = ItemState(anchored=True, has_baseline=True, exists=True)
    assert await item_states(store, *ids) == [fresh] * 7
    changed = ["send_request: open_socket open_socket", "open_socket:"]
    await index(store, "r", {"src/client.toy": changed, "src/server.toy": CODE["src/server.toy"]})
    drifted = ItemState(anchored=True, has_baseline=True, exists=True, changed=True)
    gone = ItemState(anchored=True, has_baseline=True)
    assert await item_states(store, *ids) == [drifted, drifted, fresh, fresh, fresh, gone, gone]


async def test_what_comes_back_as_it_was_is_fresh_again(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    id_ = await remember(store, "src/old.toy")
    await index(store, "r", {**CODE, "src/old.toy": ["gone: serve"]})
    (then,) = await item_states(store, id_)
    assert then.changed
    await index(store, "r", CODE)
    (now,) = await item_states(store, id_)
    assert now == ItemState(anchored=True, has_baseline=True, exists=True)


async def test_without_an_index_or_an_anchor_nothing_is_known(
    store: Store, index: IndexFiles
) -> None:
    before, nowhere = await remember(store, "src/client.toy"), await remember(store)
    await index(store, "r", CODE)
    missing = await remember(store, "src/never.toy")
    end_of_another = await remember(store, symbol="ket")
    further_out = await remember(store, symbol="top.src.client.open_socket")
    assert await item_states(store, before, nowhere, missing, end_of_another, further_out) == [
        ItemState(anchored=True, exists=True),
        ItemState(anchored=False),
        ItemState(anchored=True),
        ItemState(anchored=True),
        ItemState(anchored=True),
    ]


async def test_code_has_no_item_state(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    view = await store.search.view(ALL)
    (chunk, *_) = await store.search.lexical(view, ["open_socket"], Filter(), 1)
    assert await store.search.item_states(view, [chunk.id]) == {}
    assert await store.search.item_states(view, []) == {}


DIFF = """\
--- a/src/client.toy
+++ b/src/client.toy
@@ -1,2 +1,3 @@
 send_request: open_socket
 open_socket:
+close_socket: open_socket
"""


async def test_a_diff_is_fresh_while_what_it_added_is_there(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    artifacts = (
        Artifact(ArtifactKind.DIFF, DIFF, "src/client.toy"),
        Artifact(ArtifactKind.REFLECTION, "sockets must be closed", "src/client.toy"),
        Artifact(ArtifactKind.PLAN, "then the server", "src/server.toy"),
    )
    ids = await ran(store, artifacts)
    not_yet = [s.changed for s in await item_states(store, *ids)]
    assert not_yet == [True, True, False]  # the index is from before the change
    added = [*CODE["src/client.toy"], "close_socket: open_socket"]
    await index(store, "r", {**CODE, "src/client.toy": added})
    assert [s.has_baseline and not s.changed for s in await item_states(store, *ids)] == [True] * 3
    await index(store, "r", {**CODE, "src/client.toy": ["rewritten:"]})
    assert [s.changed for s in await item_states(store, *ids)] == [True, True, False]
    await index(store, "r", {"src/server.toy": CODE["src/server.toy"]})
    assert [s.exists for s in await item_states(store, *ids)] == [False, False, True]


async def test_a_run_is_proven_by_tests_that_ended_well(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)

    async def proven(first: str, last: str, status: str, request_id: str) -> bool:
        artifacts = (
            Artifact(ArtifactKind.REFLECTION, f"send and open work {request_id}"),
            *(
                Artifact(
                    ArtifactKind.TEST_RESULT,
                    "ran",
                    meta={"tests": [{"name": "test_send", "status": s}]},
                )
                for s in (first, last)
            ),
        )
        ids = await ran(store, artifacts, status, request_id)
        (found, *_) = await item_states(store, *ids)
        return found.proven

    assert await proven("failed", "passed", "success", "1")
    assert not await proven("passed", "failed", "success", "2")
    assert not await proven("passed", "passed", "failure", "3")


async def test_text_from_outside_is_told(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    artifacts = (
        Artifact(ArtifactKind.TURN, "ls printed this", meta={"role": "tool"}),
        Artifact(ArtifactKind.TURN, "please fix it", meta={"role": "user"}),
        Artifact(ArtifactKind.PLAN, "run the tool", meta={"tool": "TodoWrite"}),
    )
    said = await ran(store, artifacts)
    ids = [
        await remember(store, text="an agent's claim"),
        await remember(store, text="a page said so", tags=("web",)),
        await remember(store, text="curl printed so", custom={"rule": "tool"}),
        await remember(store, text="marked", custom={"trust": "external"}),
        await remember(store, text="a summary", source=MemorySource.SYSTEM),
    ]
    found = [s.external for s in await item_states(store, *said, *ids)]
    assert found == [True, False, False, False, True, True, True, False]
