"""Kotlin: the module of a file is its package. A companion's members are its class's."""

from __future__ import annotations

import re

from tree_sitter import Language, Node

from etl.languages.kit.nodes import named, text_of
from etl.languages.tables.rules import File, Found, Table, bases_of, dotted, head

_TEST = re.compile(rb"@(?:Test|ParameterizedTest|RepeatedTest|TestFactory|Property)\b")
_BASES = frozenset({"delegation_specifiers"})
_NAME = re.compile(r"[\w.]+")
_LOOKED_AT = 20  # children of the file


def package(root: Node, file: File) -> str:
    del file
    for child in root.named_children[:_LOOKED_AT]:
        if child.type == "package_header":
            return dotted(text_of(named(child), 300).replace("`", ""))
    return ""


def _child(node: Node, *kinds: str) -> Node | None:
    return next((c for c in node.named_children if c.type in kinds), None)


def _class(node: Node, file: File) -> Found | None:
    del file
    name = node.child_by_field_name("name")
    if name is None:
        return None
    kind = "class"
    if any(c.type == "interface" for c in node.children):
        kind = "interface"
    elif "enum" in text_of(_child(node, "modifiers"), 400).split():
        kind = "enum"
    body = _child(node, "class_body", "enum_class_body")
    return Found(_plain(name), kind, at=name, body=body, bases=bases_of(node, _BASES))


def _object(node: Node, file: File) -> Found | None:
    del file
    name = node.child_by_field_name("name")
    if name is None:
        return None
    body = _child(node, "class_body")
    return Found(_plain(name), "class", at=name, body=body, bases=bases_of(node, _BASES))


def _function(node: Node, file: File) -> Found | None:
    del file
    name = node.child_by_field_name("name")
    if name is None:
        return None
    body = _child(node, "function_body")
    return Found(_plain(name), "function", at=name, body=body, owner=_receiver(node, name))


def _receiver(node: Node, name: Node) -> str:
    """`List` of `fun <T> List<T>.first()`."""
    for child in node.children:
        if child.start_byte >= name.start_byte:
            break
        if child.type in ("user_type", "nullable_type", "parenthesized_type"):
            text = dotted(text_of(child, 200)).rstrip("?")
            return text.rpartition(".")[2] if _NAME.fullmatch(text) else ""
    return ""


def _property(node: Node, file: File) -> Found | None:
    """A property with code of more than a line."""
    del file
    code = _child(node, "getter", "setter", "property_delegate")
    name = named(_child(node, "variable_declaration"))
    if code is None or name is None or node.end_point[0] - node.start_point[0] < 2:
        return None
    return Found(_plain(name), "function", at=name, body=code)


def _constructor(node: Node, file: File) -> Found | None:
    del file
    return Found("constructor", "constructor", body=_child(node, "block"))


def _alias(node: Node, file: File) -> Found | None:
    del file
    name = node.child_by_field_name("type") or named(node)
    return Found(_plain(name), "type", at=name) if name is not None else None


def _plain(name: Node) -> str:
    """A name without its quotes: `a b` is called so."""
    return text_of(name, 200).strip("`").replace(".", "_")


_WORDS = r"(?:[\w@]+(?:\([^()]*\))? +)*?"
_HEADS = (
    head("interface", rf"{_WORDS}interface +(?P<name>\w+)"),
    head("class", rf"{_WORDS}(?:class|object) +(?P<name>\w+)"),
    head("function", rf"{_WORDS}fun +(?:<[^<>]*> *)?(?:[\w.<>?*, ]+\.)?`?(?P<name>[\w ]+?)`? *\("),
)


def _language() -> Language:
    import tree_sitter_kotlin

    return Language(tree_sitter_kotlin.language())


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        heads=_HEADS,
        rules={
            "class_declaration": _class,
            "object_declaration": _object,
            "function_declaration": _function,
            "property_declaration": _property,
            "secondary_constructor": _constructor,
            "type_alias": _alias,
        },
        leading=frozenset({"line_comment", "block_comment"}),
        test_mark=_TEST,
        package=package,
    )
