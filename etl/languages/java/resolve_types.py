"""Java's types across files: which class a name means, what is above it, what it holds."""

from __future__ import annotations

from etl.facts import Definition, FileFacts, Import, ImportKind, Parameter, Slot, SymbolKind
from etl.languages.java.extract import NO_PACKAGE
from etl.languages.kit.values import AMBIGUOUS, EXTERNAL, Value
from etl.resolve.table import Table

TYPES = frozenset({SymbolKind.CLASS, SymbolKind.INTERFACE, SymbolKind.ENUM})
Place = tuple[int, int]  # (file, definition)


class Types:
    """The classes of the repository, by package and by what encloses them."""

    def __init__(self, table: Table) -> None:
        self.files = table.files
        self._paths = [facts.path for facts in table.files]
        self.packages: dict[str, dict[str, list[Place]]] = {}  # package → top type → where
        self._prefixes: set[str] = set()  # every package, and every part of one from the left
        self.holds: list[_Holds] = []
        for file, facts in enumerate(table.files):
            self.holds.append(_Holds(facts))
            if facts.language == "java":
                self._add(file, facts)
        self.imports = [_Imports(facts) for facts in table.files]
        self._bases: dict[Place, tuple[Place, ...]] = {}
        self._lines: dict[Place, list[Place]] = {}
        self._found: dict[tuple[int, int, str], Value] = {}

    def _add(self, file: int, facts: FileFacts) -> None:
        package = "" if facts.module == NO_PACKAGE else facts.module
        tops = self.packages.setdefault(package, {})
        for number, definition in enumerate(facts.definitions):
            if number and not definition.parent and definition.kind in TYPES:
                tops.setdefault(definition.name, []).append((file, number))
        parts = package.split(".")
        self._prefixes.update(".".join(parts[: i + 1]) for i in range(len(parts)))

    def definition(self, place: Place) -> Definition:
        return self.files[place[0]].definitions[place[1]]

    def is_package(self, name: str) -> bool:
        """True for a package of this repository, and for what leads to one."""
        return name in self._prefixes

    def enclosing(self, file: int, scope: int) -> list[int]:
        """The types round a definition, itself included, innermost first."""
        definitions, found = self.files[file].definitions, []
        while scope:
            if definitions[scope].kind in TYPES:
                found.append(scope)
            scope = definitions[scope].parent
        return found

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
        definitions = self.files[file].definitions
        number = scope
        while number:
            if definitions[number].kind in TYPES:
                if definitions[number].name == name:
                    return Value("definition", file, number)
                inner = self.nested((file, number), name)
                if inner is not None:
                    return Value("definition", *inner)
            local = self.holds[file].types.get((number, name))
            if local is not None:
                return Value("definition", file, local)
            number = definitions[number].parent
        return self._imported(file, name)

    def _imported(self, file: int, name: str) -> Value:
        imports = self.imports[file]
        each = imports.single.get(name)
        if each is not None:
            return self.qualified(file, each.module)
        for owner in imports.static.get(name, ()):
            value = self.qualified(file, f"{owner}.{name}")
            if value.kind == "definition":
                return value
        package = self.files[file].module
        found = self._top(file, "" if package == NO_PACKAGE else package, name)
        if found.kind == "definition" or found == AMBIGUOUS:
            return found
        values = {self.qualified(file, f"{prefix}.{name}") for prefix in imports.wildcards}
        values = {value for value in values if value.kind == "definition"}
        if len(values) > 1:
            return AMBIGUOUS
        return values.pop() if values else EXTERNAL

    def qualified(self, file: int, name: str) -> Value:
        """The class of a full name, `com.x.Outer.Inner`, seen from `file`."""
        parts = name.split(".")
        for cut in range(len(parts) - 1, -1, -1):
            package = ".".join(parts[:cut])
            if package not in self.packages:
                continue
            value = self._top(file, package, parts[cut])
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
        places = self.packages.get(package, {}).get(name, [])
        if len(places) <= 1:
            return Value("definition", *places[0]) if places else EXTERNAL
        own = self._paths[file].split("/")
        near = [_shared(own, self._paths[place[0]].split("/")) for place in places]
        best = [place for place, n in zip(places, near, strict=True) if n == max(near)]
        return Value("definition", *best[0]) if len(best) == 1 else AMBIGUOUS

    def nested(self, place: Place, name: str) -> Place | None:
        """A class inside another, or inside what is above it."""
        for file, number in self.line(place):
            found = self.holds[file].types.get((number, name))
            if found is not None:
                return file, found
        return None

    # -- what is above a class ---------------------------------------------------------------------

    def bases(self, place: Place) -> tuple[Place, ...]:
        """The classes and interfaces a type names as its bases, those of this repository."""
        known = self._bases.get(place)
        if known is None:
            self._bases[place] = ()
            definition = self.definition(place)
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
        return any(len(self.bases(p)) < len(self.definition(p).bases) for p in self.line(place))


def _shared(one: list[str], other: list[str]) -> int:
    """How many folders two paths share from the left."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


class _Holds:
    """What each definition of a file holds, by name."""

    __slots__ = ("constructors", "fields", "methods", "parameters", "types")

    def __init__(self, facts: FileFacts) -> None:
        self.types: dict[tuple[int, str], int] = {}
        self.methods: dict[tuple[int, str], list[int]] = {}
        self.constructors: dict[int, list[int]] = {}
        self.fields: dict[tuple[int, str], str] = {}
        self.parameters: dict[int, tuple[Parameter, ...]] = {}
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
            if definition.parameters is not None:
                self.parameters[number] = definition.parameters
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
