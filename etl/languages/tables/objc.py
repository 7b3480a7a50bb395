"""Objective-C: C, and classes by their interface and their implementation. A category adds members."""

from __future__ import annotations

from tree_sitter import Language, Node

from etl.languages.kit.nodes import named, text_of
from etl.languages.tables import c_family
from etl.languages.tables.rules import File, Found, Rule, Table, base_name


def _class(node: Node, file: File) -> Found | None:
    del file
    name = named(node)
    if name is None or name.type != "identifier":
        return None
    if node.child_by_field_name("category") is not None:
        return Found(text_of(name, 200), "", members=True)
    parent = node.child_by_field_name("superclass")
    base = base_name(parent) if parent is not None else ""
    return Found(text_of(name, 200), "class", at=name, bases=(base,) if base else ())


def _protocol(node: Node, file: File) -> Found | None:
    del file
    name = named(node)
    return Found(text_of(name, 200), "interface", at=name) if name is not None else None


def _method(node: Node, file: File) -> Found | None:
    """`initWithName:size:` is called `initWithName_size`."""
    del file
    words = [c for c in node.named_children if c.type == "identifier"]
    body = next((c for c in node.named_children if c.type == "compound_statement"), None)
    if not words or body is None:
        return None
    return Found("_".join(text_of(w, 100) for w in words[:12]), "method", at=words[0], body=body)


def _language() -> Language:
    import tree_sitter_objc

    return Language(tree_sitter_objc.language())


def table(language: str) -> Table:
    del language
    shared = c_family.table("c")
    rules: dict[str, Rule] = {
        **shared.rules,
        "class_interface": _class,
        "class_implementation": _class,
        "protocol_declaration": _protocol,
        "method_definition": _method,
    }
    return Table(
        load=_language,
        rules=rules,
        test_name=shared.test_name,
        patterns=shared.patterns,
        repair=c_family.repair,
    )
