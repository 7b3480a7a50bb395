"""Chains: expressions as paths of steps, in a notation that only this module writes and reads.

    a.b().c       the member c of what calling the member b of a gives
    items[].run   the member run of an element of items
    Foo().bar     the member bar of an instance, for calling a class makes one
    str().join    a literal is the call of its type
    ?.close       `?` stands for what has no known name

A chain is one string in the store and in memory: as tuples of steps, Django's references took 30 % more
time to decode and 36 % more memory. `steps` splits it, once for each different chain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeVar

from tree_sitter import Node

from etl.facts import Chain

UNKNOWN = "?"
CALL, ELEMENT = "()", "[]"
MAX_SEGMENTS = 12  # a longer chain loses its head; nobody writes one, generated code does
_MAX_STEPS = 3 * MAX_SEGMENTS  # syntax nodes that are looked at for one chain
_MAX_CHAIN = 400  # characters
_SHORT = 60  # characters of a chain that can't be too long
_STEP = re.compile(r"\(\)|\[\]|[^.()\[\]]+")
_HEAD = re.compile(r"^([^.()\[\]]*)((?:\(\)|\[\])*)")

Key = TypeVar("Key")
Notes = TypeVar("Notes", bound="Trail")


class Trail:
    """A chain as it is read off an expression: from its last step to its head."""

    __slots__ = ("segments", "suffix")

    def __init__(self) -> None:
        self.segments: list[str] = []  # the last one first
        self.suffix = ""  # calls and elements of what is read next

    def member(self, name: str) -> None:
        """What was read so far is of the member `name` of what comes next."""
        self.segments.append(name + self.suffix)
        self.suffix = ""

    def call(self) -> None:
        """What was read so far is of the result of calling what comes next."""
        self.suffix = CALL + self.suffix

    def element(self) -> None:
        """What was read so far is of an element of what comes next."""
        self.suffix = ELEMENT + self.suffix

    def headed(self, head: Chain) -> Chain:
        """The chain from `head` on."""
        return self._joined(head + self.suffix)

    def typed(self, type_: str) -> Chain:
        """The chain from an instance of `type_` on; without a type nothing is known of the head."""
        return self._joined(join(instance(type_), self.suffix)) if type_ else self.unknown()

    def unknown(self) -> Chain:
        """The chain from a head without a name on."""
        return self._joined(UNKNOWN)

    def _joined(self, head: str) -> Chain:
        return ".".join((head, *reversed(self.segments))) if self.segments else head


# Notes a syntax node in the trail, and gives the node that comes next in the chain, or the whole chain.
Reader = Callable[[Node, Notes], Node | Chain | None]


def read(
    node: Node | None,
    readers: Mapping[Key, Reader[Notes]],
    kind_of: Callable[[Node], Key],
    trail: Notes,
    max_steps: int = _MAX_STEPS,
    max_segments: int = MAX_SEGMENTS,
) -> Chain:
    """The chain of any expression; `readers` by kinds of nodes, anything else has no name.

    Iterative and bounded: `a.b().c()…` of any length costs `max_steps` steps.
    """
    for _ in range(max_steps):
        if node is None or len(trail.segments) > max_segments:
            del trail.segments[1:]
            break
        reader = readers.get(kind_of(node))
        if reader is None:
            break
        found = reader(node, trail)
        if isinstance(found, str):
            return found
        node = found
    return trail.unknown()


@lru_cache(maxsize=65536)
def steps(chain: Chain) -> tuple[str, ...]:
    """`a.b()[].c` → `("a", "b", "()", "[]", "c")`."""
    return tuple(_STEP.findall(chain))


def split_head(chain: Chain) -> tuple[str, str, str]:
    """`a()[].b.c` → `("a", "()[]", ".b.c")`."""
    match = _HEAD.match(chain)
    if match is None:  # for the type checker: every part of the pattern may be empty
        return chain, "", ""
    return match.group(1), match.group(2), chain[match.end() :]


def is_unknown(chain: Chain) -> bool:
    """True when nothing is known of the head."""
    return chain.startswith(UNKNOWN)


def is_whole(chain: Chain) -> bool:
    """True when every step has a name."""
    return UNKNOWN not in chain


def is_result(chain: Chain) -> bool:
    """True for what a call gives, and for an element: neither is a function by its name."""
    return chain.endswith((CALL, ELEMENT))


def member(chain: Chain, name: str) -> Chain:
    return f"{chain}.{name}"


def called(chain: Chain) -> Chain:
    """What calling it gives."""
    return chain + CALL


def element(chain: Chain) -> Chain:
    """An element of it; of an unknown thing, something unknown."""
    return UNKNOWN if is_unknown(chain) else join(chain, ELEMENT)


def instance(type_: str) -> Chain:
    """An instance of `Foo`; for `Foo[]` a collection whose elements are some."""
    return type_ + CALL


def collection(type_: str) -> str:
    """The type of a collection of `type_`."""
    return type_ + ELEMENT


def held(type_: str) -> tuple[str, int]:
    """`Foo[][]` → `("Foo", 2)`: a type's own name, and how deep it is in collections."""
    return type_.replace(ELEMENT, ""), type_.count(ELEMENT)


def join(chain: Chain, suffix: str) -> Chain:
    """`Foo[]()` + `[]` is `Foo()`: an element of a list of Foo is a Foo."""
    while suffix.startswith(ELEMENT) and chain.endswith(ELEMENT + CALL):
        chain, suffix = chain[: -len(ELEMENT + CALL)] + CALL, suffix[len(ELEMENT) :]
    return chain + suffix


def shorten(chain: Chain) -> Chain:
    """A chain of at most MAX_SEGMENTS segments: what is cut off is not known any more."""
    if len(chain) <= _SHORT:
        return chain
    parts = chain.split(".")
    if len(parts) <= MAX_SEGMENTS and len(chain) <= _MAX_CHAIN:
        return chain
    return f"{UNKNOWN}.{parts[-1][:80]}"
