"""Binds the uses in Python files: calls, imports, bases and overrides.

Conventions: calling a class is a call of its `__init__` (or `__new__`) when the repository defines one,
else of the Class node. A decorated function keeps its identity. Reading a property is no call. A
receiver that may be of several classes binds to each, at a lower confidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from etl.facts import Reference
from etl.resolve.python_infer import Inference
from etl.resolve.python_values import (
    Box,
    BoxMethod,
    Class,
    External,
    Function,
    Instance,
    Module,
    OwnClass,
    Super,
    Value,
    Values,
)
from etl.resolve.table import Binder, Bound, Table

# How sure each rule is: the share of its edges that really happened, where their line ran
# (benchmarks/call_graph.py).
CONFIDENCE = {
    "local": 0.98,
    "import": 0.98,
    "module": 0.98,
    "constructor": 0.98,
    "super": 0.95,
    "self": 0.9,
    "class": 0.95,
    "type": 0.9,
    "call": 0.9,
    "decorator": 0.9,
    "callback": 0.3,
    "unique": 0.5,
}
_MAX_TARGETS = 4  # more alternatives than that say nothing


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Methods of the builtin types and of usual library objects: a unique definition of one in the
# repository doesn't make an unknown receiver one of its instances.
_COMMON = frozenset(
    name
    for type_ in (str, bytes, list, dict, set, int, float, complex, object, BaseException, type)
    for name in dir(type_)
) | _words(
    "read write close open flush seek readline readlines send recv connect execute fetchone "
    "fetchall commit rollback cursor start stop run submit result cancel put get acquire release "
    "wait notify group groups match search sub findall finditer info debug warning error exception "
    "critical log search parse dump dumps load loads main add_argument parse_args "
    "next"
)


def binder(table: Table) -> Binder:
    """The binder of Python files."""
    return PythonBinder(table)


class PythonBinder:
    """See `etl.resolve.table.Binder`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._infer = Inference(table)
        self._owners: dict[str, list[Class]] = {}  # method name → the classes that define it
        for cls in self._infer.classes.by_place.values():
            for name in cls.members:
                self._owners.setdefault(name, []).append(cls)

    def bind(self, file: int, unresolved: Counter[str]) -> Iterator[Bound]:
        """See `Binder.bind`."""
        yield from self._imports(file)
        yield from self._classes(file)
        for reference in self._table.files[file].references:
            yield from self._reference(file, reference, unresolved)

    # -- modules and classes ----------------------------------------------------------------------

    def _imports(self, file: int) -> Iterator[Bound]:
        infer, ids = self._infer, self._table.ids
        own = ids[file][0]
        for number, each in enumerate(self._table.files[file].imports):
            absolute = infer.modules.absolute(file, each.module, each.level)
            target = None
            if each.name and each.name != "*":  # `from package import module`
                for value in infer.imported(file, number):
                    if isinstance(value, Module) and value.file is not None:
                        target = value.file
            if target is None:
                found = infer.modules.find(file, absolute)
                target = infer.modules.file(found) if found else None
            if target is not None and ids[target][0] != own:
                yield Bound("IMPORTS", 0, ids[target][0], each.line, "import", 1.0)

    def _classes(self, file: int) -> Iterator[Bound]:
        ids, classes = self._table.ids, self._infer.classes.by_place
        for number, definition in enumerate(self._table.files[file].definitions):
            if definition.kind != "class":
                continue
            cls = classes[file, number]
            for base in self._infer.bases[cls]:
                target = ids[base.file][base.number]
                yield Bound("INHERITS", number, target, definition.start_line, "base", 1.0)
            if len(cls.mro) == 1:
                continue
            for name, member in cls.members.items():
                for base in cls.mro[1:]:
                    above = base.members.get(name)
                    if above is not None:
                        target = ids[base.file][above]
                        yield Bound("OVERRIDES", member, target, 0, "mro", 1.0)
                        break

    # -- uses -------------------------------------------------------------------------------------

    def _reference(
        self, file: int, reference: Reference, unresolved: Counter[str]
    ) -> Iterator[Bound]:
        infer = self._infer
        scope, chain, line, kind = reference.scope, reference.chain, reference.line, reference.kind
        steps = infer.steps(chain)
        if len(steps) == 1:
            receiver: Values = ()
            values = infer.name(file, scope, steps[0], line)
        elif steps[-1] == "()" or steps[-1] == "[]":
            receiver = ()
            values = infer.walk(file, scope, steps, line)
        else:
            receiver = infer.walk(file, scope, steps[:-1], line)
            if len(receiver) == 0 and steps[0] == "super":
                receiver = infer.walk(file, scope, steps, line)
            values = infer.attribute(receiver, steps[-1]) if receiver else ()
        targets = self._targets(values, kind)
        if kind == "callback":
            return
        if not targets:
            if kind != "call":
                return
            reason = self._reason(values, receiver, steps)
            if reason == "unknown receiver":
                bound = self._unique(file, reference, steps)
                if bound is not None:
                    yield bound
                    return
            unresolved[reason] += 1
            return
        if len(targets) > _MAX_TARGETS:
            if kind == "call":
                unresolved["ambiguous"] += 1
            return
        rule = self._rule(file, steps, receiver, targets, kind)
        share = 1.0 if len(targets) == 1 else 1.0 / len(targets) + 0.2
        for target, is_class in targets:
            name = "constructor" if is_class and rule != "callback" else rule
            confidence = round(CONFIDENCE[name] * share, 2)
            yield Bound("CALLS", scope, target, line, name, confidence)

    def _targets(self, values: Values, kind: str) -> list[tuple[str, bool]]:
        """The nodes that a call of `values` enters, each with whether it makes an instance."""
        found: list[tuple[str, bool]] = []
        for value in values:
            target: tuple[str, bool] | None = None
            if isinstance(value, Function):
                target = (self._table.ids[value.file][value.number], False)
            elif kind == "callback":
                continue
            elif isinstance(value, Class | OwnClass):
                target = (self._constructor(value), True)
            elif isinstance(value, Instance):
                for method in self._infer.attribute((value,), "__call__"):
                    if isinstance(method, Function):
                        target = (self._table.ids[method.file][method.number], False)
            if target is not None and target not in found:
                found.append(target)
        return found

    def _constructor(self, value: Class | OwnClass) -> str:
        cls = value if isinstance(value, Class) else value.cls
        ids = self._table.ids
        for name in ("__init__", "__new__"):
            for each in cls.mro:
                number = each.members.get(name)
                if number is not None:
                    return ids[each.file][number]
        return ids[cls.file][cls.number]

    def _rule(
        self,
        file: int,
        steps: tuple[str, ...],
        receiver: Values,
        targets: list[tuple[str, bool]],
        kind: str,
    ) -> str:
        if kind != "call":
            return kind
        if len(steps) == 1:
            where = self._table.definition_of[targets[0][0]]
            return "local" if where[0] == file else "import"
        if not receiver:
            return "call"
        if steps[0] == "super" and len(steps) == 3:
            return "super"
        value: Value = receiver[0]
        if len(steps) == 2 and _is_own(value):
            return "self"
        if isinstance(value, Module):
            return "module"
        return "class" if isinstance(value, Class) else "type"

    def _reason(self, values: Values, receiver: Values, steps: tuple[str, ...]) -> str:
        for value in values or receiver:
            if isinstance(value, External):
                return value.reason
            if isinstance(value, Box | BoxMethod):
                return "builtin"
        if receiver:
            known = isinstance(receiver[0], Instance | Class | OwnClass | Module | Super)
            return "unknown attribute" if known else "unknown receiver"
        return "unknown receiver" if len(steps) > 1 else "unknown name"

    def _unique(self, file: int, reference: Reference, steps: tuple[str, ...]) -> Bound | None:
        """An unknown receiver's method that a single class of the repository defines."""
        name = steps[-1]
        owners = self._owners.get(name)
        if owners is None or len(owners) != 1 or name in _COMMON or steps[-1] in ("()", "[]"):
            return None
        owner = owners[0]
        number = owner.members[name]
        if self._table.files[owner.file].definitions[number].kind == "class":
            return None
        target = self._table.ids[owner.file][number]
        return Bound(
            "CALLS", reference.scope, target, reference.line, "unique", CONFIDENCE["unique"]
        )


def _is_own(value: Value) -> bool:
    return isinstance(value, OwnClass) or (isinstance(value, Instance) and value.own)
