"""Julia: functions in their long and short form, types, macros, modules."""

from __future__ import annotations

import re

from tree_sitter import Language, Node

from etl.languages.kit.nodes import named, text_of
from etl.languages.tables.rules import File, Found, Rule, Table, dotted, namespace

_HOPS = 8
_OPERATOR = re.compile(r":\(?([^\s\w(){},;]+)\)?$")  # `Base.:+`, `Base.:(==)`
_WRAPPED = frozenset({"signature", "where_expression", "typed_expression", "binary_expression"})
_TYPED = frozenset(
    {"parametrized_type_expression", "binary_expression", "type_head", "where_expression"}
)


def _callee(node: Node | None) -> Node | None:
    """The name that `f(x)::T where T` calls."""
    for _ in range(_HOPS):
        if node is None:
            return None
        if node.type == "call_expression":
            return named(node)
        if node.type in ("identifier", "operator"):
            return node
        if node.type not in _WRAPPED:
            return None
        node = named(node)
    return None


def _name(node: Node | None) -> str:
    """`show` of `Base.show`, `Foo` of `Foo{T}`, `==` of `Base.:(==)`."""
    text = text_of(node, 200)
    if operator := _OPERATOR.search(text):
        return operator[1].replace(".", "_")
    text = dotted(text.partition("{")[0])
    return text.rpartition(".")[2] if text.strip(".") else ""


def _function(kind: str) -> Rule:
    def rule(node: Node, file: File) -> Found | None:
        del file
        at = _callee(named(node))
        return Found(_name(at), kind, at=at, body=named(node, 1)) if at is not None else None

    return rule


def _assignment(node: Node, file: File) -> Found | None:
    """`f(x) = …`."""
    del file
    left = named(node)
    if left is None or left.type not in ("call_expression", "typed_expression", "where_expression"):
        return None
    at = _callee(left)
    return Found(_name(at), "function", at=at, body=named(node, 2)) if at is not None else None


def _type(kind: str) -> Rule:
    def rule(node: Node, file: File) -> Found | None:
        del file
        head = next((c for c in node.named_children if c.type == "type_head"), None)
        at, base = named(head), ""
        for _ in range(_HOPS):
            if at is None or at.type not in _TYPED:
                break
            if at.type == "binary_expression":
                base = _name(named(at, 2))
            at = named(at)
        if at is None:
            return None
        return Found(_name(at), kind, at=at, body=named(node, 1), bases=(base,) if base else ())

    return rule


def _language() -> Language:
    import tree_sitter_julia

    return Language(tree_sitter_julia.language())


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        rules={
            "function_definition": _function("function"),
            "macro_definition": _function("macro"),
            "assignment": _assignment,
            "struct_definition": _type("struct"),
            "abstract_definition": _type("type"),
            "primitive_definition": _type("type"),
            "module_definition": namespace(),
        },
        leading=frozenset({"line_comment", "block_comment", "string_literal"}),
        wrappers=frozenset({"macrocall_expression"}),
        owners=frozenset(),
        patterns={
            "assignment": "(assignment . [(call_expression) (typed_expression (call_expression))"
            " (where_expression)]) @n",
            "macrocall_expression": "(macrocall_expression (macro_argument_list"
            " [(function_definition) (assignment) (struct_definition)])) @n",
        },
    )
