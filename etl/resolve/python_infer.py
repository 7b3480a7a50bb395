"""What expressions of Python code may be: names by scope, attributes by class, results of calls.

Everything is found on demand and kept, so a run looks at each binding once. A cycle (`x = f()` where
`f` returns `x`) gives nothing for the inner question; an empty answer that such a cut may have caused
is not kept, but asked again when somebody else wants it. The questions come in the order of the files'
paths, so the answers are the same every time.
"""

from __future__ import annotations

import builtins
import re
from posixpath import dirname
from typing import NamedTuple

from etl.facts import Definition
from etl.resolve import python_types
from etl.resolve.python_classes import Classes
from etl.resolve.python_modules import Modules
from etl.resolve.python_scopes import BINDING, DEFINITION, Entry, Scopes
from etl.resolve.python_types import Parsed
from etl.resolve.python_values import (
    BOX_METHODS,
    BUILTIN,
    EXTERNAL,
    Box,
    BoxMethod,
    Class,
    External,
    Function,
    Instance,
    Module,
    OwnClass,
    Returning,
    Super,
    Value,
    Values,
    union,
)
from etl.resolve.table import Table

_BUILTINS = frozenset(dir(builtins))
_STEP = re.compile(r"\(\)|\[\]|[^.()\[\]]+")
_CLASS_METHODS = frozenset({"__new__", "__init_subclass__", "__class_getitem__"})
_MAX_DEPTH = 40  # of questions that lead to questions; each costs some eight Python frames
_MAX_TRIES = 4  # of a question whose answer was cut short by a cycle
_MAX_ALTERNATIVES = 6
_MAX_SITES = 40  # calls of a function that are asked for what they pass
_MAX_PASSED = 8  # different things passed to one parameter, beyond which it is anything
_EMPTY: Values = ()
_PENDING: Values = (Value(),)  # being worked out: asked again from below, it is a cycle


class Passed(NamedTuple):
    """The arguments of one call of a function of the repository."""

    file: int
    scope: int
    line: int
    args: str  # as in `Reference.args`
    skip: int  # leading ones that are no parameter: the receiver of `Class.method(self, …)`


