"""Module names and test files, by path alone."""

from __future__ import annotations

import posixpath
import re

from etl.languages import registry
from etl.languages.registry import Naming

# Folders that hold sources without being part of the import path, when they are not packages.
_PYTHON_ROOTS = ("src", "lib", "python")

# `src/main/java/`, `app/src/test/kotlin/`, `src/`: what comes before a Java package's folders.
_JAVA_ROOT = re.compile(r"^(?:.*?/)?(?:src/(?:[^/]+/)?(?:java|kotlin|scala|groovy)|src|java)/")

# A header and its source share a stem; so do an interface of OCaml and its module.
_HEADERS = frozenset({".h", ".hh", ".hpp", ".hxx", ".h++", ".inl", ".ipp", ".tpp", ".cuh", ".mli"})


def module_name(path: str, language: str, package_dirs: frozenset[str] = frozenset()) -> str:
    """The qualified name of the module in `path` (relative to the root, with `/`).

    `package_dirs` are the folders that hold an `__init__.py`. Python: relative to the parent of the
    topmost of the package folders that lead to the file without a gap; a file outside any package is
    named by its path, a leading `src/`, `lib/` or `python/` left out. Java: by its folders below the
    source root. Others: by the path, a header's suffix kept (`src.foo_h`). Never empty, and never with an empty segment.
    """
    folder, name = posixpath.split(path)
    stem = posixpath.splitext(name)[0]
    naming = registry.language(language).naming
    if naming is Naming.PACKAGES:
        return _python_name(folder, stem, package_dirs)
    if naming is Naming.SOURCE_ROOT:
        folder = _java_folder(folder)
    suffix = posixpath.splitext(name)[1].lower()
    if suffix in _HEADERS and stem:
        stem += f"_{suffix[1:]}"
    parts = [part for part in folder.split("/") if part]
    return ".".join(_clean(part) for part in (*parts, stem or name))


def _python_name(folder: str, stem: str, package_dirs: frozenset[str]) -> str:
    parts = [part for part in folder.split("/") if part]
    first = len(parts)
    while first and "/".join(parts[:first]) in package_dirs:
        first -= 1
    if first == len(parts):  # not in a package
        first = 1 if len(parts) > 0 and parts[0] in _PYTHON_ROOTS else 0
    names = parts[first:]
    if stem != "__init__" or not names:
        names = [*names, stem]
    return ".".join(_clean(name) for name in names)


def _java_folder(folder: str) -> str:
    match = _JAVA_ROOT.match(folder + "/")
    return (folder + "/")[match.end() :].rstrip("/") if match else folder


def _clean(part: str) -> str:
    """A path's part as one segment of a dotted name: a dot inside it would make two."""
    return part.replace(".", "_") or "_"


def is_test_path(path: str, language: str) -> bool:
    """True when a file is part of a test-suite, by the habits of its language."""
    folder, name = posixpath.split(path)
    tests = registry.language(language).tests
    if tests.name is not None and tests.name.search(name):
        return True
    folders = folder.split("/")
    if tests.folders and not tests.folders.isdisjoint(part.lower() for part in folders):
        return True
    pattern = tests.folder
    return pattern is not None and any(pattern.search(part) for part in folders)
