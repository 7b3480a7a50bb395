"""Binds toy calls: a name means the one function of that name in the repository."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from etl.languages.kit.values import CONFIDENCE
from etl.resolve.table import Binder, Bound, Table


class ToyBinder:
    """See `etl.resolve.table.Binder`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._ids = {
            definition.name: id_
            for facts, ids in zip(table.files, table.ids, strict=True)
            for definition, id_ in zip(facts.definitions[1:], ids[1:], strict=True)
        }

    def bind(self, file: int, unresolved: Counter[str]) -> Iterator[Bound]:
        for reference in self._table.files[file].references:
            target = self._ids.get(reference.chain)
            if target is None:
                unresolved["unknown name"] += 1
            else:
                sure = CONFIDENCE["local"]
                yield Bound("CALLS", reference.scope, target, reference.line, "local", sure)


def binder(table: Table) -> Binder:
    return ToyBinder(table)
