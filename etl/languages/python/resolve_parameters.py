"""What a parameter may be: a pytest fixture's value, or what the repository's calls pass for it."""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import dirname
from typing import NamedTuple

from etl.facts import Argument, Chain, Definition
from etl.languages.python.resolve_operations import Operations
from etl.languages.python.resolve_questions import Names
from etl.languages.python.resolve_values import (
    Box,
    External,
    Instance,
    OwnClass,
    Returning,
    Super,
    Value,
    Values,
    union,
)

MAX_PASSED = 8  # different things passed to one parameter, beyond which it is anything
_MAX_SITES = 40  # calls of a function whose arguments are looked at
_EMPTY: Values = ()


class Passed(NamedTuple):
    """The arguments of one call of a function of the repository."""

    file: int
    scope: int
    line: int
    arguments: tuple[Argument, ...]
    skip: int  # leading ones that are no parameter: the receiver of `Class.method(self, …)`


class Parameters:
    """Answers for the parameters of all functions; calls are known once the first pass is done."""

    def __init__(self, infer: Names, operations: Operations) -> None:
        self._infer = infer
        self._operations = operations
        self._table = infer.table
        self.passed: dict[tuple[int, int], list[Passed]] = {}  # function → its calls
        self.arguments_known = False

    def value(self, file: int, scope: int, name: str, annotation: str) -> Values:
        """By its annotation; a test's by its fixture; else, in the second pass, by what is passed."""
        values: Values = _EMPTY
        if annotation:
            values = self._infer.annotation(
                file, self._table.files[file].definitions[scope].parent, annotation
            )
        else:
            values = self._fixture(file, scope, name)
        if self.arguments_known and all(isinstance(v, External | Returning) for v in values):
            return self._arguments(file, scope, name) or values
        return values

    def _arguments(self, file: int, scope: int, name: str) -> Values:
        """What the repository's calls pass for a parameter; nothing when it is too many things."""
        sites = self.passed.get((file, scope))
        if not sites:
            return _EMPTY
        tests = self._table.is_test_file
        if not tests(file):
            sites = [site for site in sites if not tests(site.file)] or sites
        position = self._infer.scopes[file].parameters[scope].index(name)
        found: dict[Value, None] = {}
        for site in sites[:_MAX_SITES]:
            chain = _argument(site.arguments, position + site.skip, name)
            if not chain:
                continue
            for value in self._infer.chain(site.file, site.scope, chain, site.line):
                if isinstance(value, Instance) and value.own:
                    value = value.cls.instance
                elif isinstance(value, OwnClass):
                    value = value.cls
                if not isinstance(value, External | Super):
                    found[value] = None
        return tuple(found) if len(found) <= MAX_PASSED else _EMPTY

    def _fixture(self, file: int, scope: int, name: str) -> Values:
        """A pytest fixture's value, for a parameter of a test or of another fixture."""
        facts = self._table.files[file]
        definition = facts.definitions[scope]
        if not definition.is_test and not _is_fixture(definition):
            return _EMPTY
        for where in self._fixture_files(file):
            members = self._table.members(where)
            places = (definition.parent, 0) if where == file else (0,)
            for place in places:
                number = members.get(place, {}).get(name)
                if number is None or (where == file and number == scope):
                    continue
                found = self._table.files[where].definitions[number]
                if _is_fixture(found):
                    return self._fixture_value(where, number)
        return _EMPTY

    def _fixture_files(self, file: int) -> list[int]:
        files, by_path = [file], self._table.by_path
        folder = dirname(self._table.files[file].path)
        while True:
            near = by_path.get(f"{folder}/conftest.py" if folder else "conftest.py")
            if near is not None and near != file:
                files.append(near)
            if not folder:
                return files
            folder = dirname(folder)

    def _fixture_value(self, file: int, number: int) -> Values:
        values = self._operations.returns(file, number)
        if number in self._infer.scopes[file].yields:
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
