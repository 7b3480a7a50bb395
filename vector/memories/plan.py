"""What a batch of memories does to one repository's entries: decided in Python, without I/O.

Writes count in their order: the second of two equal texts of one batch is the first one's duplicate.
All that a batch does happens at one recorded time, so an entry gets one new version at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from plait.domain.copies import copier
from plait.domain.errors import MemoryClosed, MemoryNotFound, PlaitError
from plait.domain.memory import NO_ID, MemoryEntry, MemoryId, MemoryWrite

# What uniting an entry with its duplicates may grow its tags to; further ones are left out.
MAX_UNITED_TAGS = 200
# Characters of a text in which near-duplicates are told: a batch may meet thousands of long ones, and
# their words are compared in one process with everything else.
MAX_READ = 10_000


@dataclass(slots=True)
class Prepared:
    """One memory with what is asked for first. `hash`: of the embedded text; `words` and `sketch` are there
    once it was read (`memories_write.read`, `sketch`)."""

    write: MemoryWrite
    id: MemoryId  # its own, if it becomes an entry
    hash: bytes
    words: Sequence[str] = ()
    sketch: Sequence[int] = ()

    @property
    def entry(self) -> MemoryEntry:
        return self.write.entry

    @property
    def key(self) -> Key:
        return (self.entry.agent_id, self.entry.metadata.session_key, self.hash)


_entry = copier(MemoryEntry)  # as `replace`, of hundreds a batch

Key = tuple[str, str, bytes]  # agent, session, hash: what makes two texts one entry


@dataclass(frozen=True, slots=True)
class Row:
    """The newest version of an entry, as it is stored. `key` None: of an episode, never united."""

    id: UUID
    entry: MemoryEntry
    key: Key | None

    @property
    def alive(self) -> bool:
        return self.entry.superseded_at is None


@dataclass(slots=True)
class Slot:
    """One entry: as it is stored, if it is, and as it will be."""

    entry: MemoryEntry  # of a new one, as it was given
    row: Row | None = None
    prepared: Prepared | None = None
    closed: bool = False
    by: MemoryId | None = None
    written: MemoryEntry | None = None
    id: MemoryId = field(init=False)

    def __post_init__(self) -> None:
        if self.row is not None:
            self.id = self.row.entry.id
        else:  # retention says what its summaries are to be called
            unnamed = self.prepared is not None and self.entry.id == NO_ID
            self.id = self.prepared.id if unnamed and self.prepared else self.entry.id

    @property
    def is_new(self) -> bool:
        return self.row is None

    @property
    def changed(self) -> bool:
        """Whether a new version takes the stored one's place."""
        return self.row is not None and not self.closed and self.entry != self.row.entry

    @property
    def moved(self) -> bool:
        """Whether that version is true at other times, so that its links are too."""
        if not self.changed or self.row is None:
            return False
        old = self.row.entry
        return (old.valid_from, old.valid_to) != (self.entry.valid_from, self.entry.valid_to)

    def result(self, at: datetime) -> MemoryEntry:
        """The version that a reader of the recorded time `at` finds newest. Ask when all is planned."""
        if self.written is None:
            self.written = self._result(at)
        return self.written

    def _result(self, at: datetime) -> MemoryEntry:
        if self.closed:
            stored = self.row.entry if self.row else self.entry
            if stored.superseded_at is not None:
                return stored
            return replace(stored, superseded_at=at, superseded_by=self.by)
        if self.row is None:
            return _entry(self.entry, id=self.id, embedding=None, created_at=at, updated_at=at)
        if self.changed:
            return replace(self.entry, version=self.row.entry.version + 1, updated_at=at)
        return self.row.entry


@dataclass(slots=True)
class Plan:
    """`outcomes`: for each write its entry and whether that held the text already, or why it is not
    stored; `supersedes`: pairs (new, old)."""

    slots: list[Slot] = field(default_factory=list)
    outcomes: list[tuple[Slot, bool] | PlaitError] = field(default_factory=list)
    supersedes: list[tuple[Slot, Slot]] = field(default_factory=list)


