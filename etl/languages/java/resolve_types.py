"""Java's types across files: which class a name means, what is above it, what it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from etl.facts import FileFacts, Import, ImportKind, Slot, SymbolKind
from etl.languages.java.extract import NO_PACKAGE
from etl.languages.kit.values import AMBIGUOUS, EXTERNAL, Value
from etl.resolve.surface import EVERY, MODULE, surface
from etl.resolve.table import Key, Table

TYPES = frozenset({SymbolKind.CLASS, SymbolKind.INTERFACE, SymbolKind.ENUM})
Place = tuple[int, int]  # (file, definition)


# Units of what several files say.
PACKAGES = "packages"  # names of packages, and of what leads to one
CLASSES = "classes"  # every class of the repository by its simple name


class Types:
    """The classes of the repository, by package and by what encloses them."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.definition = table.definition
        self._packages: dict[str, dict[str, list[Place]]] = {}  # package → top type → where
        self._files: Counter[str] = Counter()  # package → files
        self._prefixes: Counter[str] = Counter()  # package, or part of one from the left → files
        self._named: dict[str, list[Place]] = {}  # simple name → where
        self._holds: dict[int, _Holds] = {}
        self._imports: dict[int, _Imports] = {}
        # By the file at hand.
        self._bases: dict[Place, tuple[Place, ...]] = {}
        self._lines: dict[Place, list[Place]] = {}
        self._open: dict[Place, bool] = {}
        self._enclosing: dict[Place, list[int]] = {}
        self._found: dict[tuple[int, int, str], Value] = {}

    def put(self, file: int) -> None:
        facts = self._table.files[file]
        package = _package(facts)
        tops = self._packages.setdefault(package, {})
        for number, name in _top_types(facts):
            tops.setdefault(name, []).append((file, number))
        self._files[package] += 1
        self._prefixes.update(_prefixes_of(package))
        holds = self._holds[file] = _Holds(facts)
        self._imports[file] = _Imports(facts)
        for (_, name), number in holds.types.items():
            self._named.setdefault(name, []).append((file, number))

    def drop(self, file: int) -> None:
        facts = self._table.files[file]
        package = _package(facts)
        tops = self._packages[package]
        for number, name in _top_types(facts):
            tops[name].remove((file, number))
        self._prefixes.subtract(_prefixes_of(package))
        self._files[package] -= 1
        if not self._files[package]:
            del self._files[package], self._packages[package]
        for (_, name), number in self._holds.pop(file).types.items():
            self._named[name].remove((file, number))
        del self._imports[file]

    def begin(self) -> None:
        """Forget what the file before has found: answers that a circle cut short depend on who asks."""
        self._bases.clear()
        self._lines.clear()
        self._open.clear()
        self._enclosing.clear()
        self._found.clear()

    def surface(self, file: int) -> dict[Key, object]:
        """See `etl.resolve.table.Binder.surface`: a file's names, its package's and the repository's."""
        facts = self._table.files[file]
        ids = self._table.ids[file]
        found: dict[Key, object] = {
            (file, name): what for name, what in surface(facts, ids).items()
        }
        places: dict[Key, list[Hashable]] = {}
        package = _in_package(_package(facts))
        for number, name in _top_types(facts):
            places.setdefault((package, name), [facts.path]).append(ids[number])
            found[package, EVERY] = ids[0]
        for (_, name), number in self._holds[file].types.items():
            places.setdefault((CLASSES, name), [facts.path]).append(ids[number])
        return found | places

    def shared(self, file: int) -> Iterator[tuple[Key, Hashable]]:
        """See `etl.resolve.table.Binder.shared`: that a package is there."""
        for name in _prefixes_of(_package(self._table.files[file])):
            yield (PACKAGES, name), name

    # -- lookups -----------------------------------------------------------------------------------

    def holds(self, file: int, name: str) -> _Holds:
        """What the definitions of a file hold, to look `name` up in it."""
        table = self._table
        if file != table.home:  # as `Table.see`, a million times
            table.noted.add((file, name))
        return self._holds[file]

    def imports(self, file: int, name: str) -> _Imports:
        """A file's imports, to look `name` up in them; EVERY: those that bind many names."""
        self._table.see(file, name)
        return self._imports[file]

    def static_owners(self, file: int, name: str) -> tuple[str, ...]:
        """The classes of which a file imports the static member `name`, or all of them."""
        named = self.imports(file, name).static.get(name, ())
        return (*named, *self.imports(file, EVERY).static_wildcards)

    def is_package(self, name: str) -> bool:
        """True for a package of this repository, and for what leads to one."""
        self._table.note(PACKAGES, name)
        return self._prefixes[name] > 0

    def tops(self, package: str) -> set[int] | None:
        """The files that define a package's classes; None where there is no such package."""
        self._table.note(PACKAGES, package)
        self._table.note(_in_package(package), EVERY)
        tops = self._packages.get(package)
        if tops is None:
            return None
        return {place[0] for places in tops.values() for place in places}

    def named_so(self, name: str) -> Sequence[Place]:
        """Every class of a simple name."""
        self._table.note(CLASSES, name)
        return self._named.get(name, ())

    def enclosing(self, file: int, scope: int) -> list[int]:
        """The types round a definition, itself included, innermost first."""
        key = (file, scope)
        known = self._enclosing.get(key)
        if known is None:
            known = self._enclosing[key] = []
            while scope:
                definition = self.definition(file, scope)
                if definition.kind in TYPES:
                    known.append(scope)
                scope = definition.parent
        return known

    # -- names of types ----------------------------------------------------------------------------

    def find(self, file: int, scope: int, name: str) -> Value:
        """The class that a simple name means in `scope`, or why there is none."""
        key = (file, scope, name)
        known = self._found.get(key)
        if known is None:
            self._found[key] = EXTERNAL  # a class that is its own base ends here
            known = self._found[key] = self._find(file, scope, name)
        return known

    def _find(self, file: int, scope: int, name: str) -> Value:
        number = scope
        while number:
            definition = self.definition(file, number)
            if definition.kind in TYPES:
                if definition.name == name:
                    return Value("definition", file, number)
                inner = self.nested((file, number), name)
                if inner is not None:
                    return Value("definition", *inner)
            local = self.holds(file, name).types.get((number, name))
            if local is not None:
                return Value("definition", file, local)
            number = definition.parent
        return self._imported(file, name)

    def _imported(self, file: int, name: str) -> Value:
        imports = self.imports(file, name)
        each = imports.single.get(name)
        if each is not None:
            return self.qualified(file, each.module)
        for owner in imports.static.get(name, ()):
            value = self.qualified(file, f"{owner}.{name}")
            if value.kind == "definition":
                return value
        self._table.see(file, MODULE)
        found = self._top(file, _package(self._table.files[file]), name)
        if found.kind == "definition" or found == AMBIGUOUS:
            return found
        wildcards = self.imports(file, EVERY).wildcards
        values = {self.qualified(file, f"{prefix}.{name}") for prefix in wildcards}
        values = {value for value in values if value.kind == "definition"}
        if len(values) > 1:
            return AMBIGUOUS
        return values.pop() if values else EXTERNAL

    def qualified(self, file: int, name: str) -> Value:
        """The class of a full name, `com.x.Outer.Inner`, seen from `file`."""
        parts = name.split(".")
        for cut in range(len(parts) - 1, -1, -1):
            value = self._top(file, ".".join(parts[:cut]), parts[cut])
            for inner in parts[cut + 1 :]:
                if value.kind != "definition":
                    break
                place = self.nested((value.file, value.number), inner)
                value = Value("definition", *place) if place is not None else EXTERNAL
            if value.kind == "definition" or value == AMBIGUOUS:
                return value
        return EXTERNAL

    def _top(self, file: int, package: str, name: str) -> Value:
        """A package's top class. Of several of one name, the one whose path is nearest to `file`."""
        self._table.note(_in_package(package), name)
        places = self._packages.get(package, {}).get(name, [])
        if len(places) <= 1:
            return Value("definition", *places[0]) if places else EXTERNAL
        files = self._table.files
        own = files[file].path.split("/")
        near = [_shared(own, files[place[0]].path.split("/")) for place in places]
        best = [place for place, n in zip(places, near, strict=True) if n == max(near)]
        return Value("definition", *best[0]) if len(best) == 1 else AMBIGUOUS

    def nested(self, place: Place, name: str) -> Place | None:
        """A class inside another, or inside what is above it."""
        for file, number in self.line(place):
            found = self.holds(file, name).types.get((number, name))
            if found is not None:
                return file, found
        return None

    # -- what is above a class ---------------------------------------------------------------------

    def bases(self, place: Place) -> tuple[Place, ...]:
        """The classes and interfaces a type names as its bases, those of this repository."""
        known = self._bases.get(place)
        if known is None:
            self._bases[place] = ()
            definition = self.definition(*place)
            found = [self.named(place[0], definition.parent, base) for base in definition.bases]
            known = tuple(
                (v.file, v.number) for v in found if v.kind == "definition" and v[1:3] != place
            )
            self._bases[place] = known
            self._lines.pop(place, None)
        return known

    def named(self, file: int, scope: int, name: str) -> Value:
        """The class that a simple or a dotted name means."""
        head, _, rest = name.partition(".")
        value = self.find(file, scope, head)
        if not rest:
            return value
        if value.kind != "definition":
            return self.qualified(file, name)
        for part in rest.split("."):
            place = self.nested((value.file, value.number), part)
            if place is None:
                return EXTERNAL
            value = Value("definition", *place)
        return value

    def line(self, place: Place) -> list[Place]:
        """A type and everything above it, each once, nearest first."""
        known = self._lines.get(place)
        if known is None:
            known = [place]
            for each in known:
                known += [base for base in self.bases(each) if base not in known]
                if len(known) > 200:
                    break
            self._lines[place] = known
        return known

    def is_open(self, place: Place) -> bool:
        """True when something above a type is not of this repository."""
        known = self._open.get(place)
        if known is None:
            line = self.line(place)
            known = any(len(self.bases(p)) < len(self.definition(*p).bases) for p in line)
            self._open[place] = known
        return known


