"""A binder kept up to date with its files: what is bound again is what looked up something that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from etl.facts import FileFacts
from etl.resolve.ids import Ids
from etl.resolve.table import Binder, Bound, Key, Table

_Said = tuple[Key, Hashable]
_LOOKUPS_OF_ANSWER = 6  # of about 50 bytes each, see `IncrementalBinder.size`


class FollowedBinder:
    """See `etl.resolve.table.IncrementalBinder`.

    A file's lookups are noted while it is bound, each by what it asked for, found or not. After a change,
    the surfaces of the files before and after tell which lookups give something else.
    """

    def __init__(self, make: Callable[[Table], Binder], ids: Ids, *, track: bool) -> None:
        self._track = track
        self._table = Table(ids)
        self._binder = make(self._table)
        self._noted: dict[int, frozenset[Key]] = {}  # slot → what its binding looked up
        self._keys: dict[Key, Key] = {}  # each once
        self._said: Counter[_Said] = Counter()  # how many files say what they share
        self._waiting: set[str] = set()  # paths that are to be bound

    @property
    def size(self) -> int:
        """See `IncrementalBinder.size`."""
        return sum(map(len, self._noted.values())) // _LOOKUPS_OF_ANSWER

    def update(self, changed: Mapping[str, FileFacts], removed: Iterable[str]) -> set[str]:
        """See `IncrementalBinder.update`."""
        table, gone = self._table, set(removed)
        slots = [table.slot(path) for path in (*changed, *gone)]
        seen = (
            slots if self._noted else []
        )  # nobody has looked at a file before the first are bound
        before = self._surfaces(seen)
        shared = Counter({pair: -1 * by for pair, by in self._shared(slots).items()})
        self._replace(changed, gone)
        keys = _differing(before, self._surfaces(seen))
        shared.update(self._shared(slots))
        keys |= self._count(shared)
        self._waiting |= changed.keys()
        self._waiting |= {
            table.files[slot].path
            for slot, noted in self._noted.items()
            if not noted.isdisjoint(keys)
        }
        return set(self._waiting)

    def _replace(self, changed: Mapping[str, FileFacts], gone: set[str]) -> None:
        table, binder = self._table, self._binder
        for path in (*changed, *gone):
            if path in table.by_path:
                binder.drop(table.by_path[path])
        for path in gone:
            self._noted.pop(table.by_path[path], None)
            self._waiting.discard(path)
            table.drop(path)
        for facts in changed.values():
            table.put(facts)
        for path in changed:
            binder.put(table.by_path[path])

    def _surfaces(self, slots: Sequence[int]) -> list[Mapping[Key, object]]:
        files, binder = self._table.files, self._binder
        return [binder.surface(slot) if files[slot].path else {} for slot in slots]

    def _shared(self, slots: Sequence[int]) -> Counter[_Said]:
        if not self._track:
            return Counter()
        return Counter(
            said
            for slot in slots
            if self._table.files[slot].path
            for said in self._binder.shared(slot)
        )

    def _count(self, shared: Counter[_Said]) -> set[Key]:
        """Add to what files share. Returns the keys of what is said now and was not, or is no more."""
        found = set()
        for said, by in shared.items():
            before = self._said[said]
            after = before + by
            if after:
                self._said[said] = after
            else:
                del self._said[said]
            if bool(before) != bool(after):
                found.add(said[0])
        return found

    def bound(self, path: str, unresolved: Counter[str]) -> Iterable[Bound]:
        """See `IncrementalBinder.bound`."""
        slot = self._table.by_path[path]
        self._table.begin(slot)
        found = list(self._binder.bind(slot, unresolved))
        if self._track:
            self._noted[slot] = frozenset(
                self._keys.setdefault(key, key) for key in self._table.noted
            )
        self._waiting.discard(path)
        return found


def _differing(
    before: Sequence[Mapping[Key, object]], after: Sequence[Mapping[Key, object]]
) -> set[Key]:
    return {
        key
        for old, new in zip(before, after, strict=True)
        for key in old.keys() | new.keys()
        if old.get(key) != new.get(key)
    }
