"""Java: packages, types, members, and uses with the types of what they pass.

The module of a file is its package, so that names read as in Java: `com.x.Foo.bar`; the file itself is
the definition `com.x.Foo_java`. A constructor is named as its class (`Foo.Foo`), an anonymous class
by what it extends (`Foo.bar.Runnable$1`), an enum constant with a body by its name. Overloads get `#2`;
each callable has its parameters' types, by which calls choose among them.
"""

from __future__ import annotations

from collections.abc import Callable
from posixpath import basename

import tree_sitter_java
from tree_sitter import Language, Node

from etl.facts import (
    Argument,
    Chain,
    FileFacts,
    Import,
    ImportKind,
    Parameter,
    ReferenceKind,
    Slot,
    SymbolKind,
)
from etl.languages.java.syntax import argument_of, chain_of, dotted, plain_type, type_of
from etl.languages.kit import chains
from etl.languages.kit.chains import UNKNOWN
from etl.languages.kit.grammar import Grammar
from etl.languages.kit.nodes import line_of, named, text_of
from etl.languages.kit.scopes import KEEP, NEAR, FactsBuilder
from etl.languages.names import is_test_path

NO_PACKAGE = "default"  # a keyword, so no package has this name
_TYPES = {
    "class_declaration": SymbolKind.CLASS,
    "interface_declaration": SymbolKind.INTERFACE,
    "enum_declaration": SymbolKind.ENUM,
    "record_declaration": SymbolKind.CLASS,
    "annotation_type_declaration": SymbolKind.INTERFACE,
}
_METHODS = frozenset(
    {"method_declaration", "constructor_declaration", "compact_constructor_declaration"}
    | {"annotation_type_element_declaration"}
)
_TEST_MARKS = frozenset(
    {"Test", "ParameterizedTest", "RepeatedTest", "TestFactory", "TestTemplate"}
)
_PARAMETERS = frozenset({"formal_parameter", "spread_parameter"})


