"""Binds what languages without extracted uses declare: base types, where it is sure which are meant.

A base is looked for by its last name among the types of its language: in its own file, then in its
package, then in the repository, and only one may fit at the first place where any does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from etl.facts import Definition
from etl.languages.kit.values import CONFIDENCE
from etl.languages.registry import language
from etl.resolve.table import CLASSES, Bound, Key, Table
from plait.domain.graph import Relation

_Place = tuple[int, int]  # file, definition
_Type = tuple[str, str]  # group, name


class DeclaredBinder:
    """The binder of files of which only definitions were read: INHERITS and nothing else."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._types: dict[_Type, list[_Place]] = {}

    def put(self, file: int) -> None:
        """See `etl.resolve.table.Binder.put`."""
        for number, type_ in self._defined(file):
            self._types.setdefault(type_, []).append((file, number))

    def drop(self, file: int) -> None:
        """See `etl.resolve.table.Binder.drop`."""
        for number, type_ in self._defined(file):
            self._types[type_].remove((file, number))

    def _defined(self, file: int) -> Iterator[tuple[int, _Type]]:
        facts = self._table.files[file]
        group = _group(facts.language)
        for number, definition in enumerate(facts.definitions):
            if definition.kind in CLASSES:
                yield number, (group, definition.name)

    def surface(self, file: int) -> dict[Key, object]:
        """See `etl.resolve.table.Binder.surface`: types by group and name."""
        table = self._table
        facts = table.files[file]
        found: dict[Key, list[Hashable]] = {}
        for number, type_ in self._defined(file):
            qualname = facts.definitions[number].qualname
            what = (table.ids[file][number], table.names[file][number], qualname, facts.module)
            found.setdefault(type_, []).append((facts.path, *what))
        return dict(found)

    def shared(self, file: int) -> tuple[()]:
        """See `etl.resolve.table.Binder.shared`: nothing."""
        del file
        return ()

    def bind(self, file: int, unresolved: Counter[str]) -> Iterator[Bound]:
        """See `etl.resolve.table.Binder.bind`."""
        for number, definition in enumerate(self._table.files[file].definitions):
            for base in definition.bases:
                found, rule = self._base(file, definition, base)
                if len(found) == 1 and found[0] != (file, number):
                    target = self._table.ids[found[0][0]][found[0][1]]
                    line = definition.start_line
                    sure = CONFIDENCE[rule]
                    yield Bound(Relation.INHERITS.value, number, target, line, rule, sure)
                else:
                    unresolved["ambiguous" if len(found) > 1 else "external"] += 1

    def _base(self, file: int, definition: Definition, base: str) -> tuple[Sequence[_Place], str]:
        """The types that `base` may be, from the nearest place that has any, and the rule."""
        facts = self._table.files[file]
        group = _group(facts.language)
        name = base.rpartition(".")[2]
        self._table.note(group, name)
        all_ = [
            place
            for place in self._types.get((group, name), ())
            if self._fits(place, base) and self._qualname(place) != definition.qualname
        ]
        own = [place for place in all_ if place[0] == file]
        if own:
            return own, "local"
        package = [p for p in all_ if self._table.files[p[0]].module == facts.module]
        if package:
            return package, "package"
        if not self._table.is_test_file(file):
            all_ = [p for p in all_ if not self._table.is_test_file(p[0])]
        return all_, "type"

    def _qualname(self, place: _Place) -> str:
        return self._table.files[place[0]].definitions[place[1]].qualname

    def _fits(self, place: _Place, base: str) -> bool:
        """True when the type's full name ends with the base as it is written."""
        return f".{self._table.names[place[0]][place[1]]}".endswith(f".{base}")


def _group(id_: str) -> str:
    """Languages of one group see each other's types; one without a group sees its own."""
    return language(id_).group or id_


def binder(table: Table) -> DeclaredBinder:
    return DeclaredBinder(table)
