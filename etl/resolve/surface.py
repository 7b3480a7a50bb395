"""What other files can see of a file, by the names that it can be looked up by."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

from etl.facts import Definition, FileFacts, ImportKind, Slot, SymbolKind

# Lookups that go by no name of the source.
EVERY: Final = "*"  # the imports that bind every name of a module
IMPORTS: Final = "* imports"  # all of a file's imports
MODULE: Final = ""  # the name of its module

_EVERY = frozenset({ImportKind.ALL, ImportKind.STATIC_ALL, ImportKind.REEXPORT_ALL})
_OF_SCOPE = frozenset({Slot.RESULT, Slot.YIELD, Slot.SELF})
_FUNCTIONS = frozenset({SymbolKind.FUNCTION, SymbolKind.METHOD})


def surface(facts: FileFacts, ids: list[str]) -> dict[str, list[Hashable]]:
    """Name → all that the facts say under it, in their order, without lines, bytes and uses.

    A dotted name says so under each of its parts. A constructor is also said under its class's name, as
    are the members of a function under its, and what a binding tells of its scope under the scope's.
    """
    found: dict[str, list[Hashable]] = {MODULE: [facts.module]}
    definitions = facts.definitions
    for number, definition in enumerate(definitions):
        outer = definitions[definition.parent]
        # Numbers move with every line that comes before; qualified names stay.
        what = (
            ids[number],
            outer.qualname if number else "",
            definition.name,
            definition.qualname,
            definition.kind,
            definition.bases,
            definition.returns,
            definition.is_test,
            definition.decorators,
            definition.is_abstract,
            definition.parameters,
        )
        for name in set(_names(definition, outer)):
            found.setdefault(name, []).append(what)
    for binding in facts.bindings:
        scope = definitions[binding.scope]
        said = (
            scope.qualname,
            binding.name,
            binding.value,
            binding.kind,
            binding.slot,
            binding.elements,
        )
        names = set(binding.name.split("."))
        if binding.slot in _OF_SCOPE:
            names.add(scope.name)
        for name in names:
            found.setdefault(name, []).append(said)
    for each in facts.imports:
        scope = definitions[each.scope]
        bound = (scope.qualname, each.module, each.name, each.alias, each.level, each.kind)
        for name in (each.alias, IMPORTS, *([EVERY] if each.kind in _EVERY else ())):
            found.setdefault(name, []).append(bound)
    for export in facts.exports:
        found.setdefault(export.name, []).append((export.name, export.local))
    return found


def _names(definition: Definition, outer: Definition) -> Iterator[str]:
    """The names under which a definition can be looked up; `outer` is round it."""
    yield definition.name
    parts = definition.qualname.partition("#")[0].split(".")
    above = outer.qualname.split(".")
    same = 0
    while same < min(len(parts), len(above)) and parts[same] == above[same]:
        same += 1
    yield from parts[same:]
    yield parts[-1]
    kind = definition.kind
    if kind is SymbolKind.CONSTRUCTOR or (kind is SymbolKind.METHOD and outer.kind in _FUNCTIONS):
        yield outer.name
