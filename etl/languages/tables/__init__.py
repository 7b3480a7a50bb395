"""One table a language of which the definitions are read, see `etl.languages.tables.rules`."""

from __future__ import annotations

# language → the module of this package with its table, made by `table(language)`.
MODULES = {
    "c": "c_family",
    "cpp": "c_family",
    "csharp": "csharp",
    "dart": "dart",
    "elixir": "elixir",
    "haskell": "haskell",
    "julia": "julia",
    "kotlin": "kotlin",
    "lua": "lua",
    "objc": "objc",
    "ocaml": "ocaml",
    "php": "php",
    "ruby": "ruby",
    "rust": "rust",
    "scala": "scala",
    "shell": "shell",
    "swift": "swift",
    "zig": "zig",
}

# Tables that no file asks for by its name: another table sends it here, see `rules.Table.dialect`.
DIALECTS = {"ocaml_interface": "ocaml"}
