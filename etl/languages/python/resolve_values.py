"""What a Python expression may be, as far as it is known: the resolver's abstract values.

Each class, function and module of the repository is one object, also across changes of its file; what
is made of others (`Box`, `Super`) is equal when they are. A set of alternatives is a tuple in the order found; the empty tuple means that nothing is known.
"""

from __future__ import annotations

from etl.facts import Definition


class Value:
    """Base of the alternatives."""

    __slots__ = ()


Values = tuple[Value, ...]


class External(Value):
    """Something from outside the repository; what it gives is external too."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


EXTERNAL = External("external")
BUILTIN = External("builtin")


class Module(Value):
    """A module or package, one object each. `file` is None for a namespace package."""

    __slots__ = ("file", "name")

    def __init__(self, name: str, file: int | None) -> None:
        self.name = name
        self.file = file


class Symbol:
    """A function's place: kept while its file has a definition of that qualified name."""

    __slots__ = ("definition", "file", "functions", "id", "is_gone", "number")

    def __init__(self, file: int, number: int, definition: Definition, id_: str) -> None:
        self.place(file, number, definition, id_)
        self.is_gone = False
        self.functions: dict[Value | None, Function] = {}  # by receiver

    def place(self, file: int, number: int, definition: Definition, id_: str) -> None:
        self.file = file
        self.number = number
        self.definition = definition
        self.id = id_

    def function(self, receiver: Value | None = None) -> Function:
        """The function as looked up on `receiver`, one object each."""
        known = self.functions.get(receiver)
        if known is None:
            known = self.functions[receiver] = Function(self, receiver)
        return known


class Class(Value):
    """A class of the repository, one object while its file defines it.

    `bases`, `mro` and what follows from them are filled by `resolve_classes.Classes`.
    """

    __slots__ = (
        "attrs",
        "bases",
        "definition",
        "external",
        "file",
        "id",
        "instance",
        "is_gone",
        "made",
        "members",
        "metaclass",
        "mro",
        "number",
        "own",
        "own_external",
        "own_instance",
        "own_metaclass",
        "subclasses",
    )

    def __init__(self, file: int, number: int, definition: Definition, id_: str) -> None:
        self.is_gone = False
        self.place(file, number, definition, id_)
        self.bases: list[Class] = []  # of this repository
        self.own_external = False
        self.own_metaclass = False
        self.external = False  # a base is not of this repository
        self.metaclass = False
        self.mro: tuple[Class, ...] = (self,)
        self.subclasses: dict[Class, None] = {}  # direct ones
        self.instance = Instance(self)
        self.own = OwnClass(self)
        self.own_instance = Instance(self, own=True)
        self.made = Instance(self, exact=True)

    def place(self, file: int, number: int, definition: Definition, id_: str) -> None:
        self.file = file
        self.number = number
        self.definition = definition
        self.id = id_
        self.members: dict[str, int] = {}
        self.attrs: dict[str, list[int]] = {}  # name → bindings of the file


class Instance(Value):
    """An instance of a class of the repository, or of a subclass unless `exact`. `own`: it is `self`."""

    __slots__ = ("cls", "exact", "own")

    def __init__(self, cls: Class, own: bool = False, exact: bool = False) -> None:
        self.cls = cls
        self.own = own
        self.exact = exact


class OwnClass(Value):
    """`cls` in a method of `cls`: the class or a subclass."""

    __slots__ = ("cls",)

    def __init__(self, cls: Class) -> None:
        self.cls = cls


class Function(Value):
    """A function or method of the repository; `receiver` is what it was looked up on."""

    __slots__ = ("receiver", "symbol")

    def __init__(self, symbol: Symbol, receiver: Value | None) -> None:
        self.symbol = symbol
        self.receiver = receiver


class _Equal(Value):
    """Equal to another of the same content, so that no answer depends on when it was found."""

    __slots__ = ("_content", "_hash")

    def __init__(self, content: tuple[object, ...]) -> None:
        self._content = content
        self._hash = hash(content)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and isinstance(other, _Equal)
            and self._hash == other._hash
            and self._content == other._content
        )


class Super(_Equal):
    """`super()` in a method of `cls`."""

    __slots__ = ("cls",)

    def __init__(self, cls: Class) -> None:
        super().__init__((cls,))
        self.cls = cls


class Box(_Equal):
    """A container, iterator or context manager: only what it holds is known."""

    __slots__ = ("element",)

    def __init__(self, element: Values) -> None:
        super().__init__(element)
        self.element = element


class Returning(_Equal):
    """Something callable of which only the result is known."""

    __slots__ = ("result",)

    def __init__(self, result: Values) -> None:
        super().__init__(result)
        self.result = result


class BoxMethod(_Equal):
    """A method of a container that gives its elements (`gives` "element") or another container."""

    __slots__ = ("box", "gives")

    def __init__(self, box: Box, gives: str) -> None:
        super().__init__((box, gives))
        self.box = box
        self.gives = gives


# Methods of lists, dicts, sets and iterators by what they give back.
BOX_METHODS = {
    **dict.fromkeys(("get", "pop", "setdefault", "popleft", "__getitem__", "__next__"), "element"),
    **dict.fromkeys(("values", "copy", "union", "__iter__", "intersection", "difference"), "box"),
}


def union(*many: Values) -> Values:
    """The alternatives of all, each once, in order."""
    found: dict[Value, None] = {}
    for values in many:
        for value in values:
            found[value] = None
    return tuple(found)
