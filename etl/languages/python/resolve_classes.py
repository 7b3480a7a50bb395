"""The repository's Python classes: their members and their method resolution order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from etl.facts import SymbolKind
from etl.languages.python.resolve_scopes import Scopes
from etl.languages.python.resolve_values import Class, External, Values
from etl.resolve.table import Table

# Bases that add nothing a call could be bound to, and hide nothing.
_PLAIN = frozenset({"object", "Generic", "Protocol", "ABC"})


class Classes:
    """One `Class` a definition. `resolve` gives what a base as written in a file means."""

    def __init__(self, table: Table, scopes: Sequence[Scopes]) -> None:
        self._table = table
        self._scopes = scopes
        self.by_place: dict[tuple[int, int], Class] = {}
        for file, facts in enumerate(table.files):
            if facts.language != "python":
                continue
            for number, definition in enumerate(facts.definitions):
                if definition.kind is SymbolKind.CLASS:
                    self.by_place[file, number] = Class(file, number, definition)
            self._fill(file)

    def _fill(self, file: int) -> None:
        """The members of a file's classes. The last of a name wins, but a property's getter."""
        definitions = self._table.files[file].definitions
        attributes = self._scopes[file].attributes
        for number, definition in enumerate(definitions):
            owner = self.by_place.get((file, definition.parent)) if number else None
            if owner is None:
                continue
            name = definition.name
            if any(each in (f"{name}.setter", f"{name}.deleter") for each in definition.decorators):
                continue
            owner.members[name] = number
        for number, names in attributes.items():
            owner = self.by_place.get((file, number))
            if owner is not None:
                owner.attrs = names

    def link(self, resolve: Callable[[Class, str], Values]) -> dict[Class, list[Class]]:
        """Resolve every base and compute every MRO (C3). Returns each class's repository bases."""
        bases: dict[Class, list[Class]] = {}
        for cls in self.by_place.values():
            found: list[Class] = []
            for written in cls.definition.bases:
                values = resolve(cls, written)
                known = [value for value in values if isinstance(value, Class) and value is not cls]
                if known:
                    found += [base for base in known[:1] if base not in found]
                elif written == "type" or written.endswith("Meta"):
                    cls.metaclass = cls.external = True
                elif written.rpartition(".")[2] not in _PLAIN or not _outside(values):
                    cls.external = True
            bases[cls] = found
            for base in found:
                base.subclasses.append(cls)
        done: dict[Class, tuple[Class, ...]] = {}
        for cls in bases:
            cls.mro = _mro(cls, bases, done)
        for cls in bases:
            cls.external = any(base.external for base in cls.mro)
            cls.metaclass = any(base.metaclass for base in cls.mro)
        return bases


def _outside(values: Values) -> bool:
    return bool(values) and all(isinstance(value, External) for value in values)


def _mro(
    root: Class, bases: dict[Class, list[Class]], done: dict[Class, tuple[Class, ...]]
) -> tuple[Class, ...]:
    """C3 linearisation, without recursion; a cycle is cut, an inconsistent order is depth first."""
    stack, active = [root], set[Class]()
    while stack:
        cls = stack[-1]
        if cls in done:
            stack.pop()
            continue
        active.add(cls)
        waiting = [base for base in bases[cls] if base not in done and base not in active]
        if waiting:
            stack.append(waiting[0])
            continue
        known = [base for base in bases[cls] if base in done]
        done[cls] = (cls, *_merge([list(done[base]) for base in known] + [known]))
        active.discard(cls)
        stack.pop()
    return done[root]


def _merge(sequences: list[list[Class]]) -> list[Class]:
    """The C3 merge (Barrett et al., OOPSLA 1996)."""
    merged: list[Class] = []
    sequences = [list(sequence) for sequence in sequences if sequence]
    if len(sequences) == 2 and sequences[0][0] is sequences[1][0] and len(sequences[1]) == 1:
        return sequences[0]
    while sequences:
        tails = {cls for sequence in sequences for cls in sequence[1:]}
        head = next((s[0] for s in sequences if s[0] not in tails), sequences[0][0])
        merged.append(head)
        sequences = [[cls for cls in s if cls is not head] for s in sequences]
        sequences = [s for s in sequences if s]
    return merged
