"""What a parameter may be: a pytest fixture's value, or what the repository's calls pass for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from posixpath import dirname
from typing import NamedTuple

from etl.facts import Argument, Chain, Definition
from etl.languages.python.resolve_operations import Operations
from etl.languages.python.resolve_questions import Names
from etl.languages.python.resolve_values import (
    Box,
    External,
    Function,
    Instance,
    OwnClass,
    Returning,
    Super,
    Symbol,
    Value,
    Values,
    union,
)
from etl.resolve.questions import Finder

MAX_PASSED = 8  # different things passed to one parameter, beyond which it is anything
_MAX_SITES = 40  # calls of a function whose arguments are looked at
_EMPTY: Values = ()

# What a binder's passes know: the bases of classes; what names tell; what calls pass, too.
BASES, NAMES, WITH_ARGUMENTS = range(3)


class Passed(NamedTuple):
    """The arguments of one call of a function of the repository, in the file of the call."""

    scope: int
    line: int
    arguments: tuple[Argument, ...]
    skip: int  # leading ones that are no parameter: the receiver of `Class.method(self, …)`


class Parameters:
    """Answers for the parameters of all functions; calls are known from the second pass on."""

    def __init__(self, infer: Names, operations: Operations) -> None:
        self._infer = infer
        self._operations = operations
        self._table = infer.table
        self._questions = infer.questions
        self._passed: list[dict[Symbol, list[Passed]]] = []  # by the file of the calls
        self._callers: dict[Symbol, dict[int, int]] = {}  # function → file → how many calls

    def finders(self) -> dict[str, Finder]:
        """See `Inference.finders`."""
        return {"fixture": self._fixture_of, "passed": self._passed_by, "callers": self._called_by,
                "path": self._table.by_path.get}  # fmt: skip

    def note(self, file: int, passed: dict[Symbol, list[Passed]]) -> set[Symbol]:
        """What the calls in a file pass, by function. Returns the functions of which that is another."""
        while len(self._passed) <= file:
            self._passed.append({})
        before = self._passed[file]
        self._passed[file] = passed
        changed = set()
        for symbol in before.keys() | passed.keys():
            count = len(passed.get(symbol, ()))
            if count != len(before.get(symbol, ())):
                changed.add(symbol)
            callers = self._callers.setdefault(symbol, {})
            if count:
                callers[file] = count
            else:
                callers.pop(file, None)
                if not callers:
                    del self._callers[symbol]
        return changed

    def value(self, file: int, scope: int, name: str, annotation: str) -> Values:
        """By its annotation; a test's by its fixture; else, in the second pass, by what is passed."""
        values: Values = _EMPTY
        if annotation:
            values = self._infer.annotation(
                file, self._table.files[file].definitions[scope].parent, annotation
            )
        else:
            values = self._fixture(file, scope, name)
        if self._questions.mode == WITH_ARGUMENTS and all(
            isinstance(v, External | Returning) for v in values
        ):
            return self._arguments(file, scope, name) or values
        return values

    def _arguments(self, file: int, scope: int, name: str) -> Values:
        """What the repository's calls pass for a parameter; nothing when it is too many things."""
        symbol = self._table.symbol(file, scope)
        callers = self._questions.world(("callers", symbol))
        tests = self._table.is_test_file
        if not tests(file):
            callers = [each for each in callers if not tests(each[0])] or callers
        position = self._table.scopes[file].parameters[scope].index(name)
        found: dict[Value, None] = {}
        left = _MAX_SITES
        for caller, calls in callers:
            if left <= 0:
                break
            key = ("passed", symbol, position, name, min(left, calls))
            found |= dict.fromkeys(self._questions.ask(caller, key))
            left -= calls
        return tuple(found) if len(found) <= MAX_PASSED else _EMPTY

    def _called_by(self, symbol: Symbol) -> list[tuple[int, int]]:
        """A question about the repository: the files that call a function, and how often each."""
        callers = self._callers.get(symbol, {})
        return [(slot, callers[slot]) for slot in self._table.in_order(callers)]

    def _passed_by(self, file: int, symbol: Symbol, position: int, name: str, most: int) -> Values:
        """What the first calls in a file pass for a parameter."""
        found: dict[Value, None] = {}
        for site in self._passed[file].get(symbol, ())[:most]:
            chain = _argument(site.arguments, position + site.skip, name)
            if not chain:
                continue
            for value in self._infer.chain(file, site.scope, chain, site.line):
                if isinstance(value, Instance) and value.own:
                    value = value.cls.instance
                elif isinstance(value, OwnClass):
                    value = value.cls
                if not isinstance(value, External | Super):
                    found[value] = None
        return tuple(found)

    def _fixture(self, file: int, scope: int, name: str) -> Values:
        """A pytest fixture's value, for a parameter of a test or of another fixture."""
        definition = self._table.files[file].definitions[scope]
        if not definition.is_test and not _is_fixture(definition):
            return _EMPTY
        members = self._table.members(file)
        for place in (definition.parent, 0):
            number = members.get(place, {}).get(name)
            if number is None or number == scope:
                continue
            if _is_fixture(self._table.files[file].definitions[number]):
                return self._fixture_value(file, number)
        for where in self._fixture_files(file):
            values: Values | None = self._questions.ask(where, ("fixture", name))
            if values is not None:
                return values
        return _EMPTY

    def _fixture_of(self, file: int, name: str) -> Values | None:
        """The value of a fixture that a file defines at the top; None when it has none of that name."""
        number = self._table.members(file).get(0, {}).get(name)
        if number is None or not _is_fixture(self._table.files[file].definitions[number]):
            return None
        return self._fixture_value(file, number)

    def _fixture_files(self, file: int) -> Iterator[int]:
        """The `conftest.py` of the file's folder and of those above it, but the file itself."""
        folder = dirname(self._table.files[file].path)
        while True:
            path = f"{folder}/conftest.py" if folder else "conftest.py"
            near: int | None = self._questions.world(("path", path))
            if near is not None and near != file:
                yield near
            if not folder:
                return
            folder = dirname(folder)

    def _fixture_value(self, file: int, number: int) -> Values:
        defined = self._infer.defined(file, number)[0]
        if not isinstance(defined, Function):
            return _EMPTY
        values = self._operations.returns(defined.symbol)
        if number in self._table.scopes[file].yields:
            return union(*(v.element for v in values if isinstance(v, Box)))
        return values


def _argument(arguments: Sequence[Argument], position: int, name: str) -> Chain:
    """The chain passed for a parameter, by keyword or position; "" when the call doesn't tell."""
    found = ""
    for number, each in enumerate(arguments):
        if each.keyword:
            if each.keyword == name:
                return each.chain
        elif each.is_starred:
            position = -1
        elif number == position:
            found = each.chain
    return found


def _is_fixture(definition: Definition) -> bool:
    return any("fixture" in each for each in definition.decorators)
