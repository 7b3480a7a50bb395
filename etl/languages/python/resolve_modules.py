"""Which file an import means: Python's module names over the files of one repository."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from posixpath import dirname

from etl.facts import FileFacts

_STDLIB = sys.stdlib_module_names


class Modules:
    """Finds modules by absolute and relative name; a namespace package is a name without a file."""

    def __init__(self, by_name: Mapping[str, int], files: Sequence[FileFacts]) -> None:
        self._files = files
        self._by_name = by_name
        self._packages: set[str] = set()  # names that have modules below them
        self._suffixes: dict[str, str | None] = {}  # "b.c" → the one module "a.b.c"; None: several
        self._init_folders: set[str] = set()
        for name in sorted(self._by_name):
            path = self._files[self._by_name[name]].path
            if path.endswith("__init__.py"):
                self._init_folders.add(dirname(path))
            head, dot, _ = name.rpartition(".")
            while dot and head not in self._packages:
                self._packages.add(head)
                head, dot, _ = head.rpartition(".")
        for name in sorted(self._by_name):
            self._add_suffixes(name)

    def _add_suffixes(self, name: str) -> None:
        """Let `app.x` find `backend.app.x`, when `backend` is a folder and no package."""
        path = self._files[self._by_name[name]].path
        parts = path.removesuffix("/__init__.py").split("/")
        _, dot, suffix = name.partition(".")
        while dot:
            root = "/".join(parts[: len(parts) - suffix.count(".") - 1])
            if root not in self._init_folders and self._suffixes.setdefault(suffix, name) != name:
                self._suffixes[suffix] = None
            _, dot, suffix = suffix.partition(".")

    def file(self, name: str) -> int | None:
        """The file of an absolute module name as this repository spells it."""
        return self._by_name.get(name)

    def is_package(self, name: str) -> bool:
        """True for a name that has modules below it, with or without an `__init__.py`."""
        return name in self._packages

    def absolute(self, file: int, module: str, level: int) -> str:
        """The absolute name that `from ..module` in `file` means; "" when it leaves the repository."""
        if level == 0:
            return module
        facts = self._files[file]
        base = facts.module
        ups = level - (1 if facts.path.endswith("__init__.py") else 0)
        for _ in range(ups):
            base = base.rpartition(".")[0]
        if not base:
            return module
        return f"{base}.{module}" if module else base

    def find(self, file: int, name: str) -> str:
        """The repository's own spelling of module `name` as imported in `file`; "" when external.

        Tried in order: the name itself; a neighbour, when `file` is a script outside any package (its
        folder is then on Python's path, as pytest does for tests); the one module that ends so and
        whose root is a plain folder, unless the standard library owns the name.
        """
        if name in self._by_name or name in self._packages:
            return name
        facts = self._files[file]
        if dirname(facts.path) not in self._init_folders:
            prefix = facts.module.rpartition(".")[0]
            while prefix:
                near = f"{prefix}.{name}"
                if near in self._by_name or near in self._packages:
                    return near
                prefix = prefix.rpartition(".")[0]
        if name.partition(".")[0] in _STDLIB:
            return ""
        return self._suffixes.get(name) or ""
