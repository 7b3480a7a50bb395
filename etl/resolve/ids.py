"""Node ids of definitions: who bears an id that several files claim."""

from __future__ import annotations

from collections.abc import Iterable

from etl.facts import FileFacts
from etl.languages.registry import DECLARED, language

_Rank = tuple[bool, str]  # languages with calls first, then by path


class Ids:
    """The ids of every file's definitions. `names` are qualified names; an id is one with the repository.

    Where files claim the same id, the first by `_Rank` has it and the others' end in `@path`.
    """

    def __init__(self, repo: str) -> None:
        self.repo = repo
        self._names: dict[str, list[str]] = {}
        self._ids: dict[str, list[str]] = {}
        self._rank: dict[str, _Rank] = {}
        self._ended: dict[str, str] = {}  # id that ends in a path → that path
        self._first: dict[str, str] = {}  # name → the path that bears it
        self._claims: dict[str, list[str]] = {}  # name → paths, of names that several claim

    def path_of(self, id_: str) -> str:
        """The file that defines a node; "" for none."""
        return self._first.get(id_[len(self.repo) + 1 :]) or self._ended.get(id_, "")

    def names(self, path: str) -> list[str]:
        return self._names[path]

    def ids(self, path: str) -> list[str]:
        return self._ids[path]

    def update(self, changed: dict[str, FileFacts], removed: set[str]) -> tuple[set[str], bool]:
        """Take files in and out. Returns the paths of which an id is another, the new ones with them; and whether a
        definition that was there before has another id, since files claim its name that did not, or don't any more."""
        touched: set[str] = set()
        moved = False
        for path in sorted(removed | (changed.keys() & self._names.keys())):
            for name in self._names.pop(path):
                touched |= self._release(name, path)
        for path in sorted(changed, key=lambda path: _rank(changed[path])):
            facts = changed[path]
            self._rank[path] = _rank(facts)
            prefix = f"{facts.module}."
            names = [prefix + d.qualname if d.qualname else facts.module for d in facts.definitions]
            self._names[path] = names
            for name in names:
                touched |= self._claim(name, path)
        found = set()
        for path in (touched & self._names.keys()) | changed.keys():
            ids = [self._id(name, path) for name in self._names[path]]
            before = self._ids.get(path)
            if ids != before:
                moved = moved or _moved(before or (), ids, path)
                self._end(before or (), ids, path)
                self._ids[path] = ids
                found.add(path)
        for path in removed - changed.keys():
            self._end(self._ids.pop(path, ()), (), path)
            self._rank.pop(path, None)
        return found, moved

    def _end(self, before: Iterable[str], now: Iterable[str], path: str) -> None:
        ending = f"@{path}"
        for id_ in before:
            if id_.endswith(ending):
                self._ended.pop(id_, None)
        for id_ in now:
            if id_.endswith(ending):
                self._ended[id_] = path

    def _id(self, name: str, path: str) -> str:
        return f"{self.repo}:{name}" if self._first[name] == path else f"{self.repo}:{name}@{path}"

    def _claim(self, name: str, path: str) -> set[str]:
        first = self._first.get(name)
        if first is None:
            self._first[name] = path
            return set()
        paths = self._claims.setdefault(name, [first])
        if path not in paths:
            paths.append(path)
        return self._decide(name)

    def _release(self, name: str, path: str) -> set[str]:
        paths = self._claims.get(name)
        if paths is None:
            self._first.pop(name, None)
            return set()
        if path in paths:
            paths.remove(path)
        return self._decide(name)

    def _decide(self, name: str) -> set[str]:
        paths = self._claims[name]
        before = self._first.get(name)
        if not paths:
            del self._claims[name]
            del self._first[name]
            return set()
        first = min(paths, key=lambda path: self._rank[path])
        self._first[name] = first
        if len(paths) == 1:
            del self._claims[name]
        return {first, before} if before is not None and first != before else set()


def _moved(before: Iterable[str], now: Iterable[str], path: str) -> bool:
    """Whether a definition of `path` has its plain id in one of the two and an id that ends in the path in the other."""
    ending = f"@{path}"
    old, new = set(before), set(now)
    return any(id_ + ending in new for id_ in old) or any(id_ + ending in old for id_ in new)


def _rank(facts: FileFacts) -> _Rank:
    return language(facts.language).family == DECLARED, facts.path
