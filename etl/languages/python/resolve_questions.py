"""Questions that lead to questions: answers are stored, and a cycle gives nothing for the inner one.

An empty answer that such a cut may have caused is not stored: the next question looks for it again.
Also what the parts of inference ask of each other, so that none of them imports the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol, TypeVar

from etl.facts import Chain
from etl.languages.python.resolve_classes import Classes
from etl.languages.python.resolve_scopes import Scopes
from etl.languages.python.resolve_values import PENDING, Module, Values
from etl.resolve.table import Table

_MAX_DEPTH = 40  # of questions that lead to questions; each costs some ten Python frames
_MAX_TRIES = 4  # of a question whose answer was cut short by a cycle

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer", Values, Values | None)


class Questions:
    """Counts how deep questions are, and how often one was cut short."""

    def __init__(self) -> None:
        self._depth = 0
        self._cuts = 0  # questions answered "nothing" because of a cycle, or of the depth
        self._tries: dict[tuple[int, Hashable], int] = {}

    def answer(
        self, stored: dict[Key, Answer], key: Key, find: Callable[[], Answer], nothing: Answer
    ) -> Answer:
        """The answer stored under `key`, else what `find` gives; `nothing` in a cycle, or too deep."""
        if key in stored:
            known = stored[key]
            if known is not PENDING:
                return known
            self._cuts += 1
            return nothing
        if self._depth >= _MAX_DEPTH:
            self._cuts += 1
            return nothing
        before = self._cuts
        self._depth += 1
        stored[key] = PENDING
        values = find()
        self._depth -= 1
        if values or self._cuts == before or self._depth == 0 or self._tried((id(stored), key)):
            stored[key] = values
        else:
            del stored[key]
        return values

    def _tried(self, question: tuple[int, Hashable]) -> bool:
        """True when a question was cut short so often that its answer may as well be stored."""
        tries = self._tries[question] = self._tries.get(question, 0) + 1
        return tries > _MAX_TRIES

    def begin_again(self) -> None:
        """Forget how often questions were cut short: more is known now."""
        self._tries.clear()


def forget_unknown(stored: dict[Key, Answer]) -> None:
    """Look again for whatever had no answer."""
    for key in [key for key, values in stored.items() if not values]:
        del stored[key]


class Names(Protocol):
    """What the parts of inference need to know of names, in any file (an index of `table.files`)."""

    table: Table
    classes: Classes
    scopes: Sequence[Scopes]
    questions: Questions

    def chain(self, file: int, scope: int, chain: Chain, line: int) -> Values:
        """What a chain may be when evaluated in `scope` on `line` (0: at any time)."""
        ...

    def binding(self, file: int, number: int) -> Values:
        """What a binding gives its name."""
        ...

    def defined(self, file: int, number: int) -> Values:
        """The class or function of a definition."""
        ...

    def annotation(self, file: int, scope: int, text: str) -> Values:
        """The instances that an annotation written in `scope` allows."""
        ...

    def module_attribute(self, module: Module, name: str) -> Values:
        """A module's name as seen from outside: its own, or its submodule."""
        ...
