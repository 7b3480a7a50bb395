"""Reading Go's expressions and types: syntax nodes to chains, without scopes."""

from __future__ import annotations

from tree_sitter import Node

from etl.languages.lexical import MAX_SEGMENTS, UNKNOWN
from etl.languages.nodes import named, text_of

_NAMES = frozenset({"identifier", "type_identifier", "package_identifier", "field_identifier"})
_LISTS = frozenset({"slice_type", "array_type", "implicit_length_array_type"})
_TYPES_DEEP = 8


def type_of(node: Node | None) -> str:
    """`S` for S and *S, `S[]` for what holds S (slice, array, map's values, channel); "" without a name."""
    suffix = ""
    for _ in range(_TYPES_DEEP):
        if node is None:
            return ""
        kind = node.type
        if kind in ("type_identifier", "qualified_type", "identifier"):
            name = "".join(text_of(node).split())
            return name + suffix if len(name) <= 200 else ""
        if kind in ("pointer_type", "parenthesized_type"):
            node = named(node)
        elif kind == "selector_expression":
            return "".join(text_of(node).split())[:200] + suffix
        elif kind == "generic_type":
            node = node.child_by_field_name("type")
        elif kind in _LISTS:
            suffix, node = suffix + "[]", node.child_by_field_name("element")
        elif kind in ("map_type", "channel_type"):
            suffix, node = suffix + "[]", node.child_by_field_name("value")
        else:
            return ""
    return ""


def chain_of(node: Node | None) -> str:
    """The chain of any expression; iterative, and bounded like JavaScript's."""
    segments: list[str] = []
    suffix = ""
    for _ in range(3 * MAX_SEGMENTS):
        if node is None or len(segments) > MAX_SEGMENTS:
            del segments[1:]
            break
        kind = node.type
        if kind in _NAMES:
            return _join(segments, text_of(node) + suffix)
        if kind == "selector_expression":
            segments.append(text_of(node.child_by_field_name("field")) + suffix)
            suffix, node = "", node.child_by_field_name("operand")
        elif kind == "call_expression":
            made = _made(node)
            if made:
                return _join(segments, _typed(made, suffix))
            suffix, node = "()" + suffix, node.child_by_field_name("function")
        elif kind == "index_expression":
            suffix, node = "[]" + suffix, node.child_by_field_name("operand")
        elif kind in ("unary_expression", "slice_expression"):
            node = node.child_by_field_name("operand")
        elif kind == "parenthesized_expression":
            node = named(node)
        elif kind in (
            "composite_literal",
            "type_assertion_expression",
            "type_conversion_expression",
        ):
            type_ = type_of(node.child_by_field_name("type"))
            return _join(segments, _typed(type_, suffix))
        elif kind in ("generic_type", "qualified_type"):
            return _join(segments, _typed(type_of(node), ""))
        elif kind == "type_instantiation_expression":
            node = node.child_by_field_name("type")
        else:
            break
    return _join(segments, UNKNOWN)


def _typed(type_: str, suffix: str) -> str:
    """An instance of `type_`, and elements of it: `S[]()[]` is `S()`."""
    while type_.endswith("[]") and suffix.startswith("[]"):
        type_, suffix = type_[:-2], suffix[2:]
    return f"{type_}(){suffix}" if type_ else UNKNOWN


def _made(call: Node) -> str:
    """The type of `new(T)` and `make(T, …)`."""
    function = call.child_by_field_name("function")
    if (
        function is None
        or function.type != "identifier"
        or text_of(function, 4) not in ("new", "make")
    ):
        return ""
    arguments = call.child_by_field_name("arguments")
    return type_of(named(arguments)) if arguments is not None else ""


def _join(segments: list[str], head: str) -> str:
    return ".".join((head, *reversed(segments))) if segments else head


def result_of(node: Node | None) -> str:
    """The type of a function's first result."""
    if node is None or node.type != "parameter_list":
        return type_of(node)
    first = named(node)
    return type_of(first.child_by_field_name("type")) if first is not None else ""
