"""Reading JavaScript and TypeScript expressions and types: syntax nodes to chains, without scopes."""

from __future__ import annotations

import re
from collections.abc import Callable

from tree_sitter import Node

from etl.languages.lexical import KEEP, MAX_HOPS, MAX_SEGMENTS, UNKNOWN
from etl.languages.nodes import named, short_text, text_of

FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function", "function"})
_DOTTED = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$#][\w$]*)*")
_IDENTIFIER = re.compile(r"[#A-Za-z_$\u0080-\uffff][\w$\u0080-\uffff-]*")
_UNWRAP = frozenset({"await_expression", "parenthesized_expression", "non_null_expression"})
_CAST = frozenset({"as_expression", "satisfies_expression"})
_NO_TYPE = frozenset({"any", "unknown", "void", "never", "null", "undefined", "const", "object"})
# Their argument is the type that matters: a promise is awaited, the others change no member.
_SEE_THROUGH = frozenset(
    {"Promise", "PromiseLike", "Readonly", "Partial", "Required", "NonNullable", "Awaited", "Ref"}
)
_COLLECTIONS = frozenset(
    {"Array", "ReadonlyArray", "Set", "ReadonlySet", "Iterable", "Iterator", "IterableIterator"}
    | {"AsyncIterable", "AsyncIterator", "Generator", "AsyncGenerator"}
)
_TYPES_DEEP = 6  # nested type arguments that are looked into


def string_value(node: Node | None) -> str | None:
    """The text of a string literal without `${}`; None for anything else."""
    if node is None or node.type not in ("string", "template_string"):
        return None
    if node.type == "template_string" and any(
        c.type == "template_substitution" for c in node.named_children
    ):
        return None
    return text_of(node)[1:-1]


def property_name(node: Node | None) -> str:
    """A member's name as one segment; "" for a computed one."""
    if node is None:
        return ""
    if node.type in ("string", "number"):
        name = short_text(node).strip("'\"")
    elif node.type == "computed_property_name":
        return ""
    else:
        name = short_text(node)
    return name if len(name) <= 120 and _IDENTIFIER.fullmatch(name) else ""


def plain_chain(node: Node) -> str:
    """The dotted path of a name or of `a.b.c`; "" when it is anything more."""
    text = short_text(node)
    return text if _DOTTED.fullmatch(text) else ""


def chain_of(node: Node | None, require: Callable[[Node], str]) -> str:
    """The chain of any expression. `require` names the module of a `require(…)` or `import(…)` call.

    Iterative and bounded: `a.b().c()…` of any length costs MAX_SEGMENTS steps.
    """
    segments: list[str] = []
    suffix = ""
    for _ in range(3 * MAX_SEGMENTS):
        if node is None or len(segments) > MAX_SEGMENTS:
            del segments[1:]
            break
        kind = node.type
        if kind == "identifier":
            return _join(segments, (short_text(node) or UNKNOWN) + suffix)
        if kind == "member_expression":
            plain = plain_chain(node)
            if plain and not plain.startswith(("this.", "super.")):
                return _join(segments, plain + suffix)
            name = property_name(node.child_by_field_name("property"))
            segments.append((name or UNKNOWN) + suffix)
            suffix, node = "", node.child_by_field_name("object")
        elif kind == "call_expression":
            module = require(node)
            if module:
                return _join(segments, module + suffix)
            suffix, node = "()" + suffix, node.child_by_field_name("function")
        elif kind == "new_expression":
            suffix, node = "()" + suffix, node.child_by_field_name("constructor")
        elif kind == "subscript_expression":
            key = string_value(node.child_by_field_name("index"))
            if key is not None and _IDENTIFIER.fullmatch(key):
                segments.append(key + suffix)
                suffix = ""
            else:
                suffix = "[]" + suffix
            node = node.child_by_field_name("object")
        elif kind == "this":
            return _join(segments, "this" + suffix)
        elif kind == "super":
            return _join(segments, "super()" + suffix)
        elif kind in _UNWRAP:
            node = named(node)
        elif kind in _CAST:
            type_ = type_of(named(node, 1))
            if type_:
                return _join(segments, f"{type_}()" + suffix)
            node = named(node)
        elif kind == "assignment_expression":
            node = node.child_by_field_name("right")
        elif kind == "sequence_expression":
            node = node.child_by_field_name("right") or named(node, node.named_child_count - 1)
        elif kind == "instantiation_expression":
            node = named(node)
        else:
            break
    return _join(segments, UNKNOWN)


def _join(segments: list[str], head: str) -> str:
    if not segments:
        return head
    return ".".join((head, *reversed(segments)))


def assigned(node: Node) -> Node:
    """`value` of `a = b = value`."""
    for _ in range(MAX_HOPS):
        right = node.child_by_field_name("right") if node.type == "assignment_expression" else None
        if right is None:
            break
        node = right
    return node


def value_of(node: Node | None, require: Callable[[Node], str]) -> str:
    """What a name stands for once this expression is assigned to it: a chain, KEEP, UNKNOWN or ""."""
    if node is None:
        return ""
    node = assigned(node)
    kind = node.type
    if kind in FUNCTIONS or kind in ("class", "object"):
        return KEEP
    if kind in ("null", "undefined"):
        return ""
    return chain_of(node, require)


def type_of(node: Node | None) -> str:
    """The type's name, `Foo[]` for a collection of Foo, "" for what has no name."""
    suffix = ""
    for _ in range(_TYPES_DEEP):
        if node is None:
            return ""
        kind = node.type
        if kind in ("type_annotation", "parenthesized_type", "readonly_type", "optional_type"):
            node = named(node)
        elif kind in ("type_identifier", "nested_type_identifier", "identifier"):
            name = text_of(node)
            return "" if name in _NO_TYPE or len(name) > 120 else name + suffix
        elif kind == "this_type" or kind == "this":
            return "this" + suffix
        elif kind == "array_type":
            suffix, node = "[]" + suffix, named(node)
        elif kind == "generic_type":
            name = text_of(head) if (head := node.child_by_field_name("name")) else ""
            arguments = node.child_by_field_name("type_arguments")
            if name in _SEE_THROUGH or name in _COLLECTIONS:
                suffix = ("[]" if name in _COLLECTIONS else "") + suffix
                node = named(arguments) if arguments else None
            else:
                return name + suffix if len(name) <= 120 else ""
        elif kind == "union_type":
            node = _only_member(node)
        else:
            return ""
    return ""


def _only_member(node: Node) -> Node | None:
    """`Foo | null | undefined` → Foo; None when more than one type remains."""
    left: Node | None = None
    for child in node.named_children:
        if child.type == "literal_type" or short_text(child, 20) in _NO_TYPE:
            continue
        if left is not None:
            return None
        left = child
    return left
