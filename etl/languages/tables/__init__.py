"""One table a language of which the definitions are read, see `etl.languages.rules`."""

from __future__ import annotations

# language → the module of this package with its table, made by `table(language)`.
MODULES = {
    "c": "c_family",
    "cpp": "c_family",
    "csharp": "csharp",
    "rust": "rust",
    "ruby": "ruby",
    "php": "php",
}
