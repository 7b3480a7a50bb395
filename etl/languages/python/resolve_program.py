"""The Python files of a repository as the resolver sees them, kept up to date file by file.

A file has a slot, a number that it keeps; whatever depends on the order of files goes by their paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from etl.facts import Definition, FileFacts, SymbolKind
from etl.languages.names import is_test_path
from etl.languages.python.resolve_classes import fill
from etl.languages.python.resolve_modules import Modules
from etl.languages.python.resolve_scopes import Scopes
from etl.languages.python.resolve_values import Class, Module, Symbol
from etl.resolve.ids import Ids

_NOTHING = FileFacts("", "", "", [], [], [], [])
_CLASS = SymbolKind.CLASS
_NO_MODULE = Definition("", "", SymbolKind.MODULE, 0, 0, 0, 0, 0)


class Program:
    """Facts, scopes, classes and functions by slot; modules and paths by name."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self.files: list[FileFacts] = []  # by slot; without definitions where a file is gone
        self.scopes: list[Scopes] = []
        self.by_path: dict[str, int] = {}
        self.by_place: dict[tuple[int, int], Class] = {}
        self.owners: dict[str, dict[Class, None]] = {}  # method name → the classes that define it
        self.modules = Modules({}, [])
        self.module_symbols: list[Symbol] = []  # by slot: of definition 0
        self._symbols: list[dict[str, Symbol]] = []  # slot → qualified name → function
        self._classes: list[dict[str, Class]] = []
        self._functions: list[dict[int, Symbol]] = []  # slot → definition → function
        self._members: list[Mapping[int, dict[str, int]] | None] = []
        self._tests: list[bool] = []
        self._modules: dict[tuple[str, int | None], Module] = {}

    # -- changes ----------------------------------------------------------------------------------

    def update(self, changed: Mapping[str, FileFacts], removed: Iterable[str]) -> list[int]:
        """Take files in and out. Returns the slots that are others now."""
        slots = []
        for path in sorted(removed):
            slot = self.by_path.pop(path, None)
            if slot is not None:
                self._put(slot, _NOTHING, [])
                slots.append(slot)
        for path in sorted(changed):
            slot = self.by_path.get(path)
            if slot is None:
                slot = self.by_path[path] = self._new(path)
            self._put(slot, changed[path], self._ids.ids(path))
            slots.append(slot)
        return slots

    def _new(self, path: str) -> int:
        self.files.append(_NOTHING)
        self.scopes.append(Scopes(_NOTHING))
        self.module_symbols.append(Symbol(-1, 0, _NO_MODULE, ""))
        self._symbols.append({})
        self._classes.append({})
        self._functions.append({})
        self._members.append(None)
        self._tests.append(is_test_path(path, "python"))
        return len(self.files) - 1

    def _put(self, slot: int, facts: FileFacts, ids: list[str]) -> None:
        for cls in self._classes[slot].values():
            self.by_place.pop((slot, cls.number), None)
            for name in cls.members:
                self.owners[name].pop(cls, None)
        self.files[slot] = facts
        self.scopes[slot] = Scopes(facts)
        self._members[slot] = None
        symbols, classes = self._symbols[slot], self._classes[slot]
        # Another name or id of an old one would pass unseen by those that hold it.
        old = dict(symbols)
        old_classes = dict(classes)
        symbols.clear()
        classes.clear()
        self._functions[slot] = {}
        for number, definition in enumerate(facts.definitions):
            qualname, id_ = definition.qualname, ids[number]
            if definition.kind is _CLASS:
                known = old_classes.get(qualname)
                if known is not None and known.id == id_:
                    cls = old_classes.pop(qualname)
                    cls.place(slot, number, definition, id_)
                else:
                    cls = Class(slot, number, definition, id_)
                classes[qualname] = cls
                self.by_place[slot, number] = cls
                continue
            same = old.get(qualname)
            if same is not None and same.id == id_:
                symbol = old.pop(qualname)
                symbol.place(slot, number, definition, id_)
            else:
                symbol = Symbol(slot, number, definition, id_)
            symbols[qualname] = symbol
            self._functions[slot][number] = symbol
            if not number:
                self.module_symbols[slot] = symbol
        for symbol in old.values():
            symbol.is_gone = True
        for cls in old_classes.values():
            cls.is_gone = True
        fill(facts, slot, self.by_place, self.scopes[slot].attributes)
        for cls in classes.values():
            for name in cls.members:
                self.owners.setdefault(name, {})[cls] = None

    def name_modules(self) -> None:
        """Look anew at which modules there are: after files came, went, or were given other names."""
        by_name: dict[str, int] = {}
        for path in sorted(self.by_path):
            slot = self.by_path[path]
            by_name.setdefault(self.files[slot].module, slot)
        self.modules = Modules(by_name, self.files)

    # -- looking ----------------------------------------------------------------------------------

    def symbol(self, slot: int, number: int) -> Symbol:
        """The function of a definition that is no class."""
        return self._functions[slot][number]

    def at(self, slot: int, number: int) -> Class | Symbol:
        """The class or function of a definition."""
        return self.by_place.get((slot, number)) or self._functions[slot][number]

    def is_there(self, slot: int) -> bool:
        """False for the slot of a file that was removed."""
        return bool(self.files[slot].path)

    def has_classes(self, slot: int) -> bool:
        return bool(self._classes[slot])

    def classes(self, slot: int) -> Iterable[Class]:
        return self._classes[slot].values()

    def module(self, name: str, slot: int | None) -> Module:
        known = self._modules.get((name, slot))
        if known is None:
            known = self._modules[name, slot] = Module(name, slot)
        return known

    def members(self, slot: int) -> Mapping[int, dict[str, int]]:
        """For each definition of a file that holds others: their names → definition, the last wins."""
        members = self._members[slot]
        if members is None:
            members = {}
            for number, definition in enumerate(self.files[slot].definitions):
                if number:
                    members.setdefault(definition.parent, {})[definition.name] = number
            self._members[slot] = members
        return members

    def is_test_file(self, slot: int) -> bool:
        """True when a file is part of a test-suite."""
        return self._tests[slot]

    def in_order(self, slots: Iterable[int]) -> list[int]:
        """Slots by the paths of their files."""
        return sorted(slots, key=lambda slot: self.files[slot].path)
