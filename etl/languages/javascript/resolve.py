"""Binds JavaScript and TypeScript: calls, `new`, JSX, decorators, callbacks, imports, classes.

Conventions: `new Foo()` calls Foo's constructor where the repository defines one (its own or the nearest
inherited), else the class; a function passed by name is called by whom it is passed by. An import of a
package is external, even where a workspace holds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from etl.facts import Reference
from etl.languages.javascript.resolve_infer import TYPES, Inference
from etl.resolve.brace import CONFIDENCE, UNKNOWN_NAME, UNKNOWN_RECEIVER, Value, steps
from etl.resolve.table import Binder, Bound, Table

# Kinds of use that are only uses when they bind: most names passed as arguments are no functions.
_QUIET = frozenset({"callback"})


def binder(table: Table) -> Binder:
    """The binder of JavaScript, TypeScript and TSX files."""
    return ScriptBinder(table)


class ScriptBinder:
    """See `etl.resolve.table.Binder`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._infer = Inference(table)

    def bind(self, file: int, unresolved: Counter[str]) -> Iterator[Bound]:
        """See `Binder.bind`."""
        yield from self._imports(file)
        yield from self._classes(file)
        for reference in self._table.files[file].references:
            value, rule = self._callee(file, reference)
            target = self._target(value, reference.kind)
            if target is not None:
                number = self._table.ids[target.file][target.number]
                confidence = CONFIDENCE[rule]
                yield Bound("CALLS", reference.scope, number, reference.line, rule, confidence)
            elif reference.kind not in _QUIET:
                unresolved[value.path if value.kind == "fail" else "unknown receiver"] += 1

    def _imports(self, file: int) -> Iterator[Bound]:
        ids = self._table.ids
        for each in self._table.files[file].imports:
            target = self._infer.modules.find(file, each.module)
            if target is not None and target != file and ids[target]:
                yield Bound("IMPORTS", 0, ids[target][0], each.line, "import", 1.0)

    def _classes(self, file: int) -> Iterator[Bound]:
        ids, infer = self._table.ids, self._infer
        for number, definition in enumerate(self._table.files[file].definitions):
            if definition.kind not in TYPES:
                continue
            for base_file, base in infer.bases(file, number):
                target = ids[base_file][base]
                yield Bound("INHERITS", number, target, definition.start_line, "base", 1.0)
            above = infer.line(file, number)[1:]
            for name, method in infer.methods(file, number).items() if above else ():
                for base_file, base in above:
                    found = infer.method(base_file, base, name)
                    if found is not None and name != "constructor":
                        yield Bound("OVERRIDES", method, ids[base_file][found], 0, "mro", 1.0)
                        break

    def _callee(self, file: int, reference: Reference) -> tuple[Value, str]:
        """What is called, and the rule that says so."""
        infer, scope = self._infer, reference.scope
        path = steps(reference.chain)
        if not path:
            return UNKNOWN_NAME, ""
        value = infer.walk(file, scope, path)
        if path[0] == "?" and len(path) == 1:
            value = UNKNOWN_RECEIVER
        return value, self._rule(file, reference, path, value)

    def _rule(self, file: int, reference: Reference, path: tuple[str, ...], value: Value) -> str:
        kind, scope = reference.kind, reference.scope
        if value.kind == "fail":
            return ""
        if kind in ("jsx", "decorator", "callback"):
            return kind
        if kind == "new":
            return "constructor"
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

    def _target(self, value: Value, kind: str) -> Value | None:
        """The definition a use of `value` enters."""
        if value.kind == "object" and kind != "callback":
            return None
        if value.kind != "definition" or value.many:
            return None
        definition = self._table.files[value.file].definitions[value.number]
        if definition.kind in ("interface", "type", "enum", "module"):
            return None
        if definition.kind == "class":
            if kind == "callback":
                return None
            return self._constructor(value) if kind in ("call", "new") else value
        return value

    def _constructor(self, value: Value) -> Value:
        for file, number in self._infer.line(value.file, value.number):
            found = self._infer.method(file, number, "constructor")
            if found is not None:
                return Value("definition", file, found)
        return value
