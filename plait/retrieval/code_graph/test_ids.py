"""Test ids in the form of their runner: `tests/test_a.py::TestB::test_c` for pytest, similar for others."""

from __future__ import annotations

import posixpath
import re
import shlex

_SEPARATORS = re.compile(r"[.:#/]+")
_SCRIPTS = frozenset(
    {".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte"}
)


def runnable(path: str, symbol: str) -> str:
    """The argument for the test runner of `path`'s language. `symbol`: the test's node id or qualified name.

    Python: pytest's node id. JavaScript, TypeScript: `FILE -t NAME` of Jest and Vitest. Go:
    `./FOLDER -run '^Name$'`. Java, Kotlin: `Class#method` of Maven's `-Dtest`. Anything else: the file and
    the name inside it.
    """
    own = symbol.partition("@")[0].partition("#")[0]
    inner = _inside(path, own)
    extension = posixpath.splitext(path)[1]
    if extension in _SCRIPTS:
        return f"{path} -t {shlex.quote(inner)}" if inner else path
    parts = _parts(inner)
    if extension == ".go":
        folder = f"./{posixpath.dirname(path)}"
        return f"{folder} -run '^{parts[-1]}$'" if parts else folder
    if extension in (".java", ".kt", ".groovy"):
        stem = posixpath.splitext(posixpath.basename(path))[0]
        names = parts if parts[:1] == [stem] else [stem, *parts]
        return "#".join(["$".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
    return "::".join([path, *parts])


def _inside(path: str, symbol: str) -> str:
    """`symbol` without its module prefix: some end of the path of its file, or of its folder in languages whose
    modules are folders."""
    folder, _, file = path.rpartition("/")
    stem = posixpath.splitext(file)[0].replace(".", "_")
    folders = [part for part in folder.split("/") if part]
    for parts in ([*folders, stem], folders):
        for first in range(len(parts)):
            module = ".".join(parts[first:])
            if symbol.startswith(f"{module}."):
                return symbol[len(module) + 1 :]
    return symbol.rpartition(".")[2]


def _parts(symbol: str) -> list[str]:
    return [part for part in _SEPARATORS.split(symbol) if part]
