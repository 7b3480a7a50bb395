"""Every language that files are read as: one line each says what its files are called and who reads them.

A language with calls is a package with `extract.py` (source to facts) and `resolve.py` (facts to edges);
one of which only definitions are read is a module of `etl.languages.tables`. Adding either is that
folder or module, and one line here. Grammars load on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from posixpath import basename

TABLES = "etl.languages.tables"
# The family of every language of which only definitions are read, and who binds what they declare.
DECLARED, _DECLARED_RESOLVER = "declared", "etl.resolve.declared"


class Naming(StrEnum):
    """How a file's module is named, see `etl.languages.names.module_name`."""

    PATH = "path"
    PACKAGES = "packages"  # by its path below the topmost folder with an `__init__.py`
    SOURCE_ROOT = "source root"  # by its path below `src/main/java/` and the like


@dataclass(frozen=True, slots=True)
class TestFiles:
    """The habits of a language's test-suites: any of the three makes a file a test's."""

    __test__ = False  # not a class of tests, whatever pytest makes of its name

    name: re.Pattern[str] | None = None  # searched in the file's name
    folders: frozenset[str] = frozenset()  # names of folders, in lower case
    folder: re.Pattern[str] | None = None  # searched in the name of each folder


_FOLDERS = frozenset({"test", "tests", "testing", "__tests__", "spec", "specs", "e2e"})
# `Shop.Tests/`, `shop-test/`, `SwiftTests/`, Kotlin's `commonTest/`.
_FOLDER = re.compile(
    r"(?:[._-](?:unit|integration)?tests?|[a-z](?:Unit|Integration)?Tests?|Specs)$"
)
_BY_FOLDER = TestFiles(folders=_FOLDERS)


def _tests(name: str) -> TestFiles:
    """By name, by a folder like `tests/`, or by one like `Shop.Tests/`."""
    return TestFiles(re.compile(name), _FOLDERS, _FOLDER)


_SCRIPT_TESTS = TestFiles(
    re.compile(r"(?:[._-](?:test|spec|e2e|cy)\.[cm]?[jt]sx?|^test[._-].*\.[cm]?[jt]sx?)$"), _FOLDERS
)
_PYTHON_TESTS = TestFiles(re.compile(r"^(?:test_.*|.*_tests?|tests?|conftest)\.pyi?$"), _FOLDERS)
_JAVA_TESTS = TestFiles(
    re.compile(r"(?:^Test[A-Z].*|Tests?|TestCase|IT|Spec)\.java$"), frozenset({"test", "tests"})
)


@dataclass(frozen=True, slots=True)
class Language:
    """One line of the registry; without `package` and `table` it is text that is searched, not parsed.

    `suffixes` and `names` (of whole files) are in lower case, separated by blanks. `package` holds
    `extract.extractor(language)` and `resolve.binder(table)`; `table` is a module of `tables`.
    """

    id: str
    suffixes: str
    names: str = ""
    package: str = ""
    table: str = ""
    group: str = ""  # of languages with tables: those of one group see each other's types
    naming: Naming = Naming.PATH
    tests: TestFiles = _BY_FOLDER

    @property
    def is_code(self) -> bool:
        """True when symbols are extracted from its files."""
        return bool(self.package or self.table)

    @property
    def family(self) -> str:
        """Files of one family see each other's symbols; "" for text."""
        return self.package or (DECLARED if self.table else "")

    @property
    def extractor(self) -> str:
        """The module with its `extractor(language)`."""
        return f"{self.package}.extract" if self.package else f"{TABLES}.definitions"

    @property
    def resolver(self) -> str:
        """The module with its family's `binder(table)`."""
        return f"{self.package}.resolve" if self.package else _DECLARED_RESOLVER


_PYTHON, _SCRIPT = "etl.languages.python", "etl.languages.javascript"
_JAVA, _GO = "etl.languages.java", "etl.languages.go"

