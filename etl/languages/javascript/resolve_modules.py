"""Which file an import of JavaScript or TypeScript names, and what a module exports."""

from __future__ import annotations

import posixpath

from etl.facts import FileFacts, Import, ImportKind
from etl.languages.javascript.modules import WHOLE
from etl.resolve.table import Key, Table

_SUFFIXES = (
    ".ts",
    ".tsx",
    ".mts",
    ".cts",
    ".d.ts",
    ".d.mts",
    ".d.cts",
    ".js",
    ".jsx",
    ".mjs",
    ".cjs",
)
# TypeScript's own rule: an import of `./x.js` means the source it is compiled from.
_SOURCES = {
    ".js": (".ts", ".tsx", ".d.ts", ".jsx"),
    ".jsx": (".tsx",),
    ".mjs": (".mts", ".d.mts"),
    ".cjs": (".cts", ".d.cts"),
}


PATHS = "paths"  # the unit of files by their paths
_Found = tuple[int | None, tuple[Key, ...]]  # a file, and the lookups that led to it


class Modules:
    """The modules of the family: paths to files, and each file's imports and exports by name."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._found: dict[tuple[str, str], _Found] = {}  # (folder, module)
        self._names: dict[int, _Names] = {}

    def put(self, file: int) -> None:
        self._names[file] = _Names(self._table.files[file])
        self._found.clear()

    def drop(self, file: int) -> None:
        del self._names[file]
        self._found.clear()

    def names(self, file: int, name: str) -> _Names:
        """The imports and exports of a file, to look `name` up in them."""
        self._table.see(file, name)
        return self._names[file]

    def find(self, file: int, module: str) -> int | None:
        """The file that `module` means in `file`; None for a package, an alias, or nothing there."""
        if not module.startswith("."):
            return None
        folder = posixpath.dirname(self._table.files[file].path)
        key = (folder, module)
        found = self._found.get(key)
        if found is None:
            base = posixpath.normpath(posixpath.join(folder, module))
            found = self._found[key] = self._search(base)
        self._table.noted.update(found[1])
        return found[0]

    def _search(self, base: str) -> _Found:
        if base.startswith("../") or base == "..":
            return None, ()
        base = "" if base == "." else base
        stem, suffix = posixpath.splitext(base)
        candidates = [base] if suffix else []
        candidates += [stem + other for other in _SOURCES.get(suffix, ())]
        candidates += [base + other for other in _SUFFIXES] if base else []
        index = f"{base}/index" if base else "index"
        candidates += [index + other for other in _SUFFIXES]
        paths = self._table.by_path
        there = next((i for i, path in enumerate(candidates) if path in paths), None)
        tried = candidates if there is None else candidates[: there + 1]
        keys = tuple((PATHS, path) for path in tried)
        return (None if there is None else paths[candidates[there]]), keys


class _Names:
    """One file's imports and exports, by the names they bind."""

    __slots__ = ("exports", "imports", "reexports", "stars")

    def __init__(self, facts: FileFacts) -> None:
        self.imports: dict[tuple[int, str], Import] = {}
        self.reexports: dict[str, Import] = {}
        self.stars: list[Import] = []
        for each in facts.imports:
            if each.kind is ImportKind.REEXPORT:
                self.reexports.setdefault(each.alias, each)
            elif each.kind is ImportKind.REEXPORT_ALL:
                self.stars.append(each)
            elif each.alias:
                self.imports.setdefault((each.scope, each.alias), each)
        self.exports: dict[str, str] = {}  # exported name → local name
        for export in facts.exports:
            self.exports.setdefault(export.name, export.local)

    @property
    def is_whole(self) -> bool:
        """True when the module is one value (`module.exports = …`), not a set of names."""
        return WHOLE in self.exports
