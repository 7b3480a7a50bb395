"""Dart: types and their members. The body of a function is its signature's neighbour in the tree."""

from __future__ import annotations

from tree_sitter import Language, Node

from etl.languages.kit.nodes import named, text_of
from etl.languages.kit.scopes import clean_title
from etl.languages.tables.rules import File, Found, Rule, Table, base_name

_SIGNATURES = frozenset(
    {"function_signature", "getter_signature", "setter_signature", "operator_signature"}
    | {"constructor_signature", "factory_constructor_signature", "constant_constructor_signature"}
    | {"redirecting_factory_constructor_signature"}
)
_BASES = frozenset({"superclass", "interfaces", "mixins"})
_CASES = frozenset({"test", "testWidgets"})


def _type(kind: str) -> Rule:
    def rule(node: Node, file: File) -> Found | None:
        del file
        name = node.child_by_field_name("name") or next(
            (c for c in node.named_children if c.type in ("identifier", "type_identifier")), None
        )
        if name is None:
            return None
        body = node.child_by_field_name("body")
        return Found(text_of(name, 200), kind, at=name, body=body, bases=tuple(_bases(node)))

    return rule


def _bases(node: Node) -> list[str]:
    found = []
    for clause in node.named_children:
        if clause.type not in _BASES:
            continue
        for part in clause.named_children[:32]:
            if part.type == "mixins":
                found += [base_name(p) for p in part.named_children if p.type == "type_identifier"]
            elif part.type == "type_identifier":
                found.append(base_name(part))
    return [base for base in found if base]


def _member(node: Node, file: File) -> Found | None:
    """A method with its body, which follows it; inside `declaration` one without."""
    signature = next((c for c in node.named_children if c.type in _SIGNATURES), None)
    if signature is None:
        return None
    file.skip.add(signature.id)
    return _signature_found(node, signature)


def _signature(node: Node, file: File) -> Found | None:
    del file
    return _signature_found(node, node)


def _signature_found(node: Node, signature: Node) -> Found | None:
    after = node.next_named_sibling
    body = after if after is not None and after.type == "function_body" else None
    if "constructor" in signature.type:
        words = [text_of(c, 200) for c in signature.named_children if c.type == "identifier"][:2]
        if node.type == "declaration" and node.start_point[0] == node.end_point[0]:
            return None  # a line of its class
        return Found(words[-1] if words else "", "constructor", until=body, body=body)
    if signature.type == "operator_signature":
        symbol = named(signature, 1)
        return Found(f"operator{text_of(symbol, 10)}", "method", until=body, body=body)
    name = signature.child_by_field_name("name")
    if name is None:
        return None
    return Found(text_of(name, 200), "function", at=name, until=body, body=body)


def _call(node: Node, file: File) -> Found | None:
    """`test("does", () { … })` of package:test, in test files."""
    word = text_of(named(node), 20)
    selector = named(node, 1)
    if not file.in_tests or selector is None or word not in _CASES | {"group"}:
        return None
    arguments = named(named(selector))
    title = named(named(arguments))
    if title is None or title.type != "string_literal":
        return None
    name = clean_title(text_of(title, 300).strip("'\""))
    return Found(name, "") if word == "group" else Found(name, "function", is_test=True)


def _language() -> Language:
    import tree_sitter_dart

    return Language(tree_sitter_dart.language())


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        rules={
            "class_definition": _type("class"),
            "mixin_declaration": _type("trait"),
            "extension_declaration": _type("class"),
            "extension_type_declaration": _type("class"),
            "enum_declaration": _type("enum"),
            "type_alias": _type("type"),
            "method_signature": _member,
            "declaration": _member,
            "function_signature": _signature,
            "getter_signature": _signature,
            "setter_signature": _signature,
            "expression_statement": _call,
        },
        leading=frozenset({"comment", "documentation_comment", "annotation"}),
        patterns={
            "expression_statement": "(expression_statement (identifier) (selector (argument_part))) @n"
        },
    )
