"""Shells of the Bourne family: functions."""

from __future__ import annotations

import re

from tree_sitter import Language, Node

from etl.languages.kit.scopes import clean_title
from etl.languages.tables.rules import File, Found, Table, simple

# `@test "title" {` of Bats, which is no shell.
_CASE = re.compile(rb"""^([ \t]*)@test[ \t](["'])([^\n]{1,300})\2(?=[ \t]*\{)""", re.MULTILINE)
_function = simple("function")


def prepare(source: bytes, path: str) -> bytes:
    """A Bats file with its tests as functions, each byte where it was."""
    if not path.endswith(".bats"):
        return source

    def declared(match: re.Match[bytes]) -> bytes:
        return match[1] + b"_test_" + re.sub(rb"\W", b"_", match[3]) + b"()"

    return _CASE.sub(declared, source)


def _named(node: Node, file: File) -> Found | None:
    """A function; a test of Bats by its title."""
    found = _function(node, file)
    line = file.source.rfind(b"\n", 0, node.start_byte) + 1
    case = _CASE.match(file.source, line) if found is not None else None
    if found is None or case is None:
        return found
    title = clean_title(case[3].decode("utf-8", "replace"))
    return Found(title, "function", at=found.at, body=found.body, is_test=True)


def _language() -> Language:
    import tree_sitter_bash

    return Language(tree_sitter_bash.language())


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        rules={"function_definition": _named},
        prepare=prepare,
        test_name=re.compile(r"test"),
    )
