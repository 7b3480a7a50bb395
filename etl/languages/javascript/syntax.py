"""Reading JavaScript and TypeScript expressions and types: syntax nodes to chains, without scopes."""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter

from tree_sitter import Node

from etl.facts import Chain
from etl.languages.kit import chains
from etl.languages.kit.chains import UNKNOWN, Reader, Trail
from etl.languages.kit.nodes import named, short_text, text_of
from etl.languages.kit.scopes import KEEP, MAX_HOPS

FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function", "function"})
_DOTTED = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$#][\w$]*)*")
_IDENTIFIER = re.compile(r"[#A-Za-z_$\u0080-\uffff][\w$\u0080-\uffff-]*")
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


# -- chains ----------------------------------------------------------------------------------------

Require = Callable[[Node], str]  # names the module of a `require(…)` or `import(…)` call


class _Trail(Trail):
    """A trail that knows what files require."""

    __slots__ = ("require",)

    def __init__(self, require: Require) -> None:
        super().__init__()
        self.require = require


def chain_of(node: Node | None, require: Require) -> Chain:
    """The chain of any expression."""
    return chains.read(node, _READERS, _KIND, _Trail(require))


def _name(node: Node, trail: _Trail) -> Chain:
    return trail.headed(short_text(node) or UNKNOWN)


def _member(node: Node, trail: _Trail) -> Node | Chain | None:
    plain = plain_chain(node)
    if plain and not plain.startswith(("this.", "super.")):
        return trail.headed(plain)
    trail.member(property_name(node.child_by_field_name("property")) or UNKNOWN)
    return node.child_by_field_name("object")


def _call(node: Node, trail: _Trail) -> Node | Chain | None:
    module = trail.require(node)
    if module:
        return trail.headed(module)
    trail.call()
    return node.child_by_field_name("function")


def _new(node: Node, trail: _Trail) -> Node | None:
    trail.call()
    return node.child_by_field_name("constructor")


def _subscript(node: Node, trail: _Trail) -> Node | None:
    key = string_value(node.child_by_field_name("index"))
    if key is not None and _IDENTIFIER.fullmatch(key):
        trail.member(key)
    else:
        trail.element()
    return node.child_by_field_name("object")


def _this(node: Node, trail: _Trail) -> Chain:
    return trail.headed("this")


def _super(node: Node, trail: _Trail) -> Chain:
    return trail.headed(chains.called("super"))


def _inner(node: Node, trail: _Trail) -> Node | None:
    return named(node)


def _cast(node: Node, trail: _Trail) -> Node | Chain | None:
    type_ = type_of(named(node, 1))
    return trail.headed(chains.instance(type_)) if type_ else named(node)


def _right(node: Node, trail: _Trail) -> Node | None:
    return node.child_by_field_name("right")


def _last(node: Node, trail: _Trail) -> Node | None:
    return node.child_by_field_name("right") or named(node, node.named_child_count - 1)


_KIND = attrgetter("type")
_READERS: dict[str, Reader[_Trail]] = {
    "identifier": _name,
    "member_expression": _member,
    "call_expression": _call,
    "new_expression": _new,
    "subscript_expression": _subscript,
    "this": _this,
    "super": _super,
    "as_expression": _cast,
    "satisfies_expression": _cast,
    "assignment_expression": _right,
    "sequence_expression": _last,
    "await_expression": _inner,
    "parenthesized_expression": _inner,
    "non_null_expression": _inner,
    "instantiation_expression": _inner,
}


def assigned(node: Node) -> Node:
    """`value` of `a = b = value`."""
    for _ in range(MAX_HOPS):
        right = node.child_by_field_name("right") if node.type == "assignment_expression" else None
        if right is None:
            break
        node = right
    return node


def value_of(node: Node | None, require: Require) -> str:
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
            suffix, node = chains.collection(suffix), named(node)
        elif kind == "generic_type":
            name = text_of(head) if (head := node.child_by_field_name("name")) else ""
            arguments = node.child_by_field_name("type_arguments")
            if name in _SEE_THROUGH or name in _COLLECTIONS:
                suffix = chains.collection(suffix) if name in _COLLECTIONS else suffix
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
