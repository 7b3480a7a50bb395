"""Definitions of a JavaScript or TypeScript file: functions, classes, types, and their scopes."""

from __future__ import annotations

from typing import NamedTuple

from tree_sitter import Node

from etl.facts import Chain, Slot, SymbolKind
from etl.languages.javascript.modules import DECLARATIONS, ScriptModules, pattern_names
from etl.languages.javascript.syntax import FUNCTIONS, plain_chain, property_name, type_of, value_of
from etl.languages.kit import chains
from etl.languages.kit.chains import UNKNOWN
from etl.languages.kit.nodes import line_of, named, text_of
from etl.languages.kit.scopes import KEEP, NEAR, FactsBuilder, clean_title
from etl.languages.names import is_test_path

CLASSES = frozenset({"class", "class_declaration", "abstract_class_declaration"})
TYPES = {
    "interface_declaration": SymbolKind.INTERFACE,
    "type_alias_declaration": SymbolKind.TYPE,
    "enum_declaration": SymbolKind.ENUM,
}
METHODS = frozenset({SymbolKind.METHOD, SymbolKind.CONSTRUCTOR})
_SIGNATURES = frozenset({"method_signature", "abstract_method_signature"})
_FIELDS = frozenset({"field_definition", "public_field_definition"})
_MODIFIERS = frozenset({"accessibility_modifier", "readonly", "override_modifier"})


class Naming(NamedTuple):
    """What a function or class met further down is called, and where its source begins."""

    name: str
    path: str  # dotted, below `parent`
    kind: SymbolKind
    parent: int
    start_byte: int
    line: int
    end_byte: int = 0  # 0: where the function ends
    is_test: bool = False
    in_class: bool = False  # a class's own: an arrow there has the instance for its `this`


