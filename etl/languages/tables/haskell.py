"""Haskell: a signature and the equations below it are one definition."""

from __future__ import annotations

from tree_sitter import Language, Node

from etl.languages.kit.nodes import named, text_of
from etl.languages.tables.rules import File, Found, Rule, Table, segment

_EVERYWHERE = ("declarations", "class_declarations", "instance_declarations", "local_binds")


def _equation(node: Node, file: File) -> Found | None:
    del file
    name = node.child_by_field_name("name")
    if name is None:
        infix = next((c for c in node.named_children if c.type == "infix"), None)
        name = infix.child_by_field_name("operator") if infix is not None else None
    if name is None:
        return None
    return Found(
        _plain(name), "function", at=name, body=node.child_by_field_name("match"), joins="="
    )


def _signature(node: Node, file: File) -> Found | None:
    """Of `a, b :: Int` the first stands for all."""
    del file
    name = node.child_by_field_name("name") or named(node.child_by_field_name("names"))
    if name is None:
        return None
    return Found(_plain(name), "function", at=name, joins="=")


def _plain(name: Node) -> str:
    return text_of(name, 200).strip("()` ").replace(".", "_")


def _type(kind: str) -> Rule:
    def rule(node: Node, file: File) -> Found | None:
        del file
        name = node.child_by_field_name("name")
        if name is None:
            return None
        body = node.child_by_field_name("constructors") or node.child_by_field_name("declarations")
        return Found(_plain(name), kind, at=name, body=body)

    return rule


def _instance(node: Node, file: File) -> Found | None:
    """`instance Show Foo` is called `Show_Foo`."""
    del file
    name, patterns = node.child_by_field_name("name"), node.child_by_field_name("patterns")
    if name is None:
        return None
    text = segment(f"{text_of(name, 100)} {text_of(patterns, 100)}")
    body = node.child_by_field_name("declarations")
    return Found(text, "instance", at=name, body=body, bases=(text_of(name, 100),))


def _foreign(node: Node, file: File) -> Found | None:
    signature = node.child_by_field_name("signature")
    return _signature(signature, file) if signature is not None else None


def _language() -> Language:
    import tree_sitter_haskell

    return Language(tree_sitter_haskell.language())


def _under(kind: str, *parents: str) -> str:
    return " ".join(f"({parent} ({kind}) @n)" for parent in parents)


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        rules={
            "signature": _signature,
            "function": _equation,
            "bind": _equation,
            "data_type": _type("type"),
            "newtype": _type("type"),
            "type_synomym": _type("type"),
            "type_synonym": _type("type"),
            "type_family": _type("type"),
            "data_family": _type("type"),
            "class": _type("class"),
            "instance": _instance,
            "foreign_import": _foreign,
        },
        leading=frozenset({"comment", "haddock", "pragma"}),
        owners=frozenset({"class", "instance"}),
        patterns={
            "signature": _under("signature", *_EVERYWHERE),
            "function": _under("function", *_EVERYWHERE),
            "bind": _under("bind", *_EVERYWHERE[:3]),
            "class": _under("class", "declarations"),
            "instance": _under("instance", "declarations"),
        },
    )
