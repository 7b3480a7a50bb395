"""C#: types and their members. The module of a file with one namespace is that namespace."""

from __future__ import annotations

import re

from tree_sitter import Language, Node

from etl.languages.kit.nodes import text_of
from etl.languages.tables.rules import File, Found, Rule, Table, dotted, head, namespace, simple

_TEST = re.compile(
    rb"\[[^\[\]]*?\b(?:Fact|Theory|Test|TestCase|TestCaseSource|TestMethod|DataTestMethod|Property)(?:Attribute)?\b"
)
# What a branch of a statement that `#if` cuts in two may be read as a function of.
_NO_NAMES = frozenset(
    {"if", "for", "foreach", "while", "switch", "catch", "using", "lock", "fixed"}
)
_NAMESPACES = frozenset({"namespace_declaration", "file_scoped_namespace_declaration"})
_LOOKED_AT = 200  # children of the file


def _namespaces(root: Node) -> list[Node]:
    found = []
    for child in root.named_children[:_LOOKED_AT]:
        if child.type in _NAMESPACES:
            found.append(child)
        elif child.type.startswith("preproc_if"):
            found += [c for c in child.named_children[:_LOOKED_AT] if c.type in _NAMESPACES]
    return found


def package(root: Node, file: File) -> str:
    found = _namespaces(root)
    if len(found) != 1:
        return ""
    file.skip.add(found[0].id)
    return dotted(text_of(found[0].child_by_field_name("name"), 300))


def _type(kind: str) -> Rule:
    return simple(kind, bases=["base_list"])


def _function(kind: str) -> Rule:
    read = simple(kind)

    def rule(node: Node, file: File) -> Found | None:
        found = read(node, file)
        return None if found is None or found.name in _NO_NAMES else found

    return rule


def _property(node: Node, file: File) -> Found | None:
    """A property that computes something; one that only holds a value is a line of its class."""
    del file
    name = node.child_by_field_name("name")
    body = node.child_by_field_name("accessors") or node.child_by_field_name("value")
    if name is None or body is None:
        return None
    has_code = body.type == "arrow_expression_clause" or any(
        c.child_by_field_name("body") is not None for c in body.named_children
    )
    one_line = node.start_point[0] == node.end_point[0]
    return (
        None
        if one_line or not has_code
        else Found(text_of(name, 200), "method", at=name, body=body)
    )


def _operator(node: Node, file: File) -> Found | None:
    del file
    text = text_of(node.child_by_field_name("operator") or node.child_by_field_name("type"), 60)
    return Found(
        f"operator{text}".replace(".", "_"), "method", body=node.child_by_field_name("body")
    )


def _indexer(node: Node, file: File) -> Found | None:
    del file
    return Found("this[]", "method", body=node.child_by_field_name("accessors"))


def _destructor(node: Node, file: File) -> Found | None:
    del file
    name = node.child_by_field_name("name")
    return Found(f"~{text_of(name, 200)}", "method", at=name, body=node.child_by_field_name("body"))


_WORDS = r"(?:(?:public|private|protected|internal|static|sealed|abstract|partial|virtual|override|async|readonly|unsafe|extern|new|ref) +)"
_HEADS = (
    head("", r"namespace +(?P<name>[\w.]+)"),
    head("class", rf"{_WORDS}*(?:class|record) +(?P<name>\w+)"),
    head("struct", rf"{_WORDS}*struct +(?P<name>\w+)"),
    head("interface", rf"{_WORDS}*interface +(?P<name>\w+)"),
    head("enum", rf"{_WORDS}*enum +(?P<name>\w+)"),
    head(
        "method",
        rf"{_WORDS}+(?:[\w.]+(?:<[^;{{}}=()]*>)?[?\[\],]* +)?(?P<name>\w+)(?:<[\w, ]*>)? *\([^;={{}}]*(?:[,(){{]|=>.*)$",
    ),
)


def _language() -> Language:
    import tree_sitter_c_sharp

    return Language(tree_sitter_c_sharp.language())


def table(language: str) -> Table:
    del language
    return Table(
        load=_language,
        heads=_HEADS,
        rules={
            "class_declaration": _type("class"),
            "record_declaration": _type("class"),
            "record_struct_declaration": _type("struct"),
            "struct_declaration": _type("struct"),
            "interface_declaration": _type("interface"),
            "enum_declaration": _type("enum"),
            "delegate_declaration": simple("type", body="parameters"),
            "method_declaration": _function("method"),
            "constructor_declaration": simple("constructor"),
            "destructor_declaration": _destructor,
            "operator_declaration": _operator,
            "conversion_operator_declaration": _operator,
            "indexer_declaration": _indexer,
            "property_declaration": _property,
            "local_function_statement": _function("function"),
            "namespace_declaration": namespace(),
            "file_scoped_namespace_declaration": namespace(),
        },
        test_mark=_TEST,
        package=package,
    )
