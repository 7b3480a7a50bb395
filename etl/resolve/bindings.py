"""What is bound in a repository, kept up to date with its files' facts.

Python's binder follows a change to what it can touch. Those of the other languages are made anew, with
all files of their family, when one of them changed; families without a changed file are left alone.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from etl.facts import FileFacts
from etl.languages.names import is_test_path
from etl.languages.registry import language
from etl.resolve.ids import Ids
from etl.resolve.parts import FilePart, code_part
from etl.resolve.table import Binder, Bound, IncrementalBinder, Table

_ANSWER_BYTES = 400  # of an answer with its links, about
_FACTS_BYTES = 8  # in memory, for each byte of a source file, about


class Bindings:
    """The bindings of all code files. `track` False: `update` is called once, and takes less."""

    def __init__(self, repo: str, *, track: bool = True) -> None:
        self._ids = Ids(repo)
        self._track = track
        self._facts: dict[str, FileFacts] = {}
        self._families: dict[str, IncrementalBinder] = {}
        self._tests: dict[str, bool] = {}

    @property
    def facts(self) -> Mapping[str, FileFacts]:
        """The facts of every code file, by path."""
        return self._facts

    @property
    def size(self) -> int:
        """About how many bytes of memory this takes."""
        source = sum(f.definitions[0].end_byte for f in self._facts.values() if f.definitions)
        answers = sum(family.size for family in self._families.values())
        return source * _FACTS_BYTES + answers * _ANSWER_BYTES

    def update(self, changed: Mapping[str, FileFacts], removed: Iterable[str]) -> set[str]:
        """Bind files that are new or changed, and whatever that can touch.

        Returns the paths of all files whose part may be another than before. Those of removed files
        are not among them. When it raises, the object can't be used any more.
        """
        gone = {path for path in removed if path in self._facts and path not in changed}
        with collector_off():
            others = self._ids.update(dict(changed), gone)
            by_family: dict[str, tuple[dict[str, FileFacts], set[str]]] = {}
            for path in gone:
                family = language(self._facts.pop(path).language).family
                by_family.setdefault(family, ({}, set()))[1].add(path)
                self._tests.pop(path, None)
            for path, facts in changed.items():
                before = self._facts.get(path)
                family = language(facts.language).family
                if before is not None and language(before.language).family != family:
                    old = language(before.language).family
                    by_family.setdefault(old, ({}, set()))[1].add(path)
                self._facts[path] = facts
            for path in changed.keys() | others:
                facts = self._facts[path]
                family = language(facts.language).family
                by_family.setdefault(family, ({}, set()))[0][path] = facts
            found = set(changed) | others
            for family, (new, old_paths) in sorted(by_family.items()):
                found |= self._family(family, new).update(new, old_paths)
        return found

    def part(self, path: str) -> FilePart:
        """A file's part of the graph."""
        facts = self._facts[path]
        unresolved: Counter[str] = Counter()
        binder = self._families[language(facts.language).family]
        bound = binder.bound(path, unresolved)
        return code_part(self._ids, facts, bound, unresolved, self._is_test_file)

    def _is_test_file(self, path: str) -> bool:
        known = self._tests.get(path)
        if known is None:
            known = self._tests[path] = is_test_path(path, self._facts[path].language)
        return known

    def _family(self, family: str, files: Mapping[str, FileFacts]) -> IncrementalBinder:
        binder = self._families.get(family)
        if binder is None:  # its first files
            line = language(next(iter(files.values())).language)
            module = import_module(line.resolver) if line.is_code else None
            if module is not None and hasattr(module, "incremental"):
                binder = module.incremental(self._ids, self._track)
            else:
                binder = _Whole(module, self._ids)
            self._families[family] = binder
        return binder


class _Whole:
    """`IncrementalBinder` by a binder that is made anew for each change of a file of its family."""

    def __init__(self, module: ModuleType | None, ids: Ids) -> None:
        self._module = module
        self._ids = ids
        self._facts: dict[str, FileFacts] = {}
        self._table = Table([], ids)
        self._binder: Binder | None = None

    @property
    def size(self) -> int:
        return len(self._facts)

    def update(self, changed: Mapping[str, FileFacts], removed: Iterable[str]) -> set[str]:
        for path in removed:
            self._facts.pop(path, None)
        self._facts |= changed
        self._table = Table(list(self._facts.values()), self._ids)
        self._binder = self._module.binder(self._table) if self._module is not None else None
        return set(self._facts)

    def bound(self, path: str, unresolved: Counter[str]) -> Iterable[Bound]:
        if self._binder is None:
            return ()
        return self._binder.bind(self._table.by_path[path], unresolved)


@contextmanager
def collector_off() -> Iterator[None]:
    """No cyclic garbage collection in the block: what is bound is large and lives on, and looking for
    cycles in it costs half as much again as resolving. Behind it all is old, what a service froze too: the
    next collection of the young would otherwise look through everything that the block made."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.unfreeze()
            gc.enable()
