"""Binds JavaScript and TypeScript: calls, `new`, JSX, decorators, callbacks, imports, classes.

Conventions: `new Foo()` calls Foo's constructor where the repository defines one (its own or the nearest
inherited), else the class; a function passed by name is called by whom it is passed by. An import of a
package is external, even where a workspace holds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from etl.facts import Reference, ReferenceKind, SymbolKind
from etl.languages.javascript.resolve_infer import TYPES, Inference
from etl.languages.javascript.resolve_modules import PATHS
from etl.languages.kit.chains import UNKNOWN, steps
from etl.languages.kit.values import CONFIDENCE, UNKNOWN_NAME, UNKNOWN_RECEIVER, Value
from etl.resolve.surface import surface
from etl.resolve.table import Binder, Bound, Key, Table

_BY_KIND = {  # the rule of uses whose kind says it all
    ReferenceKind.JSX: "jsx",
    ReferenceKind.DECORATOR: "decorator",
    ReferenceKind.CALLBACK: "callback",
    ReferenceKind.NEW: "constructor",
}
_CONSTRUCTING = frozenset({ReferenceKind.CALL, ReferenceKind.NEW})
_NOT_CALLED = frozenset({SymbolKind.INTERFACE, SymbolKind.TYPE, SymbolKind.ENUM, SymbolKind.MODULE})


def binder(table: Table) -> Binder:
    """The binder of JavaScript, TypeScript and TSX files."""
    return ScriptBinder(table)


class ScriptBinder:
    """See `etl.resolve.table.Binder`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._infer = Inference(table)

    def put(self, file: int) -> None:
        """See `Binder.put`."""
        self._infer.put(file)

    def drop(self, file: int) -> None:
        """See `Binder.drop`."""
        self._infer.drop(file)

    def surface(self, file: int) -> dict[Key, object]:
        """See `Binder.surface`: a file's names, and its path."""
        facts = self._table.files[file]
        said = surface(facts, self._table.ids[file])
        return {(file, name): what for name, what in said.items()} | {(PATHS, facts.path): True}

    def shared(self, file: int) -> tuple[()]:
        """See `Binder.shared`: nothing."""
        del file
        return ()

    def bind(self, file: int, unresolved: Counter[str]) -> Iterator[Bound]:
        """See `Binder.bind`."""
        self._infer.begin()
        yield from self._imports(file)
        yield from self._classes(file)
        for reference in self._table.files[file].references:
            value, rule = self._callee(file, reference)
            target = self._target(value, reference.kind)
            if target is not None:
                id_ = self._table.id(target.file, target.number)
                confidence = CONFIDENCE[rule]
                yield Bound("CALLS", reference.scope, id_, reference.line, rule, confidence)
            elif reference.kind is not ReferenceKind.CALLBACK:  # most names passed are no functions
                unresolved[value.path if value.kind == "fail" else "unknown receiver"] += 1

    def _imports(self, file: int) -> Iterator[Bound]:
        for each in self._table.files[file].imports:
            target = self._infer.modules.find(file, each.module)
            if target is not None and target != file and self._table.ids[target]:
                yield Bound("IMPORTS", 0, self._table.id(target, 0), each.line, "import", 1.0)

    def _classes(self, file: int) -> Iterator[Bound]:
        table, infer = self._table, self._infer
        for number, definition in enumerate(table.files[file].definitions):
            if definition.kind not in TYPES:
                continue
            for base_file, base in infer.bases(file, number):
                target = table.id(base_file, base)
                yield Bound("INHERITS", number, target, definition.start_line, "base", 1.0)
            above = infer.line(file, number)[1:]
            for name, method in infer.methods(file, number).items() if above else ():
                for base_file, base in above:
                    found = infer.method(base_file, base, name)
                    if found is not None and name != "constructor":
                        target = table.id(base_file, found)
                        yield Bound("OVERRIDES", method, target, 0, "mro", 1.0)
                        break

    def _callee(self, file: int, reference: Reference) -> tuple[Value, str]:
        """What is called, and the rule that says so."""
        infer, scope = self._infer, reference.scope
        path = steps(reference.chain)
        if not path:
            return UNKNOWN_NAME, ""
        value = infer.walk(file, scope, path)
        if path == (UNKNOWN,):
            value = UNKNOWN_RECEIVER
        return value, self._rule(file, reference, path, value)

    def _rule(self, file: int, reference: Reference, path: tuple[str, ...], value: Value) -> str:
        kind, scope = reference.kind, reference.scope
        if value.kind == "fail":
            return ""
        if kind in _BY_KIND:
            return _BY_KIND[kind]
        if path[0] == "super":
            return "super"
        if len(path) > 1 and path[-1] in ("call", "apply", "bind"):
            path = path[:-1]
        if len(path) == 1:
            return "local" if value.file == file else "import"
        if path[0] == "this" and len(path) == 2:
            return "self"
        receiver = self._infer.walk(file, scope, path[:-1])
        if receiver.kind == "definition":
            return "class"
        if receiver.kind == "object":
            return "local" if receiver.file == file else "module"
        return "module" if receiver.kind == "module" else "type"

    def _target(self, value: Value, kind: ReferenceKind) -> Value | None:
        """The definition a use of `value` enters."""
        if value.kind != "definition" or value.many:
            return None
        definition = self._table.definition(value.file, value.number)
        if definition.kind in _NOT_CALLED:
            return None
        if definition.kind is SymbolKind.CLASS:
            if kind is ReferenceKind.CALLBACK:
                return None
            return self._constructor(value) if kind in _CONSTRUCTING else value
        return value

    def _constructor(self, value: Value) -> Value:
        for file, number in self._infer.line(value.file, value.number):
            found = self._infer.method(file, number, "constructor")
            if found is not None:
                return Value("definition", file, found)
        return value
