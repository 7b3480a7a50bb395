"""OCaml: functions, modules, types, classes. A value that is no function stays in its module's text."""

from __future__ import annotations

from tree_sitter import Language, Node

from etl.languages.kit.nodes import named, text_of
from etl.languages.tables.rules import File, Found, Rule, Table

_FUNCTIONS = frozenset({"fun_expression", "function_expression"})
_NAMES = frozenset({"value_name", "parenthesized_operator"})
_MANY = 3  # lines from which a value is a definition


def _value(node: Node, file: File) -> Found | None:
    pattern, body = node.child_by_field_name("pattern"), node.child_by_field_name("body")
    if pattern is None or body is None or pattern.type not in _NAMES:
        return None
    parameters = any(c.type == "parameter" for c in node.named_children)
    lines = node.end_point[0] - node.start_point[0] + 1
    if not parameters and body.type not in _FUNCTIONS and lines < _MANY:
        return None
    name = text_of(pattern, 100).strip("() ").replace(".", "_")
    return Found(name, "function", at=pattern, body=body, since=_begin(node, file))


def _begin(node: Node, file: File) -> int:
    """The byte of the `let`, `and`, `module` or `type` before a binding."""
    at = node.start_byte
    head = file.source[max(0, at - 40) : at]
    line = head.rpartition(b"\n")[2]
    words = line.split()
    if words and all(word.isalpha() or word.startswith(b"%") for word in words):
        return at - len(line) + len(line) - len(line.lstrip())
    return at


def _module(node: Node, file: File) -> Found | None:
    """A module with a body holds definitions; a functor too."""
    name = next((c for c in node.named_children if c.type == "module_name"), None)
    body = node.child_by_field_name("body")
    if name is None or body is None or body.type not in ("structure", "signature"):
        return None
    return Found(text_of(name, 200), "namespace", at=name, body=body, since=_begin(node, file))


def _module_type(node: Node, file: File) -> Found | None:
    del file
    name = next((c for c in node.named_children if c.type == "module_type_name"), None)
    body = node.child_by_field_name("body")
    return Found(text_of(name, 200), "interface", at=name, body=body) if name is not None else None


def _type(node: Node, file: File) -> Found | None:
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is None or body is None or name.type != "type_constructor":
        return None
    return Found(text_of(name, 200), "type", at=name, body=body, since=_begin(node, file))


def _class(node: Node, file: File) -> Found | None:
    name = next((c for c in node.named_children if c.type == "class_name"), None)
    if name is None:
        return None
    body = node.child_by_field_name("body")
    return Found(text_of(name, 200), "class", at=name, body=body, since=_begin(node, file))


def _method(node: Node, file: File) -> Found | None:
    del file
    name = next((c for c in node.named_children if c.type == "method_name"), None)
    if name is None:
        return None
    return Found(text_of(name, 200), "method", at=name, body=node.child_by_field_name("body"))


def _external(node: Node, file: File) -> Found | None:
    del file
    name = named(node)
    return Found(text_of(name, 200).strip("() "), "function", at=name) if name is not None else None


def _implementation() -> Language:
    import tree_sitter_ocaml

    return Language(tree_sitter_ocaml.language_ocaml())


def _interface() -> Language:
    import tree_sitter_ocaml

    return Language(tree_sitter_ocaml.language_ocaml_interface())


_RULES: dict[str, Rule] = {
    "module_type_definition": _module_type,
    "type_binding": _type,
    "class_binding": _class,
    "method_definition": _method,
    "external": _external,
}


def table(language: str) -> Table:
    owners = frozenset({"class"})
    if language == "ocaml_interface":
        return Table(load=_interface, rules=_RULES, owners=owners)
    return Table(
        load=_implementation,
        rules={**_RULES, "let_binding": _value, "module_binding": _module},
        patterns={
            "let_binding": "(compilation_unit (value_definition (let_binding) @n))"
            " (structure (value_definition (let_binding) @n))"
        },
        owners=owners,
        dialect=lambda source, path: "ocaml_interface" if path.endswith(".mli") else "",
    )
