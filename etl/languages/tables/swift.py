"""Swift: an extension's members stand under the name of the type that it extends."""

from __future__ import annotations

import re

from tree_sitter import Language, Node

from etl.languages.kit.nodes import named, text_of
from etl.languages.tables.rules import MEMBERS, File, Found, Table, base_name, dotted, head, simple

_TEST = re.compile(rb"@Test\b")
_KINDS = {"class": "class", "struct": "struct", "enum": "enum", "actor": "class"}
_MAX_BASES = 32


def _bases(node: Node) -> tuple[str, ...]:
    found = []
    for child in node.named_children:
        if child.type == "inheritance_specifier":
            type_ = child.child_by_field_name("inherits_from")
            found.append(base_name(type_) if type_ is not None else "")
    return tuple(base for base in found[:_MAX_BASES] if base)


def _class(node: Node, file: File) -> Found | None:
    del file
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is None:
        return None
    text = dotted(text_of(name, 300))
    declared = text_of(node.child_by_field_name("declaration_kind"), 20)
    if declared == "extension":
        if not re.fullmatch(r"[\w.]+", text):  # `extension [Int]`
            text = re.sub(r"\W+", "_", text).strip("_") or "_"
        return Found(text, "", bases=_bases(node), members=True)
    return Found(text, _KINDS.get(declared, "class"), at=name, body=body, bases=_bases(node))


def _protocol(node: Node, file: File) -> Found | None:
    del file
    name = node.child_by_field_name("name")
    if name is None:
        return None
    body = node.child_by_field_name("body")
    return Found(text_of(name, 200), "interface", at=name, body=body, bases=_bases(node))


def _function(node: Node, file: File) -> Found | None:
    del file
    name = node.child_by_field_name("name")
    if name is None:
        return None
    text = text_of(name, 200).strip("`").replace(".", "_")
    return Found(text, "function", at=name, body=node.child_by_field_name("body"))


def _initializer(node: Node, file: File) -> Found | None:
    del file
    body = node.child_by_field_name("body")
    return Found("init" if node.type == "init_declaration" else "deinit", "constructor", body=body)


def _subscript(node: Node, file: File) -> Found | None:
    del file
    return Found("subscript", "method", body=named(node, node.named_child_count - 1))


def _property(node: Node, file: File) -> Found | None:
    """A property that computes something in more than a line."""
    del file
    body = node.child_by_field_name("computed_value")
    pattern = node.child_by_field_name("name")
    name = pattern.child_by_field_name("bound_identifier") if pattern is not None else None
    if body is None or name is None or body.end_point[0] - body.start_point[0] < 2:
        return None
    return Found(text_of(name, 200), "function", at=name, body=body)


def _macro(node: Node, file: File) -> Found | None:
    del file
    name = next((c for c in node.named_children if c.type == "simple_identifier"), None)
    return Found(text_of(name, 200), "macro", at=name) if name is not None else None


_WORDS = r"(?:[\w@]+(?:\([^()]*\))? +)*?"
_HEADS = (
    head(MEMBERS, rf"{_WORDS}extension +(?P<name>[\w.]+)"),
    head("interface", rf"{_WORDS}protocol +(?P<name>\w+)"),
    head("struct", rf"{_WORDS}struct +(?P<name>\w+)"),
    head("enum", rf"{_WORDS}enum +(?P<name>\w+)"),
    head("function", rf"{_WORDS}func +(?P<name>\w+)"),
    head("constructor", rf"{_WORDS}(?P<name>init)[?!]? *[(<]"),
    head("class", rf"{_WORDS}(?:class|actor) +(?P<name>\w+)"),
)


def _language() -> Language:
    import tree_sitter_swift

    return Language(tree_sitter_swift.language())


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        heads=_HEADS,
        rules={
            "class_declaration": _class,
            "protocol_declaration": _protocol,
            "function_declaration": _function,
            "protocol_function_declaration": _function,
            "init_declaration": _initializer,
            "deinit_declaration": _initializer,
            "subscript_declaration": _subscript,
            "property_declaration": _property,
            "typealias_declaration": simple("type"),
            "macro_declaration": _macro,
        },
        leading=frozenset({"comment", "multiline_comment"}),
        test_mark=_TEST,
        test_name=re.compile(r"test"),
        patterns={
            "property_declaration": "(property_declaration computed_value: (_)) @n",
        },
    )
