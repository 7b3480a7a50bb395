"""What names, chains and types stand for in JavaScript and TypeScript, across files."""

from __future__ import annotations

from collections.abc import Sequence

from etl.facts import Binding, BindingKind, Definition, FileFacts, Import, Slot, SymbolKind
from etl.languages.javascript.modules import DECLARATIONS, WHOLE
from etl.languages.javascript.resolve_modules import Modules
from etl.languages.kit import chains
from etl.languages.kit.chains import UNKNOWN, steps
from etl.languages.kit.values import (
    AMBIGUOUS,
    BUILTIN,
    EXTERNAL,
    MAX_DEPTH,
    UNKNOWN_ATTRIBUTE,
    UNKNOWN_NAME,
    UNKNOWN_RECEIVER,
    Value,
)
from etl.resolve.surface import EVERY
from etl.resolve.table import Table

TYPES = frozenset({SymbolKind.CLASS, SymbolKind.INTERFACE, SymbolKind.TYPE, SymbolKind.ENUM})
_MEMBERS = frozenset({SymbolKind.METHOD, SymbolKind.CONSTRUCTOR})
_OWNERS = frozenset({SymbolKind.CLASS, SymbolKind.INTERFACE})  # of methods
_APPLY = frozenset({"call", "apply", "bind"})
# The standard library's globals that are called or constructed, browsers' and test runners' included.
_GLOBALS = frozenset(
    """Array ArrayBuffer BigInt Boolean DataView Date Error EvalError Float32Array Float64Array Function
    Infinity Int16Array Int32Array Int8Array Intl JSON Map Math NaN Number Object Promise Proxy RangeError
    ReferenceError Reflect RegExp Set String Symbol SyntaxError TypeError URIError Uint16Array Uint32Array
    Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet FinalizationRegistry globalThis eval isFinite isNaN
    parseFloat parseInt decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape console
    setTimeout setInterval setImmediate clearTimeout clearInterval clearImmediate queueMicrotask
    structuredClone process Buffer require module exports global window document self navigator location
    fetch URL URLSearchParams Headers Request Response FormData Blob File FileReader AbortController
    AbortSignal Event EventTarget CustomEvent MessageChannel Worker WebSocket XMLHttpRequest TextEncoder
    TextDecoder ReadableStream WritableStream TransformStream crypto performance history localStorage
    sessionStorage requestAnimationFrame cancelAnimationFrame getComputedStyle matchMedia addEventListener
    removeEventListener dispatchEvent alert confirm prompt atob btoa MutationObserver IntersectionObserver
    ResizeObserver Image Audio Option Node Element HTMLElement SVGElement Deno Bun $ jQuery
    describe it test expect beforeEach afterEach beforeAll afterAll before after suite specify context
    jest vi sinon chai assert cy undefined arguments Iterator AggregateError SharedArrayBuffer Atomics
    BigInt64Array BigUint64Array DOMException DOMParser""".split()  # noqa: SIM905 - a word list
)


