"""Which language a file is in, and who extracts its facts. Grammars load on first use."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from posixpath import basename
from typing import cast

from etl.languages.base import Extractor
from etl.languages.tables import MODULES

# Languages of which only the definitions are read, each by a table.
TABLES = frozenset(MODULES)

# language id → the module of this package that extracts it.
_EXTRACTORS = {
    "python": "python.extract",
    "javascript": "javascript.extract",
    "typescript": "javascript.typescript",
    "tsx": "javascript.typescript",
    "java": "java.extract",
    "go": "go.extract",
    **dict.fromkeys(TABLES, "tables.definitions"),
}

_SUFFIXES = {
    "python": "py pyi pyw",
    "javascript": "js jsx mjs cjs",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "java": "java",
    "go": "go",
    # Only their definitions are read.
    "c": "c h",
    "cpp": "cc cpp cxx c++ hh hpp hxx h++ ipp tpp inl cu cuh ino",
    "csharp": "cs csx",
    "rust": "rs",
    "ruby": "rb rake gemspec",
    "php": "php phtml",
    "kotlin": "kt kts",
    "scala": "scala sc sbt",
    "swift": "swift",
    "objc": "m mm",
    "dart": "dart",
    "lua": "lua",
    "julia": "jl",
    "elixir": "ex exs",
    "haskell": "hs",
    "ocaml": "ml mli",
    "zig": "zig",
    "shell": "sh bash zsh ksh bats",
    # Text that is chunked and searched, but not parsed.
    "fish": "fish",
    "literate": "lhs",
    "perl": "pl pm",
    "r": "r rmd",
    "erlang": "erl hrl",
    "clojure": "clj cljs cljc edn",
    "fsharp": "fs fsi fsx",
    "groovy": "groovy gradle",
    "nim": "nim",
    "cython": "pyx pxd pxi",
    "powershell": "ps1 psm1 psd1",
    "batch": "bat cmd",
    "sql": "sql",
    "graphql": "graphql gql",
    "cypher": "cypher cql",
    "protobuf": "proto",
    "thrift": "thrift",
    "html": "html htm xhtml djhtml jinja jinja2 j2 mustache hbs ejs",
    "vue": "vue",
    "svelte": "svelte",
    "css": "css scss sass less styl",
    "xml": "xml xsd xsl xslt svg plist csproj wsdl",
    "json": "json jsonc json5 webmanifest ipynb",
    "jsonl": "jsonl ndjson",
    "yaml": "yaml yml",
    "toml": "toml",
    "ini": "ini cfg conf properties editorconfig env",
    "csv": "csv tsv",
    "markdown": "md markdown mdx mkd",
    "rst": "rst",
    "asciidoc": "adoc asciidoc",
    "tex": "tex sty bib",
    "terraform": "tf tfvars hcl",
    "cmake": "cmake",
    "make": "mk mak",
    "dockerfile": "dockerfile",
    "gettext": "po pot",
    "diff": "diff patch",
}

_NAMES = {
    "dockerfile": "dockerfile",
    "containerfile": "dockerfile",
    "makefile": "make",
    "gnumakefile": "make",
    "cmakelists.txt": "cmake",
    "jenkinsfile": "groovy",
    "rakefile": "ruby",
    "gemfile": "ruby",
    "vagrantfile": "ruby",
    "podfile": "ruby",
    "sconstruct": "python",
    "sconscript": "python",
    "wscript": "python",
    "justfile": "make",
    "pipfile": "toml",
    "go.mod": "gomod",
    "go.sum": "gomod",
    ".bashrc": "shell",
    ".profile": "shell",
    ".zshrc": "shell",
}

_BY_SUFFIX = {suffix: language for language, all_ in _SUFFIXES.items() for suffix in all_.split()}


def language_of(path: str) -> str:
    """The language id of a file by its name; "text" for a name nobody knows."""
    name = basename(path).lower()
    known = _NAMES.get(name)
    if known is not None:
        return known
    stem, dot, suffix = name.rpartition(".")
    if not dot:
        return "text"
    return _BY_SUFFIX.get(suffix) or _NAMES.get(stem, "text")


def is_code(language: str) -> bool:
    """True when symbols are extracted from files of this language."""
    return language in _EXTRACTORS


@cache
def extractor(language: str) -> Extractor:
    """The extractor of a language, its grammar loaded; one a process.

    Raises:
        KeyError: `is_code(language)` is false.
    """
    module = import_module(f"{__name__}.{_EXTRACTORS[language]}")
    return cast(Extractor, module.extractor(language))
