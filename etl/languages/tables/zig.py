"""Zig: functions, tests, and the types that constants hold."""

from __future__ import annotations

from tree_sitter import Language, Node

from etl.languages.kit.nodes import named, text_of
from etl.languages.kit.scopes import clean_title
from etl.languages.tables.rules import File, Found, Table, simple

_TYPES = {
    "struct_declaration": "struct",
    "opaque_declaration": "struct",
    "union_declaration": "struct",
    "enum_declaration": "enum",
    "error_set_declaration": "enum",
}


def _variable(node: Node, file: File) -> Found | None:
    del file
    name = next((c for c in node.named_children if c.type == "identifier"), None)
    value = next((c for c in node.named_children if c.type in _TYPES), None)
    if name is None or value is None:
        return None
    return Found(text_of(name, 200), _TYPES[value.type], at=name, body=value)


def _test(node: Node, file: File) -> Found | None:
    del file
    title = named(node)
    if title is None:
        return None
    text = clean_title(text_of(title, 300).strip('"')) if title.type != "block" else "test"
    return Found(text, "function", body=named(node, node.named_child_count - 1), is_test=True)


def _language() -> Language:
    import tree_sitter_zig

    return Language(tree_sitter_zig.language())


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        rules={
            "function_declaration": simple("function"),
            "variable_declaration": _variable,
            "test_declaration": _test,
        },
        patterns={
            "variable_declaration": f"(variable_declaration [{' '.join(f'({t})' for t in _TYPES)}]) @n"
        },
    )
