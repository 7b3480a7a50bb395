"""Shells of the Bourne family: functions."""

from __future__ import annotations

import re

from tree_sitter import Language

from etl.languages.rules import Table, simple


def _language() -> Language:
    import tree_sitter_bash

    return Language(tree_sitter_bash.language())


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        rules={"function_definition": simple("function")},
        test_name=re.compile(r"test"),
    )
