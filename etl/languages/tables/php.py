"""PHP: types, their methods, functions. The module of a file with one namespace is that namespace."""

from __future__ import annotations

import re

from tree_sitter import Language, Node

from etl.languages.kit.nodes import text_of
from etl.languages.tables.rules import File, Rule, Table, dotted, head, namespace, simple

_TEST = re.compile(rb"@test\b|#\[[^\[\]]*\bTest\b")
_LOOKED_AT = 200  # children of the file


def package(root: Node, file: File) -> str:
    found = [c for c in root.named_children[:_LOOKED_AT] if c.type == "namespace_definition"]
    if len(found) != 1:
        return ""
    file.skip.add(found[0].id)
    return dotted(text_of(found[0].child_by_field_name("name"), 300))


def _type(kind: str) -> Rule:
    return simple(kind, bases=["base_clause", "class_interface_clause"])


_WORDS = r"(?:(?:public|private|protected|static|abstract|final|readonly) +)*"
_HEADS = (
    head("class", rf"{_WORDS}class +(?P<name>\w+)"),
    head("interface", r"interface +(?P<name>\w+)"),
    head("trait", r"trait +(?P<name>\w+)"),
    head("enum", r"enum +(?P<name>\w+)"),
    head("function", rf"{_WORDS}function +&?(?P<name>\w+) *\("),
)


def _language() -> Language:
    import tree_sitter_php

    return Language(tree_sitter_php.language_php())


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        heads=_HEADS,
        rules={
            "class_declaration": _type("class"),
            "interface_declaration": _type("interface"),
            "trait_declaration": _type("trait"),
            "enum_declaration": _type("enum"),
            "method_declaration": simple("method"),
            "function_definition": simple("function"),
            "namespace_definition": namespace(),
        },
        test_mark=_TEST,
        test_name=re.compile(r"test[A-Z_]"),
        package=package,
    )
