"""What is bound in a repository, kept up to date with its files' facts.

Each family's binder follows a change to what it can touch: Python's by the questions that it asks
(`etl.resolve.questions`), the others by the names that a file looks up (`etl.resolve.followed`).
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module

from etl.facts import FileFacts
from etl.languages.names import is_test_path
from etl.languages.registry import language
from etl.resolve.followed import FollowedBinder
from etl.resolve.ids import Ids
from etl.resolve.parts import FilePart, code_part
from etl.resolve.table import IncrementalBinder

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
            module = import_module(language(next(iter(files.values())).language).resolver)
            if hasattr(module, "incremental"):
                binder = module.incremental(self._ids, self._track)
            else:
                binder = FollowedBinder(module.binder, self._ids, track=self._track)
            self._families[family] = binder
        return binder


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
