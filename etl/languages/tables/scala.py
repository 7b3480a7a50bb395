"""Scala 2 and 3: the module of a file is its package."""

from __future__ import annotations

import re

from tree_sitter import Language, Node

from etl.languages.kit.nodes import named, text_of
from etl.languages.kit.scopes import clean_title
from etl.languages.tables.rules import (
    File,
    Found,
    Rule,
    Table,
    base_name,
    dotted,
    head,
    namespace,
    segment,
    simple,
)

_LOOKED_AT = 50  # children of the file
_GROUPS = frozenset({"describe", "feature", "suite"})
_CASES = frozenset({"test", "it", "scenario", "property", "check", "ignore"})
_JOINS = frozenset({"in", "should", "must", "can", "when", "-", ">>"})


def package(root: Node, file: File) -> str:
    """`a.b` of `package a.b`, and of `package a` above `package b`."""
    names = []
    for child in root.named_children[:_LOOKED_AT]:
        if child.type == "package_clause" and child.child_by_field_name("body") is None:
            names.append(dotted(text_of(child.child_by_field_name("name"), 300)))
            file.skip.add(child.id)
    return ".".join(name for name in names if name)


def _type(kind: str) -> Rule:
    read = simple(kind)

    def rule(node: Node, file: File) -> Found | None:
        found = read(node, file)
        if found is None:
            return None
        return Found(found.name, kind, at=found.at, body=found.body, bases=_bases(node))

    return rule


def _bases(node: Node) -> tuple[str, ...]:
    extends = node.child_by_field_name("extend")
    types = extends.children_by_field_name("type") if extends is not None else []
    return tuple(base for base in map(base_name, types[:32]) if base)


def _given(node: Node, file: File) -> Found | None:
    del file
    name = node.child_by_field_name("name") or node.child_by_field_name("return_type")
    body = node.child_by_field_name("body")
    if name is None or node.start_point[0] == node.end_point[0]:
        return None
    return Found(segment(re.sub(r"\W+", " ", text_of(name, 100))), "instance", at=name, body=body)


def _call(node: Node, file: File) -> Found | None:
    """`test("title") { … }` of ScalaTest and MUnit, in test files."""
    inner = node.child_by_field_name("function")
    if not file.in_tests or inner is None or inner.type != "call_expression":
        return None
    word = text_of(inner.child_by_field_name("function"), 40)
    title = named(inner.child_by_field_name("arguments"))
    if title is None or word not in _GROUPS | _CASES:
        return None
    return _titled(title, node.child_by_field_name("arguments"), group=word in _GROUPS)


def _infix(node: Node, file: File) -> Found | None:
    """`"a stack" should "pop" in { … }` and `"a stack" when { … }`."""
    block = node.child_by_field_name("right")
    operator = text_of(node.child_by_field_name("operator"), 10)
    if not file.in_tests or block is None or block.type not in ("block", "indented_block"):
        return None
    left = node.child_by_field_name("left")
    if operator not in _JOINS or left is None or "string" not in _first(left).type:
        return None
    return _titled(left, block, group=operator not in ("in", ">>"))


def _first(node: Node) -> Node:
    while node.type == "infix_expression" and (left := node.child_by_field_name("left")):
        node = left
    return node


def _titled(title: Node, body: Node | None, *, group: bool) -> Found:
    name = clean_title(text_of(title, 400).replace('"', ""))
    if group:
        return Found(name, "")
    return Found(name, "function", body=body, is_test=True)


_WORDS = r"(?:[\w@]+(?:\[\w*\]|\([^()]*\))? +)*?"
_HEADS = (
    head("trait", rf"{_WORDS}trait +(?P<name>\w+)"),
    head("class", rf"{_WORDS}(?:class|object) +(?P<name>\w+)"),
    head("enum", rf"{_WORDS}enum +(?P<name>\w+)"),
    head("function", rf"{_WORDS}def +(?P<name>[\w]+)"),
)


def _language() -> Language:
    import tree_sitter_scala

    return Language(tree_sitter_scala.language())


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        heads=_HEADS,
        rules={
            "class_definition": _type("class"),
            "object_definition": _type("class"),
            "package_object": _type("class"),
            "trait_definition": _type("trait"),
            "enum_definition": _type("enum"),
            "given_definition": _given,
            "function_definition": simple("function"),
            "function_declaration": simple("function"),
            "type_definition": simple("type", body="type"),
            "package_clause": namespace(),
            "call_expression": _call,
            "infix_expression": _infix,
        },
        leading=frozenset({"comment", "block_comment"}),
        owners=frozenset({"class", "trait", "enum", "instance"}),
        patterns={
            "call_expression": "(call_expression function: (call_expression)) @n",
            "infix_expression": "(infix_expression right: [(block) (indented_block)]) @n",
        },
        package=package,
    )