class Inference:
    """Answers what names and chains may be, over all Python files of a table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.modules = Modules(table)
        self.scopes = [Scopes(facts) for facts in table.files]
        self.classes = Classes(table, self.scopes)
        self._module_values: dict[str, Module] = {}
        self._functions: dict[tuple[int, int], Function] = {}
        self._bindings: list[list[Values | None]] = [[None] * len(f.bindings) for f in table.files]
        self._imports: list[list[Values | None]] = [[None] * len(f.imports) for f in table.files]
        self._globals: list[dict[str, Values | None]] = [{} for _ in table.files]
        self._returns: dict[tuple[int, int], Values] = {}
        self._steps: dict[str, tuple[str, ...]] = {}
        self.passed: dict[tuple[int, int], list[Passed]] = {}  # function → its calls
        self._arguments_known = False
        self._depth = 0
        self._cuts = 0  # questions answered "nothing" because of a cycle, or of the depth
        self._tries: dict[object, int] = {}
        self.bases = self.classes.link(self._base)

    def _base(self, cls: Class, written: str) -> Values:
        return self.chain(cls.file, cls.definition.parent, written, cls.definition.start_line)

    # -- chains -----------------------------------------------------------------------------------

    def steps(self, chain: str) -> tuple[str, ...]:
        """A chain's head and steps: names, "()" and "[]"."""
        known = self._steps.get(chain)
        if known is None:
            known = self._steps[chain] = tuple(_STEP.findall(chain))
        return known

    def chain(self, file: int, scope: int, chain: str, line: int) -> Values:
        """What a chain may be when evaluated in `scope` on `line` (0: at any time)."""
        steps = self._steps.get(chain) or self.steps(chain)
        return self.walk(file, scope, steps, line)

    def walk(self, file: int, scope: int, steps: tuple[str, ...], line: int) -> Values:
        """As `chain`, of steps."""
        if not steps:
            return _EMPTY
        head, at = steps[0], 1
        if head == "super" and len(steps) > 1 and steps[1] == "()":
            values, at = self._super(file, scope), 2
        else:
            values = self.name(file, scope, head, line)
        for step in steps[at:]:
            if not values:
                return _EMPTY
            if step == "()":
                values = self.call(values)
            elif step == "[]":
                values = self.element(values, subscript=True)
            else:
                values = self.attribute(values, step)
        return values

    def _super(self, file: int, scope: int) -> Values:
        definitions = self.table.files[file].definitions
        while scope:
            cls = self.classes.by_place.get((file, scope))
            if cls is not None:
                return (Super(cls),)
            scope = definitions[scope].parent
        return _EMPTY

    # -- names ------------------------------------------------------------------------------------

    def name(self, file: int, scope: int, name: str, line: int) -> Values:
        """What a name means in `scope`: its own names, those of functions around it, the module's."""
        scopes = self.scopes[file]
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
                if own or definition.kind != "class":
                    here = names[scope]
                    entries = here.get(name) if here else None
                    if entries:
                        return self._flow(file, entries, line if own else 0)
                    if definition.kind == "method" and (name == "self" or name == "cls"):
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
        cls = self.classes.by_place.get((file, method.parent))
        if cls is None:
            return _EMPTY
        on_class = name == "cls" and not cls.metaclass
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
        return found[:_MAX_PASSED]

    def _entry(self, file: int, entry: Entry) -> Values:
        if entry.kind == BINDING:
            return self.binding(file, entry.number)
        if entry.kind == DEFINITION:
            return self.defined(file, entry.number)
        return self.imported(file, entry.number)

    def defined(self, file: int, number: int) -> Values:
        """The class or function of a definition."""
        cls = self.classes.by_place.get((file, number))
        return (cls,) if cls is not None else (self.function(file, number),)

    def function(self, file: int, number: int) -> Function:
        known = self._functions.get((file, number))
        if known is None:
            definition = self.table.files[file].definitions[number]
            known = self._functions[file, number] = Function(file, number, definition, None)
        return known

    def module_name(self, file: int, name: str) -> Values:
        """A name at module level: the module's own, star imports', then the builtins'."""
        values = self._own_global(file, name)
        if values is None:
            values = (BUILTIN,) if name in _BUILTINS else _EMPTY
        return values

    def _own_global(self, file: int, name: str) -> Values | None:
        """As `_module_level`, kept."""
        known = self._globals[file]
        if name in known:
            values = known[name]
            if values is not _PENDING:
                return values
            self._cuts += 1
            return _EMPTY
        if self._depth >= _MAX_DEPTH:
            self._cuts += 1
            return _EMPTY
        before = self._enter_question()
        known[name] = _PENDING
        values = self._module_level(file, name)
        if self._leave_question(before, values, ("global", file, name)):
            known[name] = values
        else:
            del known[name]
        return values

    def _enter_question(self) -> int:
        self._depth += 1
        return self._cuts

    def _leave_question(self, before: int, values: Values | None, question: object) -> bool:
        """True when the answer may be kept."""
        self._depth -= 1
        if values or self._cuts == before or self._depth == 0:
            return True
        tries = self._tries[question] = self._tries.get(question, 0) + 1
        return tries > _MAX_TRIES

    def _module_level(self, file: int, name: str) -> Values | None:
        """None when the module does not have the name."""
        names = self.scopes[file].names
        entries = names[0].get(name) if names and names[0] else None
        if entries:
            return self._static(file, entries)
        for number in self.scopes[file].stars:
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
        absolute = self.modules.absolute(file, each.module, each.level)
        found = self.modules.find(file, absolute)
        target = self.modules.file(found) if found else None
        if target is None or target == file:
            return None
        exports = self.table.files[target].exports
        if (exports and name not in exports) or (not exports and name[0] == "_"):
            return None
        return self._own_global(target, name)

    # -- imports ----------------------------------------------------------------------------------

    def imported(self, file: int, number: int) -> Values:
        """What an import binds."""
        known = self._imports[file][number]
        if known is None:
            if self._depth >= _MAX_DEPTH:
                self._cuts += 1
                return _EMPTY
            before = self._enter_question()
            self._imports[file][number] = _PENDING
            values = self._imported(file, number)
            keep = self._leave_question(before, values, ("import", file, number))
            self._imports[file][number] = values if keep else None
            return values
        if known is _PENDING:
            self._cuts += 1
            return _EMPTY
        return known

    def _imported(self, file: int, number: int) -> Values:
        each = self.table.files[file].imports[number]
        absolute = self.modules.absolute(file, each.module, each.level)
        if each.name == "":
            head = absolute.partition(".")[0]
            whole = self.modules.find(file, absolute)
            if each.alias == head and "." in absolute:  # `import a.b` binds a
                own = self.modules.find(file, head)
                return (self.module(own),) if own else (EXTERNAL,)
            return (self.module(whole),) if whole else (EXTERNAL,)
        found = self.modules.find(file, absolute)
        if not found:
            return (EXTERNAL,) if each.level == 0 else _EMPTY
        return self.module_attribute(self.module(found), each.name)

    def module(self, name: str) -> Module:
        known = self._module_values.get(name)
        if known is None:
            known = self._module_values[name] = Module(name, self.modules.file(name))
        return known

    def module_attribute(self, module: Module, name: str) -> Values:
        """A module's name as seen from outside: its own, or its submodule."""
        values: Values | None = None
        file = module.file
        if file is not None:
            values = self._own_global(file, name)
        if not values:
            below = f"{module.name}.{name}"
            if self.modules.file(below) is not None or self.modules.is_package(below):
                return (self.module(below),)
        return values or _EMPTY

    # -- bindings ---------------------------------------------------------------------------------

    def binding(self, file: int, number: int) -> Values:
        """What a binding gives its name."""
        known = self._bindings[file][number]
        if known is None:
            if self._depth >= _MAX_DEPTH:
                self._cuts += 1
                return _EMPTY
            before = self._enter_question()
            self._bindings[file][number] = _PENDING
            values = self._bound(file, number)[:_MAX_PASSED]
            keep = self._leave_question(before, values, ("binding", file, number))
            self._bindings[file][number] = values if keep else None
            return values
        if known is _PENDING:
            self._cuts += 1
            return _EMPTY
        return known

    def _bound(self, file: int, number: int) -> Values:
        each = self.table.files[file].bindings[number]
        how, value, scope, line = each.how, each.value, each.scope, each.line
        if how == "new":
            if value == "None":
                return _EMPTY
            return self.call(self.chain(file, scope, value, line))
        if how == "alias":
            return self.chain(file, scope, value, line)
        if how == "elements":
            each_one = (self.chain(file, scope, chain, line) for chain in value.split(","))
            return (Box(union(*each_one)[:_MAX_PASSED]),)
        if how == "type":
            return self.annotation(file, scope, value)
        if how == "param":
            return self._parameter(file, scope, each.name, value)
        if how == "iter":
            return self.element(self.chain(file, scope, value, line + 1))
        if how == "enter":
            return self._enter(self.chain(file, scope, value, line + 1))
        if how == "narrow":
            return self._instances(self.chain(file, scope, value, 0))
        if how == "bound":
            instances = self.annotation(file, scope, value)
            return tuple(v.cls for v in instances if isinstance(v, Instance))
        if how == "self":
            return self._receiver(file, self.table.files[file].definitions[scope], each.name)
        return _EMPTY

    def _parameter(self, file: int, scope: int, name: str, annotation: str) -> Values:
        """By its annotation; a test's by its fixture; else, in the second pass, by what is passed."""
        values: Values = _EMPTY
        if annotation:
            values = self.annotation(file, self._outer(file, scope), annotation)
        else:
            values = self._fixture(file, scope, name)
        if self._arguments_known and all(isinstance(v, External | Returning) for v in values):
            return self._arguments(file, scope, name) or values
        return values

    def know_arguments(self) -> None:
        """From here on, `passed` tells of unannotated parameters; what was unknown is asked again."""
        self._arguments_known = True
        self._tries.clear()
        for kept in (*self._bindings, *self._imports):
            for number, values in enumerate(kept):
                if not values:
                    kept[number] = None
        for named in self._globals:
            for name in [name for name, values in named.items() if not values]:
                del named[name]
        for key in [key for key, values in self._returns.items() if not values]:
            del self._returns[key]
        for cls in self.classes.by_place.values():
            for seen in [seen for seen, values in cls.seen.items() if not values]:
                del cls.seen[seen]

    def _arguments(self, file: int, scope: int, name: str) -> Values:
        """What the repository's calls pass for a parameter; nothing when it is too many things."""
        sites = self.passed.get((file, scope))
        if not sites:
            return _EMPTY
        tests = self.table.is_test_file
        if not tests(file):
            sites = [site for site in sites if not tests(site.file)] or sites
        position = self.scopes[file].parameters[scope].index(name)
        found: dict[Value, None] = {}
        for site in sites[:_MAX_SITES]:
            chain = _argument(site.args, position + site.skip, name)
            if not chain:
                continue
            for value in self.chain(site.file, site.scope, chain, site.line):
                if isinstance(value, Instance) and value.own:
                    value = value.cls.instance
                elif isinstance(value, OwnClass):
                    value = value.cls
                if not isinstance(value, External | Super):
                    found[value] = None
        return tuple(found) if len(found) <= _MAX_PASSED else _EMPTY

    def _outer(self, file: int, scope: int) -> int:
        return self.table.files[file].definitions[scope].parent

    def _enter(self, values: Values) -> Values:
        found: Values = _EMPTY
        for value in values:
            if isinstance(value, Box):
                found = union(found, value.element)
            elif isinstance(value, Instance):
                method = self._on_class(value.cls, "__enter__", value)
                method = method or self._on_class(value.cls, "__aenter__", value)
                found = union(found, self.call(method))
            elif isinstance(value, External):
                found = union(found, (value,))
        return found

    def _fixture(self, file: int, scope: int, name: str) -> Values:
        """A pytest fixture's value, for a parameter of a test or of another fixture."""
        facts = self.table.files[file]
        definition = facts.definitions[scope]
        if not definition.is_test and not _is_fixture(definition):
            return _EMPTY
        for where in self._fixture_files(file):
            members = self.table.members(where)
            places = (definition.parent, 0) if where == file else (0,)
            for place in places:
                number = members.get(place, {}).get(name)
                if number is None or (where == file and number == scope):
                    continue
                found = self.table.files[where].definitions[number]
                if _is_fixture(found):
                    return self._fixture_value(where, number)
        return _EMPTY

    def _fixture_files(self, file: int) -> list[int]:
        files, by_path = [file], self.table.by_path
        folder = dirname(self.table.files[file].path)
        while True:
            near = by_path.get(f"{folder}/conftest.py" if folder else "conftest.py")
            if near is not None and near != file:
                files.append(near)
            if not folder:
                return files
            folder = dirname(folder)

    def _fixture_value(self, file: int, number: int) -> Values:
        values = self.returns(file, number)
        if number in self.scopes[file].yields:
            return union(*(v.element for v in values if isinstance(v, Box)))
        return values

    # -- types ------------------------------------------------------------------------------------

    def annotation(self, file: int, scope: int, text: str) -> Values:
        """The instances that an annotation written in `scope` allows."""
        return self._typed(file, scope, python_types.parse(text))

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
            cls = self.classes.by_place.get((file, scope))
            while cls is None and scope:
                scope = definitions[scope].parent
                cls = self.classes.by_place.get((file, scope))
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

    # -- operations -------------------------------------------------------------------------------

    def attribute(self, values: Values, name: str) -> Values:
        """`value.name` of every alternative."""
        if len(values) == 1:
            return self._attribute(values[0], name)
        return union(*(self._attribute(value, name) for value in values))[:_MAX_ALTERNATIVES]

    def _attribute(self, value: Value, name: str) -> Values:
        if isinstance(value, Instance):
            if name == "__class__":
                return (value.cls.own,) if value.own else (value.cls,)
            return self._on_class(value.cls, name, value)
        if isinstance(value, Class | OwnClass):
            cls = value if isinstance(value, Class) else value.cls
            return self._on_class(cls, name, value)
        if isinstance(value, Module):
            return self.module_attribute(value, name)
        if isinstance(value, Super):
            return self._in_mro(value.cls, value.cls.mro[1:], name, value.cls.own_instance)
        if isinstance(value, External):
            return (value,)
        if isinstance(value, Box):
            return (BoxMethod(value, BOX_METHODS.get(name, "")),)
        if isinstance(value, Function) and value.definition.decorators:
            return self.attribute(self._decorated(value), name)
        return _EMPTY

    def _decorated(self, function: Function) -> Values:
        """The instances that the outermost decorator makes of a function (`@app.command()`)."""
        key = (function.file, -function.number)
        known = self._returns.get(key)
        if known is None:
            if self._depth >= _MAX_DEPTH:
                self._cuts += 1
                return _EMPTY
            before = self._enter_question()
            self._returns[key] = _PENDING
            definition = function.definition
            written = f"{definition.decorators[0]}()"
            made = self.chain(function.file, definition.parent, written, definition.start_line)
            values = tuple(value for value in made if isinstance(value, Instance))
            if self._leave_question(before, values, key):
                self._returns[key] = values
            else:
                del self._returns[key]
            return values
        if known is _PENDING:
            self._cuts += 1
            return _EMPTY
        return known

    def wrappers(self, function: Function) -> list[Function]:
        """What really runs when a decorated function is called: functions its decorators define."""
        found: list[Function] = []
        definition = function.definition
        for written in definition.decorators[:4]:
            scope, line = definition.parent, definition.start_line
            for decorator in self.chain(function.file, scope, written, line):
                if isinstance(decorator, Function):
                    found += self._wrapper(decorator)
        return found

    def _wrapper(self, decorator: Function) -> list[Function]:
        """The innermost of the functions that a decorator defines and gives back."""
        prefix = f"{decorator.definition.qualname}."
        inner = [
            value
            for value in self.returns(decorator.file, decorator.number)
            if isinstance(value, Function)
            and value.file == decorator.file
            and value.definition.qualname.startswith(prefix)
        ]
        depth = max((value.definition.qualname.count(".") for value in inner), default=0)
        return [value for value in inner if value.definition.qualname.count(".") == depth]

    def _on_class(self, cls: Class, name: str, receiver: Value) -> Values:
        key = (name, receiver)
        known = cls.seen.get(key)
        if known is None:
            if self._depth >= _MAX_DEPTH:
                self._cuts += 1
                return _EMPTY
            before = self._enter_question()
            cls.seen[key] = _PENDING
            values = self._in_mro(cls, cls.mro, name, receiver)
            if self._leave_question(before, values, (cls, key)):
                cls.seen[key] = values
            else:
                del cls.seen[key]
            return values
        if known is _PENDING:
            self._cuts += 1
            return _EMPTY
        return known

    def _in_mro(self, cls: Class, mro: tuple[Class, ...], name: str, receiver: Value) -> Values:
        """An attribute as the first class of `mro` that knows it has it."""
        present = False
        for each in mro:
            number = each.members.get(name)
            if number is not None:
                return self._member(each, number, receiver)
            if name in each.attrs:
                present = True
                values = union(*(self.binding(each.file, i) for i in each.attrs[name]))
                if values:
                    return tuple(
                        v.cls.instance if isinstance(v, Instance) and v.own else v for v in values
                    )
        if not present and cls.external:
            return (EXTERNAL,)
        return _EMPTY

    def _member(self, owner: Class, number: int, receiver: Value) -> Values:
        definition = self.table.files[owner.file].definitions[number]
        if definition.kind == "class":
            return self.defined(owner.file, number)
        function = Function(owner.file, number, definition, receiver)
        if isinstance(receiver, Instance) and is_property(definition):
            return self.call((function,))
        return (function,)

    def call(self, values: Values) -> Values:
        """The result of calling every alternative."""
        if len(values) == 1:
            return self._call(values[0])
        return union(*(self._call(value) for value in values))[:_MAX_ALTERNATIVES]

    def _call(self, value: Value) -> Values:
        if isinstance(value, Class):
            return (value.made,)
        if isinstance(value, Function):
            values = self.returns(value.file, value.number)
            return self._rebound(values, value.receiver) if value.receiver else values
        if isinstance(value, OwnClass):
            return (value.cls.own_instance,)
        if isinstance(value, Instance):
            return self.call(self._on_class(value.cls, "__call__", value))
        if isinstance(value, External):
            return (value,)
        if isinstance(value, Returning):
            return value.result
        if isinstance(value, BoxMethod):
            if value.gives == "element":
                return value.box.element
            return (value.box,) if value.gives else (BUILTIN,)
        return _EMPTY

    def _rebound(self, values: Values, receiver: Value) -> Values:
        """What a method that returns `self` returns to this receiver."""
        for value in values:
            if isinstance(value, Instance) and value.own:
                break
        else:
            return values
        if isinstance(receiver, Class):
            own: Value = receiver.made
        elif isinstance(receiver, OwnClass):
            own = receiver.cls.own_instance
        else:
            own = receiver
        return tuple(own if isinstance(v, Instance) and v.own else v for v in values)

    def returns(self, file: int, number: int) -> Values:
        """What a function returns: by its annotation, else by its `return` and `yield` statements."""
        key = (file, number)
        known = self._returns.get(key)
        if known is None:
            if self._depth >= _MAX_DEPTH:
                self._cuts += 1
                return _EMPTY
            before = self._enter_question()
            self._returns[key] = _PENDING
            values = self._returned(file, number)
            if self._leave_question(before, values, ("returns", file, number)):
                self._returns[key] = values
            else:
                del self._returns[key]
            return values
        if known is _PENDING:
            self._cuts += 1
            return _EMPTY
        return known

    def _returned(self, file: int, number: int) -> Values:
        definition = self.table.files[file].definitions[number]
        declared: Values = _EMPTY
        known = False
        if definition.returns:
            declared = self.annotation(file, definition.parent, definition.returns)
            known = any(not isinstance(value, External) for value in declared)
            if known and "Callable" not in definition.returns:
                return declared
        scopes = self.scopes[file]
        yields = scopes.yields.get(number)
        if yields is not None:
            return (Box(union(*(self.binding(file, i) for i in yields))[:_MAX_ALTERNATIVES]),)
        returned = scopes.results.get(number, ())
        inferred = union(*(self.binding(file, i) for i in returned))[:_MAX_ALTERNATIVES]
        own = tuple(value for value in inferred if not isinstance(value, External))
        if known and own:
            return union(declared, tuple(value for value in own if isinstance(value, Function)))
        return own or declared or inferred

    def element(self, values: Values, subscript: bool = False) -> Values:
        """What iterating over each alternative gives, or what `value[…]` gives."""
        found: Values = _EMPTY
        for value in values:
            if isinstance(value, Box):
                found = union(found, value.element)
            elif isinstance(value, External):
                found = union(found, (value,))
            elif isinstance(value, Class):
                found = union(found, (value,) if subscript else (value.instance,))
            elif isinstance(value, Instance):
                name = "__getitem__" if subscript else "__iter__"
                result = self.call(self._on_class(value.cls, name, value))
                if not subscript:
                    result = self._next(result)
                found = union(found, result)
        return found[:_MAX_ALTERNATIVES]

    def _next(self, iterators: Values) -> Values:
        found: Values = _EMPTY
        for value in iterators:
            if isinstance(value, Box):
                found = union(found, value.element)
            elif isinstance(value, Instance):
                found = union(found, self.call(self._on_class(value.cls, "__next__", value)))
        return found


def _argument(args: str, position: int, name: str) -> str:
    """The chain passed for a parameter, by keyword or position; "" when the call doesn't tell."""
    found = ""
    for number, each in enumerate(args.split(",")):
        if "=" in each:
            key, _, chain = each.partition("=")
            if key == name:
                return chain
        elif each == "*":
            position = -1
        elif number == position:
            found = each
    return found


def is_property(definition: Definition) -> bool:
    """True when reading the attribute calls the function."""
    return any(each.endswith("property") for each in definition.decorators)


def _is_fixture(definition: Definition) -> bool:
    return any("fixture" in each for each in definition.decorators)
