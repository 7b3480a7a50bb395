"""Who binds which name where: an index over one file's definitions, imports and bindings."""

from __future__ import annotations

from typing import NamedTuple

from etl.facts import FileFacts

BINDING, IMPORT, DEFINITION = range(3)


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
        self.stars = [i for i, each in enumerate(facts.imports) if each.name == "*"]
        self.abstract: set[int] = set()
        self.parameters: dict[int, list[str]] = {}  # function → its parameters after `self`
        for number, definition in enumerate(definitions):
            if number:
                entry = Entry(definition.start_line, DEFINITION, number, 0)
                self._add(definition.parent, definition.name, entry)
        for number, each in enumerate(facts.imports):
            if each.alias:
                self._add(each.scope, each.alias, Entry(each.line, IMPORT, number, 0))
        moved = {(b.scope, b.name) for b in facts.bindings if b.how == "global"}
        for number, binding in enumerate(facts.bindings):
            name, scope = binding.name, binding.scope
            if name[:5] == "self.":
                self._attribute(definitions[scope].parent, name[5:], number)
            elif name == "return" or name == "yield":
                self._result(name, binding.how, scope, number)
            else:
                if binding.how == "param":
                    self.parameters.setdefault(scope, []).append(name)
                if moved and (scope, name) in moved:
                    if binding.how == "global":
                        continue
                    scope = 0
                entry = Entry(binding.line, BINDING, number, binding.until)
                if binding.how == "narrow" or binding.how == "lambda":
                    self.ranges.setdefault((scope, name), []).append(entry)
                    continue
                self._add(scope, name, entry)
                if scope and definitions[scope].kind == "class":
                    self._attribute(scope, name, number)
        for names in self.names:
            for entries in (names or {}).values():
                if len(entries) > 1:
                    entries.sort()

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

    def _result(self, name: str, how: str, scope: int, number: int) -> None:
        if how == "abstract":
            self.abstract.add(scope)
        else:
            results = self.results if name == "return" else self.yields
            results.setdefault(scope, []).append(number)
