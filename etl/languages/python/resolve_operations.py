"""What attributes, calls and iteration give on the resolver's abstract values."""

from __future__ import annotations

from typing import NamedTuple

from etl.facts import Definition, SymbolKind
from etl.languages.kit.chains import called
from etl.languages.python.resolve_questions import Names
from etl.languages.python.resolve_values import (
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
    Symbol,
    Value,
    Values,
    union,
)
from etl.resolve.questions import Finder

_MAX_ALTERNATIVES = 6
_EMPTY: Values = ()


class Line(NamedTuple):
    """What is above a class, itself first; whether any of it comes from outside, or is a metaclass."""

    mro: tuple[Class, ...]
    external: bool
    metaclass: bool


class Member(NamedTuple):
    """A definition in a class."""

    what: Class | Symbol
    is_property: bool


class Operations:
    """Works out one step of a chain at a time; `infer` knows names, bindings and annotations."""

    def __init__(self, infer: Names) -> None:
        self._infer = infer
        self._table = infer.table
        self._questions = infer.questions
        self._ask = infer.questions.ask

    def finders(self) -> dict[str, Finder]:
        """See `Inference.finders`."""
        return {
            "returns": self._returned,
            "decorated": self._decoration,
            "wrappers": self._wrappers,
            "inner": self._inner,
            "attribute": self._found,
            "member": self._own_member,
            "values": self._own_values,
            "makers": self._makers,
            "unbound": self._takes_no_receiver,
            "abstract": self._is_abstract,
            "line": self._line,
        }

    def line(self, cls: Class) -> Line:
        """What is above a class. While bases are looked for, nothing is."""
        if not self._questions.mode:
            return Line((cls,), False, False)
        line: Line = self._questions.world(("line", cls))
        return line

    def _line(self, cls: Class) -> Line:
        """A question about the repository."""
        return Line(cls.mro, cls.external, cls.metaclass)

    def member(self, cls: Class, name: str) -> Member | None:
        """The definition that a class has under a name."""
        if not self._questions.tracks:
            return self._own_member(cls.file, cls, name) if name in cls.members else None
        member: Member | None = self._ask(cls.file, ("member", cls, name))
        return member

    def _own_member(self, file: int, cls: Class, name: str) -> Member | None:
        number = cls.members.get(name)
        if number is None:
            return None
        definition = self._table.files[file].definitions[number]
        if definition.kind is SymbolKind.CLASS:
            return Member(self._table.by_place[file, number], False)
        return Member(self._table.symbol(file, number), is_property(definition))

    def _own_values(self, file: int, cls: Class, name: str) -> Values | None:
        """What the bindings of an attribute give; None when the class does not have it."""
        bindings = cls.attrs.get(name)
        if bindings is None:
            return None
        return union(*(self._infer.binding(file, number) for number in bindings))

    def makers(self, cls: Class) -> tuple[Symbol, ...]:
        """What making an instance runs: the repository's `__init__`, and its `__new__` before it."""
        made: tuple[Symbol, ...] = self._ask(cls.file, ("makers", cls))
        return made

    def _makers(self, file: int, cls: Class) -> tuple[Symbol, ...]:
        found = []
        for name in ("__init__", "__new__"):
            for each in self.line(cls).mro:
                member = self.member(each, name)
                if member is not None:
                    if isinstance(member.what, Symbol):
                        found.append(member.what)
                    break
        return tuple(found)

    def takes_no_receiver(self, symbol: Symbol) -> bool:
        """True for a method that is called on its class without an instance."""
        return bool(self._ask(symbol.file, ("unbound", symbol)))

    def _takes_no_receiver(self, file: int, symbol: Symbol) -> bool:
        kinds = symbol.definition.decorators
        return "classmethod" in kinds or "staticmethod" in kinds

    def is_abstract(self, symbol: Symbol) -> bool:
        """True for a function that is there to be overridden."""
        return bool(self._ask(symbol.file, ("abstract", symbol)))

    def _is_abstract(self, file: int, symbol: Symbol) -> bool:
        return symbol.definition.is_abstract

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
            return self._infer.module_attribute(value, name)
        if isinstance(value, Super):
            line = self.line(value.cls)
            return self._in_mro(line.mro[1:], line.external, name, value.cls.own_instance)
        if isinstance(value, External):
            return (value,)
        if isinstance(value, Box):
            return (BoxMethod(value, BOX_METHODS.get(name, "")),)
        if isinstance(value, Function):
            return self.attribute(self._ask(value.symbol.file, ("decorated", value.symbol)), name)
        return _EMPTY

    def _decoration(self, file: int, symbol: Symbol) -> Values:
        """The instances that the outermost decorator makes of a function (`@app.command()`)."""
        definition = symbol.definition
        if not definition.decorators:
            return _EMPTY
        written = called(definition.decorators[0])
        made = self._infer.chain(file, definition.parent, written, definition.start_line)
        return tuple(value for value in made if isinstance(value, Instance))

    def wrappers(self, symbol: Symbol) -> tuple[Symbol, ...]:
        """What really runs when a decorated function is called: functions its decorators define."""
        found: tuple[Symbol, ...] = self._ask(symbol.file, ("wrappers", symbol))
        return found

    def _wrappers(self, file: int, symbol: Symbol) -> tuple[Symbol, ...]:
        found: list[Symbol] = []
        definition = symbol.definition
        for written in definition.decorators[:4]:
            scope, line = definition.parent, definition.start_line
            for decorator in self._infer.chain(file, scope, written, line):
                if isinstance(decorator, Function):
                    found += self._ask(decorator.symbol.file, ("inner", decorator.symbol))
        return tuple(found)

    def _inner(self, file: int, decorator: Symbol) -> tuple[Symbol, ...]:
        """The innermost of the functions that a decorator defines and gives back."""
        prefix = f"{decorator.definition.qualname}."
        inner = [
            value.symbol
            for value in self.returns(decorator)
            if isinstance(value, Function)
            and value.symbol.file == file
            and value.symbol.definition.qualname.startswith(prefix)
        ]
        depth = max((each.definition.qualname.count(".") for each in inner), default=0)
        return tuple(each for each in inner if each.definition.qualname.count(".") == depth)

    def _on_class(self, cls: Class, name: str, receiver: Value) -> Values:
        values: Values = self._ask(cls.file, ("attribute", cls, name, receiver))
        return values

    def _found(self, file: int, cls: Class, name: str, receiver: Value) -> Values:
        line = self.line(cls)
        return self._in_mro(line.mro, line.external, name, receiver)

    def _in_mro(self, mro: tuple[Class, ...], external: bool, name: str, receiver: Value) -> Values:
        """An attribute as the first class of `mro` that knows it has it."""
        present = False
        tracks = self._questions.tracks
        for each in mro:
            member = self.member(each, name)
            if member is not None:
                return self._member(member, receiver)
            if not tracks and name not in each.attrs:
                continue
            values: Values | None = self._ask(each.file, ("values", each, name))
            if values is not None:
                present = True
                if values:
                    return tuple(
                        v.cls.instance if isinstance(v, Instance) and v.own else v for v in values
                    )
        if not present and external:
            return (EXTERNAL,)
        return _EMPTY

    def _member(self, member: Member, receiver: Value) -> Values:
        if isinstance(member.what, Class):
            return (member.what,)
        function = member.what.function(receiver)
        if isinstance(receiver, Instance) and member.is_property:
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
            values = self.returns(value.symbol)
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

    def returns(self, symbol: Symbol) -> Values:
        """What a function returns: by its annotation, else by its `return` and `yield` statements."""
        values: Values = self._ask(symbol.file, ("returns", symbol))
        return values

    def _returned(self, file: int, symbol: Symbol) -> Values:
        definition, number = symbol.definition, symbol.number
        declared: Values = _EMPTY
        known = False
        if definition.returns:
            declared = self._infer.annotation(file, definition.parent, definition.returns)
            known = any(not isinstance(value, External) for value in declared)
            if known and "Callable" not in definition.returns:
                return declared
        scopes = self._table.scopes[file]
        yields = scopes.yields.get(number)
        if yields is not None:
            return (
                Box(union(*(self._infer.binding(file, i) for i in yields))[:_MAX_ALTERNATIVES]),
            )
        returned = scopes.results.get(number, ())
        inferred = union(*(self._infer.binding(file, i) for i in returned))[:_MAX_ALTERNATIVES]
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

    def enter(self, values: Values) -> Values:
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


def is_property(definition: Definition) -> bool:
    """True when reading the attribute calls the function."""
    return any(each.endswith("property") for each in definition.decorators)
