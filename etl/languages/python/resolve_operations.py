"""What attributes, calls and iteration give on the resolver's abstract values."""

from __future__ import annotations

from functools import partial

from etl.facts import Definition, SymbolKind
from etl.languages.kit.chains import called
from etl.languages.python.resolve_questions import Names, forget_unknown
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
    Value,
    Values,
    union,
)

_MAX_ALTERNATIVES = 6
_EMPTY: Values = ()


class Operations:
    """Works out one step of a chain at a time; `infer` knows names, bindings and annotations."""

    def __init__(self, infer: Names) -> None:
        self._infer = infer
        self._table = infer.table
        self._classes = infer.classes
        self._returns: dict[tuple[int, int], Values] = {}
        self._decorations: dict[tuple[int, int], Values] = {}

    def forget_unknown(self) -> None:
        """Look again for whatever had no answer."""
        forget_unknown(self._returns)
        forget_unknown(self._decorations)
        for cls in self._classes.by_place.values():
            forget_unknown(cls.seen)

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
        key = (function.file, function.number)
        ask = self._infer.questions.answer
        return ask(self._decorations, key, partial(self._decoration, function), _EMPTY)

    def _decoration(self, function: Function) -> Values:
        definition = function.definition
        written = called(definition.decorators[0])
        made = self._infer.chain(function.file, definition.parent, written, definition.start_line)
        return tuple(value for value in made if isinstance(value, Instance))

    def wrappers(self, function: Function) -> list[Function]:
        """What really runs when a decorated function is called: functions its decorators define."""
        found: list[Function] = []
        definition = function.definition
        for written in definition.decorators[:4]:
            scope, line = definition.parent, definition.start_line
            for decorator in self._infer.chain(function.file, scope, written, line):
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
        find = partial(self._in_mro, cls, cls.mro, name, receiver)
        return self._infer.questions.answer(cls.seen, key, find, _EMPTY)

    def _in_mro(self, cls: Class, mro: tuple[Class, ...], name: str, receiver: Value) -> Values:
        """An attribute as the first class of `mro` that knows it has it."""
        present = False
        for each in mro:
            number = each.members.get(name)
            if number is not None:
                return self._member(each, number, receiver)
            if name in each.attrs:
                present = True
                values = union(*(self._infer.binding(each.file, i) for i in each.attrs[name]))
                if values:
                    return tuple(
                        v.cls.instance if isinstance(v, Instance) and v.own else v for v in values
                    )
        if not present and cls.external:
            return (EXTERNAL,)
        return _EMPTY

    def _member(self, owner: Class, number: int, receiver: Value) -> Values:
        definition = self._table.files[owner.file].definitions[number]
        if definition.kind is SymbolKind.CLASS:
            return self._infer.defined(owner.file, number)
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
        find = partial(self._returned, file, number)
        return self._infer.questions.answer(self._returns, (file, number), find, _EMPTY)

    def _returned(self, file: int, number: int) -> Values:
        definition = self._table.files[file].definitions[number]
        declared: Values = _EMPTY
        known = False
        if definition.returns:
            declared = self._infer.annotation(file, definition.parent, definition.returns)
            known = any(not isinstance(value, External) for value in declared)
            if known and "Callable" not in definition.returns:
                return declared
        scopes = self._infer.scopes[file]
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
