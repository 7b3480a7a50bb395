"""Module names and test files, by path alone."""

from __future__ import annotations

import posixpath
import re

# Folders that hold sources without being part of the import path, when they are not packages.
_PYTHON_ROOTS = ("src", "lib", "python")

# `src/main/java/`, `app/src/test/kotlin/`, `src/`: what comes before a Java package's folders.
_JAVA_ROOT = re.compile(r"^(?:.*?/)?(?:src/(?:[^/]+/)?(?:java|kotlin|scala|groovy)|src|java)/")

_TEST_FOLDERS = frozenset({"test", "tests", "testing", "__tests__", "spec", "specs", "e2e"})
_PYTHON_TEST = re.compile(r"^(?:test_.*|.*_tests?|tests?|conftest)\.pyi?$")
_SCRIPT_TEST = re.compile(
    r"(?:[._-](?:test|spec|e2e|cy)\.[cm]?[jt]sx?|^test[._-].*\.[cm]?[jt]sx?)$"
)
# A header and its source share a stem; so do an interface of OCaml and its module.
_HEADERS = frozenset({".h", ".hh", ".hpp", ".hxx", ".h++", ".inl", ".ipp", ".tpp", ".cuh", ".mli"})

# Languages of which only definitions are read, by what their runners and frameworks look for.
_OTHER_TESTS = {
    "c": r"^(?:test_.*|.*_tests?|tests?)\.[ch]$",
    "cpp": r"(?:^test_.*|(?:_|-)(?:unit)?tests?|Tests?)\.\w+$|^tests?\.\w+$",
    "csharp": r"(?:Tests?|Specs?|Fixture)\.cs$",
    "rust": r"^(?:tests?|.*_tests?)\.rs$",
    "ruby": r"(?:_spec|_test)\.rb$|^(?:test_.*|spec_helper|test_helper|rails_helper)\.rb$",
    "php": r"(?:Test|TestCase|Cest)\.php$",
    "kotlin": r"(?:Tests?|TestCase|Spec|IT)\.kts?$",
    "scala": r"(?:Tests?|Spec|Suite|Specification|Props?)\.(?:scala|sc)$",
    "swift": r"(?:Tests?|TestCase|Specs?)\.swift$",
    "objc": r"(?:Tests?|TestCase|Specs?)\.mm?$",
    "dart": r"_test\.dart$",
    "lua": r"(?:_spec|_test|-spec|-test)\.lua$|^test[_-].*\.lua$",
    "elixir": r"_test\.exs?$|^test_helper\.exs$",
    "haskell": r"(?:Spec|Tests?)\.hs$",
    "ocaml": r"^(?:test_.*|.*_test|tests?)\.mli?$",
    "julia": r"^(?:runtests|test_.*|.*_tests?)\.jl$",
    "zig": r"^(?:tests?|test_.*|.*_test)\.zig$",
    "shell": r"\.bats$|^(?:test[_-].*|.*[_-]tests?)\.\w+$",
}
_OTHER_TEST = {language: re.compile(pattern) for language, pattern in _OTHER_TESTS.items()}
# `Shop.Tests/`, `shop-test/`, `SwiftTests/`, Kotlin's `commonTest/`.
_TEST_FOLDER = re.compile(
    r"(?:[._-](?:unit|integration)?tests?|[a-z](?:Unit|Integration)?Tests?|Specs)$"
)

_JAVA_TEST = re.compile(r"(?:^Test[A-Z].*|Tests?|TestCase|IT|Spec)\.java$")


def module_name(path: str, language: str, package_dirs: frozenset[str] = frozenset()) -> str:
    """The qualified name of the module in `path` (relative to the root, with `/`).

    `package_dirs` are the folders that hold an `__init__.py`. Python: relative to the parent of the
    topmost of the package folders that lead to the file without a gap; a file outside any package is
    named by its path, a leading `src/`, `lib/` or `python/` left out. Java: by its folders below the
    source root. Others: by the path, a header's suffix kept (`src.foo_h`). Never empty, and never with an empty segment.
    """
    folder, name = posixpath.split(path)
    stem = posixpath.splitext(name)[0]
    if language == "python":
        return _python_name(folder, stem, package_dirs)
    if language == "java":
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
    if language == "go":
        return name.endswith("_test.go")
    folders = {part.lower() for part in folder.split("/")}
    if language == "java":
        return _JAVA_TEST.search(name) is not None or bool(folders & {"test", "tests"})
    if folders & _TEST_FOLDERS:
        return True
    if language == "python":
        return _PYTHON_TEST.match(name) is not None
    other = _OTHER_TEST.get(language)
    if other is not None:
        return other.search(name) is not None or any(
            _TEST_FOLDER.search(part) for part in folder.split("/")
        )
    return _SCRIPT_TEST.search(name) is not None
