"""Reading Java's expressions and types: syntax nodes to chains, without scopes."""

from __future__ import annotations

from operator import attrgetter

from tree_sitter import Node

from etl.facts import Argument, Chain
from etl.languages.kit import chains
from etl.languages.kit.chains import Reader, Trail
from etl.languages.kit.nodes import named, text_of

# Their type argument is what they hold; `Foo[]` stands for each of them (see `etl.languages.kit.chains`).
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
_SUFFIXED = {("int", "l"): "long", ("double", "f"): "float"}  # of a literal's last letter
_FUNCTIONS = frozenset({"lambda_expression", "method_reference"})
FUNCTION_TYPE = "lambda"
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
            suffix += chains.ELEMENT * max(text_of(dimensions).count("["), 1)
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
        suffix, node = chains.collection(suffix), inner
    plain = plain_type(node)
    return plain + suffix if plain else ""


# -- chains ----------------------------------------------------------------------------------------


def chain_of(node: Node | None) -> Chain:
    """The chain of any expression."""
    return chains.read(node, _READERS, _KIND, Trail())


def _name(node: Node, trail: Trail) -> Chain:
    return trail.headed(text_of(node))


def _type_name(node: Node, trail: Trail) -> Chain:
    return trail.headed(dotted(node))


def _plain_type(node: Node, trail: Trail) -> Chain:
    type_ = plain_type(node)
    return trail.headed(type_) if type_ else trail.unknown()


def _super(node: Node, trail: Trail) -> Chain:
    return trail.headed(chains.called("super"))


def _invocation(node: Node, trail: Trail) -> Node | Chain:
    name, receiver = text_of(node.child_by_field_name("name")), node.child_by_field_name("object")
    trail.call()
    if receiver is None:
        return trail.headed(name)
    trail.member(name)
    return receiver


def _field(node: Node, trail: Trail) -> Node | None:
    trail.member(text_of(node.child_by_field_name("field")))
    return node.child_by_field_name("object")


def _element(node: Node, trail: Trail) -> Node | None:
    trail.element()
    return node.child_by_field_name("array")


def _creation(node: Node, trail: Trail) -> Chain:
    type_ = plain_type(node.child_by_field_name("type"))
    return trail.headed(chains.instance(type_)) if type_ else trail.unknown()


def _cast(node: Node, trail: Trail) -> Chain:
    type_ = type_of(node.child_by_field_name("type"))
    return trail.headed(chains.instance(type_)) if type_ else trail.unknown()


def _inner(node: Node, trail: Trail) -> Node | None:
    return named(node)


def _assigned(node: Node, trail: Trail) -> Node | None:
    return node.child_by_field_name("right")


def _string(node: Node, trail: Trail) -> Chain:
    return trail.headed(chains.instance("String"))


def _class(node: Node, trail: Trail) -> Chain:
    return trail.headed(chains.instance("Class"))


_KIND = attrgetter("type")
_READERS: dict[str, Reader[Trail]] = {
    "identifier": _name,
    "this": _name,
    "super": _super,
    "method_invocation": _invocation,
    "field_access": _field,
    "array_access": _element,
    "object_creation_expression": _creation,
    "cast_expression": _cast,
    "parenthesized_expression": _inner,
    "assignment_expression": _assigned,
    "string_literal": _string,
    "class_literal": _class,
    **dict.fromkeys(("type_identifier", "scoped_type_identifier", "scoped_identifier"), _type_name),
    **dict.fromkeys(("generic_type", "array_type"), _plain_type),
}


def argument_of(node: Node) -> Argument:
    """What one argument tells: a type known on the spot, else its chain."""
    literal = _LITERALS.get(node.type)
    if literal is not None:
        last = text_of(node)[-1:]
        return Argument(type=_SUFFIXED.get((literal, last.lower()), literal))
    if node.type in _FUNCTIONS:
        return Argument(type=FUNCTION_TYPE)
    if node.type in ("cast_expression", "array_creation_expression"):
        return Argument(type=_stated_type(node))
    if node.type in ("binary_expression", "unary_expression"):
        return Argument(type=_operator_type(node))
    return Argument(chain_of(node))


def _stated_type(node: Node) -> str:
    """The type of a cast or a new array; "" when it has no name."""
    type_ = plain_type(node.child_by_field_name("type"))
    if type_ and node.type == "array_creation_expression":
        dimensions = sum(1 for c in node.named_children if c.type.startswith("dimensions"))
        for _ in range(max(dimensions, 1)):
            type_ = chains.collection(type_)
    return type_


def _operator_type(node: Node) -> str:
    operator = text_of(node.child_by_field_name("operator"))
    if operator in ("==", "!=", "<", ">", "<=", ">=", "&&", "||", "!"):
        return "boolean"
    if operator == "+" and any(c.type == "string_literal" for c in node.named_children):
        return "String"
    return ""
