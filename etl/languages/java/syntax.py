"""Reading Java's expressions and types: syntax nodes to chains, without scopes."""

from __future__ import annotations

from tree_sitter import Node

from etl.languages.lexical import MAX_SEGMENTS, UNKNOWN
from etl.languages.nodes import named, text_of

# Their type argument is what they hold; `Foo[]` stands for each of them (see `etl.languages.lexical`).
_COLLECTION_NAMES = (
    "Collection List ArrayList LinkedList Set HashSet LinkedHashSet SortedSet NavigableSet TreeSet Queue "
    "Deque ArrayDeque PriorityQueue Stack Vector Iterable Iterator ListIterator Stream Optional "
    "CopyOnWriteArrayList EnumSet BlockingQueue AtomicReference Supplier Future CompletableFuture "
    "ThreadLocal WeakReference SoftReference Provider Callable"
)
_MAP_NAMES = (
    "Map HashMap LinkedHashMap TreeMap SortedMap NavigableMap ConcurrentMap ConcurrentHashMap EnumMap "
    "WeakHashMap IdentityHashMap"
)
_COLLECTIONS = frozenset(_COLLECTION_NAMES.split())
_MAPS = frozenset(_MAP_NAMES.split())
_LITERALS = {
    "decimal_integer_literal": "int",
    "hex_integer_literal": "int",
    "octal_integer_literal": "int",
    "binary_integer_literal": "int",
    "decimal_floating_point_literal": "double",
    "hex_floating_point_literal": "double",
    "character_literal": "char",
    "string_literal": "String",
    "true": "boolean",
    "false": "boolean",
    "null_literal": "null",
    "class_literal": "Class",
}
_PRIMITIVES = frozenset({"integral_type", "floating_point_type", "boolean_type"})
_TYPES_DEEP = 6


def dotted(node: Node | None) -> str:
    """A name or a qualified name, its white space and annotations left out."""
    text = "".join(text_of(node).split())
    return text if len(text) <= 200 and "@" not in text else ""


def plain_type(node: Node | None) -> str:
    """A type as written, without type arguments: `int`, `Foo`, `a.b.Foo`, `Foo[]`; "" for `var`, `void`."""
    suffix = ""
    for _ in range(_TYPES_DEEP):
        if node is None:
            return ""
        kind = node.type
        if kind == "array_type":
            dimensions = node.child_by_field_name("dimensions")
            suffix += "[]" * max(text_of(dimensions).count("["), 1)
            node = node.child_by_field_name("element")
        elif kind in ("generic_type", "annotated_type"):
            node = next(
                (c for c in node.named_children if c.type.endswith("type_identifier")), None
            )
        elif kind in (
            "type_identifier",
            "scoped_type_identifier",
            "identifier",
            "scoped_identifier",
        ):
            name = dotted(node)
            return "" if name == "var" or not name else name + suffix
        elif kind in _PRIMITIVES:
            return text_of(node) + suffix
        elif kind == "catch_type" and node.named_child_count == 1:
            node = named(node)
        else:
            return ""
    return ""


def type_of(node: Node | None) -> str:
    """The type whose members matter: `Foo[]` for an array, a collection, or the values of a map."""
    if node is None:
        return ""
    suffix = ""
    for _ in range(_TYPES_DEEP):
        if node is None or node.type != "generic_type":
            break
        name = plain_type(node).rpartition(".")[2]
        arguments = next((c for c in node.named_children if c.type == "type_arguments"), None)
        held = arguments.named_children if arguments is not None else []
        if name in _COLLECTIONS and len(held) == 1:
            inner = held[0]
        elif name in _MAPS and len(held) == 2:
            inner = held[1]
        else:
            break
        if inner.type == "wildcard":
            bound = inner.named_children
            inner = bound[-1] if bound and bound[-1].type != "super" else inner
        suffix, node = suffix + "[]", inner
    plain = plain_type(node)
    return plain + suffix if plain else ""


def chain_of(node: Node | None) -> str:
    """The chain of any expression; iterative, and bounded like JavaScript's."""
    segments: list[str] = []
    suffix = ""
    for _ in range(3 * MAX_SEGMENTS):
        if node is None or len(segments) > MAX_SEGMENTS:
            del segments[1:]
            break
        kind = node.type
        if kind == "identifier":
            return _join(segments, text_of(node) + suffix)
        if kind == "this":
            return _join(segments, "this" + suffix)
        if kind == "super":
            return _join(segments, "super()" + suffix)
        if kind == "method_invocation":
            name = text_of(node.child_by_field_name("name")) + "()" + suffix
            node = receiver_of(node)
            if node is None:
                return _join(segments, name)
            segments.append(name)
            suffix = ""
        elif kind == "field_access":
            segments.append(text_of(node.child_by_field_name("field")) + suffix)
            suffix, node = "", node.child_by_field_name("object")
        elif kind == "array_access":
            suffix, node = "[]" + suffix, node.child_by_field_name("array")
        elif kind == "object_creation_expression":
            type_ = plain_type(node.child_by_field_name("type"))
            return _join(segments, f"{type_}()" + suffix if type_ else UNKNOWN)
        elif kind == "cast_expression":
            type_ = type_of(node.child_by_field_name("type"))
            return _join(segments, f"{type_}()" + suffix if type_ else UNKNOWN)
        elif kind == "parenthesized_expression":
            node = named(node)
        elif kind == "assignment_expression":
            node = node.child_by_field_name("right")
        elif kind == "string_literal":
            return _join(segments, "String()" + suffix)
        elif kind == "class_literal":
            return _join(segments, "Class()" + suffix)
        elif kind in ("type_identifier", "scoped_type_identifier", "scoped_identifier"):
            return _join(segments, dotted(node) + suffix)
        elif kind in ("generic_type", "array_type"):
            return _join(segments, plain_type(node) + suffix or UNKNOWN)
        else:
            break
    return _join(segments, UNKNOWN)


def receiver_of(call: Node) -> Node | None:
    """What a method is called on; for `Outer.super.m()` the interface, as if it were an instance."""
    return call.child_by_field_name("object")


def _join(segments: list[str], head: str) -> str:
    return ".".join((head, *reversed(segments))) if segments else head


def argument_of(node: Node) -> str:
    """What one argument is: `:int` for a type known on the spot, else its chain."""
    literal = _LITERALS.get(node.type)
    if literal == "int" and text_of(node)[-1:] in "lL":
        literal = "long"
    elif literal == "double" and text_of(node)[-1:] in "fF":
        literal = "float"
    if literal is not None:
        return f":{literal}"
    if node.type == "lambda_expression":
        return ":lambda"
    if node.type == "method_reference":
        return ":lambda"
    if node.type in ("cast_expression", "array_creation_expression"):
        type_ = plain_type(node.child_by_field_name("type"))
        if node.type == "array_creation_expression":
            dimensions = sum(1 for c in node.named_children if c.type.startswith("dimensions"))
            type_ += "[]" * max(dimensions, 1)
        return f":{type_}" if type_ else ":?"
    if node.type in ("binary_expression", "unary_expression"):
        return f":{_operator_type(node)}"
    chain = chain_of(node)
    return chain if "," not in chain else ":?"


def _operator_type(node: Node) -> str:
    operator = text_of(node.child_by_field_name("operator"))
    if operator in ("==", "!=", "<", ">", "<=", ">=", "&&", "||", "!"):
        return "boolean"
    if operator == "+" and any(c.type == "string_literal" for c in node.named_children):
        return "String"
    return UNKNOWN
