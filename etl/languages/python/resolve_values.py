"""What a Python expression may be, as far as it is known: the resolver's abstract values.

Values are compared by identity: each class, function and module of the repository is one object. A set
of alternatives is a tuple in the order found; the empty tuple means that nothing is known.
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


PENDING: Values = (Value(),)  # being worked out: met again from below, it is a cycle


class Module(Value):
    """A module or package. `file` is None for a namespace package."""

    __slots__ = ("file", "name")

    def __init__(self, name: str, file: int | None) -> None:
        self.name = name
        self.file = file


class Class(Value):
    """A class of the repository; `bases` and `mro` are filled by `python_classes.Classes`."""

    __slots__ = (
        "attrs",
        "definition",
        "external",
        "file",
        "instance",
        "made",
        "members",
        "metaclass",
        "mro",
        "number",
        "own",
        "own_instance",
        "seen",
        "subclasses",
    )

    def __init__(self, file: int, number: int, definition: Definition) -> None:
        self.file = file
        self.number = number
        self.definition = definition
        self.members: dict[str, int] = {}
        self.attrs: dict[str, list[int]] = {}  # name → bindings of the file
        self.external = False  # a base is not of this repository
        self.metaclass = False
        self.mro: tuple[Class, ...] = (self,)
        self.subclasses: list[Class] = []  # direct ones
        self.instance = Instance(self)
        self.own = OwnClass(self)
        self.own_instance = Instance(self, own=True)
        self.made = Instance(self, exact=True)
        self.seen: dict[tuple[str, Value], Values] = {}  # (attribute, receiver) → what it is


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

    __slots__ = ("definition", "file", "number", "receiver")

    def __init__(
        self,
        file: int,
        number: int,
        definition: Definition,
        receiver: Value | None,
    ) -> None:
        self.file = file
        self.number = number
        self.definition = definition
        self.receiver = receiver


class Super(Value):
    """`super()` in a method of `cls`."""

    __slots__ = ("cls",)

    def __init__(self, cls: Class) -> None:
        self.cls = cls


class Box(Value):
    """A container, iterator or context manager: only what it holds is known."""

    __slots__ = ("element",)

    def __init__(self, element: Values) -> None:
        self.element = element


class Returning(Value):
    """Something callable of which only the result is known."""

    __slots__ = ("result",)

    def __init__(self, result: Values) -> None:
        self.result = result


class BoxMethod(Value):
    """A method of a container that gives its elements (`gives` "element") or another container."""

    __slots__ = ("box", "gives")

    def __init__(self, box: Box, gives: str) -> None:
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
