"""Binds Java: calls with overloads, constructors, method references, imports, classes.

Conventions: `new Foo()` calls the constructor that fits, or the class where it declares none; a call
binds to the method of the receiver's declared type, not to what overrides it (the edge OVERRIDES leads
there). A call whose overloads tie stays unresolved, as `ambiguous`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from etl.facts import Argument, ImportKind, Reference, ReferenceKind, SymbolKind
from etl.languages.java.resolve_overloads import choose
from etl.languages.java.resolve_types import TYPES, Place, Types
from etl.languages.kit import chains
from etl.languages.kit.chains import UNKNOWN, steps
from etl.languages.kit.values import (
    AMBIGUOUS,
    BUILTIN,
    CONFIDENCE,
    EXTERNAL,
    MAX_DEPTH,
    UNKNOWN_ATTRIBUTE,
    UNKNOWN_NAME,
    UNKNOWN_RECEIVER,
    Value,
)
from etl.resolve.table import Binder, Bound, Key, Table

_PRIMITIVES = frozenset({"int", "long", "short", "byte", "char", "boolean", "float", "double"})
_LANG = frozenset(
    """Object String StringBuilder StringBuffer Math Integer Long Short Byte Character Boolean Float
    Double Number System Thread Runnable Class Exception RuntimeException Error Throwable Iterable
    Comparable CharSequence Enum Record Void Process ProcessBuilder Runtime StackTraceElement
    IllegalArgumentException IllegalStateException NullPointerException IndexOutOfBoundsException
    UnsupportedOperationException ArithmeticException ClassCastException ClassNotFoundException
    CloneNotSupportedException InterruptedException NumberFormatException SecurityException
    AssertionError ThreadLocal Package ClassLoader AutoCloseable Cloneable StackOverflowError
    OutOfMemoryError ArrayIndexOutOfBoundsException StrictMath Module""".split()  # noqa: SIM905
)
_OBJECT = frozenset(
    "equals hashCode toString getClass clone notify notifyAll wait finalize".split()  # noqa: SIM905
)
_ENUM = frozenset(
    "values valueOf name ordinal compareTo getDeclaringClass describeConstable".split()  # noqa: SIM905
)
# Methods of collections, maps, optionals and the like that give what they hold …
_GIVES = frozenset(
    """get getFirst getLast remove removeFirst removeLast poll pollFirst pollLast peek peekFirst peekLast
    pop element first last next previous orElse orElseGet orElseThrow getOrDefault computeIfAbsent put
    putIfAbsent join getNow call take floor ceiling higher lower set""".split()  # noqa: SIM905
)
# … and those that give another of the same.
_SAME = frozenset(
    """iterator listIterator stream parallelStream filter sorted distinct limit skip peek findFirst findAny
    values subList toList reversed descendingSet descendingIterator or headSet tailSet""".split()  # noqa: SIM905
)


def binder(table: Table) -> Binder:
    """The binder of Java files."""
    return JavaBinder(table)


class JavaBinder:
    """See `etl.resolve.table.Binder`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._types = Types(table)

    def put(self, file: int) -> None:
        """See `Binder.put`."""
        self._types.put(file)

    def drop(self, file: int) -> None:
        """See `Binder.drop`."""
        self._types.drop(file)

    def surface(self, file: int) -> dict[Key, object]:
        """See `Binder.surface`."""
        return self._types.surface(file)

    def shared(self, file: int) -> Iterator[tuple[Key, Hashable]]:
        """See `Binder.shared`."""
        return self._types.shared(file)

    def bind(self, file: int, unresolved: Counter[str]) -> Iterator[Bound]:
        """See `Binder.bind`."""
        self._types.begin()
        yield from self._imports(file)
        yield from self._classes(file)
        for reference in self._table.files[file].references:
            value, rule = self._callee(file, reference)
            if value.kind == "definition":
                target = self._table.id(value.file, value.number)
                if rule:
                    line, confidence = reference.line, CONFIDENCE[rule]
                    yield Bound("CALLS", reference.scope, target, line, rule, confidence)
            else:
                unresolved[value.path if value.kind == "fail" else "external"] += 1

    # -- modules and classes -----------------------------------------------------------------------

    def _imports(self, file: int) -> Iterator[Bound]:
        """A file imports the files of the classes it names; a wildcard, those of the whole package."""
        types = self._types
        for each in self._table.files[file].imports:
            targets = set()
            tops = types.tops(each.module) if each.kind is ImportKind.ALL else None
            if tops is not None:
                targets = tops
            else:
                value = types.qualified(file, each.module)
                if value.kind == "definition":
                    targets = {value.file}
            for target in sorted(targets - {file}):
                yield Bound("IMPORTS", 0, self._table.id(target, 0), each.line, "import", 1.0)

    def _classes(self, file: int) -> Iterator[Bound]:
        types, table = self._types, self._table
        for number, definition in enumerate(table.files[file].definitions):
            if definition.kind in TYPES:
                for base_file, base in types.bases((file, number)):
                    target = table.id(base_file, base)
                    yield Bound("INHERITS", number, target, definition.start_line, "base", 1.0)
            elif definition.kind is SymbolKind.METHOD:
                above = self._overridden(file, number)
                if above is not None:
                    yield Bound("OVERRIDES", number, table.id(*above), 0, "mro", 1.0)

    def _overridden(self, file: int, number: int) -> Place | None:
        """The nearest method above with the same name and, by their simple names, parameters."""
        types = self._types
        definition = types.definition(file, number)
        own = definition.parameters or ()
        for base_file, base in types.line((file, definition.parent))[1:]:
            holds = types.holds(base_file, definition.name)
            declared = {
                n: types.definition(base_file, n).parameters or ()
                for n in holds.methods.get((base, definition.name), ())
            }
            same = [n for n, parameters in declared.items() if len(parameters) == len(own)]
            exact = [n for n in same if declared[n] == own]
            if len(exact or same) == 1:
                return base_file, (exact or same)[0]
        return None

    # -- uses --------------------------------------------------------------------------------------

    def _callee(self, file: int, reference: Reference) -> tuple[Value, str]:
        """What is called, and the rule that says so ("" for what is no edge)."""
        path = steps(reference.chain)
        if not path:
            return UNKNOWN_NAME, ""
        scope = reference.scope
        arguments = None
        if reference.kind is not ReferenceKind.METHOD:
            arguments = [self._argument(file, scope, each) for each in reference.arguments]
        if path[0] in ("this", "super") and path[1:] == (chains.CALL,):
            return self._own_constructor(file, scope, path[0], arguments or [])
        is_new = reference.kind is ReferenceKind.NEW
        if is_new or (len(path) == 1 and reference.kind is ReferenceKind.METHOD):
            value = self._types.named(file, scope, reference.chain)
            if value.kind != "definition":
                return self._foreign_reason(value, path), ""
            return self._constructor(value, arguments)
        name = path[-1]
        if len(path) == 1:
            return self._unqualified(file, scope, name, arguments)
        receiver = self.walk(file, scope, path[:-1])
        if receiver.kind == "fail":
            return receiver, ""
        value = self._method(receiver, name, arguments)
        rule = "class" if receiver.kind == "definition" else "type"
        if path[0] == "this" and len(path) == 2:
            rule = "self"
        return value, "super" if path[0] == "super" else rule

    def _argument(self, file: int, scope: int, given: Argument) -> str:
        """The type of an argument, UNKNOWN when nothing tells it."""
        if not given.chain:
            return given.type or UNKNOWN
        value = self.walk(file, scope, steps(given.chain))
        if value.kind == "instance" and not value.many:
            return self._types.definition(value.file, value.number).name
        if value.kind != "foreign":
            return UNKNOWN
        # List<Foo> and Foo[] look alike; a list of int does not exist.
        if value.many and value.path not in _PRIMITIVES:
            return UNKNOWN
        return value.path + chains.ELEMENT * value.many

    def _foreign_reason(self, value: Value, path: tuple[str, ...]) -> Value:
        return BUILTIN if value == EXTERNAL and path[-1] in _LANG else value

    def _own_constructor(
        self, file: int, scope: int, which: str, arguments: list[str]
    ) -> tuple[Value, str]:
        owners = self._types.enclosing(file, scope)
        if not owners:
            return UNKNOWN_NAME, ""
        if which == "this":
            value, rule = self._constructor(Value("definition", file, owners[0]), arguments)
            return value, rule and "self"
        base = self._super(file, owners[0])
        if base.kind != "instance":
            return base, ""
        value, rule = self._constructor(base._replace(kind="definition"), arguments)
        return value, rule and "super"

    def _super(self, file: int, number: int) -> Value:
        """An instance of the superclass, EXTERNAL when that is none of this repository's."""
        definition = self._types.definition(file, number)
        for base in definition.bases[:1]:
            value = self._types.named(file, definition.parent, base)
            if value.kind == "definition":
                return value._replace(kind="instance")
        return EXTERNAL

    def _constructor(self, value: Value, arguments: Sequence[str] | None) -> tuple[Value, str]:
        """The constructor a `new` calls; interfaces and enums without one are no edge."""
        definition = self._types.definition(value.file, value.number)
        holds = self._types.holds(value.file, definition.name)
        candidates = holds.constructors.get(value.number, [])
        if not candidates:
            return value, "constructor" if definition.kind is SymbolKind.CLASS else ""
        return self._choose(value.file, candidates, arguments), "constructor"

    def _choose(self, file: int, numbers: Sequence[int], arguments: Sequence[str] | None) -> Value:
        """The one overload that fits. A lone candidate must fit by count."""
        if arguments is None:
            return Value("definition", file, numbers[0]) if len(numbers) == 1 else AMBIGUOUS
        declared = ((n, self._types.definition(file, n).parameters) for n in numbers)
        candidates = [(number, given) for number, given in declared if given is not None]
        if not candidates and len(numbers) == 1:
            return Value("definition", file, numbers[0])  # a record's compact constructor
        best = choose(arguments, candidates, self._related)
        if not best and len(numbers) == 1:
            best = choose([UNKNOWN] * len(arguments), candidates, self._related)
        if len(best) == 1:
            return Value("definition", file, best[0])
        return AMBIGUOUS if best else UNKNOWN_ATTRIBUTE

    def _related(self, argument: str, parameter: str) -> bool | None:
        """Whether a class may be passed as another, where both names are unique in the repository."""
        found = []
        for name in (argument, parameter):
            places = self._types.named_so(name)
            if len(places) != 1:
                return None
            found.append(places[0])
        return found[1] in self._types.line(found[0])

    def _unqualified(
        self, file: int, scope: int, name: str, arguments: Sequence[str] | None
    ) -> tuple[Value, str]:
        """`name(…)`: a method of the nearest type round here that has one, or a static import."""
        types = self._types
        is_open = False
        owners = types.enclosing(file, scope)
        for number in owners:
            value = self._method(Value("instance", file, number), name, arguments)
            if value.kind == "definition" or value == AMBIGUOUS:
                return value, "self" if number == owners[0] else "local"
            is_open = is_open or types.is_open((file, number))
        for owner in types.static_owners(file, name):
            value = types.qualified(file, owner)
            if value.kind != "definition":
                is_open = True
                continue
            found = self._method(value, name, arguments)
            if found.kind == "definition" or found == AMBIGUOUS:
                return found, "import"
        if name in _OBJECT:
            return BUILTIN, ""
        return (EXTERNAL if is_open else UNKNOWN_NAME), ""

    def _method(self, receiver: Value, name: str, arguments: Sequence[str] | None) -> Value:
        """The method of a receiver's type, searched from the type upwards."""
        if receiver.many:
            return BUILTIN
        if receiver.kind == "foreign":
            return BUILTIN if receiver.path in _LANG else EXTERNAL
        if receiver.kind not in ("instance", "definition"):
            return EXTERNAL if receiver.kind == "package" else UNKNOWN_RECEIVER
        place = (receiver.file, receiver.number)
        ambiguous = False
        for file, number in self._types.line(place):
            candidates = self._types.holds(file, name).methods.get((number, name))
            if not candidates:
                continue
            value = self._choose(file, candidates, arguments)
            if value.kind == "definition":
                return value
            ambiguous = ambiguous or value == AMBIGUOUS
        if ambiguous:
            return AMBIGUOUS
        if name in _OBJECT:
            return BUILTIN
        definition = self._types.definition(*place)
        if definition.kind is SymbolKind.ENUM and name in _ENUM:
            return BUILTIN
        return EXTERNAL if self._types.is_open(place) else UNKNOWN_ATTRIBUTE

    # -- chains ------------------------------------------------------------------------------------

    def walk(self, file: int, scope: int, path: tuple[str, ...], depth: int = 0) -> Value:
        """What a chain stands for, from its head on."""
        if depth > MAX_DEPTH or not path:
            return UNKNOWN_RECEIVER
        value, index = self._head(file, scope, path)
        while index < len(path):
            if value.kind == "fail":
                return value
            step = path[index]
            called = index + 1 < len(path) and path[index + 1] == chains.CALL
            if step == chains.ELEMENT:
                value = value._replace(many=value.many - 1) if value.many else UNKNOWN_RECEIVER
            elif step == chains.CALL:
                value = UNKNOWN_RECEIVER
            elif called:
                value = self._result(file, value, step)
                index += 1
            else:
                value = self._attribute(file, value, step)
            index += 1
        return value

    def _head(self, file: int, scope: int, path: tuple[str, ...]) -> tuple[Value, int]:
        """The head's value, and the index of the first step after it."""
        head = path[0]
        called = len(path) > 1 and path[1] == chains.CALL
        if head == UNKNOWN:
            return UNKNOWN_RECEIVER, 1
        owners = self._types.enclosing(file, scope)
        if head == "this":
            return (Value("instance", file, owners[0]) if owners else UNKNOWN_RECEIVER), 1
        if head == "super":
            return (self._super(file, owners[0]) if owners else UNKNOWN_RECEIVER), 2
        if not called:
            return self._variable(file, scope, head), 1
        if head in _PRIMITIVES:
            return Value("foreign", path=head), 2
        if head[:1].isupper():
            found = self._instance(file, scope, head)
            if found.kind == "instance":
                return found, 2
            method, _ = self._unqualified(file, scope, head, None)
            return (self._returned(method) if method.kind == "definition" else found), 2
        return self._own_result(file, scope, head), 2

    def _own_result(self, file: int, scope: int, name: str) -> Value:
        """What `name()` without receiver gives."""
        for number in self._types.enclosing(file, scope):
            value = self._results(Value("instance", file, number), name)
            if value != UNKNOWN_ATTRIBUTE and value != EXTERNAL:
                return value
        for owner in self._types.imports(file, name).static.get(name, ()):
            value = self._types.qualified(file, owner)
            if value.kind == "definition":
                return self._results(value, name)
        return EXTERNAL

    def _variable(self, file: int, scope: int, name: str) -> Value:
        """A name that is no local variable: a field round here, a class, or the root of a package."""
        for number in self._types.enclosing(file, scope):
            value = self._field((file, number), name)
            if value is not None:
                return value
        value = self._types.find(file, scope, name)
        if value.kind == "definition" or value == AMBIGUOUS:
            return value
        for owner in self._types.static_owners(file, name):
            holder = self._types.qualified(file, owner)
            if holder.kind == "definition":
                field = self._field((holder.file, holder.number), name)
                if field is not None:
                    return field
        if self._types.is_package(name):
            return Value("package", path=name)
        if name in _LANG:
            return BUILTIN
        return EXTERNAL if name[:1].isupper() or len(name) < 4 else UNKNOWN_RECEIVER

    def _field(self, place: Place, name: str) -> Value | None:
        for file, number in self._types.line(place):
            type_ = self._types.holds(file, name).fields.get((number, name))
            if type_ is not None:
                return self._instance(file, number, type_)
        return None

    def _instance(self, file: int, scope: int, type_: str) -> Value:
        """A value of a declared type, seen from `scope`."""
        head, many = chains.held(type_)
        value = self._types.named(file, scope, head)
        if value.kind == "definition":
            return Value("instance", value.file, value.number, many=many)
        if value == AMBIGUOUS:
            return value
        return Value("foreign", path=head.rpartition(".")[2], many=many)

    def _attribute(self, file: int, value: Value, name: str) -> Value:
        if value.kind == "package":
            full = f"{value.path}.{name}"
            found = self._types.qualified(file, full)
            if found.kind == "definition":
                return found
            return Value("package", path=full) if self._types.is_package(full) else EXTERNAL
        if value.many:
            return BUILTIN
        if value.kind == "foreign":
            return EXTERNAL
        place = (value.file, value.number)
        if value.kind == "definition":
            if name == "this":
                return value._replace(kind="instance")
            nested = self._types.nested(place, name)
            if nested is not None:
                return Value("definition", *nested)
        field = self._field(place, name)
        if field is not None:
            return field
        return EXTERNAL if self._types.is_open(place) else UNKNOWN_ATTRIBUTE

    def _result(self, file: int, value: Value, name: str) -> Value:
        """What `value.name()` gives; `Outer.Inner()` is an instance, for types are written so."""
        if value.kind in ("definition", "package") and name[:1].isupper():
            inner = self._attribute(file, value, name)
            if inner.kind == "definition":
                return inner._replace(kind="instance")
        if value.many:
            if name in _GIVES:
                return value._replace(many=value.many - 1)
            return value if name in _SAME else BUILTIN
        if value.kind == "foreign":
            return EXTERNAL
        if value.kind == "package":
            return EXTERNAL
        return self._results(value, name)

    def _results(self, value: Value, name: str) -> Value:
        """What the methods of that name return, when all of the nearest class agree."""
        place = (value.file, value.number)
        for file, number in self._types.line(place):
            candidates = self._types.holds(file, name).methods.get((number, name))
            if candidates:
                results = {self._returned(Value("definition", file, n)) for n in candidates}
                return results.pop() if len(results) == 1 else UNKNOWN_RECEIVER
            field = self._types.holds(file, name).fields.get((number, name))
            if field is not None and self._types.definition(file, number).kind is SymbolKind.CLASS:
                return self._instance(file, number, field)  # a record's accessor
        if name in _OBJECT:
            return Value("foreign", path="String") if name == "toString" else BUILTIN
        return EXTERNAL if self._types.is_open(place) else UNKNOWN_ATTRIBUTE

    def _returned(self, method: Value) -> Value:
        returns = self._types.definition(method.file, method.number).returns
        return self._instance(method.file, method.number, returns) if returns else UNKNOWN_RECEIVER
