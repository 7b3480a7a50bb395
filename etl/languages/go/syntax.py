"""Reading Go's expressions and types: syntax nodes to chains, without scopes."""

from __future__ import annotations

from operator import attrgetter

from tree_sitter import Node

from etl.facts import Chain
from etl.languages.kit import chains
from etl.languages.kit.chains import Reader, Trail
from etl.languages.kit.nodes import named, text_of

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
            suffix, node = chains.collection(suffix), node.child_by_field_name("element")
        elif kind in ("map_type", "channel_type"):
            suffix, node = chains.collection(suffix), node.child_by_field_name("value")
        else:
            return ""
    return ""


# -- chains ----------------------------------------------------------------------------------------


def chain_of(node: Node | None) -> Chain:
    """The chain of any expression."""
    return chains.read(node, _READERS, _KIND, Trail())


def _name(node: Node, trail: Trail) -> Chain:
    return trail.headed(text_of(node))


def _selector(node: Node, trail: Trail) -> Node | None:
    trail.member(text_of(node.child_by_field_name("field")))
    return node.child_by_field_name("operand")


def _call(node: Node, trail: Trail) -> Node | Chain | None:
    made = _made(node)
    if made:
        return trail.typed(made)
    trail.call()
    return node.child_by_field_name("function")


def _index(node: Node, trail: Trail) -> Node | None:
    trail.element()
    return node.child_by_field_name("operand")


def _operand(node: Node, trail: Trail) -> Node | None:
    return node.child_by_field_name("operand")


def _inner(node: Node, trail: Trail) -> Node | None:
    return named(node)


def _typed(node: Node, trail: Trail) -> Chain:
    return trail.typed(type_of(node.child_by_field_name("type")))


def _type(node: Node, trail: Trail) -> Chain:
    """A type in the place of an expression: what follows can only make a value of it."""
    trail.suffix = ""
    return trail.typed(type_of(node))


def _instantiated(node: Node, trail: Trail) -> Node | None:
    return node.child_by_field_name("type")


_KIND = attrgetter("type")
_READERS: dict[str, Reader[Trail]] = {
    **dict.fromkeys(_NAMES, _name),
    "selector_expression": _selector,
    "call_expression": _call,
    "index_expression": _index,
    "unary_expression": _operand,
    "slice_expression": _operand,
    "parenthesized_expression": _inner,
    "composite_literal": _typed,
    "type_assertion_expression": _typed,
    "type_conversion_expression": _typed,
    "generic_type": _type,
    "qualified_type": _type,
    "type_instantiation_expression": _instantiated,
}


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


def result_of(node: Node | None) -> str:
    """The type of a function's first result."""
    if node is None or node.type != "parameter_list":
        return type_of(node)
    first = named(node)
    return type_of(first.child_by_field_name("type")) if first is not None else ""
