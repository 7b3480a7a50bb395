"""Variables, assignments and exports of a JavaScript or TypeScript file: names given to values."""

from __future__ import annotations

from tree_sitter import Node

from etl.facts import Slot, SymbolKind
from etl.languages.javascript.definitions import CLASSES, METHODS, Naming, ScriptDefinitions
from etl.languages.javascript.modules import WHOLE, pattern_names, required_module
from etl.languages.javascript.syntax import (
    FUNCTIONS,
    assigned,
    plain_chain,
    property_name,
    type_of,
    value_of,
)
from etl.languages.kit import chains
from etl.languages.kit.chains import UNKNOWN
from etl.languages.kit.nodes import line_of, named, short_text, text_of
from etl.languages.kit.scopes import KEEP, MAX_HOPS

_CONSTRUCTS = frozenset({SymbolKind.CLASS, SymbolKind.FUNCTION})
_WRAPPERS = frozenset({"parenthesized_expression", "as_expression", "satisfies_expression"})
_OBJECTS_DEEP = 4  # `{ a: { b: { c() {} } } }` names what it holds down to here


class ScriptAssignments(ScriptDefinitions):
    """The part of a file's walk that gives values their names."""

    # -- names and values --------------------------------------------------------------------------

    def on_declaration(self, node: Node) -> None:
        """`const`, `let`, `var`: functions and classes get the variable's name, locals a value."""
        declarators = [c for c in node.named_children if c.type == "variable_declarator"]
        outer = self.outer.pop(node.id, node.start_byte)
        frame = self.facts.frame
        if node.type == "variable_declaration":
            self.facts.frame = self.facts.function_frame()
        for declarator in declarators:
            start = outer if len(declarators) == 1 else declarator.start_byte
            self._declarator(declarator, start, node.end_byte if len(declarators) == 1 else 0)
        self.facts.frame = frame

    def _declarator(self, node: Node, start: int, end: int) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or self.modules.required_declarator(name, value):
            return
        facts = self.facts
        if name.type != "identifier":
            self._declare_pattern(name, value_of(value, self.modules.require) or UNKNOWN)
            return
        text = text_of(name)
        if value is not None and value.type == "assignment_expression":
            self._chained_export(text, value)
        if value is not None and self.named_value(value, text, text, start, line_of(name), end):
            facts.declare(text, KEEP)
            return
        type_ = type_of(node.child_by_field_name("type"))
        chain = chains.instance(type_) if type_ else value_of(value, self.modules.require)
        if facts.frame.scope == 0 and facts.frame is facts.root:
            if type_:
                facts.bind_type(0, text, type_)
            else:
                facts.bind(0, text, chain)
        facts.declare(text, chain)

    def _chained_export(self, name: str, value: Node | None) -> None:
        """`var app = exports = module.exports = {}`: the module is `app`."""
        for _ in range(MAX_HOPS):
            if value is None or value.type != "assignment_expression":
                break
            if short_text(value.child_by_field_name("left")) == WHOLE:
                self.modules.export(WHOLE, name)
                self.skip.add(value.id)
            value = value.child_by_field_name("right")

    def named_value(
        self, value: Node, name: str, path: str, start: int, line: int, end: int = 0
    ) -> bool:
        """Name the functions in `value`: itself, or an object's members. False when there are none."""
        value = assigned(value)  # exports = module.exports = function …
        for _ in range(MAX_HOPS):
            if value.type not in _WRAPPERS:
                break
            inner = named(value)
            if inner is None:
                return False
            value = inner
        scope = self.facts.frame.scope
        if value.type in FUNCTIONS or value.type in CLASSES:
            kind = SymbolKind.METHOD if "." in path else SymbolKind.FUNCTION
            kind = SymbolKind.CLASS if value.type in CLASSES else kind
            parent, below = self._owner(path, scope)
            self.pending[value.id] = Naming(name, below, kind, parent, start, line, end)
            return True
        if value.type != "object":
            return False
        self._object_members(value, path)
        return True

    def _owner(self, path: str, scope: int) -> tuple[int, str]:
        """`(parent, dotted name below it)`: `Foo.bar` belongs to Foo where that is a definition."""
        head = path.rpartition(".")[0]
        outer = self.facts.definitions[scope].qualname
        while head:
            parent = self.known.get(f"{outer}.{head}" if outer else head)
            if parent is not None:
                return parent, path[len(head) + 1 :]
            head = head.rpartition(".")[0]
        return scope, path

    def _object_members(self, value: Node, path: str) -> None:
        stack = [(value, path, 1)]
        while stack:
            node, prefix, deep = stack.pop()
            for member in node.named_children:
                inner = self._object_member(member, prefix)
                if inner is not None and deep < _OBJECTS_DEEP:
                    stack.append((*inner, deep + 1))

    def _object_member(self, member: Node, prefix: str) -> tuple[Node, str] | None:
        """Name one member of the object at `prefix`; `(object, path)` when it is an object itself."""
        if member.type == "shorthand_property_identifier":
            self._object_alias(f"{prefix}.{text_of(member)}", member)
            return None
        is_method = member.type == "method_definition"
        key = member.child_by_field_name("name" if is_method else "key")
        value = member.child_by_field_name("value") if member.type == "pair" else None
        inner = member if is_method else value
        name = property_name(key)
        if not name or key is None or inner is None:
            return None
        path = f"{prefix}.{name}"
        if inner.type == "object":
            return inner, path
        if inner.type == "identifier":
            self._object_alias(path, inner)
        elif is_method or inner.type in FUNCTIONS or inner.type in CLASSES:
            kind = SymbolKind.CLASS if inner.type in CLASSES else SymbolKind.METHOD
            parent, below = self._owner(path, self.facts.frame.scope)
            start, line = member.start_byte, line_of(key)
            self.pending[inner.id] = Naming(name, below, kind, parent, start, line)
        return None

    def _object_alias(self, path: str, value: Node) -> None:
        """`const o = { f, g: h }`: `o.f` is what `f` is here."""
        self.facts.bind(self.facts.frame.scope, path, text_of(value), Slot.PATH)

    def on_assignment(self, node: Node) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None or node.id in self.skip:
            return
        if left.type == "identifier":
            name = text_of(left)
            if right.id not in self.pending and not self._is_export(name):
                self.named_value(right, name, name, node.start_byte, line_of(node))
            self.facts.assign(name, value_of(right, self.modules.require))
        elif left.type == "member_expression":
            self._member_assignment(node, left, right)

    def _is_export(self, name: str) -> bool:
        return name == "exports" and "exports" not in self.facts.root.values

    def _member_assignment(self, node: Node, left: Node, right: Node) -> None:
        path = short_text(left)
        if not path.startswith("this."):
            path = plain_chain(left)
        if not path or right.id in self.pending:
            return
        line, start = line_of(left), node.start_byte
        if path == WHOLE or path.startswith((f"{WHOLE}.", "exports.")):
            self._export_assignment(path, right, start, line)
            return
        if path.startswith("this."):
            self._this_assignment(path[5:], right, start, line)
            return
        head, _, member = path.rpartition(".prototype.")
        if head:
            path = f"{head}.{member}"
        elif path.endswith(".prototype"):
            path = path[: -len(".prototype")]
        name = path.rpartition(".")[2]
        self.named_value(right, name, path, start, line)

    def _this_assignment(self, name: str, right: Node, start: int, line: int) -> None:
        """`this.name = value` tells a field of the class, or of the constructor function."""
        if "." in name or self.facts.frame.this != "this":
            return
        owner = self.owner_of_this()
        if owner is None:
            return
        if right.type in FUNCTIONS:
            self.pending[right.id] = Naming(
                name, name, SymbolKind.METHOD, owner, start, line, in_class=True
            )
        else:
            self._bind_field(owner, name, right)

    def owner_of_this(self) -> int | None:
        """The class (or constructor function) whose instance `this` is here."""
        definitions = self.facts.definitions
        number = self.facts.frame.scope
        for _ in range(50):
            definition = definitions[number]
            if definition.kind is SymbolKind.CLASS or number == 0:
                return number or None
            if definition.kind in METHODS:
                parent = definition.parent
                return parent if definitions[parent].kind in _CONSTRUCTS else None
            if definitions[definition.parent].kind is SymbolKind.MODULE:
                return number
            number = definition.parent
        return None

    # -- exports -----------------------------------------------------------------------------------

    def _export_assignment(self, path: str, right: Node, start: int, line: int) -> None:
        exported = path.removeprefix("module.").removeprefix("exports").removeprefix(".")
        modules = self.modules
        if "." in exported:  # exports.a.b = function
            self.named_value(right, exported.rpartition(".")[2], exported, start, line)
            return
        value = assigned(right)
        if exported:
            if value.type == "identifier":
                modules.export(exported, text_of(value))
            elif value.type == "call_expression" and required_module(value):
                modules.whole_value(exported, value)
            else:
                self.named_value(value, exported, exported, start, line)
                modules.export(exported)
            return
        if value.type == "object":
            self._exported_object(value)
        elif value.type in FUNCTIONS or value.type in CLASSES:
            name = value.child_by_field_name("name")
            text = text_of(name) if name is not None else "default"
            self.named_value(value, text, text, start, line)
            modules.export(WHOLE, text)
        else:
            modules.whole_value(WHOLE, value)

    def _exported_object(self, value: Node) -> None:
        """`module.exports = { a, b: c, d() {} }`: each member is an export."""
        modules, facts = self.modules, self.facts
        for member in value.named_children:
            if member.type == "shorthand_property_identifier":
                modules.export(text_of(member))
                continue
            key = member.child_by_field_name("key") or member.child_by_field_name("name")
            name = property_name(key)
            if not name or key is None:
                continue
            inner = member.child_by_field_name("value") if member.type == "pair" else member
            if inner is None:
                continue
            if inner.type == "identifier":
                modules.export(name, text_of(inner))
            elif inner.type == "method_definition":
                self.pending[inner.id] = Naming(
                    name,
                    name,
                    SymbolKind.FUNCTION,
                    facts.frame.scope,
                    member.start_byte,
                    line_of(key),
                )
                modules.export(name)
            elif inner.type == "call_expression" and required_module(inner):
                modules.whole_value(name, inner)
            else:
                self.named_value(inner, name, name, member.start_byte, line_of(key))
                modules.export(name)

    def on_export(self, node: Node) -> None:
        self.modules.export_clauses(node)
        default = any(child.type == "default" for child in node.children)
        declared = node.child_by_field_name("declaration") or node.child_by_field_name("value")
        if declared is None:
            return
        self.outer[declared.id] = node.start_byte
        if declared.type in ("lexical_declaration", "variable_declaration"):
            for declarator in declared.named_children:
                for name in pattern_names(declarator.child_by_field_name("name")):
                    self.modules.export(name)
            return
        if declared.type == "ambient_declaration":
            declared = named(declared) or declared
        name_node = declared.child_by_field_name("name")
        name = text_of(name_node) if name_node is not None else ""
        if not default:
            if name:
                self.modules.export(name)
        elif name and _is_named(declared):
            self.modules.export("default", name)
        elif self.named_value(declared, "default", "default", node.start_byte, line_of(node)):
            self.modules.export("default")
        else:
            self.modules.whole_value("default", declared)


def _is_named(node: Node) -> bool:
    """True for an `export default` of something that keeps its own name."""
    kind = node.type
    return (
        kind in FUNCTIONS
        or kind in CLASSES
        or "declaration" in kind
        or kind == "function_signature"
    )