class Inference:
    """Finds what a chain means. What it works out is kept while one file is bound."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._definition = table.definition
        self.modules = Modules(table)
        self._all_scopes: dict[int, _Scopes] = {}
        self._exported: dict[tuple[int, str], Value] = {}
        self._bases: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}
        self._busy: set[tuple[int, int, Slot, str]] = set()

    def put(self, file: int) -> None:
        self._all_scopes[file] = _Scopes(self._table.files[file])
        self.modules.put(file)

    def drop(self, file: int) -> None:
        del self._all_scopes[file]
        self.modules.drop(file)

    def begin(self) -> None:
        """Forget what the file before has found: answers that a circle cut short depend on who asks."""
        self._exported.clear()
        self._bases.clear()

    def _scopes(self, file: int, name: str) -> _Scopes:
        """The scopes of a file, to look `name` up in them."""
        self._table.see(file, name)
        return self._all_scopes[file]

    # -- names -------------------------------------------------------------------------------------

    def name(self, file: int, scope: int, name: str, depth: int = 0) -> Value:
        """What `name` means inside definition `scope`."""
        number = scope
        while True:
            definition = self._definition(file, number)
            if number == 0 or definition.kind not in TYPES:
                found = self._in_scope(file, number, name, depth)
                if found is not None:
                    return found
            elif definition.name == name and definition.kind in TYPES:
                return Value("definition", file, number)
            if number == 0:
                break
            number = definition.parent
        return BUILTIN if name in _GLOBALS else UNKNOWN_NAME

    def _in_scope(self, file: int, number: int, name: str, depth: int) -> Value | None:
        scopes = self._scopes(file, name)
        child = scopes.children.get((number, name))
        if child is not None:
            return Value("definition", file, child)
        each = self.modules.names(file, name).imports.get((number, name))
        if each is not None:
            return self.imported(file, each.module, each.name, depth)
        binding = scopes.bindings.get((number, name))
        if binding is not None:
            return self._bound(file, number, binding, depth)
        outer = self._definition(file, number).qualname if number else ""
        path = f"{outer}.{name}" if outer else name
        return Value("object", file, number, path) if path in scopes.objects else None

    def _bound(self, file: int, scope: int, binding: Binding, depth: int) -> Value:
        key = (file, scope, binding.slot, binding.name)
        if depth > MAX_DEPTH or key in self._busy:
            return UNKNOWN_RECEIVER
        self._busy.add(key)
        try:
            if binding.kind is BindingKind.TYPE:
                return self.instance(file, scope, binding.value, depth + 1)
            return self.walk(file, scope, steps(binding.value), depth + 1)
        finally:
            self._busy.discard(key)

    def instance(self, file: int, scope: int, type_: str, depth: int = 0) -> Value:
        """A value of a declared type, seen from `scope`."""
        head, many = chains.held(type_)
        if head == "this":
            owner = self.owner(file, scope)
            return Value("instance", file, owner, many=many) if owner else UNKNOWN_RECEIVER
        value = self.walk(file, scope, steps(head), depth + 1)
        return self._instance_of(value, many, depth)

    def _instance_of(self, value: Value, many: int, depth: int) -> Value:
        if value.kind != "definition":
            return value if value.kind == "fail" else UNKNOWN_RECEIVER
        definition = self._definition(value.file, value.number)
        alias = self._all_scopes[value.file].same_as.get(value.number)
        if alias is not None and depth <= MAX_DEPTH:
            inner = self.instance(value.file, definition.parent, alias.value, depth + 1)
            return inner._replace(many=inner.many + many)
        if definition.kind in TYPES or self._constructs(value):
            return Value("instance", value.file, value.number, many=many)
        return UNKNOWN_RECEIVER

    def _constructs(self, value: Value) -> bool:
        """True for a function that has methods: `Foo.prototype.bar = …`."""
        return value.number in self._all_scopes[value.file].owners

    # -- modules -----------------------------------------------------------------------------------

    def imported(self, file: int, module: str, name: str, depth: int = 0) -> Value:
        """What an import of `name` ("" for the module itself) from `module` binds."""
        target = self.modules.find(file, module)
        if target is None:
            return EXTERNAL if not module.startswith(".") else Value("fail", path="missing module")
        if not name:
            return self.whole(target, depth)
        return self.exported(target, name, depth)

    def whole(self, file: int, depth: int = 0) -> Value:
        """A module as a value: what `module.exports` is, or its namespace."""
        names = self.modules.names(file, WHOLE)
        if names.is_whole and depth <= MAX_DEPTH:
            return self.exported(file, WHOLE, depth + 1)
        return Value("module", file)

    def exported(self, file: int, name: str, depth: int = 0) -> Value:
        """What a module exports as `name`."""
        key = (file, name)
        known = self._exported.get(key)
        if known is None:
            if depth > MAX_DEPTH:
                return UNKNOWN_NAME
            self._exported[key] = UNKNOWN_NAME  # a circle of re-exports ends here
            known = self._exported[key] = self._find_export(file, name, depth)
        return known

    def _find_export(self, file: int, name: str, depth: int) -> Value:
        names = self.modules.names(file, name)
        self._table.see(file, WHOLE)
        each = names.reexports.get(name)
        if each is not None:
            return self.imported(file, each.module, each.name, depth + 1)
        local = names.exports.get(name)
        if local is not None:
            found = self._in_scope(file, 0, local, depth + 1)
            return found if found is not None else UNKNOWN_NAME
        if name == "default" and names.is_whole:
            return self.exported(file, WHOLE, depth + 1)
        if names.is_whole:
            return self.attribute(self.whole(file, depth + 1), name, depth + 1)
        found = None
        if name != "default":
            stars = self.modules.names(file, EVERY).stars
            found = self._star_exports(stars, file, name, depth)
        if found is not None:
            return found
        if self._table.files[file].path.endswith(DECLARATIONS):  # which are exported as they are
            declared = self._in_scope(file, 0, name, depth + 1)
            return declared if declared is not None else UNKNOWN_NAME
        return UNKNOWN_ATTRIBUTE

    def _star_exports(
        self, stars: Sequence[Import], file: int, name: str, depth: int
    ) -> Value | None:
        """What the modules that a file exports whole have as `name`; None when none of them has it."""
        found = set()
        for star in stars:
            value = self.imported(file, star.module, name, depth + 1)
            if value.kind != "fail":
                found.add(value)
            elif value == EXTERNAL:
                return EXTERNAL
        if len(found) > 1:
            return AMBIGUOUS
        return found.pop() if found else None

    # -- chains ------------------------------------------------------------------------------------

    def walk(self, file: int, scope: int, path: tuple[str, ...], depth: int = 0) -> Value:
        """What a chain stands for, from its head on."""
        if depth > MAX_DEPTH or not path:
            return UNKNOWN_RECEIVER
        value = self._head(file, scope, path[0], depth)
        receiver = value
        for step in path[2 if path[0] == "super" else 1 :]:
            if value.kind == "fail":
                return value
            if step == chains.CALL:
                value = self.result(value, receiver, depth + 1)
            elif step == chains.ELEMENT:
                value = value._replace(many=value.many - 1) if value.many else UNKNOWN_RECEIVER
            else:
                receiver = value
                value = self.attribute(value, step, depth + 1)
        return value

    def _head(self, file: int, scope: int, head: str, depth: int) -> Value:
        if head == UNKNOWN:
            return UNKNOWN_RECEIVER
        if head == "this":
            return self.this(file, scope)
        if head == "super":
            owner = self.owner(file, scope)
            bases = self.bases(file, owner) if owner else ()
            return Value("instance", *bases[0]) if bases else EXTERNAL
        return self.name(file, scope, head, depth)

    def this(self, file: int, scope: int) -> Value:
        """`this` inside a definition: its class's instance, or the object whose member it is."""
        owner = self.owner(file, scope)
        if owner:
            return Value("instance", file, owner)
        number = scope
        while number:
            definition = self._definition(file, number)
            if definition.kind in _MEMBERS:
                path = definition.qualname.partition("#")[0].rpartition(".")[0]
                return Value("object", file, definition.parent, path) if path else UNKNOWN_RECEIVER
            number = definition.parent
        return UNKNOWN_RECEIVER

    def owner(self, file: int, scope: int) -> int:
        """The class, or the constructor function, whose instance `this` is in `scope`; 0 for none."""
        owners = self._all_scopes[file].owners
        number = scope
        while number:
            definition = self._definition(file, number)
            if definition.kind in _OWNERS:
                return number
            if definition.kind in _MEMBERS:
                parent = self._definition(file, definition.parent)
                known = parent.kind in _OWNERS or parent.kind is SymbolKind.FUNCTION
                if known and definition.parent:
                    return definition.parent
                return 0
            if definition.kind is SymbolKind.FUNCTION and number in owners:
                return number
            number = definition.parent
        return 0

    def attribute(self, value: Value, name: str, depth: int = 0) -> Value:
        """`value.name`."""
        if value.kind == "fail":
            return value
        if depth > MAX_DEPTH:
            return UNKNOWN_RECEIVER
        if value.many:
            return BUILTIN
        if value.kind == "module":
            return self.exported(value.file, name, depth + 1)
        if value.kind == "object":
            return self._object_member(value, name, depth)
        definition = self._definition(value.file, value.number)
        if value.kind == "definition" and definition.kind is SymbolKind.MODULE:
            found = self._in_scope(value.file, value.number, name, depth)
            return found if found is not None else UNKNOWN_ATTRIBUTE
        if value.kind == "definition" and definition.kind is SymbolKind.FUNCTION:
            child = self._scopes(value.file, name).methods.get((value.number, name))
            if child is not None:
                return Value("definition", value.file, child)
            return value if name in _APPLY else UNKNOWN_ATTRIBUTE
        if value.kind == "definition" and definition.kind in _MEMBERS:
            return value if name in _APPLY else UNKNOWN_ATTRIBUTE
        return self.member(value, name, depth)

    def member(self, value: Value, name: str, depth: int = 0) -> Value:
        """A member of a class (or of its instance), searched through its bases."""
        external = False
        for file, number in self.line(value.file, value.number):
            scopes = self._scopes(file, name)
            child = scopes.methods.get((number, name))
            if child is not None:
                return Value("definition", file, child)
            binding = scopes.fields.get((number, name))
            if binding is not None:
                return self._bound(file, number, binding, depth + 1)
            definition = self._definition(file, number)
            external = external or len(self.bases(file, number)) < len(definition.bases)
        return EXTERNAL if external else UNKNOWN_ATTRIBUTE

    def _object_member(self, value: Value, name: str, depth: int) -> Value:
        scopes = self._scopes(value.file, name)
        path = f"{value.path}.{name}"
        number = scopes.by_path.get(path)
        if number is not None:
            return Value("definition", value.file, number)
        if path in scopes.objects:
            return value._replace(path=path)
        above = self._definition(value.file, value.number).qualname if value.number else ""
        binding = scopes.bindings.get((value.number, path[len(above) + 1 :] if above else path))
        if binding is not None:
            return self._bound(value.file, value.number, binding, depth + 1)
        return UNKNOWN_ATTRIBUTE

    def result(self, value: Value, receiver: Value, depth: int) -> Value:
        """What calling `value` gives."""
        if value.kind != "definition" or value.many:
            return UNKNOWN_RECEIVER
        definition = self._definition(value.file, value.number)
        if definition.kind in TYPES:
            return self._instance_of(value, 0, depth)
        if definition.returns == "this":
            return receiver
        if definition.returns:
            return self.instance(value.file, value.number, definition.returns, depth + 1)
        binding = self._all_scopes[value.file].results.get(value.number)
        if binding is not None:
            if binding.value == "this" and receiver.kind == "instance":
                return receiver
            return self._bound(value.file, value.number, binding, depth + 1)
        if self._constructs(value):
            return Value("instance", value.file, value.number)
        return UNKNOWN_RECEIVER

    # -- classes -----------------------------------------------------------------------------------

    def bases(self, file: int, number: int) -> tuple[tuple[int, int], ...]:
        """The classes and interfaces a definition names as its bases, those of this repository."""
        key = (file, number)
        known = self._bases.get(key)
        if known is None:
            self._bases[key] = ()
            found = []
            definition = self._definition(file, number)
            for base in definition.bases:
                value = self.walk(file, definition.parent, steps(base))
                if value.kind == "definition" and (value.file, value.number) != key:
                    found.append((value.file, value.number))
            known = self._bases[key] = tuple(found)
        return known

    def line(self, file: int, number: int) -> list[tuple[int, int]]:
        """A class and everything above it, each once, nearest first."""
        found = [(file, number)]
        for each in found:
            found += [base for base in self.bases(*each) if base not in found]
            if len(found) > 200:
                break
        return found

    def methods(self, file: int, number: int) -> dict[str, int]:
        """The methods a class of the file at hand defines itself."""
        return self._all_scopes[file].methods_of.get(number, {})

    def method(self, file: int, number: int, name: str) -> int | None:
        return self._scopes(file, name).methods.get((number, name))


