"""The symbol table of a family of languages, and the ports that their binders satisfy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from etl.facts import FileFacts, SymbolKind
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


class Table:
    """The modules and definitions of one family's files, by name, path and id.

    Files are in path order, whatever order they came in; a definition is a pair
    `(file, definition)` of indexes into `files` and that file's `definitions`.
    """

    def __init__(self, files: Sequence[FileFacts], ids: Ids) -> None:
        self.files: list[FileFacts] = sorted(files, key=lambda facts: facts.path)
        self.by_path: dict[str, int] = {f.path: i for i, f in enumerate(self.files)}
        # Qualified names, as `ids`; ids[file][definition] is its node id.
        self.names: list[list[str]] = [ids.names(f.path) for f in self.files]
        self.ids: list[list[str]] = [ids.ids(f.path) for f in self.files]
        self._test_files = [is_test_path(f.path, f.language) for f in self.files]

    def is_test_file(self, file: int) -> bool:
        """True when a file is part of a test-suite."""
        return self._test_files[file]


class Binder(Protocol):
    """Binds the uses in files of one family, of facts that do not change: it may keep what it works out.

    The module that a language's line in the registry names exports `binder(table: Table) -> Binder`.
    """

    def bind(self, file: int, unresolved: Counter[str]) -> Iterator[Bound]:
        """Everything that file `table.files[file]` relates to: CALLS, IMPORTS, INHERITS, OVERRIDES.

        Targets are ids of the table. What cannot be bound is counted in `unresolved` by its reason
        ("external", "builtin", "unknown receiver", "ambiguous", …) and never guessed. The order of what
        is yielded does not matter; the same table must give the same edges.
        """
        ...


class IncrementalBinder(Protocol):
    """A binder that follows changes: what it says of a file is what one made anew would say.

    Its module exports `incremental(ids: Ids, track: bool) -> IncrementalBinder` instead. `track` False:
    `update` is called once, with all files.
    """

    @property
    def size(self) -> int:
        """How much is kept, in answers of about 300 bytes."""
        ...

    def update(self, changed: Mapping[str, FileFacts], removed: Iterable[str]) -> set[str]:
        """Take files in and out, after `ids`. Returns the paths whose edges may be others now."""
        ...

    def bound(self, path: str, unresolved: Counter[str]) -> Iterable[Bound]:
        """As `Binder.bind`, of what is bound already."""
        ...
