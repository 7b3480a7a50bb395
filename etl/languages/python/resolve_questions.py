"""What the parts of inference ask of each other, so that none of them imports the whole."""

from __future__ import annotations

from typing import Protocol

from etl.facts import Chain
from etl.languages.python.resolve_program import Program
from etl.languages.python.resolve_values import Module, Values
from etl.resolve.questions import Questions


class Names(Protocol):
    """What the parts of inference need to know of names, in any file (a slot of the program)."""

    table: Program
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