class _Scopes:
    """One file's definitions and bindings, by where they can be seen."""

    __slots__ = (
        "bindings",
        "by_path",
        "children",
        "fields",
        "methods",
        "methods_of",
        "objects",
        "owners",
        "results",
        "same_as",
    )

    def __init__(self, facts: FileFacts) -> None:
        # (scope, name) → what a bare name finds there
        self.children: dict[tuple[int, str], int] = {}
        self.methods: dict[tuple[int, str], int] = {}  # (class or function, name) → its member
        self.methods_of: dict[int, dict[str, int]] = {}
        self.by_path: dict[str, int] = {}
        self.objects: set[str] = set()  # dotted paths that have members
        self.bindings: dict[tuple[int, str], Binding] = {}  # variables, and members of objects
        self.fields: dict[tuple[int, str], Binding] = {}  # attributes of a class's instances
        self.results: dict[int, Binding] = {}  # of functions
        self.same_as: dict[int, Binding] = {}  # type → the type it is another name for
        for binding in facts.bindings:
            self._add_binding(facts, binding)
        for number, definition in enumerate(facts.definitions[1:], 1):
            self._add_definition(facts, number, definition)
        self.owners = {
            number
            for number in self.methods_of
            if facts.definitions[number].kind is SymbolKind.FUNCTION
        }

    def _add_binding(self, facts: FileFacts, binding: Binding) -> None:
        scope, name = binding.scope, binding.name
        if binding.slot is Slot.MEMBER:
            self.fields[scope, name] = binding
        elif binding.slot is Slot.RESULT:
            self.results[scope] = binding
        elif binding.slot is Slot.SELF:
            self.same_as[scope] = binding
        else:
            self.bindings[scope, name] = binding
        if binding.slot is Slot.PATH:  # `const o = { f }`: o.f
            above = facts.definitions[scope].qualname if scope else ""
            self._add_objects(f"{above}.{name}" if above else name, above)

    def _add_definition(self, facts: FileFacts, number: int, definition: Definition) -> None:
        name, parent = definition.name, definition.parent
        qualname = definition.qualname.partition("#")[0] or definition.qualname
        self.by_path.setdefault(qualname, number)
        outer = facts.definitions[parent]
        is_direct = qualname == (f"{outer.qualname}.{name}" if outer.qualname else name)
        is_member = definition.kind in _MEMBERS or outer.kind in TYPES
        if is_direct and not is_member:
            self.children.setdefault((parent, name), number)
        if is_direct and is_member and parent:
            self.methods.setdefault((parent, name), number)
            self.methods_of.setdefault(parent, {}).setdefault(name, number)
        elif not is_direct or not parent:
            self._add_objects(qualname, outer.qualname)

    def _add_objects(self, qualname: str, above: str) -> None:
        """`outer.app.use` makes `outer.app` an object, when `outer` is what defines it."""
        path = qualname.rpartition(".")[0]
        while len(path) > len(above):
            self.objects.add(path)
            path = path.rpartition(".")[0]
