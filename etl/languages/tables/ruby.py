"""Ruby: classes, modules, methods, and the tests of RSpec and Minitest.

A module that holds no method of its own is only a name round its classes.
"""

from __future__ import annotations

import re

from tree_sitter import Language, Node

from etl.languages.kit.nodes import named, text_of
from etl.languages.kit.scopes import clean_title
from etl.languages.tables.rules import File, Found, Table, base_name, bases_of, dotted

_METHODS = frozenset({"method", "singleton_method", "singleton_class"})
_GROUPS = frozenset({"describe", "context", "feature", "shared_examples", "shared_context"})
_CASES = frozenset({"it", "specify", "test", "scenario", "example", "should"})
_RECORDS = ("Struct.new", "Class.new", "Module.new", "Data.define")
_SUPER = frozenset({"superclass"})


def _class(node: Node, file: File) -> Found | None:
    del file
    name = node.child_by_field_name("name")
    if name is None:
        return None
    body = node.child_by_field_name("body")
    return Found(
        dotted(text_of(name, 300)), "class", at=name, body=body, bases=bases_of(node, _SUPER)
    )


def _module(node: Node, file: File) -> Found | None:
    del file
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is None:
        return None
    holds = body is not None and any(c.type in _METHODS for c in body.named_children)
    return Found(dotted(text_of(name, 300)), "namespace" if holds else "", at=name, body=body)


def _method(node: Node, file: File) -> Found | None:
    del file
    name = node.child_by_field_name("name")
    if name is None:
        return None
    own = node.child_by_field_name("object")
    owner = text_of(own, 200) if own is not None and own.type == "constant" else ""
    body = node.child_by_field_name("body")
    text = text_of(name, 200)
    return Found(
        "_index" if text.startswith("[") else text, "function", at=name, body=body, owner=owner
    )


def _assignment(node: Node, file: File) -> Found | None:
    """`Point = Struct.new(:x) do … end`."""
    del file
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None or left.type != "constant" or right.type != "call":
        return None
    receiver, method = right.child_by_field_name("receiver"), right.child_by_field_name("method")
    made = f"{text_of(receiver, 40)}.{text_of(method, 40)}"
    if made not in _RECORDS:
        return None
    base = named(right.child_by_field_name("arguments")) if made == "Class.new" else None
    bases = (
        (base_name(base),)
        if base is not None and base.type in ("constant", "scope_resolution")
        else ()
    )
    body = right.child_by_field_name("block")
    return Found(text_of(left, 200), "class", at=left, body=body, bases=bases)


def _call(node: Node, file: File) -> Found | None:
    """`describe "x" do`, `it "does" do` in tests; `define_method(:x) do` anywhere."""
    method = text_of(node.child_by_field_name("method"), 40)
    block = node.child_by_field_name("block")
    first = named(node.child_by_field_name("arguments"))
    if first is None or not method:
        return None
    if method == "define_method" and first.type in ("simple_symbol", "string"):
        return Found(text_of(first, 200).strip(":'\""), "function", body=block)
    if not file.in_tests or method not in _GROUPS | _CASES:
        return None
    title = clean_title(text_of(first, 300).strip("'\""))
    if method in _GROUPS:
        return Found(title, "")
    return Found(title, "function", body=block, is_test=True)


def _language() -> Language:
    import tree_sitter_ruby

    return Language(tree_sitter_ruby.language())


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        rules={
            "class": _class,
            "module": _module,
            "method": _method,
            "singleton_method": _method,
            "assignment": _assignment,
            "call": _call,
        },
        owners=frozenset({"class", "namespace"}),
        patterns={
            "class": "(class name: (_)) @n",
            "module": "(module name: (_)) @n",
            "call": "(call block: (_)) @n",
            "assignment": "(assignment left: (constant)) @n",
        },
        test_name=re.compile(r"test_"),
    )
