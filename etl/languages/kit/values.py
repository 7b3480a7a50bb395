"""What the binders of brace languages share: reading chains, and the values they stand for."""

from __future__ import annotations

from typing import NamedTuple

# Certainty by rule. The names follow Python's; the figures are what hand-checking samples suggested,
# rounded down, so that an edge found by types ranks below one found by scope.
CONFIDENCE = {
    "local": 1.0,
    "import": 1.0,
    "constructor": 0.98,
    "self": 0.98,
    "super": 0.98,
    "class": 0.98,
    "module": 1.0,
    "package": 1.0,
    "type": 0.95,
    "jsx": 0.98,
    "decorator": 0.98,
    "callback": 0.9,
    "reference": 0.9,
    "overload": 0.8,
}

MAX_DEPTH = (
    12  # names behind names behind names; deeper is a loop, or nothing a reader would follow
)


class Value(NamedTuple):
    """What a chain stands for.

    `kind`: "definition" (a function, a class), "instance" (of the class `number`), "module" (the file
    as a namespace), "object" (`path` of `file`, a variable with named members), "fail" (`path` says why).
    "foreign" is an instance of a type that is not of this repository (`path` is its name).
    `many`: it is a collection, nested so deep, of that.
    """

    kind: str
    file: int = -1
    number: int = -1
    path: str = ""
    many: int = 0


EXTERNAL = Value("fail", path="external")
BUILTIN = Value("fail", path="builtin")
UNKNOWN_RECEIVER = Value("fail", path="unknown receiver")
UNKNOWN_NAME = Value("fail", path="unknown name")
UNKNOWN_ATTRIBUTE = Value("fail", path="unknown attribute")
AMBIGUOUS = Value("fail", path="ambiguous")
