"""What a batch of memories does to one repository's entries: decided here, without I/O.

Writes count in their order: the second of two equal texts of one batch is the first one's duplicate.
All that a batch does happens at one recorded time, so an entry gets one new version at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from plait.domain.errors import MemoryClosed, MemoryNotFound, PlaitError
from plait.domain.memory import MemoryEntry, MemoryId
from plait.ports.memory_plan import Key, Plan, Prepared, Row, Slot

# What uniting an entry with its duplicates may grow its tags to; further ones are left out.
MAX_UNITED_TAGS = 200


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
    target_id = part.write.supersedes
    if target_id is None:
        return None
    row = targets.get(target_id)
    if row is None:
        return MemoryNotFound(target_id, repo)
    old = by_id[row.entry.id]
    if old.closed and (known is None or known.id != old.by):
        return MemoryClosed(target_id, row.entry.superseded_at, old.by)
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
