"""A recall is answered once more as of its times: the same, whatever was written, deleted or said since."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from plait.domain.deadline import Deadline
from plait.domain.errors import EmbeddingUnavailable, HistoryGone, InvalidInput, RecallUnknown
from plait.domain.memory import NO_ID, AsOf, MemoryEntry, MemoryMetadata, MemoryReceipt
from plait.domain.recall import (
    Feedback,
    ItemVerdict,
    PackingOptions,
    RecallFormat,
    RecallId,
    Verdict,
)
from plait.domain.retention import Selector
from plait.domain.values import Collection, Filter, ItemId, Outcome
from plait.memory.entry import check
from plait.ports import EmbeddingProvider
from plait.retrieval.query.analysis import SearchQuery
from plait.retrieval.recall import RecallAnswer, RecallService
from plait.retrieval.search_context import Deps
from tests.contract.conftest import IndexFiles
from tests.processes import LIMIT_S
from vector.store import Store

T = "default"
EVERYTHING = Filter(repos=("r",), collections=tuple(Collection))
OPTIONS = PackingOptions(min_score=0.0, session_key="s")
FILES = {
    "a.toy": ("parse_header: read_line", "read_line:", "write_line:"),
    "b.toy": ("retry_upload: write_line",),
    "test_a.toy": ("test_parse_header: parse_header",),
}
WORDS = [
    "header",
    "line",
    "upload",
    "retry",
    "timeout",
    "cache",
    "token",
    "session",
    "proxy",
    "queue",
]
QUESTIONS = ("parse header line", "retry upload timeout", "cache token session", "proxy queue")


async def no_model() -> EmbeddingProvider:
    raise EmbeddingUnavailable("there is no model here")


def service(store: Store) -> RecallService:
    settings = store.app.settings
    return RecallService(
        Deps(
            store.search,
            no_model,
            settings.search,
            settings.recall,
            store.relations,
            receipts=store.recalls,
        )
    )


async def ask(store: Store, text: str, **more: Any) -> RecallAnswer:
    options = replace(OPTIONS, **more.pop("options", {}))
    query = SearchQuery(text, EVERYTHING, deadline=Deadline.after(LIMIT_S), **more)
    return await service(store).recall(query, options)


async def again(store: Store, answer: RecallAnswer, tenant: str = T) -> RecallAnswer:
    assert answer.recall_id is not None
    return await service(store).replay(tenant, answer.recall_id)


async def remember(store: Store, text: str) -> MemoryEntry:
    entry = MemoryEntry(NO_ID, "r", "a", text, MemoryMetadata())
    (got,) = await store.memories.store(T, [check(entry, str(uuid4()), None)])
    assert isinstance(got, MemoryReceipt)
    return got.entry


def shown(answer: RecallAnswer) -> list[ItemId]:
    return [one.item.id for one in answer.block.items]


async def tell(store: Store, answer: RecallAnswer, word: Verdict, ids: Sequence[ItemId]) -> None:
    assert answer.recall_id is not None
    said = [ItemVerdict(id_, word) for id_ in ids]
    await service(store).report(Feedback(str(uuid4()), b"b", answer.recall_id, said))


@pytest.fixture
async def filled(store: Store, index: IndexFiles) -> Store:
    await index(store, "r", FILES)
    chance = random.Random(5)
    for n in range(30):
        words = chance.sample(WORDS, 4)
        await remember(
            store, f"note {n}: the {words[0]} of the {words[1]} needs {words[2]} {words[3]}"
        )
    return store


async def test_what_is_said_next_to_turns_since_does_not_change_a_replay(
    store: Store, index: IndexFiles
) -> None:
    """What a turn gains from those beside it, and what it says of code, are of the time of the answer."""
    await index(store, "r", FILES)
    chance = random.Random(7)

    async def say(text: str, session: str) -> MemoryEntry:
        entry = MemoryEntry(NO_ID, "r", "a", text, MemoryMetadata(session_key=session), kind="turn")
        (got,) = await store.memories.store(T, [check(entry, str(uuid4()), None)])
        assert isinstance(got, MemoryReceipt)
        return got.entry

    said = []
    for n in range(40):
        words = " ".join(chance.sample(WORDS, 2))
        code = chance.choice(["", " in `parse_header`", " in `retry_upload` of b.toy"])
        said.append(await say(f"{n}: the {words}{code}{chance.choice('.?')}", f"s{n % 3}"))
    asked = [await ask(store, text, options={"session_key": ""}) for text in QUESTIONS]
    assert sum(bool(shown(a)) for a in asked) >= 3
    for n, entry in enumerate(said):
        if n % 4 == 0:
            assert await store.memories.delete(T, "r", entry.id)
        if n % 5 == 0:
            await say(f"later {n}: {chance.choice(QUESTIONS)}", f"s{n % 3}")
    await index(store, "r", {**FILES, "a.toy": ("parse_header: x",), "b.toy": ("gone:",)})
    for first in asked:
        second = await again(store, first)
        assert second.block.context == first.block.context
        assert second.same
    now = await ask(store, QUESTIONS[0], options={"session_key": ""})
    assert now.block.context != asked[0].block.context
    without = await ask(
        store, QUESTIONS[0], options={"session_key": ""}, off=frozenset({"hierarchical", "score"})
    )
    assert shown(without)


async def test_what_happens_since_does_not_change_a_replay(
    filled: Store, index: IndexFiles
) -> None:
    chance = random.Random(11)
    asked = []
    for n, text in enumerate(QUESTIONS * 3):
        answer = await ask(filled, text, options={"session_key": f"s{n % 2}"})
        asked.append(answer)
        if items := shown(answer):
            word = chance.choice([Verdict.HELPED, Verdict.HARMED])
            await tell(filled, answer, word, chance.sample(items, min(3, len(items))))
        entry = await remember(filled, f"later {n}: {text} is what matters most here, {text}")
        if n % 2:
            assert await filled.memories.delete(T, "r", entry.id)
    await index(filled, "r", {**FILES, "c.toy": ("parse_header_line: x",), "b.toy": ("gone:",)})
    assert sum(bool(shown(a)) for a in asked) >= 8
    for first in asked:
        second = await again(filled, first)
        assert second.block.context == first.block.context
        assert shown(second) == shown(first)
        assert second.same
        assert second.replay_of == first.recall_id
        assert second.recall_id is None
        assert [r.number for r in second.view.revisions] == [r.number for r in first.view.revisions]
    # The same questions now are answered otherwise, or there would be nothing to replay.
    now = [await ask(filled, text, options={"session_key": ""}) for text in QUESTIONS]
    assert any(shown(a) != shown(b) for a, b in zip(now, asked, strict=False))


async def test_a_replay_leaves_no_trace(filled: Store, truth_dsn: str) -> None:
    first = await ask(filled, QUESTIONS[0])
    before = counts(truth_dsn)
    await again(filled, first)
    assert counts(truth_dsn) == before


def counts(dsn: str) -> list[Any]:
    with psycopg.connect(dsn, options="-c search_path=plait") as conn:
        return [
            conn.execute(f"SELECT count(*) FROM {table}").fetchone()
            for table in ("recall", "feedback", "feedback_item", "item", "outbox")
        ]


async def test_what_was_forgotten_is_not_brought_back(filled: Store) -> None:
    secret = await remember(filled, "the parquet ledger: zanzibarquux")
    first = await ask(filled, "parquet ledger", options={"session_key": ""})
    other = await ask(filled, QUESTIONS[3], options={"session_key": ""})
    assert "zanzibarquux" in first.block.context
    assert "zanzibarquux" not in other.block.context
    await filled.forgetting.forget(T, "r", Selector(ids=(secret.id,)), dry_run=False)
    with pytest.raises(RecallUnknown):
        await again(filled, first)
    assert shown(await again(filled, other)) == shown(other)


async def test_an_answer_as_of_a_time_is_replayed_as_of_that(filled: Store) -> None:
    at = datetime.now(UTC)
    await remember(filled, "upload retry upload retry upload")
    where = replace(EVERYTHING, as_of=AsOf(recorded=at))
    query = SearchQuery(QUESTIONS[1], where, deadline=Deadline.after(LIMIT_S))
    first = await service(filled).recall(query, OPTIONS)
    await remember(filled, "retry upload timeout upload")
    second = await again(filled, first)
    assert second.same
    assert second.view.recorded == at


async def test_collected_code_says_so(filled: Store, index: IndexFiles, truth_dsn: str) -> None:
    first = await ask(filled, QUESTIONS[0])
    await index(filled, "r", {**FILES, "a.toy": ("parse_header:",)})
    with psycopg.connect(truth_dsn, autocommit=True, options="-c search_path=plait") as conn:
        conn.execute("UPDATE repository SET collected = published")
    with pytest.raises(HistoryGone, match=r"index\.keep_s"):
        await again(filled, first)


async def test_no_receipt_no_replay(filled: Store) -> None:
    assert (await ask(filled, QUESTIONS[0], options={"receipt": False})).recall_id is None
    with pytest.raises(RecallUnknown):
        await service(filled).replay(T, RecallId(uuid4()))
    first = await ask(filled, QUESTIONS[0])
    with pytest.raises(RecallUnknown):
        await again(filled, first, tenant="acme")


async def test_every_format_replays(filled: Store) -> None:
    for form in RecallFormat:
        first = await ask(filled, QUESTIONS[0], options={"format": form, "session_key": ""})
        assert (await again(filled, first)).same, form


async def test_feedback_moves_the_next_recall_within_its_bound(filled: Store) -> None:
    """Two memories of the same words: neither is better, until one has helped."""
    bound = filled.app.settings.recall.feedback_bound
    for name in "xy":
        await remember(filled, f"flush the parquet ledger {name}")
    question = "flush parquet ledger"
    first = await ask(filled, question, options={"session_key": ""})
    best, second = shown(first)[:2]
    for n in range(6):
        one = await ask(filled, question, options={"session_key": f"x{n}"})
        await tell(filled, one, Verdict.HELPED, [second])
        await tell(filled, one, Verdict.HARMED, [best])
    after = await ask(filled, question, options={"session_key": ""})
    assert shown(after)[:2] == [second, best]
    assert "helped before" in after.block.items[0].reasons
    assert "misled before" in after.block.items[1].reasons
    evidence = await filled.recalls.evidence(after.view, [best, second])
    assert evidence[second].helped > 5 < evidence[best].harmed
    ratio = after.block.items[1].score / after.block.items[0].score
    assert (1 - bound) / (1 + bound) < ratio < 1.0
    without = await ask(filled, question, options={"session_key": ""}, off=("feedback",))
    assert shown(without)[:2] == [best, second]


async def test_a_report_that_says_nothing_is_refused(filled: Store) -> None:
    first = await ask(filled, QUESTIONS[0])
    assert first.recall_id is not None
    with pytest.raises(InvalidInput, match="says nothing"):
        await service(filled).report(Feedback("x", b"b", first.recall_id))
    with pytest.raises(InvalidInput, match=r"outcome\.status"):
        await service(filled).report(
            Feedback("x", b"b", first.recall_id, outcome=Outcome("splendid"))
        )


async def test_recalls_and_writers_side_by_side_lose_no_receipt(filled: Store) -> None:
    """Each answered id is known at once; those that no write came between replay the same."""

    async def write(n: int) -> None:
        await remember(filled, f"beside {n}: header upload token proxy")

    async def recall(n: int) -> RecallAnswer:
        return await ask(filled, QUESTIONS[n % 4], options={"session_key": ""})

    out = await asyncio.gather(*(f(n) for n in range(12) for f in (write, recall)))
    answers = [a for a in out if a is not None]
    for answer in answers:
        assert answer.recall_id is not None
        kept = await filled.recalls.receipt(T, answer.recall_id)
        assert [id_ for id_, _ in kept.items] == shown(answer)
        assert kept.at <= datetime.now(UTC) + timedelta(seconds=5)


async def test_how_many_hold_a_word_is_as_of_its_time(filled: Store) -> None:
    view = await filled.search.view(EVERYTHING)
    assert view.valid is not None
    before = await filled.search.counts(view, ["header", "line"], EVERYTHING)
    for n in range(5):
        await remember(filled, f"later note {n}: the header of line {n}")
    where = replace(EVERYTHING, as_of=AsOf(view.valid, view.valid))
    assert (
        await filled.search.counts(await filled.search.view(where), ["header", "line"], where)
        == before
    )
    now = await filled.search.view(EVERYTHING)
    assert await filled.search.counts(now, ["header", "line"], EVERYTHING) != before
