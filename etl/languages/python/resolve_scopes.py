"""Who binds which name where: an index over one file's definitions, imports and bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from etl.facts import Binding, BindingKind, Definition, FileFacts, ImportKind, Slot, SymbolKind

BINDING, IMPORT, DEFINITION = range(3)
# Members of an enum cost a call each time they are looked up on it.
_MEMBER, _RESULT, _YIELD = Slot.MEMBER, Slot.RESULT, Slot.YIELD
_GLOBAL, _PARAMETER = BindingKind.GLOBAL, BindingKind.PARAMETER
_RANGED = frozenset({BindingKind.NARROWED, BindingKind.LAMBDA})  # they hold from line to until only


class Entry(NamedTuple):
    """One way a name is bound in a scope: it holds after `line`, up to `until` at least."""

    line: int
    kind: int
    number: int  # into the file's bindings, imports or definitions
    until: int  # 0: the end of the scope


class Scopes:
    """The names of each definition of a file that is a scope; `attributes` are those of its classes."""

    def __init__(self, facts: FileFacts) -> None:
        definitions = facts.definitions
        self.names: list[dict[str, list[Entry]] | None] = [None] * len(definitions)
        self.attributes: dict[int, dict[str, list[int]]] = {}  # class → attribute → bindings
        self.ranges: dict[tuple[int, str], list[Entry]] = {}  # what holds from line to until only
        self.results: dict[int, list[int]] = {}  # function → what it returns: bindings
        self.yields: dict[int, list[int]] = {}
        self.stars = [i for i, each in enumerate(facts.imports) if each.kind is ImportKind.ALL]
        self.exported = {each.name for each in facts.exports}
        self.abstract = {i for i, each in enumerate(definitions) if each.is_abstract}
        self.parameters: dict[int, list[str]] = {}  # function → its parameters after `self`
        for number, definition in enumerate(definitions[1:], 1):
            entry = Entry(definition.start_line, DEFINITION, number, 0)
            self._add(definition.parent, definition.name, entry)
        for number, each in enumerate(facts.imports):
            if each.alias:
                self._add(each.scope, each.alias, Entry(each.line, IMPORT, number, 0))
        self._add_bindings(facts)
        for names in self.names:
            for entries in (names or {}).values():
                if len(entries) > 1:
                    entries.sort()

    def _add_bindings(self, facts: FileFacts) -> None:
        definitions = facts.definitions
        moved = {(b.scope, b.name) for b in facts.bindings if b.kind is _GLOBAL}
        for number, binding in enumerate(facts.bindings):
            slot, scope = binding.slot, binding.scope
            if slot is _MEMBER:
                self._attribute(definitions[scope].parent, binding.name, number)
            elif slot is _RESULT:
                self.results.setdefault(scope, []).append(number)
            elif slot is _YIELD:
                self.yields.setdefault(scope, []).append(number)
            elif binding.kind is not _GLOBAL:
                self._name(definitions, binding, number, (scope, binding.name) in moved)

    def _name(
        self, definitions: Sequence[Definition], binding: Binding, number: int, is_global: bool
    ) -> None:
        """A variable; `is_global`: it is declared to be the module's."""
        scope, name, kind = binding.scope, binding.name, binding.kind
        if kind is _PARAMETER:
            self.parameters.setdefault(scope, []).append(name)
        if is_global:
            scope = 0
        entry = Entry(binding.line, BINDING, number, binding.until)
        if kind in _RANGED:
            self.ranges.setdefault((scope, name), []).append(entry)
            return
        self._add(scope, name, entry)
        if scope and definitions[scope].kind is SymbolKind.CLASS:
            self._attribute(scope, name, number)

    def _add(self, scope: int, name: str, entry: Entry) -> None:
        names = self.names[scope]
        if names is None:
            names = self.names[scope] = {}
        known = names.get(name)
        if known is None:
            names[name] = [entry]
        else:
            known.append(entry)

    def _attribute(self, owner: int, name: str, number: int) -> None:
        self.attributes.setdefault(owner, {}).setdefault(name, []).append(number)
