"""Rust: items and what `impl` blocks hold; `impl Base for Foo` makes Foo inherit Base."""

from __future__ import annotations

import re

from tree_sitter import Language, Node

from etl.languages.kit.nodes import text_of
from etl.languages.tables.rules import (
    MEMBERS,
    File,
    Found,
    Table,
    base_name,
    dotted,
    head,
    namespace,
    simple,
)

_TEST = re.compile(rb"#\[\s*(?:\w+\s*::\s*)*(?:test|rstest|quickcheck|test_case|bench)\b")


def _impl(node: Node, file: File) -> Found | None:
    del file
    type_, trait = node.child_by_field_name("type"), node.child_by_field_name("trait")
    if type_ is None:
        return None
    while type_.type == "reference_type" and (inner := type_.child_by_field_name("type")):
        type_ = inner
    name = dotted(text_of(type_, 300))
    base = base_name(trait) if trait is not None else ""
    if not re.fullmatch(r"[\w.]+", name):  # `impl Base for [T]`, `(A, B)`, `dyn Foo`
        name = re.sub(r"\W+", "_", name).strip("_") or "_"
    return Found(name.rpartition(".")[2], "", bases=(base,) if base else (), members=True)


_WORDS = r"(?:pub(?:\([^()]*\))? +)?"
_HEADS = (
    head("struct", rf"{_WORDS}(?:struct|union) +(?P<name>\w+)"),
    head("enum", rf"{_WORDS}enum +(?P<name>\w+)"),
    head("trait", rf"{_WORDS}(?:unsafe +)?trait +(?P<name>\w+)"),
    head(
        MEMBERS, r"(?:unsafe +)?impl(?:<[^{}]*?>)? +(?:[\w:<>, &']+ for +)?(?:\w+::)*(?P<name>\w+)"
    ),
    head("", rf"{_WORDS}mod +(?P<name>\w+) *\{{"),
    head(
        "function",
        rf"{_WORDS}(?:(?:const|async|unsafe|default|extern +\"\w+\") +)*fn +(?P<name>\w+)",
    ),
)


def _language() -> Language:
    import tree_sitter_rust

    return Language(tree_sitter_rust.language())


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        heads=_HEADS,
        opaque=frozenset({"macro_invocation"}),
        rules={
            "function_item": simple("function"),
            "function_signature_item": simple("function"),
            "struct_item": simple("struct"),
            "union_item": simple("struct"),
            "enum_item": simple("enum"),
            "trait_item": simple("trait", bases=["trait_bounds"]),
            "type_item": simple("type", body="type"),
            "macro_definition": simple("macro"),
            "mod_item": namespace(),
            "impl_item": _impl,
        },
        leading=frozenset({"line_comment", "block_comment", "attribute_item"}),
        test_mark=_TEST,
    )
