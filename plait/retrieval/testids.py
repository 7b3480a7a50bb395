"""A test's name as its runner takes it: `tests/test_a.py::TestB::test_c` for pytest, the like for others."""

from __future__ import annotations

import posixpath
import re

_SEPARATORS = re.compile(r"[.:#/]+")


def runnable(path: str, symbol: str) -> str:
    """What to hand to the test runner of `path`'s language. `symbol`: the test's node id or qualified name.

    Python: pytest's node id. Go: `./pkg -run ^TestName$`. Java, Kotlin: `Class#method` of Maven's `-Dtest`.
    Rust: the filter `module::test`. Anything else: `path > name`, which JavaScript's runners print.
    """
    own = symbol.partition("@")[0].partition("#")[0]
    inner = _inside(path, own)
    extension = posixpath.splitext(path)[1]
    if extension in (".py", ".pyi"):
        return "::".join([path, *inner])
    if extension == ".go":
        folder = posixpath.dirname(path)
        return f"./{folder} -run ^{inner[-1]}$" if inner else f"./{folder}"
    if extension in (".java", ".kt", ".groovy"):
        stem = posixpath.splitext(posixpath.basename(path))[0]
        names = inner if inner[:1] == [stem] else [stem, *inner]
        return "#".join(["$".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
    if extension == ".rs":
        return "::".join(_parts(own)[-3:])
    return " > ".join([path, *inner])


def _inside(path: str, symbol: str) -> list[str]:
    """The parts of `symbol` behind its module: its file's parts are its first ones, from some folder on."""
    parts = _parts(symbol)
    file = posixpath.splitext(path)[0].split("/")
    if file and file[-1] in ("__init__", "mod", "index"):
        file = file[:-1]
    for first in range(len(file)):
        tail = file[first:]
        if parts[: len(tail)] == tail and len(parts) > len(tail):
            return parts[len(tail) :]
    # Languages whose modules are folders: Java's packages, Go's.
    folder = posixpath.dirname(path).split("/")
    for first in range(len(folder)):
        tail = folder[first:]
        if parts[: len(tail)] == tail and len(parts) > len(tail):
            return parts[len(tail) :]
    return parts[-1:]


def _parts(symbol: str) -> list[str]:
    return [part for part in _SEPARATORS.split(symbol) if part]
