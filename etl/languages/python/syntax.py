"""Python's tree-sitter grammar as plain numbers, and expressions read as chains.

A compiled query costs 0.6–0.8 CPU s on Django (488k lines, 640k captures) and yields only nodes of
interest; a cursor walk has spent 0.6 s before it does anything with its 4.1 million nodes. Texts are
cut from the source by byte offsets and interned, so most names cost one slice and one dict look-up.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from operator import attrgetter
from sys import intern
from typing import NamedTuple

import tree_sitter_python
from tree_sitter import Language, Node, Query

from etl.facts import Argument, BindingKind, Chain
from etl.languages.kit import chains
from etl.languages.kit.chains import Trail, is_whole

LANGUAGE = Language(tree_sitter_python.language())

QUERY = Query(
    LANGUAGE,
    """
    [(function_definition) (class_definition)] @def
    (decorated_definition) @decorated
    (block) @block
    (call function: (_) @call)
    (argument_list) @arguments
    (generator_expression) @arguments
    (assignment) @assign
    (named_expression) @walrus
    (for_statement) @for
    (for_in_clause) @comprehension
    (with_item value: (_) @with)
    (except_clause value: (as_pattern) @except)
    (case_pattern) @case
    (lambda_parameters) @lambda
    [(global_statement) (nonlocal_statement)] @global
    (return_statement) @return
    (yield) @yield
    [(import_statement) (import_from_statement) (future_import_statement)] @import
    (augmented_assignment) @augmented
    """,
)


def _kinds(*names: str) -> tuple[int, ...]:
    kinds = [LANGUAGE.id_for_node_kind(name, True) for name in names]
    assert all(kinds), names
    return tuple(kind for kind in kinds if kind is not None)


def _fields(*names: str) -> tuple[int, ...]:
    fields = [LANGUAGE.field_id_for_name(name) for name in names]
    assert all(fields), names
    return tuple(field for field in fields if field is not None)


IDENTIFIER, ATTRIBUTE, CALL, SUBSCRIPT = _kinds("identifier", "attribute", "call", "subscript")
AWAIT, PARENTHESIZED, NAMED = _kinds("await", "parenthesized_expression", "named_expression")
CONDITIONAL, BOOLEAN, NOT = _kinds("conditional_expression", "boolean_operator", "not_operator")
FUNCTION, CLASS, DECORATOR = _kinds("function_definition", "class_definition", "decorator")
STATEMENT, STRING, ASSIGNMENT = _kinds("expression_statement", "string", "assignment")
EXPRESSION_LIST, TUPLE, LIST = _kinds("expression_list", "tuple", "list")
PATTERN_LIST, TUPLE_PATTERN, LIST_PATTERN = _kinds("pattern_list", "tuple_pattern", "list_pattern")
SPLAT, DICT_SPLAT = _kinds("list_splat_pattern", "dictionary_splat_pattern")
TYPED, DEFAULT = _kinds("typed_parameter", "default_parameter")
TYPED_DEFAULT, KEYWORD = _kinds("typed_default_parameter", "keyword_argument")
DOTTED, ALIASED, WILDCARD = _kinds("dotted_name", "aliased_import", "wildcard_import")
RELATIVE, IMPORT, FUTURE = _kinds("relative_import", "import_statement", "future_import_statement")
AS_PATTERN, IF, BLOCK, LAMBDA = _kinds("as_pattern", "if_statement", "block", "lambda")
RETURN, RAISE, CONTINUE = _kinds("return_statement", "raise_statement", "continue_statement")
NONE, LIST_SPLAT, PAIR = _kinds("none", "list_splat", "pair")

LIST_COMPREHENSION, SET_COMPREHENSION, DICT_COMPREHENSION = _kinds(
    "list_comprehension", "set_comprehension", "dictionary_comprehension"
)
F_NAME, F_BODY, F_PARAMETERS, F_RETURN = _fields("name", "body", "parameters", "return_type")
F_BASES, F_DEFINITION, F_ALIAS = _fields("superclasses", "definition", "alias")
F_LEFT, F_RIGHT, F_TYPE, F_VALUE = _fields("left", "right", "type", "value")
F_OBJECT, F_ATTRIBUTE, F_FUNCTION, F_ARGS = _fields("object", "attribute", "function", "arguments")
F_MODULE, F_CONDITION, F_CONSEQUENCE = _fields("module_name", "condition", "consequence")

# Literals are the call of their type: their methods are then known to be nobody's in the repository.
_LITERALS = {
    kind: type_
    for type_, kinds in {
        "str": _kinds("string", "concatenated_string"),
        "int": _kinds("integer"),
        "float": _kinds("float"),
        "bool": _kinds("true", "false", "comparison_operator", "not_operator"),
        "list": _kinds("list", "list_comprehension"),
        "dict": _kinds("dictionary", "dictionary_comprehension"),
        "set": _kinds("set", "set_comprehension"),
        "tuple": _kinds("tuple", "expression_list"),
        "generator": _kinds("generator_expression"),
        "function": _kinds("lambda"),
    }.items()
    for kind in kinds
}

_CONTAINERS = frozenset(
    _kinds(
        "list",
        "tuple",
        "set",
        "dictionary",
        "list_comprehension",
        "set_comprehension",
        "dictionary_comprehension",
    )
)
_LITERAL_NAMES = frozenset(_LITERALS.values())
_DOTTED_NAME = re.compile(rb"[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)*")
_SIMPLE_ARGUMENTS = re.compile(rb"[\w\s.,=]*")
_CONSTANTS = (b"True", b"False", b"None")
_STRING_NAME = re.compile(rb"""["']([A-Za-z_][A-Za-z_0-9]*)["']""")
_HANDED_THROUGH = frozenset({"cast", "update_wrapper", "TypeVar", "getattr", "type"})
_KIND = attrgetter("kind_id")
Todo = list[Node | None]  # expressions that stand for the one at hand
_MAX_STEPS = 24  # a longer chain tells no more of its type, and chains of chains would cost n² text
_MAX_ARGUMENTS = 12
_MAX_ELEMENTS = 24  # of a literal container, beyond which its elements are data
_MAX_ARGUMENTS_TEXT = 2_000  # bytes
_MAX_ANNOTATION = 400  # bytes
_INTERNED = 300_000  # texts kept a process: some 40 MB at the worst

_ALIAS, _NEW, _ELEMENTS, _TYPE, _TYPE_VARIABLE = (
    BindingKind.ALIAS,
    BindingKind.NEW,
    BindingKind.ELEMENTS,
    BindingKind.TYPE,
    BindingKind.TYPE_VARIABLE,
)
_BLANK, _STARRED = Argument(), Argument(is_starred=True)


class Assigned(NamedTuple):
    """What an assigned expression may be, as `Binding` has it."""

    kind: BindingKind
    value: str
    elements: tuple[Chain, ...] = ()


def first(node: Node) -> Node | None:
    """The first named child (tree-sitter raises where there is none)."""
    return node.named_child(0) if node.named_child_count else None


def _is_literal(chain: str) -> bool:
    head, call, _ = chain.partition(chains.CALL)
    return bool(call) and head in _LITERAL_NAMES


def _subscript(node: Node, trail: Trail) -> Node | None:
    trail.element()
    return node.child_by_field_id(F_VALUE)


def _named(node: Node, trail: Trail) -> Node | None:
    return node.child_by_field_id(F_VALUE)


def _inner(node: Node, trail: Trail) -> Node | None:
    return first(node)


def _literal(node: Node, trail: Trail) -> Chain:
    return trail.headed(chains.instance(_LITERALS[node.kind_id]))


class Reader:
    """Reads names, chains and values out of one source after another; keeps the texts it has seen."""

    def __init__(self) -> None:
        self.source = b""
        self._texts: dict[bytes, str] = {}
        self._chains: dict[bytes, str] = {}
        self._arguments: dict[bytes, tuple[Argument, ...]] = {}
        self._readers: dict[int, chains.Reader[Trail]] = {
            IDENTIFIER: self._identifier,
            ATTRIBUTE: self._attribute,
            CALL: self._call,
            SUBSCRIPT: _subscript,
            NAMED: _named,
            PARENTHESIZED: _inner,
            AWAIT: _inner,
            **dict.fromkeys(_LITERALS, _literal),
        }
        self._value_readers: dict[int, Callable[[Node, Todo], list[Assigned]]] = {
            **dict.fromkeys(_LITERALS, self._literal_value),
            **dict.fromkeys(_CONTAINERS, self._elements),
            CALL: self._called_value,
            **dict.fromkeys((IDENTIFIER, ATTRIBUTE, SUBSCRIPT), self._named_value),
            **dict.fromkeys((AWAIT, PARENTHESIZED), self._inner_value),
            **dict.fromkeys((NAMED, ASSIGNMENT), self._assigned_value),
            **dict.fromkeys((CONDITIONAL, BOOLEAN), self._either_value),
            NONE: self._none,
        }

    def open(self, source: bytes) -> None:
        self.source = source
        if len(self._texts) + len(self._chains) + len(self._arguments) > _INTERNED:
            self._texts.clear()
            self._arguments.clear()
            self._chains.clear()

    def text(self, node: Node) -> str:
        """The node's text as an identifier: decoded, NFKC as Python reads it, interned."""
        raw = self.source[node.start_byte : node.end_byte]
        known = self._texts.get(raw)
        return known if known is not None else self._new_text(raw)

    def _new_text(self, raw: bytes) -> str:
        text = raw.decode("utf-8", "replace")
        if not text.isascii():
            text = unicodedata.normalize("NFKC", text)
        text = self._texts[raw] = intern(text)
        return text

    def chain(self, node: Node) -> Chain:
        """The expression as a chain, `chains.UNKNOWN` when it has no name."""
        raw = self.source[node.start_byte : node.end_byte]
        known = self._chains.get(raw)
        if known is not None:
            return known
        if _DOTTED_NAME.fullmatch(raw):
            chain = intern(raw.decode("ascii"))
        else:
            chain = intern(self._walk_chain(node))
            if len(raw) > 200:
                return chain
        self._chains[raw] = chain
        return chain

    def _walk_chain(self, node: Node | None) -> Chain:
        return chains.read(node, self._readers, _KIND, Trail(), _MAX_STEPS, _MAX_STEPS)

    def _identifier(self, node: Node, trail: Trail) -> Chain:
        return trail.headed(self.text(node))

    def _attribute(self, node: Node, trail: Trail) -> Node | None:
        name = node.child_by_field_id(F_ATTRIBUTE)
        trail.member(self.text(name) if name else chains.UNKNOWN)
        return node.child_by_field_id(F_OBJECT)

    def _call(self, call: Node, trail: Trail) -> Node | None:
        """The callee; `getattr(x, "name")` reads as `x.name`, `type(x)` as `x.__class__`."""
        function = call.child_by_field_id(F_FUNCTION)
        if function is not None and function.kind_id == IDENTIFIER:
            name = self.source[function.start_byte : function.end_byte]
            given = self._given(call) if name in (b"getattr", b"type") else []
            if name == b"type" and len(given) == 1:
                trail.member("__class__")
                return given[0]
            if name == b"getattr" and len(given) >= 2:
                raw = self.source[given[1].start_byte : given[1].end_byte]
                match = _STRING_NAME.fullmatch(raw)
                if match:
                    trail.member(self._new_text(match[1]))
                    return given[0]
        trail.call()
        return function

    def _given(self, call: Node) -> list[Node]:
        arguments = call.child_by_field_id(F_ARGS)
        return arguments.named_children if arguments is not None else []

    def arguments(self, node: Node) -> tuple[Argument, ...]:
        """A call's arguments, up to the last that tells a type or a function."""
        raw = self.source[node.start_byte + 1 : node.end_byte - 1]
        known = self._arguments.get(raw)
        if known is not None:
            return known
        if len(raw) > _MAX_ARGUMENTS_TEXT:
            return ()
        if _SIMPLE_ARGUMENTS.fullmatch(raw):
            found = [self._plain_argument(part) for part in raw.split(b",")]
        else:
            found = [self._argument(child) for child in node.named_children if not child.is_extra]
        del found[_MAX_ARGUMENTS:]
        while found and found[-1] is _BLANK:
            found.pop()
        arguments = tuple(found)
        if len(raw) <= 200:
            self._arguments[raw] = arguments
        return arguments

    def _plain_argument(self, part: bytes) -> Argument:
        name, equals, value = part.partition(b"=")
        value = value.strip() if equals else name.strip()
        if value in _CONSTANTS or not _DOTTED_NAME.fullmatch(value):
            return _BLANK
        keyword = name.strip().decode("utf-8", "replace") if equals else ""
        return Argument(intern(value.decode("ascii")), keyword=keyword)

    def _argument(self, node: Node) -> Argument:
        kind = node.kind_id
        if kind == KEYWORD:
            name, value = node.child_by_field_id(F_NAME), node.child_by_field_id(F_VALUE)
            given = self._argument(value) if value is not None else _BLANK
            if name is None or not given.chain:
                return _BLANK
            return Argument(given.chain, keyword=self.text(name))
        if kind in (IDENTIFIER, ATTRIBUTE, CALL, SUBSCRIPT, AWAIT):
            chain = self.chain(node)
            return Argument(chain) if is_whole(chain) and not _is_literal(chain) else _BLANK
        return _STARRED if kind == LIST_SPLAT else _BLANK

    def annotation(self, node: Node) -> str:
        """A type as written, on one line; "" when it is too long to mean one class."""
        if node.end_byte - node.start_byte > _MAX_ANNOTATION:
            return ""
        raw = self.source[node.start_byte : node.end_byte]
        known = self._texts.get(raw)
        if known is None:
            text = " ".join(raw.decode("utf-8", "replace").split())
            known = self._texts[raw] = intern(text)
        return known

    def values(self, node: Node | None) -> list[Assigned]:
        """What an assigned expression may be; empty when nothing is known.

        `a if c else b` and `a or b` give both sides.
        """
        found: list[Assigned] = []
        todo = [node]
        while todo and len(found) < 4:
            node = todo.pop()
            if node is None:
                continue
            reader = self._value_readers.get(node.kind_id)
            if reader is None:
                return []  # one side unknown: the union is unknown
            found += reader(node, todo)
        return [each for each in found if is_whole(each.value)]

    def _named_value(self, node: Node, todo: Todo) -> list[Assigned]:
        return [Assigned(_ALIAS, self.chain(node))]

    def _inner_value(self, node: Node, todo: Todo) -> list[Assigned]:
        todo.append(first(node))
        return []

    def _assigned_value(self, node: Node, todo: Todo) -> list[Assigned]:
        todo.append(node.child_by_field_id(F_VALUE if node.kind_id == NAMED else F_RIGHT))
        return []

    def _either_value(self, node: Node, todo: Todo) -> list[Assigned]:
        sides = node.named_children
        if node.kind_id == BOOLEAN:
            todo += [node.child_by_field_id(F_RIGHT), node.child_by_field_id(F_LEFT)]
        elif len(sides) >= 3:
            todo += [sides[-1], sides[0]]
        return []

    def _literal_value(self, node: Node, todo: Todo) -> list[Assigned]:
        return [Assigned(_NEW, _LITERALS[node.kind_id])]

    def _none(self, node: Node, todo: Todo) -> list[Assigned]:
        return [Assigned(BindingKind.UNKNOWN, "")]

    def _elements(self, node: Node, todo: Todo) -> list[Assigned]:
        """A container of a few named things: what they are; else only its type."""
        kind = node.kind_id
        if kind in (LIST_COMPREHENSION, DICT_COMPREHENSION, SET_COMPREHENSION):
            body = node.child_by_field_id(F_BODY)
            children = [body] if body is not None else []
        elif node.named_child_count > _MAX_ELEMENTS:
            children = []
        else:
            children = node.named_children
        found: list[Chain] = []
        for child in children:
            value = child.child_by_field_id(F_VALUE) if child.kind_id == PAIR else child
            if value is not None and value.kind_id in (IDENTIFIER, ATTRIBUTE, CALL):
                chain = self.chain(value)
                if is_whole(chain) and not _is_literal(chain):
                    found.append(chain)
        if found:
            return [Assigned(_ELEMENTS, "", tuple(dict.fromkeys(found)))]
        return self._literal_value(node, todo)

    def _called_value(self, call: Node, todo: Todo) -> list[Assigned]:
        """What a call gives; `todo` gets the arguments that it hands through."""
        function = call.child_by_field_id(F_FUNCTION)
        if function is None:
            return [Assigned(_ALIAS, chains.UNKNOWN)]
        chain = self.chain(function)
        last = chain.rpartition(".")[2]
        if last in _HANDED_THROUGH:
            given = self._given(call)
            if last == "cast" and len(given) == 2:
                todo.append(given[1])
                return [Assigned(_TYPE, self.annotation(given[0]))]
            if last == "update_wrapper" and given:
                todo.append(given[0])
                return []
            bound = self._bound_of(given) if last == "TypeVar" else None
            if bound is not None:
                return [Assigned(_TYPE_VARIABLE, self.annotation(bound))]
            if chain in ("getattr", "type"):
                return [Assigned(_ALIAS, self._walk_chain(call))]
        return [Assigned(_NEW, chain)]

    def _bound_of(self, given: list[Node]) -> Node | None:
        """`Foo` of `TypeVar("T", bound=Foo)`."""
        for each in given:
            name = each.child_by_field_id(F_NAME) if each.kind_id == KEYWORD else None
            value = each.child_by_field_id(F_VALUE) if name is not None else None
            if name is not None and value is not None and self.text(name) == "bound":
                return value
        return None
