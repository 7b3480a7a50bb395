"""Binds Go: functions, methods by receiver type, promoted methods, conversions, imports, embedding.

Conventions: a call through an interface binds to the interface's method. INHERITS is embedding; Go's
implicit satisfaction of interfaces gives no edge. An import is an edge to every file of the package
that is not a test. Converting to a type (`T(x)`) is no call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from etl.facts import Definition, ImportKind, Reference, ReferenceKind
from etl.languages.go.resolve_packages import FILES, TYPES, Package, Packages, Place
from etl.languages.kit import chains
from etl.languages.kit.chains import UNKNOWN, steps
from etl.languages.kit.values import (
    BUILTIN,
    CONFIDENCE,
    EXTERNAL,
    MAX_DEPTH,
    UNKNOWN_ATTRIBUTE,
    UNKNOWN_NAME,
    UNKNOWN_RECEIVER,
    Value,
)
from etl.resolve.surface import EVERY, IMPORTS
from etl.resolve.table import Binder, Bound, Key, Table

_BUILTINS = frozenset(
    """append cap clear close complex copy delete imag len make max min new panic print println real
    recover bool byte complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string
    uint uint8 uint16 uint32 uint64 uintptr any comparable nil true false iota""".split()  # noqa: SIM905
)


def binder(table: Table) -> Binder:
    """The binder of Go files."""
    return GoBinder(table)


class GoBinder:
    """See `etl.resolve.table.Binder`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._packages = Packages(table)
        self._scopes: dict[int, dict[tuple[int, str], int]] = {}
        self._busy: set[tuple[int, str]] = set()
        self._embedded: dict[Place, tuple[Value, ...]] = {}  # by the file at hand

    def put(self, file: int) -> None:
        """See `Binder.put`."""
        self._scopes[file] = _locals(self._table.files[file].definitions)
        self._packages.put(file)

    def drop(self, file: int) -> None:
        """See `Binder.drop`."""
        del self._scopes[file]
        self._packages.drop(file)

    def surface(self, file: int) -> dict[Key, object]:
        """See `Binder.surface`."""
        return self._packages.surface(file)

    def shared(self, file: int) -> Iterator[tuple[Key, Hashable]]:
        """See `Binder.shared`."""
        return self._packages.shared(file)

    def bind(self, file: int, unresolved: Counter[str]) -> Iterator[Bound]:
        """See `Binder.bind`."""
        self._packages.begin()
        self._embedded.clear()
        yield from self._imports(file)
        yield from self._embeds(file)
        for reference in self._table.files[file].references:
            value, rule = self._callee(file, reference)
            if value.kind == "definition":
                kind = self._definition(value).kind
                if kind in TYPES:
                    continue  # a conversion, or a type passed to new()
                target, line = self._packages.id(value.file, value.number), reference.line
                yield Bound("CALLS", reference.scope, target, line, rule, CONFIDENCE[rule])
            elif reference.kind is not ReferenceKind.CALLBACK:
                unresolved[value.path if value.kind == "fail" else "unknown receiver"] += 1

    def _definition(self, value: Value) -> Definition:
        return self._packages.definition(value.file, value.number)

    def _imports(self, file: int) -> Iterator[Bound]:
        packages = self._packages
        for each in self._table.files[file].imports:
            package = packages.find(each.module)
            if package is None:
                continue
            for target in packages.of_file(package.files[0], FILES).files:
                if target != file and not self._table.is_test_file(target):
                    yield Bound("IMPORTS", 0, packages.id(target, 0), each.line, "import", 1.0)

    def _embeds(self, file: int) -> Iterator[Bound]:
        for number, definition in enumerate(self._table.files[file].definitions):
            for value in self._bases((file, number)):
                if value.kind == "definition" and (value.file, value.number) != (file, number):
                    target = self._packages.id(value.file, value.number)
                    yield Bound("INHERITS", number, target, definition.start_line, "embed", 1.0)

    # -- uses --------------------------------------------------------------------------------------

    def _callee(self, file: int, reference: Reference) -> tuple[Value, str]:
        path = steps(reference.chain)
        if not path:
            return UNKNOWN_NAME, ""
        value = self.walk(file, reference.scope, path)
        if reference.kind is ReferenceKind.CALLBACK:
            return value, "callback"
        if len(path) == 1:
            return value, "local" if value.file == file else "package"
        if len(path) == 2 and path[0] in self._packages.imports(file, path[0]):
            return value, "module"
        return value, "type"

    def walk(self, file: int, scope: int, path: tuple[str, ...], depth: int = 0) -> Value:
        """What a chain stands for, from its head on."""
        if depth > MAX_DEPTH or not path:
            return UNKNOWN_RECEIVER
        value = self._head(file, scope, path[0], depth)
        for step in path[1:]:
            if value.kind == "fail":
                return value
            if step == chains.CALL:
                value = self._result(value, depth)
            elif step == chains.ELEMENT:
                value = self._element(value, depth)
            else:
                value = self._attribute(value, step, depth)
        return value

    def _head(self, file: int, scope: int, head: str, depth: int) -> Value:
        if head == UNKNOWN:
            return UNKNOWN_RECEIVER
        each = self._packages.imports(file, head).get(head)
        number = scope
        while number:
            local = self._scopes[file].get((number, head))
            if local is not None:
                return Value("definition", file, local)
            number = self._packages.definition(file, number).parent
        if each is not None:
            found = self._packages.find(each.module)
            return Value("package", found.files[0]) if found is not None else EXTERNAL
        value = self._member(self._packages.of_file(file, head), head, depth)
        if value != UNKNOWN_NAME:
            return value
        self._packages.imports(file, EVERY)
        for dot in self._table.files[file].imports:
            if dot.kind is ImportKind.ALL:
                other = self._packages.find(dot.module)
                if other is None:
                    return BUILTIN if head in _BUILTINS else EXTERNAL
                other = self._packages.of_file(other.files[0], head)
                value = self._member(other, head, depth)
                if value != UNKNOWN_NAME:
                    return value
        return BUILTIN if head in _BUILTINS else self._unbound(file, head)

    def _unbound(self, file: int, head: str) -> Value:
        """A name nothing declares: an import may bind another name than its path suggests."""
        for each in self._packages.imports(file, IMPORTS).values():
            package = self._packages.find(each.module)
            if package is not None and package.name.rpartition(".")[2] == head:
                return Value("package", package.files[0])
        return UNKNOWN_NAME

    def _member(self, package: Package, name: str, depth: int) -> Value:
        """A function, a type or a variable that a package declares."""
        place = package.members.get(name)
        if place is not None:
            return Value("definition", *place)
        value = package.values.get(name)
        if value is None:
            return UNKNOWN_NAME
        file, chain = value
        key = (file, name)
        if key in self._busy:
            return UNKNOWN_RECEIVER
        self._busy.add(key)
        try:
            return self.walk(file, 0, steps(chain), depth + 1)
        finally:
            self._busy.discard(key)

    def _bases(self, place: Place) -> tuple[Value, ...]:
        """What a type embeds."""
        known = self._embedded.get(place)
        if known is None:
            self._embedded[place] = ()  # broken sources: what a type embeds is found through itself
            file, definition = place[0], self._packages.definition(*place)
            known = self._embedded[place] = tuple(
                self.walk(file, definition.parent, steps(chains.held(base)[0]))
                for base in definition.bases
            )
        return known

    def _instance(self, file: int, scope: int, written: str, depth: int) -> Value:
        """A value of a declared type, seen from a file."""
        if depth > MAX_DEPTH:
            return UNKNOWN_RECEIVER
        name, many = chains.held(written)
        value = self.walk(file, scope, steps(name), depth + 1)
        return self._instance_of(value, many, depth)

    def _instance_of(self, value: Value, many: int, depth: int) -> Value:
        if value.kind == "fail":
            return value if value in (EXTERNAL, BUILTIN) else UNKNOWN_RECEIVER
        if value.kind != "definition":
            return UNKNOWN_RECEIVER
        definition = self._definition(value)
        if definition.kind not in TYPES:
            return UNKNOWN_RECEIVER
        alias = self._other_name(value)
        if alias and not chains.is_result(alias):
            inner = self._instance(value.file, definition.parent, alias, depth + 1)
            return inner._replace(many=inner.many + many)
        return Value("instance", value.file, value.number, many=many)

    def _other_name(self, value: Value) -> str:
        """The type that a type is another name for; "" for one of its own."""
        definition = self._definition(value)
        package = self._packages.of_file(value.file, definition.name)
        return package.others.get(definition.qualname, "")

    def _element(self, value: Value, depth: int) -> Value:
        if value.many:
            return value._replace(many=value.many - 1)
        if value.kind == "definition":
            return value  # f[int]: a generic function
        if value.kind == "instance":
            alias = self._other_name(value)  # type Foos []Foo
            if chains.is_result(alias):
                return self._instance(value.file, 0, alias.removesuffix(chains.ELEMENT), depth + 1)
        return UNKNOWN_RECEIVER

    def _result(self, value: Value, depth: int) -> Value:
        if value.kind != "definition":
            return UNKNOWN_RECEIVER
        definition = self._definition(value)
        if definition.kind in TYPES:
            return self._instance_of(value, 0, depth)
        if not definition.returns:
            return UNKNOWN_RECEIVER
        return self._instance(value.file, 0, definition.returns, depth + 1)

    def _attribute(self, value: Value, name: str, depth: int) -> Value:
        if value.kind == "package":
            package = self._packages.of_file(value.file, name)
            found = self._member(package, name, depth)
            return UNKNOWN_ATTRIBUTE if found == UNKNOWN_NAME else found
        if value.many:
            return UNKNOWN_RECEIVER
        if value.kind == "definition" and self._definition(value).kind not in TYPES:
            return UNKNOWN_ATTRIBUTE
        return self._selected(value, name, depth)

    def _selected(self, value: Value, name: str, depth: int) -> Value:
        """A method or a field of a type, its own or promoted from what it embeds, shallowest first."""
        level: list[Place] = [(value.file, value.number)]
        seen = set(level)
        external = False
        for _ in range(MAX_DEPTH):
            found = set()
            below: list[Place] = []
            for place in level:
                one = self._own(place, name, depth)
                if one is not None:
                    found.add(one)
                    continue
                for inner in self._bases(place):
                    if inner.kind != "definition":
                        external = external or inner in (EXTERNAL, BUILTIN)
                    elif (inner.file, inner.number) not in seen:
                        seen.add((inner.file, inner.number))
                        below.append((inner.file, inner.number))
            if len(found) > 1:
                return Value("fail", path="ambiguous")
            if found:
                return found.pop()
            if not below:
                break
            level = below
        return EXTERNAL if external else UNKNOWN_ATTRIBUTE

    def _own(self, place: Place, name: str, depth: int) -> Value | None:
        package = self._packages.of_file(place[0], name)
        owner = self._packages.definition(*place).qualname
        methods = package.methods.get((owner, name))
        if methods is not None:
            if len(methods) == 1:
                return Value("definition", *methods[0])
            near = [m for m in methods if m[0] == place[0]]  # one a build tag
            return Value("definition", *(near or methods)[0])
        field = package.fields.get((owner, name))
        if field is None:
            return None
        return self._instance(field[0], 0, field[1], depth + 1)


def _locals(definitions: Sequence[Definition]) -> dict[tuple[int, str], int]:
    """Types declared inside functions, by (function, name)."""
    return {
        (d.parent, d.name): number
        for number, d in enumerate(definitions)
        if d.parent and d.kind in TYPES
    }
