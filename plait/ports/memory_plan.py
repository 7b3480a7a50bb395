"""What a batch of memories does to one repository's entries, between the core, which plans it, and a store,
which reads what the plan is made from and carries it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from plait.domain.copies import copier
from plait.domain.errors import PlaitError
from plait.domain.memory import NO_ID, MemoryEntry, MemoryId, MemoryWrite

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
