"""Every as-of answer about memories equals a brute-force replay of what was said.

Hypothesis makes a history: memories stored, stored again with other tags, importance or intervals,
superseded, corrected, deleted, in one batch or in several, by several agents in several sessions and
repositories. Each write is logged with the recorded time that the store answered; the model below knows
nothing of versions, rows or intervals: it replays the log up to a recorded time and looks at what is
left. Both are asked at random pairs of (valid, recorded) and at every boundary, to the microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from plait.domain.errors import MemoryClosed, MemoryNotFound
from plait.domain.memory import (
    NO_ID,
    AsOf,
    MemoryEntry,
    MemoryFilter,
    MemoryId,
    MemoryMetadata,
    MemoryQueryOptions,
    MemoryReceipt,
)
from plait.memory.entry import check
from tests.memory_queries import query
from vector.store import Store

TICK = timedelta(microseconds=1)
DAY = timedelta(days=1)
# Valid times stand around now, each half a day or more from it: it passes none while a test runs, and
# is the same for both sides.
TODAY = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=12)
DAYS = st.integers(-6, 6).map(lambda n: TODAY + n * DAY)
COMPARED = count()
REFUSED = count()


# -- the history ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Say:
    """Store a text; `over`: which of the entries so far it supersedes, if any."""

    text: str
    agent: str
    session: str
    repo: str
    tags: tuple[str, ...]
    importance: float
    valid: tuple[datetime | None, datetime | None]
    over: int | None


@dataclass(frozen=True)
class Delete:
    which: int


@st.composite
def intervals(draw: st.DrawFn) -> tuple[datetime | None, datetime | None]:
    start, end = draw(st.none() | DAYS), draw(st.none() | DAYS)
    if start is not None and end is not None and end <= start:
        start, end = end, start + DAY
    return start, end


SAY = st.builds(
    Say,
    text=st.sampled_from(["the red zebra", "the blue zebra", "a green zebra", "one zebra more"]),
    agent=st.sampled_from(["a", "b"]),
    session=st.sampled_from(["s", "t"]),
    repo=st.sampled_from(["r1", "r2"]),
    tags=st.sets(st.sampled_from("xyz")).map(lambda s: tuple(sorted(s))),
    importance=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    valid=intervals(),
    over=st.none() | st.integers(0, 30),
)
STEPS = st.lists(
    st.lists(SAY, min_size=1, max_size=4) | st.builds(Delete, st.integers(0, 30)),
    min_size=4,
    max_size=14,
)


# -- the model: a log, replayed -----------------------------------------------------------------------


@dataclass
class Known:
    """One entry as a reader of some recorded time knows it."""

    id: MemoryId
    repo: str
    agent: str
    session: str
    text: str
    tags: set[str]
    importance: float
    start: datetime | None
    end: datetime | None
    created: datetime

    def holds(self, at: datetime) -> bool:
        return (self.start is None or self.start <= at) and (self.end is None or at < self.end)


@dataclass(frozen=True)
class Event:
    at: datetime
    said: Say | None
    id: MemoryId  # the entry it is about
    over: MemoryId | None = None


@dataclass
class Model:
    log: list[Event] = field(default_factory=list)

    def living(self, recorded: datetime | None) -> dict[MemoryId, Known]:
        """Play the log up to `recorded`, inclusive."""
        out: dict[MemoryId, Known] = {}
        for event in self.log:
            if recorded is not None and event.at > recorded:
                continue
            if event.said is None:
                out.pop(event.id, None)
                continue
            self._say(out, event, event.said)
        return out

    def _say(self, out: dict[MemoryId, Known], event: Event, said: Say) -> None:
        known = out.get(event.id)
        start, end = said.valid
        if known is None:
            out[event.id] = Known(
                event.id, said.repo, said.agent, said.session, said.text, set(said.tags),
                said.importance, start, end, event.at,
            )  # fmt: skip
        elif event.over == event.id:  # corrected: as it is said now
            known.tags, known.importance, known.start, known.end = (
                set(said.tags), said.importance, start, end,
            )  # fmt: skip
        else:  # told again: nothing that was said before is taken back
            known.tags |= set(said.tags)
            known.importance = max(known.importance, said.importance)
            known.start = min(known.start, start) if known.start and start else None
            known.end = max(known.end, end) if known.end and end else None
        if event.over is not None and event.over != event.id:
            out.pop(event.over, None)

    def refuses(self, said: Say, over: MemoryId | None) -> bool:
        """Whether `over` has ended, but for by an entry that is alive and says the same."""
        out: dict[MemoryId, Known] = {}
        heirs: dict[MemoryId, MemoryId] = {}
        for event in self.log:
            if event.said is None:
                out.pop(event.id, None)
                continue
            if event.over in out and event.over != event.id:
                heirs[event.over] = event.id
            self._say(out, event, event.said)
        if over is None or over in out:
            return False
        heir = out.get(heirs.get(over, over))
        mine = (said.repo, said.agent, said.session, said.text)
        return heir is None or (heir.repo, heir.agent, heir.session, heir.text) != mine

    def answer(self, as_of: AsOf, repos: Iterable[str]) -> list[Known]:
        """What a read answers: living and true then, newest first."""
        at = as_of.valid or datetime.now(UTC)
        found = [k for k in self.living(as_of.recorded).values() if k.repo in repos and k.holds(at)]
        return sorted(found, key=lambda k: (k.created, k.id), reverse=True)


def same(entry: MemoryEntry, known: Known) -> bool:
    """What closed a version later is not known yet."""
    return (
        entry.superseded_at is None and entry.superseded_by is None
    ) and (
        entry.id, entry.repo, entry.agent_id, entry.metadata.session_key, entry.content,
        set(entry.metadata.tags), entry.metadata.importance, entry.valid_from, entry.valid_to,
        entry.created_at,
    ) == (
        known.id, known.repo, known.agent, known.session, known.text, known.tags, known.importance,
        known.start, known.end, known.created,
    )  # fmt: skip


# -- the replay -------------------------------------------------------------------------------------------


async def play(store: Store, steps: list[list[Say] | Delete], salt: int) -> Model:
    """Do it, and log it with the times the store gave."""
    model = Model()
    ids: list[tuple[MemoryId, str]] = []
    names = {name: f"{name}-{salt}" for name in ("r1", "r2")}
    request = count()
    for step in steps:
        if isinstance(step, Delete):
            if ids:
                id_, repo = ids[step.which % len(ids)]
                await store.memories.delete("default", repo, id_)
                await log_delete(store, model, repo, id_)
            continue
        batch = []
        for said in step:
            said = replace(said, repo=names[said.repo])
            mine = [id_ for id_, repo in ids if repo == said.repo]
            over = mine[said.over % len(mine)] if mine and said.over is not None else None
            meta = MemoryMetadata(
                session_key=said.session, tags=said.tags, importance=said.importance
            )
            entry = MemoryEntry(
                NO_ID, said.repo, said.agent, said.text, meta,
                valid_from=said.valid[0], valid_to=said.valid[1],
            )  # fmt: skip
            batch.append((said, over, check(entry, f"{salt}-{next(request)}", over)))
        receipts = await store.memories.store("default", [write for _, _, write in batch])
        for (said, over, _), receipt in zip(batch, receipts, strict=True):
            if model.refuses(said, over):
                assert isinstance(receipt, MemoryClosed)
                next(REFUSED)
                continue
            assert isinstance(receipt, MemoryReceipt)
            at = await time_of(store, said.repo)
            model.log.append(Event(at, said, receipt.entry.id, over))
            if (receipt.entry.id, said.repo) not in ids:
                ids.append((receipt.entry.id, said.repo))
    return model


async def time_of(store: Store, repo: str) -> datetime:
    """The recorded time of the write to `repo` that was answered last."""
    ((at,),) = await store.db.rows(
        "SELECT c.at FROM repo_clock c JOIN repository r ON r.id = c.repo_id WHERE r.name = %(n)s",
        {"n": repo},
    )
    return at.astimezone(UTC)  # type: ignore[no-any-return]


async def log_delete(store: Store, model: Model, repo: str, id_: MemoryId) -> None:
    model.log.append(Event(await time_of(store, repo), None, id_))


def moments(model: Model, recorded: list[datetime]) -> Iterator[AsOf]:
    """Pairs of times: each boundary, the tick before it and after it, and none."""
    edges = sorted({t for e in model.log if e.said for t in e.said.valid if t is not None})
    known = sorted({e.at for e in model.log})
    valid: list[datetime | None] = [None, *(t + d for t in edges for d in (-TICK, 0 * TICK, TICK))]
    times = [None, *(t + d for t in known for d in (-TICK, 0 * TICK, TICK)), *recorded]
    for i, r in enumerate(times):
        yield AsOf(None, r)
        # Every valid time meets some recorded ones, and the other way round.
        for v in valid[i % 3 :: 3]:
            yield AsOf(v, r)


async def compare(store: Store, model: Model, as_of: AsOf, repos: tuple[str, ...]) -> None:
    expected = model.answer(as_of, repos)
    where = MemoryFilter(repos=repos)
    page = await store.memories.list(where, limit=1000, as_of=as_of)
    assert len(page.entries) == len(expected), as_of
    assert all(same(e, k) for e, k in zip(page.entries, expected, strict=True)), as_of
    matches = await query(store, "zebra", None, MemoryQueryOptions(where, top_k=100, as_of=as_of))
    assert {m.entry.id for m in matches} == {k.id for k in expected}, as_of
    living = {k.id: k for k in expected}
    assert all(same(m.entry, living[m.entry.id]) for m in matches), as_of
    next(COMPARED)
    next(COMPARED)


async def compare_each(store: Store, model: Model, as_of: AsOf) -> None:
    expected = {k.id: k for k in model.answer(as_of, {e.said.repo for e in model.log if e.said})}
    for id_, repo in {(e.id, e.said.repo) for e in model.log if e.said}:
        try:
            entry = await store.memories.get("default", repo, id_, as_of)
        except MemoryNotFound:
            assert id_ not in expected, as_of
        else:
            assert same(entry, expected[id_]), as_of
        next(COMPARED)


HISTORIES = count()


async def test_every_answer_equals_the_replay(store: Store, record_property: Any) -> None:
    before = next(COMPARED)
    histories: list[tuple[list[list[Say] | Delete], list[datetime]]] = []

    @settings(
        max_examples=20, deadline=None, database=None, derandomize=True,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(STEPS, st.lists(st.integers(0, 10**6), min_size=2, max_size=4))
    def collect(steps: list[list[Say] | Delete], offsets: list[int]) -> None:
        histories.append((steps, [TODAY + timedelta(microseconds=n) for n in offsets]))

    collect()
    for steps, recorded in histories:
        salt = next(HISTORIES)
        model = await play(store, steps, salt)
        repos = (f"r1-{salt}", f"r2-{salt}")
        for i, as_of in enumerate(moments(model, recorded)):
            await compare(store, model, as_of, repos if i % 3 else repos[i % 2 :])
            if i % 7 == 0:
                await compare_each(store, model, as_of)
    total = next(COMPARED) - before - 1
    assert next(REFUSED) > 10
    told = f"{total:,} answers of {len(histories)} histories equal their replay"
    record_property("printed", told)
    assert total > 5_000
