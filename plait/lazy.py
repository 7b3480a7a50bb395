"""Modules that are read on first use: a command makes one kind of call, and pays for that one alone."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any


def lazy_module(name: str) -> Any:
    """The module `name`, executed when something of it is first used.

    Import it under `TYPE_CHECKING` too, so that types and import rules see it. A client's import took 0.25
    CPU seconds with all of its parts and takes half of that without those that a search needs not.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