class ScriptDefinitions:
    """The part of a file's walk that opens scopes and adds definitions."""

    def __init__(self, facts: FactsBuilder) -> None:
        self.facts = facts
        self.modules = ScriptModules(facts)
        self.pending: dict[int, Naming] = {}  # node id → its name
        self.outer: dict[int, int] = {}  # node id → where its `export`, `const` … begins
        self.skip: set[int] = set()  # node ids of calls that a decorator has recorded
        self.suites: list[
            tuple[int, str]
        ] = []  # (end byte, title) of the describe blocks round here
        self.titles: dict[int, str] = {}
        self.known: dict[str, int] = {}  # qualname → its first definition
        self.comment = (-1, -1, -2)  # (start, end, last row) of the comments just above
        self.in_tests = is_test_path(facts.path, facts.language)
        self.declares = facts.path.endswith(DECLARATIONS)
        self.ambient_end = 0

    # -- definitions -------------------------------------------------------------------------------

    def define(
        self,
        node: Node,
        naming: Naming,
        *,
        bases: tuple[str, ...] = (),
        returns: str = "",
        doc_end: int = 0,
    ) -> int:
        """Add the definition that `node` is; the comment right above it is part of its source."""
        start = self._with_comment(naming.start_byte)
        end_line = node.end_point[0] + 1
        number = self.facts.define(
            naming.name,
            naming.kind,
            naming.parent,
            (naming.line, end_line),
            (start, naming.end_byte or node.end_byte),
            path=naming.path,
            bases=bases,
            returns=returns,
            is_test=naming.is_test,
            doc_end_byte=doc_end,
        )
        self.known.setdefault(self.facts.definitions[number].qualname, number)
        return number

    def naming(self, node: Node, name: str, kind: SymbolKind, path: str = "") -> Naming:
        start = self.outer.pop(node.id, node.start_byte)
        return Naming(name, path or name, kind, self.facts.frame.scope, start, line_of(node))

    def _with_comment(self, start: int) -> int:
        """`start`, or the start of the comment that ends on the line above it."""
        begin, end, _ = self.comment
        if not 0 <= end <= start < end + NEAR:
            return start
        between = self.facts.source[end:start]
        if between.count(b"\n") > 1 or between.strip():
            return start
        line_start = self.facts.source.rfind(b"\n", 0, begin) + 1
        return start if self.facts.source[line_start:begin].strip() else begin

    def on_comment(self, node: Node) -> None:
        begin, end, row = self.comment
        first = node.start_point[0]
        joined = row + 1 == first and not self.facts.source[end : node.start_byte].strip()
        self.comment = (begin if joined else node.start_byte, node.end_byte, node.end_point[0])

    def on_function_declaration(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is not None:
            self.pending[node.id] = self.naming(node, text_of(name), SymbolKind.FUNCTION)
            self.facts.declare(text_of(name), KEEP)
        self.on_function(node)

    def on_function(self, node: Node) -> None:
        """Open a function's frame; it is a definition when something named it."""
        naming = self.pending.pop(node.id, None)
        facts = self.facts
        own_name = node.child_by_field_name("name")
        method = node.type == "method_definition"
        if naming is None and own_name is not None and not method:
            naming = self.naming(node, text_of(own_name), SymbolKind.FUNCTION)
        body = node.child_by_field_name("body")
        scope = None
        this = "" if node.type == "arrow_function" else UNKNOWN
        if naming is not None:
            returns = type_of(node.child_by_field_name("return_type"))
            doc_end = body.start_byte if body is not None else 0
            scope = self.define(node, naming, returns=returns, doc_end=doc_end)
            if node.type != "arrow_function":
                this = "this" if self._has_this(naming) else UNKNOWN
            elif naming.kind is SymbolKind.METHOD:  # `o.f = () => this.g()` speaks of no o
                this = "this" if naming.in_class else UNKNOWN
        frame = facts.enter(node.end_byte, scope, this, is_function=True)
        frame.owns = scope is not None
        if frame.owns and own_name is not None and not method:
            frame.values.setdefault(text_of(own_name), KEEP)  # a function expression knows itself
        self._parameters(node, naming)
        title = self.titles.pop(node.id, None)
        if title is not None:
            self.suites.append((node.end_byte, title))
        if frame.owns and body is not None and body.type != "statement_block":
            self._returns(body)

    def _has_this(self, naming: Naming) -> bool:
        """Methods have a known `this`, and functions outside any class may be constructors."""
        if naming.kind in METHODS:
            return True
        return not naming.is_test and self.facts.frame.this != "this"

    def _parameters(self, function: Node, naming: Naming | None) -> None:
        single = function.child_by_field_name("parameter")
        if single is not None:
            self.facts.declare(text_of(single), UNKNOWN)
            return
        parameters = function.child_by_field_name("parameters")
        for parameter in parameters.named_children if parameters is not None else ():
            pattern = parameter.child_by_field_name("pattern") or parameter
            type_ = type_of(parameter.child_by_field_name("type"))
            if pattern.type == "this":
                continue
            if type_ and pattern.type == "rest_pattern" and chains.is_result(type_):
                pattern = named(pattern) or pattern
            self._declare_pattern(pattern, chains.instance(type_) if type_ else UNKNOWN)
            if naming is None or naming.kind is not SymbolKind.CONSTRUCTOR or not type_:
                continue
            if any(child.type in _MODIFIERS for child in parameter.children):
                self.facts.bind_type(naming.parent, text_of(pattern), type_, Slot.MEMBER)

    def _declare_pattern(self, pattern: Node, value: Chain) -> None:
        """Bind a name, or the names of `{ a, b: c }` to the members of `value`."""
        if pattern.type == "identifier":
            self.facts.declare(text_of(pattern), value)
        elif pattern.type == "object_pattern" and value and not _is_opaque(value):
            for part in pattern.named_children:
                self._declare_member(part, value)
        else:
            self._declare_unknown(pattern)

    def _declare_member(self, part: Node, value: Chain) -> None:
        """Bind `a` or `b: c` of an object's pattern."""
        if part.type == "shorthand_property_identifier_pattern":
            self.facts.declare(text_of(part), chains.member(value, text_of(part)))
            return
        key, target = part.child_by_field_name("key"), part.child_by_field_name("value")
        name = property_name(key) if part.type == "pair_pattern" else ""
        if name and target is not None and target.type == "identifier":
            self.facts.declare(text_of(target), chains.member(value, name))
        else:
            self._declare_unknown(part)

    def _declare_unknown(self, pattern: Node) -> None:
        for name in pattern_names(pattern):
            self.facts.declare(name, UNKNOWN)

    def on_function_signature(self, node: Node) -> None:
        """An overload without body: only where no body follows, and only the first of a name."""
        name = node.child_by_field_name("name")
        if name is None or not (self.declares or node.start_byte < self.ambient_end):
            return
        self._signature(node, text_of(name), SymbolKind.FUNCTION, self.facts.frame.scope)
        self.facts.declare(text_of(name), KEEP)

    def _signature(self, node: Node, name: str, kind: SymbolKind, parent: int) -> int | None:
        outer = self.facts.definitions[parent].qualname
        if not name or (f"{outer}.{name}" if outer else name) in self.known:
            return None
        naming = self.naming(node, name, kind)._replace(parent=parent)
        returns = type_of(node.child_by_field_name("return_type"))
        return self.define(node, naming, returns=returns, doc_end=node.end_byte)

    def on_ambient(self, node: Node) -> None:
        self.ambient_end = max(self.ambient_end, node.end_byte)
        for child in node.named_children:
            self.outer.setdefault(child.id, self.outer.get(node.id, node.start_byte))

    def on_namespace(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None:  # the keyword `module`, or `declare global`
            return
        title = clean_title(text_of(name).strip("'\""))
        body = node.child_by_field_name("body")
        doc_end = body.start_byte if body is not None else 0
        number = self.define(node, self.naming(node, title, SymbolKind.MODULE), doc_end=doc_end)
        self.facts.declare(title, KEEP)
        self.facts.enter(node.end_byte, number, UNKNOWN, is_function=True)

    def on_class(self, node: Node) -> None:
        naming = self.pending.pop(node.id, None)
        name = node.child_by_field_name("name")
        if naming is None and name is not None:
            naming = self.naming(node, text_of(name), SymbolKind.CLASS)
            self.facts.declare(text_of(name), KEEP)
        body = node.child_by_field_name("body")
        if naming is None:
            self.facts.enter(node.end_byte, this=UNKNOWN, is_function=True)
            return
        doc_end = body.start_byte if body is not None else 0
        number = self.define(node, naming, bases=_bases(node), doc_end=doc_end)
        frame = self.facts.enter(node.end_byte, number, "this", is_function=True)
        if name is not None:
            frame.values.setdefault(text_of(name), KEEP)
        if body is not None:
            self._class_body(body, number)

    def _class_body(self, body: Node, number: int) -> None:
        decorated = 0  # where the decorators above a member begin
        for member in body.named_children:
            kind = member.type
            if kind == "decorator":
                decorated = decorated or member.start_byte
                continue
            if kind in _SIGNATURES and (
                self.declares
                or kind == "abstract_method_signature"
                or member.start_byte < self.ambient_end
            ):
                name = property_name(member.child_by_field_name("name"))
                self._signature(member, name, SymbolKind.METHOD, number)
            elif kind == "method_definition" or kind in _FIELDS:
                self._class_member(member, number, decorated or member.start_byte)
            decorated = 0

    def _class_member(self, member: Node, number: int, start: int) -> None:
        name_node = member.child_by_field_name("name") or member.child_by_field_name("property")
        name = property_name(name_node)
        if not name:
            return
        line = line_of(name_node) if name_node is not None else line_of(member)
        if member.type == "method_definition":
            kind = SymbolKind.CONSTRUCTOR if name == "constructor" else SymbolKind.METHOD
            self.pending[member.id] = Naming(name, name, kind, number, start, line)
            returns = type_of(member.child_by_field_name("return_type"))
            if returns and any(child.type == "get" for child in member.children):
                self.facts.bind_type(number, name, returns, Slot.MEMBER)
            return
        value = member.child_by_field_name("value")
        if value is not None and value.type in FUNCTIONS:
            self.pending[value.id] = Naming(
                name, name, SymbolKind.METHOD, number, start, line, member.end_byte, in_class=True
            )
            return
        type_ = type_of(member.child_by_field_name("type"))
        if type_:
            self.facts.bind_type(number, name, type_, Slot.MEMBER)
        elif value is not None:
            self._bind_field(number, name, value)

    def _bind_field(self, owner: int, name: str, value: Node) -> None:
        chain = value_of(value, self.modules.require)
        self.facts.bind(owner, name, UNKNOWN if chain == KEEP else chain, Slot.MEMBER)

    def on_type(self, node: Node) -> None:
        """Interfaces, type aliases and enums, with the members they declare."""
        name = node.child_by_field_name("name")
        if name is None:
            return
        kind = TYPES[node.type]
        self.facts.declare(text_of(name), KEEP)
        number = self.define(node, self.naming(node, text_of(name), kind), bases=_bases(node))
        body = node.child_by_field_name("body") or node.child_by_field_name("value")
        if kind is SymbolKind.ENUM or body is None:
            return
        if body.type not in ("interface_body", "object_type"):
            alias = type_of(body)
            if alias:
                self.facts.bind_type(number, "", alias, Slot.SELF)
            return
        for member in body.named_children:
            name_text = property_name(member.child_by_field_name("name"))
            type_node = member.child_by_field_name("type")
            if member.type == "method_signature":
                self._signature(member, name_text, SymbolKind.METHOD, number)
            elif member.type == "property_signature" and name_text and type_node is not None:
                inner = named(type_node)
                if inner is not None and inner.type == "function_type":
                    self._signature(member, name_text, SymbolKind.METHOD, number)
                elif type_ := type_of(type_node):
                    self.facts.bind_type(number, name_text, type_, Slot.MEMBER)

    def _returns(self, value: Node) -> None:
        """`return value` in the current function, when that function is a definition."""
        frame = self.facts.function_frame()
        if frame.owns:
            chain = value_of(value, self.modules.require)
            self.facts.bind(frame.scope, "", UNKNOWN if chain == KEEP else chain, Slot.RESULT)


def _is_opaque(value: Chain) -> bool:
    """True when nothing is known of the value's members here."""
    return chains.is_unknown(value) or value == KEEP


def _bases(node: Node) -> tuple[str, ...]:
    """The types a class or interface extends and implements, as written, without type arguments."""
    bases: list[str] = []
    for clause in node.named_children:
        if clause.type not in ("class_heritage", "extends_type_clause", "extends_clause"):
            continue
        parts = []
        for part in clause.named_children:
            parts += part.named_children if part.type.endswith("_clause") else [part]
        for part in parts:
            if part.type in ("identifier", "member_expression"):
                bases.append(plain_chain(part))
            elif part.type in ("type_identifier", "nested_type_identifier", "generic_type"):
                bases.append(type_of(part))
    return tuple(base for base in bases if base)