def plan(
    repo: str,
    parts: Sequence[Prepared],
    alive: Iterable[Row],
    targets: Mapping[MemoryId, Row],
) -> Plan:
    """`alive`: living entries with the key of a part; `targets`: by the id that `supersedes` names.

    A write is refused alone: one that names no entry here (MemoryNotFound), or one whose place another
    entry has (MemoryClosed), so that of two that correct the same entry not both live.
    """
    out = Plan()
    by_id: dict[MemoryId, Slot] = {}
    by_key: dict[Key, Slot] = {}
    for row in (*alive, *targets.values()):
        if row.entry.id not in by_id:
            slot = by_id[row.entry.id] = Slot(
                row.entry, row, closed=not row.alive, by=row.entry.superseded_by
            )
            out.slots.append(slot)
            if row.alive and row.key is not None:
                by_key[row.key] = slot
    for part in parts:
        known = by_key.get(part.key)
        old = _target(repo, part, targets, by_id, known)
        if isinstance(old, PlaitError):
            out.outcomes.append(old)
            continue
        if known is None:
            slot = by_key[part.key] = Slot(part.entry, prepared=part)
            out.slots.append(slot)
            out.outcomes.append((slot, False))
        else:
            slot = known
            slot.prepared = slot.prepared or part
            slot.entry = (
                revised(slot.entry, part.entry) if slot is old else united(slot.entry, part.entry)
            )
            out.outcomes.append((slot, slot is not old))
        if old is not None and old is not slot:
            _supersede(out, old, slot, by_key)
    return out


def _target(
    repo: str,
    part: Prepared,
    targets: Mapping[MemoryId, Row],
    by_id: Mapping[MemoryId, Slot],
    known: Slot | None,
) -> Slot | PlaitError | None:
    """What `part` takes the place of. `known`: the living entry that says the same; it may be said to
    have a place again that it has."""
    wanted = part.write.supersedes
    if wanted is None:
        return None
    row = targets.get(wanted)
    if row is None:
        return MemoryNotFound(wanted, repo)
    old = by_id[row.entry.id]
    if old.closed and (known is None or known.id != old.by):
        return MemoryClosed(wanted, row.entry.superseded_at, old.by)
    return old


def _supersede(out: Plan, old: Slot, new: Slot, by_key: dict[Key, Slot]) -> None:
    if old.closed:
        return
    old.closed, old.by = True, new.id
    if old.row is not None and old.row.key is not None:
        by_key.pop(old.row.key, None)
    out.supersedes.append((new, old))


def united(old: MemoryEntry, new: MemoryEntry) -> MemoryEntry:
    """`old`, told again as `new`: nothing that either said is taken back. What is said of the entry in
    `custom` is the newer's, if it says anything; kind, type and source stay."""
    more = [tag for tag in new.metadata.tags if tag not in old.metadata.tags]
    tags = (*old.metadata.tags, *more[: max(0, MAX_UNITED_TAGS - len(old.metadata.tags))])
    metadata = replace(
        old.metadata,
        tags=tuple(sorted(tags)),
        importance=max(old.metadata.importance, new.metadata.importance),
        custom=new.metadata.custom or old.metadata.custom,
    )
    return replace(
        old,
        metadata=metadata,
        pinned=old.pinned or new.pinned,
        # None is the widest: from ever, for ever.
        valid_from=min(old.valid_from, new.valid_from)
        if old.valid_from and new.valid_from
        else None,
        valid_to=max(old.valid_to, new.valid_to) if old.valid_to and new.valid_to else None,
    )


def revised(old: MemoryEntry, new: MemoryEntry) -> MemoryEntry:
    """The entry `old` as `new` says it is: an entry that supersedes itself is corrected."""
    return replace(
        old,
        metadata=new.metadata,
        type=new.type,
        kind=new.kind,
        pinned=new.pinned,
        valid_from=new.valid_from,
        valid_to=new.valid_to,
    )
