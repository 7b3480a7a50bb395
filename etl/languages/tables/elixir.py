"""Elixir: modules, protocols and what they define. Clauses of one name and arity are one function."""

from __future__ import annotations

from tree_sitter import Language, Node

from etl.languages.kit.nodes import named, text_of
from etl.languages.kit.scopes import clean_title
from etl.languages.tables.rules import File, Found, Table

_MODULES = {"defmodule": "namespace", "defprotocol": "interface", "defimpl": "instance"}
_FUNCTIONS = {
    **dict.fromkeys(("def", "defp", "defdelegate", "defn", "defnp"), "function"),
    **dict.fromkeys(("defmacro", "defmacrop", "defguard", "defguardp"), "macro"),
}
_TESTS = frozenset({"test", "property", "feature"})
_WORDS = (*_MODULES, *_FUNCTIONS, *sorted(_TESTS), "describe")


def _call(node: Node, file: File) -> Found | None:
    word = text_of(node.child_by_field_name("target"), 20)
    arguments = next((c for c in node.named_children if c.type == "arguments"), None)
    body = next((c for c in node.named_children if c.type == "do_block"), None)
    first = named(arguments)
    if first is None:
        return None
    if word in _MODULES:
        return _module(word, first, arguments, body)
    if word in _FUNCTIONS:
        return _function(_FUNCTIONS[word], first, body)
    if first.type != "string" or body is None or not file.in_tests:
        return None
    title = clean_title(text_of(first, 300).strip('"'))
    return Found(title, "") if word == "describe" else Found(title, "function", is_test=True)


def _module(word: str, first: Node, arguments: Node | None, body: Node | None) -> Found | None:
    """`defimpl P, for: T` is the module `P.T`."""
    name = text_of(first, 200)
    if first.type not in ("alias", "dot") or body is None:
        return None
    if word == "defimpl":
        keywords = named(arguments, 1)
        pair = named(keywords) if keywords is not None and keywords.type == "keywords" else None
        value = pair.child_by_field_name("value") if pair is not None else None
        name = (
            f"{name}.{text_of(value, 200)}" if value is not None and value.type == "alias" else name
        )
    return Found(name.replace("__MODULE__.", ""), _MODULES[word], at=first, body=body)


def _function(kind: str, head: Node, body: Node | None) -> Found | None:
    if (
        head.type == "binary_operator"
        and text_of(head.child_by_field_name("operator"), 8) == "when"
    ):
        head = head.child_by_field_name("left") or head
    if head.type in ("binary_operator", "unary_operator"):
        operator = text_of(head.child_by_field_name("operator"), 8)
        return Found(operator.replace(".", "_"), kind, at=head, body=body, joins="operator")
    target, arity = head, 0
    if head.type == "call":
        target = head.child_by_field_name("target") or head
        arguments = next((c for c in head.named_children if c.type == "arguments"), None)
        arity = arguments.named_child_count if arguments is not None else 0
    if target.type not in ("identifier", "operator_identifier"):
        return None
    return Found(text_of(target, 200), kind, at=target, body=body, joins=f"/{arity}")


def _language() -> Language:
    import tree_sitter_elixir

    return Language(tree_sitter_elixir.language())


def table(language: str) -> Table:
    del language
    words = " ".join(f'"{word}"' for word in _WORDS)
    return Table(
        load=_language,
        rules={"call": _call},
        leading=frozenset({"comment", "unary_operator"}),
        owners=frozenset(),
        patterns={
            "call": f"((call target: (identifier) @t) @n (#any-of? @t {words}))",
            "unary_operator": '(unary_operator operator: "@") @n',
        },
    )
