"""Binds the uses in Python files: calls, imports, bases and overrides.

Two passes: the first binds what names, imports, annotations and assignments tell, and notes what is
passed to each function of the repository; the second asks the calls that stayed unknown again, now that
unannotated parameters may be what callers pass.

Conventions: calling a class is a call of its `__init__` and `__new__`, where the repository defines
them, else of the Class node. A decorated function keeps its identity. Reading a property is no call. A
receiver that may be of several classes binds to each, at a lower confidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from etl.facts import ImportKind, Reference, ReferenceKind, SymbolKind
from etl.languages.kit import chains
from etl.languages.kit.chains import steps
from etl.languages.python.resolve_infer import Inference
from etl.languages.python.resolve_parameters import MAX_PASSED, Passed
from etl.languages.python.resolve_values import (
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

# How sure each rule is: about the share of its edges that really happened where their line ran
# (benchmarks/call_graph.py, eight projects), rounded down.
CONFIDENCE = {
    "local": 0.98,
    "import": 0.98,
    "module": 0.98,
    "constructor": 0.98,
    "class": 0.98,
    "super": 0.95,
    "self": 0.95,
    "type": 0.95,
    "call": 0.95,
    "decorator": 0.9,
    "wrapper": 0.9,
    "parameter": 0.8,
    "unique": 0.7,
    "override": 0.4,
}
_MAX_TARGETS = 4  # more alternatives than that say nothing
_MAX_OVERRIDES = 8  # of an abstract method
_OWN_OVERRIDES = range(3, 17)  # of a method that its own class calls: one or two are exceptions


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
    "critical log parse dump dumps load loads main add_argument parse_args next resolve exists mkdir "
    "unlink touch iterdir glob joinpath relative_to read_text write_text read_bytes write_bytes stat "
    "as_posix communicate poll terminate kill send_signal set_result set_exception done locked is_set "
    "put_nowait get_nowait task_done date time timestamp isoformat strftime total_seconds fileno "
    "setLevel addHandler getvalue reset fetchmany executemany describe item tolist reshape mean"
)

_Target = tuple[str, bool]  # node id, whether the call makes an instance


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
        self._makers: dict[Class, list[tuple[int, int]]] = {}
        self._found: list[list[Bound]] = [[] for _ in table.files]
        self._unbound: list[list[Reference]] = [[] for _ in table.files]
        self._reasons: list[Counter[str]] = [Counter() for _ in table.files]
        for file, facts in enumerate(table.files):
            if facts.language == "python":
                for reference in facts.references:
                    self._first(file, reference)
        self._infer.know_arguments()

    def bind(self, file: int, unresolved: Counter[str]) -> Iterator[Bound]:
        """See `Binder.bind`."""
        for reference in self._unbound[file]:
            self._second(file, reference)
        unresolved.update(self._reasons[file])
        found = self._found[file]
        found += self._imports(file)
        found += self._classes(file)
        return iter(found)

    # -- modules and classes ----------------------------------------------------------------------

    def _imports(self, file: int) -> Iterator[Bound]:
        infer, ids = self._infer, self._table.ids
        own = ids[file][0]
        for number, each in enumerate(self._table.files[file].imports):
            absolute = infer.modules.absolute(file, each.module, each.level)
            target = None
            if each.kind is ImportKind.NAME:  # `from package import module`
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
            if definition.kind is not SymbolKind.CLASS:
                continue
            cls = classes[file, number]
            for base in self._infer.bases[cls]:
                target = ids[base.file][base.number]
                yield Bound("INHERITS", number, target, definition.start_line, "base", 1.0)
            for name, member in cls.members.items():
                above = next((base for base in cls.mro[1:] if name in base.members), None)
                if above is not None:
                    target = ids[above.file][above.members[name]]
                    yield Bound("OVERRIDES", member, target, 0, "mro", 1.0)

    # -- calls ------------------------------------------------------------------------------------

    def _evaluate(self, file: int, reference: Reference) -> tuple[Values, Values]:
        """(receiver, what is called): the receiver is empty where there is none."""
        infer = self._infer
        scope, line = reference.scope, reference.line
        path = steps(reference.chain)
        if len(path) == 1:
            return (), infer.name(file, scope, path[0], line)
        last = path[-1]
        if last == chains.CALL or last == chains.ELEMENT:
            return (), infer.walk(file, scope, path, line)
        receiver = infer.walk(file, scope, path[:-1], line)
        return receiver, infer.operations.attribute(receiver, last) if receiver else ()

    def _first(self, file: int, reference: Reference) -> None:
        """Bind a call by what is known without arguments, and note its own arguments."""
        receiver, values = self._evaluate(file, reference)
        targets = self._targets(values)
        if targets and len(targets) <= (_MAX_TARGETS if receiver else MAX_PASSED):
            if reference.arguments:
                self._pass(file, reference, values)
            rule = self._rule(file, reference, receiver, targets)
            self._bind(file, reference, receiver, values, targets, rule)
        elif values and not targets:
            self._count(file, reference, receiver, values)  # foreign: nothing more to learn
        else:
            self._unbound[file].append(reference)

    def _second(self, file: int, reference: Reference) -> None:
        """Bind a call by what is passed to parameters, or by its name's only owner; or count it."""
        receiver, values = self._evaluate(file, reference)
        targets = self._targets(values)
        if targets and len(targets) <= (_MAX_TARGETS if receiver else MAX_PASSED):
            self._bind(file, reference, receiver, values, targets, "parameter")
        elif values or not self._unique(file, reference, receiver):
            self._count(file, reference, receiver, values)

    def _bind(
        self,
        file: int,
        reference: Reference,
        receiver: Values,
        values: Values,
        targets: list[_Target],
        rule: str,
    ) -> None:
        add, scope, line = self._found[file].append, reference.scope, reference.line
        share = 1.0 if len(values) == 1 else min(1.0, 1.0 / len(targets) + 0.2)
        for target, makes in targets:
            name = "constructor" if makes and rule != "parameter" else rule
            confidence = CONFIDENCE[name]
            if share < 1.0:
                confidence = round(confidence * share, 2)
            add(Bound("CALLS", scope, target, line, name, confidence))
        value = values[0]
        # What is passed to a decorator is the bare function: its parameter calls no wrapper.
        if len(targets) == 1 and isinstance(value, Function) and rule != "parameter":
            for wrapper in self._infer.operations.wrappers(value):
                target = self._table.ids[wrapper.file][wrapper.number]
                add(Bound("CALLS", scope, target, line, "wrapper", CONFIDENCE["wrapper"]))
        if receiver:
            self._overrides(file, reference, receiver)

    def _targets(self, values: Values) -> list[_Target]:
        """The nodes that a call of `values` enters."""
        found: list[_Target] = []
        for value in values:
            targets: list[_Target] = []
            if isinstance(value, Function):
                targets = [(self._table.ids[value.file][value.number], False)]
            elif isinstance(value, Class | OwnClass):
                cls = value if isinstance(value, Class) else value.cls
                makers = self._constructors(cls) or [(cls.file, cls.number)]
                targets = [(self._table.ids[file][number], True) for file, number in makers]
            elif isinstance(value, Instance):
                for method in self._infer.operations.attribute((value,), "__call__"):
                    if isinstance(method, Function):
                        targets = [(self._table.ids[method.file][method.number], False)]
            found += [target for target in targets if target not in found]
        return found

    def _constructors(self, cls: Class) -> list[tuple[int, int]]:
        """What making an instance runs: the repository's `__init__`, and its `__new__` before it."""
        known = self._makers.get(cls)
        if known is None:
            known = self._makers[cls] = []
            for name in ("__init__", "__new__"):
                owner = next((each for each in cls.mro if name in each.members), None)
                if owner is not None:
                    known.append((owner.file, owner.members[name]))
        return known

    def _pass(self, file: int, reference: Reference, values: Values) -> None:
        """Note the arguments of a call for the parameters of what it calls."""
        for value in values:
            skip = 0
            if isinstance(value, Function):
                places = [(value.file, value.number)]
                if isinstance(value.receiver, Class | OwnClass):
                    kinds = value.definition.decorators
                    skip = 0 if "classmethod" in kinds or "staticmethod" in kinds else 1
            elif isinstance(value, Class | OwnClass):
                places = self._constructors(value if isinstance(value, Class) else value.cls)
            else:
                continue
            for place in places:
                self._infer.parameters.passed.setdefault(place, []).append(
                    Passed(file, reference.scope, reference.line, reference.arguments, skip)
                )

    def _rule(
        self, file: int, reference: Reference, receiver: Values, targets: list[_Target]
    ) -> str:
        if reference.kind is not ReferenceKind.CALL:
            return reference.kind.value
        path = steps(reference.chain)
        if len(path) == 1:
            where = self._table.definition_of[targets[0][0]]
            return "local" if where[0] == file else "import"
        if not receiver:
            return "call"
        if path[0] == "super" and len(path) == 3:
            return "super"
        value = receiver[0]
        if len(path) == 2 and _is_own(value):
            return "self"
        if isinstance(value, Module):
            return "module"
        return "class" if isinstance(value, Class) else "type"

    def _overrides(self, file: int, reference: Reference, receiver: Values) -> None:
        """A call of a method that subclasses are there to fill in may enter theirs.

        Measured over eight projects: half of these edges happened when a part of the tests ran; for a
        method with a body, called on a declared type, one in ten did, so those are left out. A test's
        own subclass is no target of the code's calls.
        """
        name = steps(reference.chain)[-1]
        for value in receiver:
            if not isinstance(value, Instance) or value.exact:
                continue
            base = next((cls for cls in value.cls.mro if name in cls.members), None)
            if base is None:
                continue
            abstract = base.members[name] in self._infer.scopes[base.file].abstract
            if not abstract and not value.own:
                continue
            found = self._overriding(file, value.cls, name)
            if abstract and len(found) > _MAX_OVERRIDES:
                continue
            if not abstract and len(found) not in _OWN_OVERRIDES:
                continue
            confidence = CONFIDENCE["override"]
            for target in found:
                self._found[file].append(
                    Bound("CALLS", reference.scope, target, reference.line, "override", confidence)
                )

    def _overriding(self, file: int, cls: Class, name: str) -> list[str]:
        found: dict[str, None] = {}
        seen: set[Class] = set()
        todo = list(reversed(cls.subclasses))
        in_tests = self._table.is_test_file(file)
        while todo:
            each = todo.pop()
            if each in seen:
                continue
            seen.add(each)
            todo += reversed(each.subclasses)
            number = each.members.get(name)
            if number is not None and (in_tests or not self._table.is_test_file(each.file)):
                found[self._table.ids[each.file][number]] = None
        return list(found)

    def _unique(self, file: int, reference: Reference, receiver: Values) -> bool:
        """An unknown receiver's method that a single class of the repository defines."""
        path = steps(reference.chain)
        name = path[-1]
        owners = self._owners.get(name)
        is_call = reference.kind is ReferenceKind.CALL
        if receiver or not is_call or len(path) == 1 or path[0] == "super":
            return False
        if owners is None or len(owners) != 1 or name in _COMMON:
            return False
        owner = owners[0]
        if owner.external or name.startswith("__"):
            return False  # the name may be of a foreign interface that others implement, too
        if self._table.is_test_file(owner.file) and not self._table.is_test_file(file):
            return False
        number = owner.members[name]
        if self._table.files[owner.file].definitions[number].kind is SymbolKind.CLASS:
            return False
        target = self._table.ids[owner.file][number]
        confidence = CONFIDENCE["unique"]
        self._found[file].append(
            Bound("CALLS", reference.scope, target, reference.line, "unique", confidence)
        )
        return True

    def _count(self, file: int, reference: Reference, receiver: Values, values: Values) -> None:
        """Count a call that stays unbound, by its reason."""
        if reference.kind is ReferenceKind.CALL:
            self._reasons[file][_why(reference, receiver, values)] += 1


def _why(reference: Reference, receiver: Values, values: Values) -> str:
    for value in values or receiver:
        if isinstance(value, External):
            return value.reason
        if isinstance(value, Box | BoxMethod):
            return "builtin"
        if values and isinstance(value, Function | Class | OwnClass | Instance):
            return "ambiguous"
    if receiver:
        known = isinstance(receiver[0], Instance | Class | OwnClass | Module | Super)
        return "unknown attribute" if known else "unknown receiver"
    return "unknown receiver" if "." in reference.chain else "unknown name"


def _is_own(value: Value) -> bool:
    return isinstance(value, OwnClass) or (isinstance(value, Instance) and value.own)