class JavaWalk:
    """One file's walk. `handlers` maps a node type to what is done when it is entered."""

    def __init__(self, facts: FactsBuilder) -> None:
        self.facts = facts
        self.in_tests = is_test_path(facts.path, "java")
        self.comment = (-1, -1)  # (start, end) of the comment just above
        self.bounds: list[
            tuple[int, dict[str, str]]
        ] = []  # type parameters: (end byte, name → bound)
        self.anonymous: dict[str, int] = {}

    def handlers(self) -> dict[str, Callable[[Node], None]]:
        table: dict[str, Callable[[Node], None]] = {
            "line_comment": self.on_comment,
            "block_comment": self.on_comment,
            "import_declaration": self.on_import,
            "field_declaration": self.on_field,
            "constant_declaration": self.on_field,
            "enum_constant": self.on_enum_constant,
            "local_variable_declaration": self.on_local,
            "block": self.on_block,
            "for_statement": self.on_block,
            "switch_rule": self.on_block,
            "try_with_resources_statement": self.on_block,
            "resource": self.on_resource,
            "enhanced_for_statement": self.on_for,
            "catch_clause": self.on_block,
            "catch_formal_parameter": self.on_typed_name,
            "instanceof_expression": self.on_instanceof,
            "type_pattern": self.on_pattern,
            "record_pattern_component": self.on_pattern,
            "lambda_expression": self.on_lambda,
            "method_invocation": self.on_call,
            "object_creation_expression": self.on_new,
            "explicit_constructor_invocation": self.on_constructor_call,
            "method_reference": self.on_method_reference,
        }
        table.update(dict.fromkeys(_TYPES, self.on_type))
        table.update(dict.fromkeys(_METHODS, self.on_method))
        return table

    # -- definitions -------------------------------------------------------------------------------

    def on_comment(self, node: Node) -> None:
        self.comment = (node.start_byte, node.end_byte)

    def define(
        self, node: Node, name: str, kind: SymbolKind, line: int, *, bases: tuple[str, ...] = (),
        returns: str = "", is_test: bool = False, doc_end: int = 0,
        parameters: tuple[Parameter, ...] | None = None,
    ) -> int:  # fmt: skip
        begin, end = self.comment
        start = node.start_byte
        if 0 <= end <= start < end + NEAR and not self.facts.source[end:start].strip():
            start = begin
        return self.facts.define(
            name, kind, self.facts.frame.scope, (line, node.end_point[0] + 1), (start, node.end_byte),
            bases=bases, returns=returns, is_test=is_test, doc_end_byte=doc_end,
            parameters=parameters,
        )  # fmt: skip

    def on_import(self, node: Node) -> None:
        name = next((dotted(c) for c in node.named_children if "identifier" in c.type), "")
        if not name:
            return
        marks = {child.type for child in node.children}
        is_static, line = "static" in marks, line_of(node)
        if "asterisk" in marks:
            kind = ImportKind.STATIC_ALL if is_static else ImportKind.ALL
            self.facts.imports.append(Import(0, name, "", "", 0, line, kind))
            return
        head, _, last = name.rpartition(".")
        if is_static:
            self.facts.imports.append(Import(0, head, last, last, 0, line))
        else:
            self.facts.imports.append(Import(0, name, "", last, 0, line, ImportKind.MODULE))

    def on_type(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None:
            return
        body = node.child_by_field_name("body")
        self._open_bounds(node)
        number = self.define(
            node, text_of(name), _TYPES[node.type], line_of(name), bases=_bases(node),
            doc_end=body.start_byte if body is not None else 0,
        )  # fmt: skip
        parameters = node.child_by_field_name("parameters")
        self.facts.declare(text_of(name), KEEP)
        self.facts.enter(node.end_byte, number, "this", is_function=True)
        if parameters is None:
            return
        for parameter in parameters.named_children:  # a record's components are fields
            field, type_ = parameter.child_by_field_name("name"), self.type_of(parameter)
            if field is not None:
                self.facts.declare(text_of(field), KEEP)
                self.facts.bind_type(number, text_of(field), type_, Slot.MEMBER)

    def on_method(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None:
            return
        facts = self.facts
        self._open_bounds(node)
        constructor = "constructor" in node.type
        body = node.child_by_field_name("body")
        returns = self.type_text(node.child_by_field_name("type"))
        kind = SymbolKind.CONSTRUCTOR if constructor else SymbolKind.METHOD
        declared = _parameters(node)
        number = self.define(
            node, text_of(name), kind, line_of(name),
            returns=returns, is_test=not constructor and self._is_test(node, text_of(name)),
            doc_end=body.start_byte if body is not None else node.end_byte,
            parameters=None if declared is None else tuple(map(self._parameter, declared)),
        )  # fmt: skip
        frame = facts.enter(node.end_byte, number, "this", is_function=True)
        frame.owns = True
        for parameter in declared or ():
            type_ = self.type_of(parameter)
            if type_ and parameter.type == "spread_parameter":
                type_ = chains.collection(type_)
            facts.declare(_parameter_name(parameter), _instance(type_))

    def _parameter(self, node: Node) -> Parameter:
        return Parameter(self.plain(node) or UNKNOWN, node.type == "spread_parameter")

    def _is_test(self, node: Node, name: str) -> bool:
        marks = {text_of(m.child_by_field_name("name")).rpartition(".")[2] for m in _marks(node)}
        if marks & _TEST_MARKS:
            return True
        return self.in_tests and name.startswith("test") and not marks & {"Override", "Ignore"} \
            and text_of(node.child_by_field_name("type")) == "void" \
            and text_of(node.child_by_field_name("parameters")) == "()"  # fmt: skip

    # -- types of names ----------------------------------------------------------------------------

    def _open_bounds(self, node: Node) -> None:
        """Type parameters stand for their bounds: `T extends Foo` has Foo's members."""
        while self.bounds and self.bounds[-1][0] <= node.start_byte:
            self.bounds.pop()
        parameters = node.child_by_field_name("type_parameters")
        if parameters is None:
            return
        names = {}
        for parameter in parameters.named_children:
            children = parameter.named_children
            name = next((c for c in children if c.type in ("type_identifier", "identifier")), None)
            bound = next((c for c in children if c.type == "type_bound"), None)
            if name is not None:
                names[text_of(name)] = plain_type(named(bound)) if bound is not None else ""
        self.bounds.append((node.end_byte, names))

    def type_text(self, node: Node | None) -> str:
        return self._unbound(type_of(node), node)

    def _unbound(self, type_: str, node: Node | None) -> str:
        if not type_ or not self.bounds or node is None:
            return type_
        head, _ = chains.held(type_)
        for end, names in reversed(self.bounds):
            if end > node.start_byte and head in names:
                bound = names[head]
                return bound + type_[len(head) :] if bound else ""
        return type_

    def type_of(self, declaration: Node) -> str:
        """The type of a parameter, a component or a variable, by its own node."""
        node = _type_node(declaration)
        return self.type_text(node)

    def plain(self, declaration: Node) -> str:
        node = _type_node(declaration)
        type_ = plain_type(node)
        resolved = self._unbound(type_, node)
        return type_ if resolved == type_ else (resolved or "Object")

    def on_field(self, node: Node) -> None:
        type_ = self.type_of(node)
        scope = self.facts.frame.scope
        for declarator in node.named_children:
            if declarator.type == "variable_declarator":
                name = text_of(declarator.child_by_field_name("name"))
                self.facts.declare(name, KEEP)
                self.facts.bind_type(scope, name, _declared_type(declarator, type_), Slot.MEMBER)

    def on_enum_constant(self, node: Node) -> None:
        scope = self.facts.frame.scope
        owner = self.facts.definitions[scope].name
        name = text_of(node.child_by_field_name("name"))
        self.facts.declare(name, KEEP)
        self.facts.bind_type(scope, name, owner, Slot.MEMBER)
        arguments = node.child_by_field_name("arguments")
        self.facts.use(owner, line_of(node), ReferenceKind.NEW, _arguments(arguments))
        body = node.child_by_field_name("body")
        if body is not None:
            number = self.define(node, name, SymbolKind.CLASS, line_of(node), bases=(owner,))
            self.facts.enter(node.end_byte, number, "this", is_function=True)

    def on_local(self, node: Node) -> None:
        type_ = self.type_of(node)
        for declarator in node.named_children:
            if declarator.type != "variable_declarator":
                continue
            name = text_of(declarator.child_by_field_name("name"))
            if type_:
                self.facts.declare(name, chains.instance(_declared_type(declarator, type_)))
            elif text_of(_type_node(node)) == "var":
                self.facts.declare(name, chain_of(declarator.child_by_field_name("value")))
            else:
                self.facts.declare(name, UNKNOWN)

    def on_resource(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None:
            return
        type_ = self.type_of(node)
        value = chains.instance(type_) if type_ else chain_of(node.child_by_field_name("value"))
        self.facts.declare(text_of(name), value)

    def on_for(self, node: Node) -> None:
        self.facts.enter(node.end_byte)
        name, type_ = node.child_by_field_name("name"), self.type_of(node)
        value = chain_of(node.child_by_field_name("value"))
        if name is not None:
            is_var = text_of(_type_node(node)) == "var"
            self.facts.declare(text_of(name), chains.element(value) if is_var else _instance(type_))

    def on_typed_name(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        kind = next((c for c in node.named_children if c.type == "catch_type"), None)
        type_ = plain_type(kind)
        if name is not None:
            self.facts.declare(text_of(name), _instance(type_))

    def on_instanceof(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is not None:
            type_ = self.type_text(node.child_by_field_name("right"))
            self.facts.declare(text_of(name), _instance(type_))

    def on_pattern(self, node: Node) -> None:
        """`case Foo f` and the components of `case Foo(Bar b)`."""
        children = node.named_children
        if len(children) == 2 and children[1].type == "identifier":
            type_ = self.type_text(children[0])
            self.facts.declare(text_of(children[1]), _instance(type_))

    # -- blocks ------------------------------------------------------------------------------------

    def on_block(self, node: Node) -> None:
        if node.end_byte != self.facts.frame.end:
            self.facts.enter(node.end_byte)

    def on_lambda(self, node: Node) -> None:
        self.facts.enter(node.end_byte, is_function=True)
        parameters = node.child_by_field_name("parameters")
        if parameters is None:
            return
        if parameters.type == "identifier":
            self.facts.declare(text_of(parameters), UNKNOWN)
            return
        for parameter in parameters.named_children:
            if parameter.type == "identifier":
                self.facts.declare(text_of(parameter), UNKNOWN)
            elif parameter.type in _PARAMETERS:
                type_ = self.type_of(parameter)
                self.facts.declare(_parameter_name(parameter), _instance(type_))

    # -- uses --------------------------------------------------------------------------------------

    def on_call(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None:
            return
        receiver = node.child_by_field_name("object")
        own = text_of(name)
        if receiver is None:
            chain = own
        elif any(child.type == "super" for child in node.children[1:]):
            # Outer.super.m(): the interface's own
            chain = chains.member(chains.called(chain_of(receiver)), own)
        else:
            chain = chains.member(chain_of(receiver), own)
        arguments = _arguments(node.child_by_field_name("arguments"))
        self.facts.use(chain, line_of(name), ReferenceKind.CALL, arguments)

    def on_new(self, node: Node) -> None:
        type_node = node.child_by_field_name("type")
        type_ = plain_type(type_node)
        if type_node is None or not type_:
            return
        arguments = _arguments(node.child_by_field_name("arguments"))
        self.facts.use(type_, line_of(type_node), ReferenceKind.NEW, arguments)
        body = next((c for c in node.named_children if c.type == "class_body"), None)
        if body is None:
            return
        outer = f"{self.facts.frame.scope}.{type_}"
        count = self.anonymous[outer] = self.anonymous.get(outer, 0) + 1
        name = f"{type_.rpartition('.')[2]}${count}"
        number = self.define(
            node,
            name,
            SymbolKind.CLASS,
            line_of(type_node),
            bases=(type_,),
            doc_end=body.start_byte,
        )
        self.facts.enter(node.end_byte, number, "this", is_function=True)

    def on_constructor_call(self, node: Node) -> None:
        target = node.child_by_field_name("constructor")
        if target is not None:
            arguments = _arguments(node.child_by_field_name("arguments"))
            chain = chains.called(text_of(target))
            self.facts.use(chain, line_of(node), ReferenceKind.NEW, arguments)

    def on_method_reference(self, node: Node) -> None:
        children = node.children
        if not children:
            return
        chain, last = chain_of(children[0]), children[-1]
        if last.type == "new":
            self.facts.use(chain, line_of(last), ReferenceKind.METHOD)
        elif last.type == "identifier":
            chain = chains.member(chain, text_of(last))
            self.facts.use(chain, line_of(last), ReferenceKind.METHOD)


def _marks(node: Node) -> list[Node]:
    modifiers = next((c for c in node.named_children if c.type == "modifiers"), None)
    if modifiers is None:
        return []
    return [m for m in modifiers.named_children if m.type in ("annotation", "marker_annotation")]


def _type_node(declaration: Node) -> Node | None:
    type_ = declaration.child_by_field_name("type")
    if type_ is not None or declaration.type != "spread_parameter":
        return type_
    return next((c for c in declaration.named_children if "type" in c.type), None)


def _parameter_name(parameter: Node) -> str:
    name = parameter.child_by_field_name("name")
    if name is None:
        declarator = next(
            (c for c in parameter.named_children if c.type == "variable_declarator"), None
        )
        name = declarator.child_by_field_name("name") if declarator is not None else None
    return text_of(name)


def _parameters(method: Node) -> list[Node] | None:
    """The parameters that a method declares; None for a compact constructor, which has its record's."""
    parameters = method.child_by_field_name("parameters")
    if parameters is None:
        return None
    return [each for each in parameters.named_children if each.type in _PARAMETERS]


def _declared_type(declarator: Node, type_: str) -> str:
    """The type of one variable of a declaration: `int a, b[]`."""
    is_array = declarator.child_by_field_name("dimensions") is not None
    return chains.collection(type_) if type_ and is_array else type_


def _instance(type_: str) -> Chain:
    """A variable of a declared type."""
    return chains.instance(type_) if type_ else UNKNOWN


def _arguments(arguments: Node | None) -> tuple[Argument, ...]:
    if arguments is None:
        return ()
    return tuple(argument_of(a) for a in arguments.named_children if "comment" not in a.type)


def _bases(node: Node) -> tuple[str, ...]:
    """What a type extends and implements, the superclass first, without type arguments."""
    bases: list[str] = []
    for clause in node.named_children:
        if clause.type not in ("superclass", "super_interfaces", "extends_interfaces"):
            continue
        for part in clause.named_children:
            for type_ in part.named_children if part.type == "type_list" else [part]:
                bases.append(plain_type(type_))
    return tuple(base for base in bases if base)


class Java:
    """The extractor for Java."""

    language = "java"

    def __init__(self) -> None:
        grammar = Language(tree_sitter_java.language())
        self._grammar = Grammar(grammar, JavaWalk(FactsBuilder(b"", "", "java", "")).handlers())
        self._package = grammar.id_for_node_kind("package_declaration", True)

    def extract(self, source: bytes, path: str, module: str) -> FileFacts:
        """See `etl.languages.base.Extractor.extract`; the package's name is the module's."""
        root = self._grammar.parse(source)
        package = next((c for c in root.named_children[:50] if c.kind_id == self._package), None)
        name = dotted(package.named_children[-1]) if package is not None else ""
        facts = FactsBuilder(source, path, "java", name or NO_PACKAGE, methods_apart=True)
        stem = basename(path).replace(".", "_") or "_"
        lines = source.count(b"\n") + (not source.endswith(b"\n"))
        facts.define(stem, SymbolKind.MODULE, 0, (1, max(lines, 1)), (0, len(source)), path=stem)
        walk = JavaWalk(facts)
        self._grammar.walk(root, walk.handlers(), facts.leave)
        return facts.finish(root.has_error)


def extractor(language: str) -> Java:
    del language  # there is one Java
    return Java()