def _shared(one: list[str], other: list[str]) -> int:
    """How many folders two paths share from the left."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


def _package(facts: FileFacts) -> str:
    return "" if facts.module == NO_PACKAGE else facts.module


def _in_package(package: str) -> tuple[str, str]:
    """The unit of a package's top classes."""
    return "package", package


def _prefixes_of(package: str) -> list[str]:
    """A package's name, and every part of it from the left."""
    parts = package.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _top_types(facts: FileFacts) -> Iterator[tuple[int, str]]:
    """The types that no other encloses, as (definition, name)."""
    for number, definition in enumerate(facts.definitions):
        if number and not definition.parent and definition.kind in TYPES:
            yield number, definition.name


class _Holds:
    """What each definition of a file holds, by name."""

    __slots__ = ("constructors", "fields", "methods", "types")

    def __init__(self, facts: FileFacts) -> None:
        self.types: dict[tuple[int, str], int] = {}
        self.methods: dict[tuple[int, str], list[int]] = {}
        self.constructors: dict[int, list[int]] = {}
        self.fields: dict[tuple[int, str], str] = {}
        for number, definition in enumerate(facts.definitions):
            if not number:
                continue
            if definition.kind in TYPES:
                self.types.setdefault((definition.parent, definition.name), number)
            elif definition.kind is SymbolKind.CONSTRUCTOR:
                self.constructors.setdefault(definition.parent, []).append(number)
            else:
                key = (definition.parent, definition.name)
                self.methods.setdefault(key, []).append(number)
        for binding in facts.bindings:
            if binding.slot is Slot.MEMBER:
                self.fields[binding.scope, binding.name] = binding.value


class _Imports:
    """One file's imports, by the names they bind."""

    __slots__ = ("single", "static", "static_wildcards", "wildcards")

    def __init__(self, facts: FileFacts) -> None:
        self.single: dict[str, Import] = {}
        self.static: dict[str, list[str]] = {}
        self.wildcards: list[str] = []
        self.static_wildcards: list[str] = []
        for each in facts.imports:
            if each.kind is ImportKind.ALL:
                self.wildcards.append(each.module)
            elif each.kind is ImportKind.STATIC_ALL:
                self.static_wildcards.append(each.module)
            elif each.kind is ImportKind.NAME:
                self.static.setdefault(each.alias, []).append(each.module)
            else:
                self.single.setdefault(each.alias, each)
