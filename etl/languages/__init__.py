"""Which language a file is in, and who extracts its facts: the registry's answers."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import cast

from etl.languages import registry
from etl.languages.base import Extractor


def language_of(path: str) -> str:
    """The language id of a file by its name; "text" for a name nobody knows."""
    return registry.REGISTRY.language_of(path)


def is_code(language: str) -> bool:
    """True when symbols are extracted from files of this language."""
    return registry.language(language).is_code


@cache
def extractor(language: str) -> Extractor:
    """The extractor of a language, its grammar loaded; one a process.

    Raises:
        ValueError: `is_code(language)` is false.
    """
    line = registry.language(language)
    if not line.is_code:
        raise ValueError(f"{language!r} is not a language with an extractor")
    return cast(Extractor, import_module(line.extractor).extractor(language))
