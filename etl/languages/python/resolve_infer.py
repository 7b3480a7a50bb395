"""What expressions of Python code may be: names by scope, attributes by class, results of calls.

Everything is found on demand and kept (see `etl.resolve.questions`).
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

from etl.facts import Binding, BindingKind, Chain, Definition, ImportKind, SymbolKind
from etl.languages.kit.chains import CALL, ELEMENT, steps
from etl.languages.python import resolve_types
from etl.languages.python.resolve_operations import Operations
from etl.languages.python.resolve_parameters import MAX_PASSED, Parameters
from etl.languages.python.resolve_program import Program
from etl.languages.python.resolve_scopes import BINDING, DEFINITION, Entry
from etl.languages.python.resolve_types import Parsed
from etl.languages.python.resolve_values import (
    BUILTIN,
    EXTERNAL,
    Box,
    Class,
    External,
    Instance,
    Module,
    OwnClass,
    Returning,
    Super,
    Value,
    Values,
    union,
)
from etl.resolve.questions import Finder, Questions

_CLASS, _METHOD = SymbolKind.CLASS, SymbolKind.METHOD
_BUILTINS = frozenset(dir(builtins))
_CLASS_METHODS = frozenset({"__new__", "__init_subclass__", "__class_getitem__"})
_MAX_ALTERNATIVES = 6
_EMPTY: Values = ()


class Inference:
    """Answers what names and chains may be, over all Python files of a program.

    The kinds of questions: `finders`. Those about a definition name it by its object, which outlives
    changes of the file; those that number bindings and imports are asked inside their file alone.
    """

    def __init__(self, program: Program, questions: Questions) -> None:
        self.table = program
        self.questions = questions
        self.operations = Operations(self)
        self.parameters = Parameters(self, self.operations)
        self._ask = questions.ask
        self._world = questions.world
        self._by_kind: dict[BindingKind, Callable[[int, Binding], Values]] = {
            BindingKind.ALIAS: self._alias,
            BindingKind.NEW: self._made,
            BindingKind.TYPE: self._declared,
            BindingKind.ITERATED: self._iterated,
            BindingKind.ELEMENTS: self._elements,
            BindingKind.ENTERED: self._entered,
            BindingKind.PARAMETER: self._parameter,
            BindingKind.RECEIVER: self._own,
            BindingKind.NARROWED: self._narrowed,
            BindingKind.TYPE_VARIABLE: self._type_variable,
            BindingKind.LAMBDA: self._nothing,
            BindingKind.GLOBAL: self._nothing,
            BindingKind.UNKNOWN: self._nothing,
        }

    def finders(self) -> dict[str, Finder]:
        """What answers each kind of question."""
        return {
            "binding": self._bound,
            "import": self._imported,
            "global": self._module_level,
            "exported": self._exported,
            "find": self._find_module,
            "module": self._module_named,
            **self.operations.finders(),
            **self.parameters.finders(),
        }

    def base(self, cls: Class, written: str) -> Values:
        """What a base means where the class is written."""
        return self.chain(cls.file, cls.definition.parent, written, cls.definition.start_line)

    # -- chains -----------------------------------------------------------------------------------

    def chain(self, file: int, scope: int, chain: Chain, line: int) -> Values:
        """What a chain may be when evaluated in `scope` on `line` (0: at any time)."""
        return self.walk(file, scope, steps(chain), line)

    def walk(self, file: int, scope: int, path: tuple[str, ...], line: int) -> Values:
        """As `chain`, of steps."""
        if not path:
            return _EMPTY
        head, at = path[0], 1
        if head == "super" and len(path) > 1 and path[1] == CALL:
            values, at = self._super(file, scope), 2
        else:
            values = self.name(file, scope, head, line)
        for step in path[at:]:
            if not values:
                return _EMPTY
            if step == CALL:
                values = self.operations.call(values)
            elif step == ELEMENT:
                values = self.operations.element(values, subscript=True)
            else:
                values = self.operations.attribute(values, step)
        return values

    def _super(self, file: int, scope: int) -> Values:
        definitions = self.table.files[file].definitions
        while scope:
            cls = self.table.by_place.get((file, scope))
            if cls is not None:
                return (Super(cls),)
            scope = definitions[scope].parent
        return _EMPTY

    # -- names ------------------------------------------------------------------------------------

    def name(self, file: int, scope: int, name: str, line: int) -> Values:
        """What a name means in `scope`: its own names, those of functions around it, the module's."""
        scopes = self.table.scopes[file]
        if scopes.ranges and line and (scope, name) in scopes.ranges:
            values = self._ranged(file, scopes.ranges[scope, name], line)
            if values is not None:
                return values
        if scope:
            definitions = self.table.files[file].definitions
            names = scopes.names
            own = True
            while scope:
                definition = definitions[scope]
                if own or definition.kind is not _CLASS:
                    here = names[scope]
                    entries = here.get(name) if here else None
                    if entries:
                        return self._flow(file, entries, line if own else 0)
                    if definition.kind is _METHOD and (name == "self" or name == "cls"):
                        return self._receiver(file, definition, name)
                own = False
                scope = definition.parent
        return self.module_name(file, name)

    def _ranged(self, file: int, entries: list[Entry], line: int) -> Values | None:
        """What a passed `isinstance` says of the name, or that it is a lambda's parameter."""
        here = [e for e in entries if e.line < line <= e.until]
        if not here:
            return None
        return union(*(self._entry(file, e) for e in here if e.line == here[-1].line))

    def _receiver(self, file: int, method: Definition, name: str) -> Values:
        cls = self.table.by_place.get((file, method.parent))
        if cls is None:
            return _EMPTY
        on_class = name == "cls" and not self.operations.line(cls).metaclass
        if on_class or method.name in _CLASS_METHODS or "classmethod" in method.decorators:
            return (cls.own,)
        return (cls.own_instance,)

    def _flow(self, file: int, entries: list[Entry], line: int) -> Values:
        """What a local name may be on `line`: the bindings before it, back to one that always ran."""
        if len(entries) == 1:
            return self._entry(file, entries[0])
        found: Values = _EMPTY
        for entry in reversed(entries):
            if line and entry.line >= line and entry.kind == BINDING:
                continue
            found = union(found, self._entry(file, entry))
            # A name bound anew to something unknown mostly keeps its type: `x = wrap(x)`.
            if found and line and (entry.until == 0 or line <= entry.until):
                return found
        if not found:  # used before it is bound: a loop, or a nested function
            found = union(*(self._entry(file, entry) for entry in entries))
        return found[:MAX_PASSED]

    def _entry(self, file: int, entry: Entry) -> Values:
        if entry.kind == BINDING:
            return self.binding(file, entry.number)
        if entry.kind == DEFINITION:
            return self.defined(file, entry.number)
        return self.imported(file, entry.number)

    def defined(self, file: int, number: int) -> Values:
        """The class or function of a definition."""
        cls = self.table.by_place.get((file, number))
        return (cls,) if cls is not None else (self.table.symbol(file, number).function(),)

    def module_name(self, file: int, name: str) -> Values:
        """A name at module level: the module's own, star imports', then the builtins'."""
        values: Values | None = self._ask(file, ("global", name))
        if values is None:
            values = (BUILTIN,) if name in _BUILTINS else _EMPTY
        return values

    def _module_level(self, file: int, name: str) -> Values | None:
        """None when the module does not have the name."""
        names = self.table.scopes[file].names
        entries = names[0].get(name) if names and names[0] else None
        if entries:
            return self._static(file, entries)
        for number in self.table.scopes[file].stars:
            values = self._star(file, number, name)
            if values is not None:
                return values
        return None

    def _static(self, file: int, entries: list[Entry]) -> Values:
        """A module's or class's name without regard to order: `try`/`except` give both sides."""
        if len(entries) == 1:
            return self._entry(file, entries[0])
        definitions = [entry for entry in entries if entry.kind == DEFINITION]
        rest = [entry for entry in entries if entry.kind != DEFINITION]
        found = self._entry(file, definitions[-1]) if definitions else _EMPTY
        for entry in rest:
            if found and entry.kind == BINDING and definitions:
                continue  # `f = wrap(f)`: still f
            found = union(found, self._entry(file, entry))
        own = tuple(value for value in found if not isinstance(value, External))
        return (own or found)[:_MAX_ALTERNATIVES]

    def _star(self, file: int, number: int, name: str) -> Values | None:
        each = self.table.files[file].imports[number]
        target = self.found(file, self.absolute(file, each.module, each.level))
        if target is None or target.file is None or target.file == file:
            return None
        (exported,) = self._ask(target.file, ("exported",))
        hidden = name not in exported if exported else name[0] == "_"
        if hidden:
            return None
        values: Values | None = self._ask(target.file, ("global", name))
        return values

    def _exported(self, file: int) -> tuple[frozenset[str]]:
        return (frozenset(self.table.scopes[file].exported),)

    # -- imports ----------------------------------------------------------------------------------

    def absolute(self, file: int, module: str, level: int) -> str:
        """See `Modules.absolute`."""
        return self.table.modules.absolute(file, module, level)

    def found(self, file: int, name: str) -> Module | None:
        """The module of the repository that `name` means when it is imported in `file`."""
        found: Module | None = self._world(("find", file, name))
        return found

    def _find_module(self, file: int, name: str) -> Module | None:
        """A question about the repository."""
        modules = self.table.modules
        found = modules.find(file, name)
        return self.table.module(found, modules.file(found)) if found else None

    def _module_named(self, name: str) -> Module | None:
        """A question about the repository: the module of this very name."""
        modules = self.table.modules
        file = modules.file(name)
        return (
            self.table.module(name, file) if file is not None or modules.is_package(name) else None
        )

    def imported(self, file: int, number: int) -> Values:
        """What an import binds."""
        values: Values = self._ask(file, ("import", number))
        return values

    def _imported(self, file: int, number: int) -> Values:
        each = self.table.files[file].imports[number]
        absolute = self.absolute(file, each.module, each.level)
        if each.kind is ImportKind.MODULE:
            head = absolute.partition(".")[0]
            if each.alias == head and "." in absolute:  # `import a.b` binds a
                own = self.found(file, head)
                return (own,) if own else (EXTERNAL,)
            whole = self.found(file, absolute)
            return (whole,) if whole else (EXTERNAL,)
        found = self.found(file, absolute)
        if found is None:
            return (EXTERNAL,) if each.level == 0 else _EMPTY
        return self.module_attribute(found, each.name)

    def module_attribute(self, module: Module, name: str) -> Values:
        """A module's name as seen from outside: its own, or its submodule."""
        values: Values | None = None
        file = module.file
        if file is not None:
            values = self._ask(file, ("global", name))
        if not values:
            below = self._world(("module", f"{module.name}.{name}"))
            if below is not None:
                return (below,)
        return values or _EMPTY

    # -- bindings ---------------------------------------------------------------------------------

    def binding(self, file: int, number: int) -> Values:
        """What a binding gives its name."""
        values: Values = self._ask(file, ("binding", number))
        return values

    def _bound(self, file: int, number: int) -> Values:
        each = self.table.files[file].bindings[number]
        return self._by_kind[each.kind](file, each)[:MAX_PASSED]

    def _alias(self, file: int, each: Binding) -> Values:
        return self.chain(file, each.scope, each.value, each.line)

    def _made(self, file: int, each: Binding) -> Values:
        return self.operations.call(self._alias(file, each))

    def _elements(self, file: int, each: Binding) -> Values:
        scope, line = each.scope, each.line
        held = (self.chain(file, scope, chain, line) for chain in each.elements)
        return (Box(union(*held)[:MAX_PASSED]),)

    def _declared(self, file: int, each: Binding) -> Values:
        return self.annotation(file, each.scope, each.value)

    def _parameter(self, file: int, each: Binding) -> Values:
        return self.parameters.value(file, each.scope, each.name, each.value)

    def _iterated(self, file: int, each: Binding) -> Values:
        return self.operations.element(self.chain(file, each.scope, each.value, each.line + 1))

    def _entered(self, file: int, each: Binding) -> Values:
        return self.operations.enter(self.chain(file, each.scope, each.value, each.line + 1))

    def _narrowed(self, file: int, each: Binding) -> Values:
        return self._instances(self.chain(file, each.scope, each.value, 0))

    def _type_variable(self, file: int, each: Binding) -> Values:
        return tuple(v.cls for v in self._declared(file, each) if isinstance(v, Instance))

    def _own(self, file: int, each: Binding) -> Values:
        return self._receiver(file, self.table.files[file].definitions[each.scope], each.name)

    def _nothing(self, file: int, each: Binding) -> Values:
        return _EMPTY

    # -- types ------------------------------------------------------------------------------------

    def annotation(self, file: int, scope: int, text: str) -> Values:
        """The instances that an annotation written in `scope` allows."""
        return self._typed(file, scope, resolve_types.parse(text))

    def _typed(self, file: int, scope: int, parsed: Parsed) -> Values:
        found: Values = _EMPTY
        for kind, content in parsed:
            if kind == "name":
                assert isinstance(content, str)
                found += self._named_type(file, scope, content)
            elif kind == "box":
                assert isinstance(content, tuple)
                found += (Box(self._typed(file, scope, content)),)
            elif kind == "call":
                assert isinstance(content, tuple)
                found += (Returning(self._typed(file, scope, content)),)
            else:
                assert isinstance(content, tuple)
                instances = self._typed(file, scope, content)
                found += tuple(v.cls for v in instances if isinstance(v, Instance))
        return found

    def _named_type(self, file: int, scope: int, name: str) -> Values:
        if name.rpartition(".")[2] == "Self":
            definitions = self.table.files[file].definitions
            cls = self.table.by_place.get((file, scope))
            while cls is None and scope:
                scope = definitions[scope].parent
                cls = self.table.by_place.get((file, scope))
            return (cls.own_instance,) if cls else _EMPTY
        return self._instances(self.chain(file, scope, name, 0))

    def _instances(self, values: Values) -> Values:
        found: list[Value] = []
        for value in values:
            if isinstance(value, Class):
                found.append(value.instance)
            elif isinstance(value, OwnClass):
                found.append(value.cls.own_instance)
            elif isinstance(value, External):
                found.append(value)
        return tuple(found)
