"""Modules that are imported on first use: a command makes one kind of call, and pays for that one alone."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class LazyModule:
    """Stands for a module until something of it is used. Safe for threads: the first waits for the import,
    the others for the first (`importlib.util.LazyLoader` shows them a module that is half executed)."""

    __slots__ = ("_module", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> Any:
        module = self._module
        if module is None:
            module = self._module = import_module(self._name)
        return getattr(module, attribute)


def lazy_module(name: str) -> Any:
    """The module `name`, executed when something of it is first used.

    Import it under `TYPE_CHECKING` too, so that types and import rules see it. A client's import took 0.25
    CPU seconds with all of its parts and takes half of that without those that a search doesn't need.
    """
    return LazyModule(name)
