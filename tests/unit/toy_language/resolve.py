"""Binds toy calls: a name means the one function of that name in the repository."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from etl.languages.kit.values import CONFIDENCE
from etl.resolve.surface import surface
from etl.resolve.table import Binder, Bound, Key, Table

_REPOSITORY = "repository"  # the unit of all names: one file's functions are every file's


class ToyBinder:
    """See `etl.resolve.table.Binder`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._places: dict[str, list[tuple[int, int]]] = {}  # name → (file, definition)

    def put(self, file: int) -> None:
        for number, definition in enumerate(self._table.files[file].definitions[1:], 1):
            self._places.setdefault(definition.name, []).append((file, number))

    def drop(self, file: int) -> None:
        for number, definition in enumerate(self._table.files[file].definitions[1:], 1):
            self._places[definition.name].remove((file, number))

    def surface(self, file: int) -> Mapping[Key, object]:
        table = self._table
        said = surface(table.files[file], table.ids[file])
        return {(_REPOSITORY, name): what for name, what in said.items()}

    def shared(self, file: int) -> tuple[()]:
        del file
        return ()

    def bind(self, file: int, unresolved: Counter[str]) -> Iterator[Bound]:
        for reference in self._table.files[file].references:
            self._table.note(_REPOSITORY, reference.chain)
            places = self._places.get(reference.chain, ())
            if len(places) != 1:
                unresolved["unknown name"] += 1
            else:
                target = self._table.ids[places[0][0]][places[0][1]]
                sure = CONFIDENCE["local"]
                yield Bound("CALLS", reference.scope, target, reference.line, "local", sure)


def binder(table: Table) -> Binder:
    return ToyBinder(table)
