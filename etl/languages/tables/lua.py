"""Lua: functions by the name that they are given, in declarations, assignments and tables."""

from __future__ import annotations

import re

from tree_sitter import Language, Node

from etl.languages.kit.nodes import named, text_of
from etl.languages.kit.scopes import clean_title
from etl.languages.tables.rules import File, Found, Table

_GROUPS = frozenset({"describe", "context", "insulate", "expose"})
_CASES = frozenset({"it", "spec", "test"})
_PATH = re.compile(r"[\w.:]+")


def _function(node: Node, file: File) -> Found | None:
    del file
    name = node.child_by_field_name("name")
    text = text_of(name, 200)
    if name is None or not _PATH.fullmatch(text):
        return None
    kind = "method" if ":" in text else "function"
    return Found(text.replace(":", "."), kind, at=name, body=node.child_by_field_name("body"))


def _assignment(node: Node, file: File) -> Found | None:
    """`M.f = function() … end`; a table's functions stand under its name."""
    del file
    names = next((c for c in node.named_children if c.type == "variable_list"), None)
    values = next((c for c in node.named_children if c.type == "expression_list"), None)
    name, value = named(names), named(values)
    text = text_of(name, 200)
    if name is None or value is None or not _PATH.fullmatch(text):
        return None
    if value.type == "table_constructor":
        return Found(text, "")
    if value.type != "function_definition":
        return None
    return Found(text, "function", at=name, body=value.child_by_field_name("body"))


def _field(node: Node, file: File) -> Found | None:
    """`{ f = function() … end }`."""
    del file
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    text = text_of(name, 200).strip("'\"")
    if name is None or value is None or not _PATH.fullmatch(text):
        return None
    if value.type == "table_constructor":
        return Found(text, "")
    return Found(text, "function", at=name, body=value.child_by_field_name("body"))


def _call(node: Node, file: File) -> Found | None:
    """`it("does", function() … end)` of Busted, in test files."""
    word = text_of(node.child_by_field_name("name"), 40)
    title = named(node.child_by_field_name("arguments"))
    if not file.in_tests or title is None or word not in _GROUPS | _CASES:
        return None
    name = clean_title(text_of(title, 300).strip("'\""))
    return Found(name, "") if word in _GROUPS else Found(name, "function", is_test=True)


def _language() -> Language:
    import tree_sitter_lua

    return Language(tree_sitter_lua.language())


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        rules={
            "function_declaration": _function,
            "assignment_statement": _assignment,
            "field": _field,
            "function_call": _call,
        },
        wrappers=frozenset({"variable_declaration"}),
        patterns={
            "assignment_statement": "(assignment_statement (expression_list"
            " [(function_definition) (table_constructor)])) @n",
            "field": "(field value: [(function_definition) (table_constructor)]) @n",
            "function_call": "(function_call arguments: (arguments (string) (function_definition))) @n",
        },
        test_name=re.compile(r"test"),
    )
