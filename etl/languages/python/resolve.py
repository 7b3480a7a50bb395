"""Binds the uses in Python files: calls, imports, bases and overrides.

Two passes: the first binds what names, imports, annotations and assignments tell, and notes what is
passed to each function of the repository; the second asks the calls that stayed unknown again, now that
unannotated parameters may be what callers pass.

Conventions: calling a class is a call of its `__init__` and `__new__`, where the repository defines
them, else of the Class node. A decorated function keeps its identity. Reading a property is no call. A
receiver that may be of several classes binds to each, at a lower confidence.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from operator import eq

from etl.facts import FileFacts, ImportKind, Reference, ReferenceKind
from etl.languages.kit import chains
from etl.languages.kit.chains import steps
from etl.languages.python.resolve_classes import link, order
from etl.languages.python.resolve_infer import Inference
from etl.languages.python.resolve_parameters import (
    BASES,
    MAX_PASSED,
    NAMES,
    WITH_ARGUMENTS,
    Passed,
)
from etl.languages.python.resolve_program import Program
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
    Symbol,
    Value,
    Values,
)
from etl.resolve.ids import Ids
from etl.resolve.questions import Entry, Key, Questions
from etl.resolve.table import Bound

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
_FRAMES = 3000  # of Python's stack
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

_Target = tuple[Symbol | Class, bool]  # what is entered, whether the call makes an instance


def incremental(ids: Ids, track: bool) -> PythonBinder:
    """The binder of Python files. `track`: to be updated after changes."""
    return PythonBinder(ids, track)


class _Bound:
    """What the steps of one file found."""

    __slots__ = (
        "first",
        "found",
        "late",
        "late_reasons",
        "passed",
        "reasons",
        "second",
        "unbound",
    )

    def __init__(self, slot: int) -> None:
        self.first = Entry(slot, NAMES, None)
        self.second = Entry(slot, WITH_ARGUMENTS, None)
        self.found: list[Bound] = []
        self.late: list[Bound] = []  # by the second step
        self.reasons: Counter[str] = Counter()
        self.late_reasons: Counter[str] = Counter()
        self.unbound: list[Reference] = []
        self.passed: dict[Symbol, list[Passed]] = {}


class PythonBinder:
    """See `etl.resolve.table.IncrementalBinder`.

    A file is bound in three steps: its classes' bases; what names tell; what calls pass. Each step of
    each file is taken again when an answer that it depends on is another.
    """

    def __init__(self, ids: Ids, track: bool) -> None:
        self._program = Program(ids)
        self._questions = Questions(
            3, eq, _is_gone, track=track, first_of=WITH_ARGUMENTS, only_there=frozenset({"passed"})
        )
        self._infer = Inference(self._program, self._questions)
        self._questions.finders = {
            **self._infer.finders(),
            "owner": self._owner,
            "overriding": self._overriding,
        }
        self._links: list[Entry] = []  # by slot
        self._bound: list[_Bound] = []
        # Of the step at hand.
        self._found: list[Bound] = []
        self._reasons: Counter[str] = Counter()

    @property
    def size(self) -> int:
        """How much is kept, in answers."""
        return self._questions.count

    def update(self, changed: Mapping[str, FileFacts], removed: Iterable[str]) -> set[str]:
        """See `IncrementalBinder.update`."""
        with _deep_stack():
            return self._update(changed, removed)

    def _update(self, changed: Mapping[str, FileFacts], removed: Iterable[str]) -> set[str]:
        program, questions = self._program, self._questions
        questions.revision += 1
        names = self._module_names((*changed, *removed))
        before = [cls for path in (*changed, *removed) for cls in self._classes_of(path)]
        slots = program.update(changed, removed)
        self._grow()
        reached = questions.changed_files(slots)
        if names != self._module_names((*changed, *removed)):
            program.name_modules()
            reached |= questions.changed_world(("find", "module", "path"))
        again = {slot for slot in slots if program.is_there(slot)}
        reached |= self._link(again, reached, before)
        again |= self._first_steps(again, reached)
        again |= self._second_steps(again, reached)
        return {program.files[slot].path for slot in again}

    def _module_names(self, paths: Iterable[str]) -> dict[str, str]:
        program = self._program
        return {p: program.files[program.by_path[p]].module for p in paths if p in program.by_path}

    def _classes_of(self, path: str) -> list[Class]:
        slot = self._program.by_path.get(path)
        return list(self._program.classes(slot)) if slot is not None else []

    def _grow(self) -> None:
        count = len(self._program.files)
        self._questions.grow(count)
        for slot in range(len(self._bound), count):
            self._links.append(Entry(slot, BASES, None))
            self._bound.append(_Bound(slot))

    def _link(self, again: set[int], reached: set[Entry], before: list[Class]) -> set[Entry]:
        """Find the bases of classes, and what is above each. Returns the steps that it may reach."""
        program, questions = self._program, self._questions
        changed: dict[Class, None] = {}
        for cls in before:
            if cls.is_gone:
                for base in cls.bases:
                    base.subclasses.pop(cls, None)
                changed |= cls.subclasses
                cls.bases, cls.subclasses = [], {}
        for slot in sorted(again | {e.slot for e in reached if e is self._links[e.slot]}):
            step = self._links[slot]
            if slot in again or questions.is_stale(step):
                questions.run(step, partial(self._link_file, slot, changed))
        living = [cls for cls in changed if not cls.is_gone]
        above = order(living)
        found = questions.changed_world((), [("line", cls) for cls in above])
        touched = before or changed or any(program.has_classes(slot) for slot in again)
        if touched:
            found |= questions.changed_world(("owner", "overriding"))
        return found

    def _link_file(self, slot: int, changed: dict[Class, None]) -> None:
        for cls in self._program.classes(slot):
            old = cls.bases
            if link(cls, self._infer.base):
                changed[cls] = None
            for base in old:
                base.subclasses.pop(cls, None)
            for base in cls.bases:
                base.subclasses[cls] = None

    def _first_steps(self, again: set[int], reached: set[Entry]) -> set[int]:
        questions, program = self._questions, self._program
        slots = again | {e.slot for e in reached if e is self._bound[e.slot].first}
        done: set[int] = set()
        calls: set[Symbol] = set()
        for slot in program.in_order(slots):
            step = self._bound[slot].first
            if not program.is_there(slot):
                continue
            if slot in again or questions.is_stale(step):
                questions.run(step, partial(self._first_step, slot))
                done.add(slot)
        for slot in done | {slot for slot in range(len(self._bound)) if not program.is_there(slot)}:
            bound = self._bound[slot]
            if not program.is_there(slot):
                if not bound.passed:
                    continue
                bound.passed = {}
            calls |= self._infer.parameters.note(slot, bound.passed)
            reached |= questions.changed_answers(WITH_ARGUMENTS, slot, "passed")
        reached |= questions.changed_world((), [("callers", symbol) for symbol in calls])
        return done

    def _second_steps(self, again: set[int], reached: set[Entry]) -> set[int]:
        questions, program = self._questions, self._program
        slots = again | {e.slot for e in reached if e is self._bound[e.slot].second}
        done: set[int] = set()
        for slot in program.in_order(slots):
            step = self._bound[slot].second
            if program.is_there(slot) and (slot in again or questions.is_stale(step)):
                questions.run(step, partial(self._second_step, slot))
                done.add(slot)
        return done

    def bound(self, path: str, unresolved: Counter[str]) -> list[Bound]:
        """See `IncrementalBinder.bound`."""
        bound = self._bound[self._program.by_path[path]]
        unresolved.update(bound.reasons)
        unresolved.update(bound.late_reasons)
        return bound.found + bound.late

    # -- steps ------------------------------------------------------------------------------------

    def _first_step(self, slot: int) -> None:
        """Bind calls by what is known without arguments, and note what they pass."""
        bound = self._bound[slot]
        bound.found, bound.unbound, bound.passed = [], [], {}
        bound.reasons = Counter()
        self._found, self._reasons = bound.found, bound.reasons
        for reference in self._program.files[slot].references:
            self._first(slot, reference, bound)

    def _second_step(self, slot: int) -> None:
        """Bind the rest by what is passed to parameters; modules and classes."""
        bound = self._bound[slot]
        bound.late = []
        # What the first step counted stays; this one counts anew.
        self._found, self._reasons = bound.late, Counter()
        for reference in bound.unbound:
            self._second(slot, reference)
        bound.late += self._imports(slot)
        bound.late += self._classes(slot)
        bound.late_reasons = self._reasons

    # -- modules and classes ----------------------------------------------------------------------

    def _imports(self, file: int) -> Iterator[Bound]:
        infer, modules = self._infer, self._program.module_symbols
        for number, each in enumerate(self._program.files[file].imports):
            target: int | None = None
            if each.kind is ImportKind.NAME:  # `from package import module`
                for value in infer.imported(file, number):
                    if isinstance(value, Module) and value.file is not None:
                        target = value.file
            if target is None:
                found = infer.found(file, infer.absolute(file, each.module, each.level))
                target = found.file if found is not None else None
            if target is not None and target != file:
                yield Bound("IMPORTS", 0, modules[target].id, each.line, "import", 1.0)

    def _classes(self, file: int) -> Iterator[Bound]:
        operations = self._infer.operations
        for cls in self._program.classes(file):
            line = cls.definition.start_line
            mro = operations.line(cls).mro
            for base in cls.bases:
                yield Bound("INHERITS", cls.number, base.id, line, "base", 1.0)
            for name, member in cls.members.items():
                for above in mro[1:]:
                    found = operations.member(above, name)
                    if found is not None:
                        yield Bound("OVERRIDES", member, found.what.id, 0, "mro", 1.0)
                        break

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

    def _first(self, file: int, reference: Reference, bound: _Bound) -> None:
        """Bind a call by what is known without arguments, and note its own arguments."""
        receiver, values = self._evaluate(file, reference)
        targets = self._targets(values)
        if targets and len(targets) <= (_MAX_TARGETS if receiver else MAX_PASSED):
            if reference.arguments:
                self._pass(bound.passed, reference, values)
            rule = self._rule(file, reference, receiver, targets)
            self._bind(file, reference, receiver, values, targets, rule)
        elif values and not targets:
            self._count(reference, receiver, values)  # foreign: nothing more to learn
        else:
            bound.unbound.append(reference)

    def _second(self, file: int, reference: Reference) -> None:
        """Bind a call by what is passed to parameters, or by its name's only owner; or count it."""
        receiver, values = self._evaluate(file, reference)
        targets = self._targets(values)
        if targets and len(targets) <= (_MAX_TARGETS if receiver else MAX_PASSED):
            self._bind(file, reference, receiver, values, targets, "parameter")
        elif values or not self._unique(file, reference, receiver):
            self._count(reference, receiver, values)

    def _bind(
        self,
        file: int,
        reference: Reference,
        receiver: Values,
        values: Values,
        targets: list[_Target],
        rule: str,
    ) -> None:
        add, scope, line = self._found.append, reference.scope, reference.line
        share = 1.0 if len(values) == 1 else min(1.0, 1.0 / len(targets) + 0.2)
        for target, makes in targets:
            name = "constructor" if makes and rule != "parameter" else rule
            confidence = CONFIDENCE[name]
            if share < 1.0:
                confidence = round(confidence * share, 2)
            add(Bound("CALLS", scope, target.id, line, name, confidence))
        value = values[0]
        # What is passed to a decorator is the bare function: its parameter calls no wrapper.
        if len(targets) == 1 and isinstance(value, Function) and rule != "parameter":
            for wrapper in self._infer.operations.wrappers(value.symbol):
                add(Bound("CALLS", scope, wrapper.id, line, "wrapper", CONFIDENCE["wrapper"]))
        if receiver:
            self._overrides(file, reference, receiver)

    def _targets(self, values: Values) -> list[_Target]:
        """The nodes that a call of `values` enters."""
        found: list[_Target] = []
        for value in values:
            targets: list[_Target] = []
            if isinstance(value, Function):
                targets = [(value.symbol, False)]
            elif isinstance(value, Class | OwnClass):
                cls = value if isinstance(value, Class) else value.cls
                makers: tuple[Class | Symbol, ...] = self._infer.operations.makers(cls)
                targets = [(maker, True) for maker in makers or (cls,)]
            elif isinstance(value, Instance):
                for method in self._infer.operations.attribute((value,), "__call__"):
                    if isinstance(method, Function):
                        targets = [(method.symbol, False)]
            found += [target for target in targets if target not in found]
        return found

    def _pass(
        self, passed: dict[Symbol, list[Passed]], reference: Reference, values: Values
    ) -> None:
        """Note the arguments of a call for the parameters of what it calls."""
        operations = self._infer.operations
        for value in values:
            skip = 0
            if isinstance(value, Function):
                places: tuple[Symbol, ...] = (value.symbol,)
                if isinstance(value.receiver, Class | OwnClass):
                    skip = 0 if operations.takes_no_receiver(value.symbol) else 1
            elif isinstance(value, Class | OwnClass):
                places = operations.makers(value if isinstance(value, Class) else value.cls)
            else:
                continue
            site = Passed(reference.scope, reference.line, reference.arguments, skip)
            for place in places:
                passed.setdefault(place, []).append(site)

    def _rule(
        self, file: int, reference: Reference, receiver: Values, targets: list[_Target]
    ) -> str:
        if reference.kind is not ReferenceKind.CALL:
            return reference.kind.value
        path = steps(reference.chain)
        if len(path) == 1:
            return "local" if targets[0][0].file == file else "import"
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
        operations = self._infer.operations
        in_tests = self._program.is_test_file(file)
        for value in receiver:
            if not isinstance(value, Instance) or value.exact:
                continue
            members = (operations.member(cls, name) for cls in operations.line(value.cls).mro)
            base = next((member for member in members if member is not None), None)
            if base is None:
                continue
            abstract = isinstance(base.what, Symbol) and operations.is_abstract(base.what)
            if not abstract and not value.own:
                continue
            found = self._questions.world(("overriding", value.cls, name, in_tests))
            if abstract and len(found) > _MAX_OVERRIDES:
                continue
            if not abstract and len(found) not in _OWN_OVERRIDES:
                continue
            confidence = CONFIDENCE["override"]
            for target in found:
                self._found.append(
                    Bound("CALLS", reference.scope, target, reference.line, "override", confidence)
                )

    def _overriding(self, cls: Class, name: str, in_tests: bool) -> frozenset[str]:
        """A question about the repository: the ids of what overrides a method in subclasses."""
        found: set[str] = set()
        seen: set[Class] = set()
        todo = list(cls.subclasses)
        program = self._program
        while todo:
            each = todo.pop()
            if each in seen:
                continue
            seen.add(each)
            todo += each.subclasses
            number = each.members.get(name)
            if number is not None and (in_tests or not program.is_test_file(each.file)):
                found.add(program.at(each.file, number).id)
        return frozenset(found)

    def _unique(self, file: int, reference: Reference, receiver: Values) -> bool:
        """An unknown receiver's method that a single class of the repository defines."""
        path = steps(reference.chain)
        name = path[-1]
        is_call = reference.kind is ReferenceKind.CALL
        if receiver or not is_call or len(path) == 1 or path[0] == "super":
            return False
        # A name of Python's own may be of a foreign interface that others implement, too.
        if name in _COMMON or name.startswith("__"):
            return False
        owner: tuple[Symbol, bool] | None = self._questions.world(("owner", name))
        if owner is None or (owner[1] and not self._program.is_test_file(file)):
            return False
        confidence = CONFIDENCE["unique"]
        self._found.append(
            Bound("CALLS", reference.scope, owner[0].id, reference.line, "unique", confidence)
        )
        return True

    def _owner(self, name: str) -> tuple[Symbol, bool] | None:
        """A question about the repository: the only method of a name, and whether tests define it."""
        owners = self._program.owners.get(name, ())
        if len(owners) != 1:
            return None
        (owner,) = owners
        what = self._program.at(owner.file, owner.members[name])
        if owner.external or isinstance(what, Class):
            return None
        return what, self._program.is_test_file(owner.file)

    def _count(self, reference: Reference, receiver: Values, values: Values) -> None:
        """Count a call that stays unbound, by its reason."""
        if reference.kind is ReferenceKind.CALL:
            self._reasons[_why(reference, receiver, values)] += 1


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


def _is_gone(slot: int, key: Key) -> bool:
    """True for a question about a definition that is no more."""
    return len(key) > 1 and isinstance(key[1], Class | Symbol) and key[1].is_gone


@contextmanager
def _deep_stack() -> Iterator[None]:
    """Room for the questions that lead to questions, and for those of a step above them."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
