"""The symbol table of a whole repository, and the port a language's binder satisfies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from etl.facts import FileFacts, SymbolKind
from etl.languages.names import is_test_path
from etl.languages.registry import DECLARED, language

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
    """Every module and definition of a repository, by name, path and id.

    Files are in path order, whatever order they came in; a definition is a pair
    `(file, definition)` of indexes into `files` and that file's `definitions`.
    """

    def __init__(self, repo: str, files: Sequence[FileFacts]) -> None:
        self.repo = repo
        self.files: list[FileFacts] = sorted(files, key=lambda facts: facts.path)
        self.by_path: dict[str, int] = {f.path: i for i, f in enumerate(self.files)}
        self.modules: dict[str, dict[str, int]] = {}  # family → module name → file
        # Qualified names, as `ids`; ids[file][definition] is its node id.
        self.names: list[list[str]] = [[] for _ in self.files]
        self.ids: list[list[str]] = [[] for _ in self.files]
        self.definition_of: dict[str, tuple[int, int]] = {}  # node id → (file, definition)
        # `build.sh` beside `build.py` must not take its names, whatever their paths.
        for index in sorted(range(len(self.files)), key=self._rank):
            self._add(index, self.files[index])
        self._members: list[Mapping[int, dict[str, int]] | None] = [None] * len(self.files)
        self._test_files = [is_test_path(f.path, f.language) for f in self.files]

    def _rank(self, index: int) -> tuple[bool, int]:
        return language(self.files[index].language).family == DECLARED, index

    def _add(self, index: int, facts: FileFacts) -> None:
        family = language(facts.language).family
        self.modules.setdefault(family, {}).setdefault(facts.module, index)
        prefix = f"{facts.module}."
        names = [prefix + d.qualname if d.qualname else facts.module for d in facts.definitions]
        ids = [f"{self.repo}:{name}" for name in names]
        known = self.definition_of
        for number, id_ in enumerate(ids):
            if id_ in known:  # claimed by a file of a lower rank
                id_ = ids[number] = f"{id_}@{facts.path}"
            known[id_] = (index, number)
        self.names[index] = names
        self.ids[index] = ids

    def members(self, file: int) -> Mapping[int, dict[str, int]]:
        """For each definition of a file that holds others: their names → definition, the last wins."""
        members = self._members[file]
        if members is None:
            members = {}
            for number, definition in enumerate(self.files[file].definitions):
                if number:
                    members.setdefault(definition.parent, {})[definition.name] = number
            self._members[file] = members
        return members

    def is_test(self, id_: str) -> bool:
        """True for the node of a test function."""
        where = self.definition_of.get(id_)
        return where is not None and self.files[where[0]].definitions[where[1]].is_test

    def is_test_file(self, file: int) -> bool:
        """True when a file is part of a test-suite."""
        return self._test_files[file]

    def in_test_file(self, id_: str) -> bool:
        """True for a node that is defined in a file of a test-suite, and for an unknown one."""
        where = self.definition_of.get(id_)
        return where is None or self._test_files[where[0]]


class Binder(Protocol):
    """Binds the uses in files of one family. Made once a run, so it may cache what it works out.

    The module that a language's line in the registry names exports `binder(table: Table) -> Binder`.
    """

    def bind(self, file: int, unresolved: Counter[str]) -> Iterator[Bound]:
        """Everything that file `table.files[file]` relates to: CALLS, IMPORTS, INHERITS, OVERRIDES.

        Targets are ids of the table. What cannot be bound is counted in `unresolved` by its reason
        ("external", "builtin", "unknown receiver", "ambiguous", …) and never guessed. The order of what
        is yielded does not matter; the same table must give the same edges.
        """
        ...
