"""The symbol table of a family of languages, and the ports that their binders satisfy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from etl.facts import Definition, FileFacts, SymbolKind
from etl.languages.names import is_test_path
from etl.resolve.ids import Ids

# Kinds of definitions that are nodes with the label Class.
CLASSES = frozenset(
    {
        SymbolKind.CLASS,
        SymbolKind.INTERFACE,
        SymbolKind.ENUM,
        SymbolKind.STRUCT,
        SymbolKind.TRAIT,
        SymbolKind.TYPE,
        SymbolKind.NAMESPACE,
        SymbolKind.INSTANCE,
    }
)


class Bound(NamedTuple):
    """One bound use: definition `source` of the file at hand relates to node `target` on `line`."""

    relation: str  # `plait.domain.graph.Relation`
    source: int  # index into the file's definitions
    target: str  # a node id of the table
    line: int  # 0: the relation has no line
    resolver: str  # the rule that bound it
    confidence: float  # 0–1


Key = tuple[Hashable, str]  # (unit, name): a lookup; a unit is a slot, or what several files share

_GONE = FileFacts("", "", "", [], [], [], [])


class Table:
    """The files of one family by slot, a number that a path keeps; a definition is `(slot, number)`.

    Binding a file notes what it looks up outside itself: each name with the unit that it is looked for
    in, whether it is found or not. A file is bound again when what one of these keys gives has
    changed, see `Binder.surface`. Nothing may depend on the order of slots, which is that of arrival.
    """

    def __init__(self, ids: Ids) -> None:
        self._all_ids = ids
        self.files: list[FileFacts] = []  # without definitions where a file is gone
        self.by_path: dict[str, int] = {}  # files that are there
        # Qualified names, as `ids`; ids[slot][number] is a definition's node id.
        self.names: list[list[str]] = []
        self.ids: list[list[str]] = []
        self._slots: dict[str, int] = {}
        self._test_files: list[bool] = []
        self.home = -1  # the file at hand
        self.noted: set[Key] = set()  # what it has looked up outside itself

    def slot(self, path: str) -> int:
        """The slot of a path, a new one for a path never seen."""
        slot = self._slots.get(path)
        if slot is None:
            slot = self._slots[path] = len(self.files)
            self.files.append(_GONE)
            self.names.append([])
            self.ids.append([])
            self._test_files.append(False)
        return slot

    def put(self, facts: FileFacts) -> None:
        path, slot = facts.path, self.slot(facts.path)
        self.files[slot], self.by_path[path] = facts, slot
        self.names[slot], self.ids[slot] = self._all_ids.names(path), self._all_ids.ids(path)
        self._test_files[slot] = is_test_path(path, facts.language)

    def drop(self, path: str) -> None:
        slot = self.by_path.pop(path)
        self.files[slot], self.names[slot], self.ids[slot] = _GONE, [], []

    def is_test_file(self, file: int) -> bool:
        """True when a file is part of a test-suite."""
        return self._test_files[file]

    # -- lookups ----------------------------------------------------------------------------------

    def begin(self, file: int) -> None:
        """The binding of a file begins: what is noted from here on is its."""
        self.home, self.noted = file, set()

    def note(self, unit: Hashable, name: str) -> None:
        """The file at hand looks `name` up in a unit of several files."""
        self.noted.add((unit, name))

    def see(self, file: int, name: str) -> None:
        """The file at hand looks `name` up in a file, which is a unit for itself."""
        if file != self.home:
            self.noted.add((file, name))

    def definition(self, file: int, number: int) -> Definition:
        """A definition of a file that is a unit for itself; it is noted."""
        definition = self.files[file].definitions[number]
        if file != self.home:
            self.noted.add((file, definition.name))
        return definition

    def id(self, file: int, number: int) -> str:
        """The node id of a definition as `definition` gives it."""
        self.definition(file, number)
        return self.ids[file][number]


class Binder(Protocol):
    """Binds the uses in files of one family, and tells what others can see of a file.

    The module that a language's line in the registry names exports `binder(table: Table) -> Binder`. The
    table's files come and go: `put` follows when one came, `drop` comes before one goes, and a changed
    file does both. A binding notes in the table what it looks up in other files (`note`, `see`, `definition`, `id`), and
    keeps nothing for the binding of the next file but what one file's facts give.
    """

    def put(self, file: int) -> None:
        """Take in what the table holds of a file."""
        ...

    def drop(self, file: int) -> None:
        """Forget a file, which the table still holds."""
        ...

    def surface(self, file: int) -> Mapping[Key, object]:
        """What lookups in a file give, by what is noted: equal values, equal answers."""
        ...

    def shared(self, file: int) -> Iterable[tuple[Key, Hashable]]:
        """As `surface`, where any of several files may say the same: no change while one of them does."""
        ...

    def bind(self, file: int, unresolved: Counter[str]) -> Iterator[Bound]:
        """Everything that file `table.files[file]` relates to: CALLS, IMPORTS, INHERITS, OVERRIDES.

        Targets are ids of the table. What cannot be bound is counted in `unresolved` by its reason
        ("external", "builtin", "unknown receiver", "ambiguous", …) and never guessed. The order of what
        is yielded does not matter; the same files must give the same edges.
        """
        ...


class IncrementalBinder(Protocol):
    """A binder that follows changes: what it says of a file is what one made anew would say.

    `etl.resolve.followed` makes one of a `Binder`. A module may export its own instead, as
    `incremental(ids: Ids, track: bool) -> IncrementalBinder`. `track` False: `update` is called once, with
    all files.
    """

    @property
    def size(self) -> int:
        """How much is kept, in answers of about 300 bytes."""
        ...

    def update(self, changed: Mapping[str, FileFacts], removed: Iterable[str]) -> set[str]:
        """Take files in and out, after `ids`. Returns the paths whose edges may be others now."""
        ...

    def bound(self, path: str, unresolved: Counter[str]) -> Iterable[Bound]:
        """As `Binder.bind`, of a path that is there."""
        ...