LANGUAGES = (
    # Definitions, and who calls whom.
    Language("python", "py pyi pyw", "sconstruct sconscript wscript",
             package=_PYTHON, naming=Naming.PACKAGES, tests=_PYTHON_TESTS),
    Language("javascript", "js jsx mjs cjs", package=_SCRIPT, tests=_SCRIPT_TESTS),
    Language("typescript", "ts mts cts", package=_SCRIPT, tests=_SCRIPT_TESTS),
    Language("tsx", "tsx", package=_SCRIPT, tests=_SCRIPT_TESTS),
    Language("java", "java", package=_JAVA, naming=Naming.SOURCE_ROOT, tests=_JAVA_TESTS),
    Language("go", "go", package=_GO, tests=TestFiles(re.compile(r"_test\.go$"))),
    # Definitions alone.
    Language("c", "c h", table="c_family", group="c", tests=_tests(r"^(?:test_.*|.*_tests?|tests?)\.[ch]$")),
    Language("cpp", "cc cpp cxx c++ hh hpp hxx h++ ipp tpp inl cu cuh ino", table="c_family", group="c",
             tests=_tests(r"(?:^test_.*|(?:_|-)(?:unit)?tests?|Tests?)\.\w+$|^tests?\.\w+$")),
    Language("csharp", "cs csx", table="csharp", tests=_tests(r"(?:Tests?|Specs?|Fixture)\.cs$")),
    Language("rust", "rs", table="rust", tests=_tests(r"^(?:tests?|.*_tests?)\.rs$")),
    Language("ruby", "rb rake gemspec", "rakefile gemfile vagrantfile podfile", table="ruby",
             tests=_tests(r"(?:_spec|_test)\.rb$|^(?:test_.*|spec_helper|test_helper|rails_helper)\.rb$")),
    Language("php", "php phtml", table="php", tests=_tests(r"(?:Test|TestCase|Cest)\.php$")),
    Language("kotlin", "kt kts", table="kotlin", tests=_tests(r"(?:Tests?|TestCase|Spec|IT)\.kts?$")),
    Language("scala", "scala sc sbt", table="scala",
             tests=_tests(r"(?:Tests?|Spec|Suite|Specification|Props?)\.(?:scala|sc)$")),
    Language("swift", "swift", table="swift", tests=_tests(r"(?:Tests?|TestCase|Specs?)\.swift$")),
    Language("objc", "m mm", table="objc", group="c", tests=_tests(r"(?:Tests?|TestCase|Specs?)\.mm?$")),
    Language("dart", "dart", table="dart", tests=_tests(r"_test\.dart$")),
    Language("lua", "lua", table="lua", tests=_tests(r"(?:_spec|_test|-spec|-test)\.lua$|^test[_-].*\.lua$")),
    Language("julia", "jl", table="julia", tests=_tests(r"^(?:runtests|test_.*|.*_tests?)\.jl$")),
    Language("elixir", "ex exs", table="elixir", tests=_tests(r"_test\.exs?$|^test_helper\.exs$")),
    Language("haskell", "hs", table="haskell", tests=_tests(r"(?:Spec|Tests?)\.hs$")),
    Language("ocaml", "ml mli", table="ocaml", tests=_tests(r"^(?:test_.*|.*_test|tests?)\.mli?$")),
    Language("ocaml_interface", "", table="ocaml"),  # no file's own: OCaml's table sends `.mli` there
    Language("zig", "zig", table="zig", tests=_tests(r"^(?:tests?|test_.*|.*_test)\.zig$")),
    Language("shell", "sh bash zsh ksh bats", ".bashrc .profile .zshrc", table="shell",
             tests=_tests(r"\.bats$|^(?:test[_-].*|.*[_-]tests?)\.\w+$")),
    # Text that is cut into chunks and searched, but not parsed.
    Language("fish", "fish"),
    Language("literate", "lhs"),
    Language("perl", "pl pm"),
    Language("r", "r rmd"),
    Language("erlang", "erl hrl"),
    Language("clojure", "clj cljs cljc edn"),
    Language("fsharp", "fs fsi fsx"),
    Language("groovy", "groovy gradle", "jenkinsfile"),
    Language("nim", "nim"),
    Language("cython", "pyx pxd pxi"),
    Language("powershell", "ps1 psm1 psd1"),
    Language("batch", "bat cmd"),
    Language("sql", "sql"),
    Language("graphql", "graphql gql"),
    Language("cypher", "cypher cql"),
    Language("protobuf", "proto"),
    Language("thrift", "thrift"),
    Language("html", "html htm xhtml djhtml jinja jinja2 j2 mustache hbs ejs"),
    Language("vue", "vue"),
    Language("svelte", "svelte"),
    Language("css", "css scss sass less styl"),
    Language("xml", "xml xsd xsl xslt svg plist csproj wsdl"),
    Language("json", "json jsonc json5 webmanifest ipynb"),
    Language("jsonl", "jsonl ndjson"),
    Language("yaml", "yaml yml"),
    Language("toml", "toml", "pipfile"),
    Language("ini", "ini cfg conf properties editorconfig env"),
    Language("csv", "csv tsv"),
    Language("markdown", "md markdown mdx mkd"),
    Language("rst", "rst"),
    Language("asciidoc", "adoc asciidoc"),
    Language("tex", "tex sty bib"),
    Language("terraform", "tf tfvars hcl"),
    Language("cmake", "cmake", "cmakelists.txt"),
    Language("make", "mk mak", "makefile gnumakefile justfile"),
    Language("dockerfile", "dockerfile", "dockerfile containerfile"),
    Language("gettext", "po pot"),
    Language("diff", "diff patch"),
    Language("gomod", "", "go.mod go.sum"),
)  # fmt: skip
TEXT = Language("text", "")  # a file whose name tells nothing


class Registry:
    """Languages by id, and files by name."""

    def __init__(self, languages: Iterable[Language] = LANGUAGES) -> None:
        self._by_id: Mapping[str, Language] = {line.id: line for line in (*languages, TEXT)}
        self._by_suffix = {
            s: line.id for line in self._by_id.values() for s in line.suffixes.split()
        }
        self._by_name = {n: line.id for line in self._by_id.values() for n in line.names.split()}

    def get(self, language: str) -> Language:
        """The line of a language; of text for an id that nobody knows."""
        return self._by_id.get(language, TEXT)

    def language_of(self, path: str) -> str:
        """The language id of a file by its name; "text" for a name nobody knows."""
        name = basename(path).lower()
        known = self._by_name.get(name)
        if known is not None:
            return known
        stem, dot, suffix = name.rpartition(".")
        if not dot:
            return TEXT.id
        return self._by_suffix.get(suffix) or self._by_name.get(stem, TEXT.id)


REGISTRY = Registry()


def language(id_: str) -> Language:
    """The registry's line of a language id."""
    return REGISTRY.get(id_)
