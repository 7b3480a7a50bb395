"""Go: packages of several files, methods by receiver, and uses.

The module of a file is its package: its folder's path, dotted (the package's own name at the root;
`_test` added for an external test package). The file itself is the definition `folder.name_go`. A
method is `Type.method`, whichever file of the package it is in.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from posixpath import basename, dirname

import tree_sitter_go
from tree_sitter import Language, Node

from etl.facts import Chain, FileFacts, Import, ImportKind, ReferenceKind, Slot, SymbolKind
from etl.languages.go.syntax import chain_of, result_of, type_of
from etl.languages.kit import chains
from etl.languages.kit.chains import UNKNOWN
from etl.languages.kit.grammar import Grammar
from etl.languages.kit.nodes import line_of, named, text_of
from etl.languages.kit.scopes import KEEP, NEAR, FactsBuilder

_TEST = re.compile(r"(?:Test|Benchmark|Example|Fuzz)(?:[^a-z].*)?$", re.DOTALL)
_TYPE_KINDS = {"struct_type": SymbolKind.STRUCT, "interface_type": SymbolKind.INTERFACE}
_CASES = ("expression_case", "default_case", "communication_case")
_NOT_CALLBACKS = frozenset({"nil", "true", "false", "iota", "err", "ctx"})


class GoWalk:
    """One file's walk. `handlers` maps a node type to what is done when it is entered."""

    def __init__(self, facts: FactsBuilder) -> None:
        self.facts = facts
        self.in_tests = facts.path.endswith("_test.go")
        self.comment = (-1, -1)
        self.types: dict[str, int] = {}  # types declared at the top of this file
        self.done: set[int] = set()
        self.cases: dict[int, tuple[str, str]] = {}  # type_case → (name, type)
        self.generic: list[tuple[int, frozenset[str]]] = []

    def handlers(self) -> dict[str, Callable[[Node], None]]:
        table: dict[str, Callable[[Node], None]] = {
            "comment": self.on_comment,
            "import_spec": self.on_import,
            "type_declaration": self.on_type_declaration,
            "function_declaration": self.on_function,
            "method_declaration": self.on_function,
            "func_literal": self.on_literal,
            "var_spec": self.on_var,
            "const_spec": self.on_const,
            "short_var_declaration": self.on_short_var,
            "block": self.on_block,
            "for_statement": self.on_block,
            "if_statement": self.on_block,
            "expression_switch_statement": self.on_block,
            "type_switch_statement": self.on_type_switch,
            "type_case": self.on_type_case,
            "range_clause": self.on_range,
            "receive_statement": self.on_receive,
            "call_expression": self.on_call,
            "type_conversion_expression": self.on_conversion,
        }
        table.update(dict.fromkeys(_CASES, self.on_block))
        return table

    # -- definitions -------------------------------------------------------------------------------

    def on_comment(self, node: Node) -> None:
        begin, end = self.comment
        between = self.facts.source[end : node.start_byte] if node.start_byte - end < NEAR else b"x"
        joined = end >= 0 and between.count(b"\n") <= 1 and not between.strip()
        self.comment = (begin if joined else node.start_byte, node.end_byte)

    def define(
        self, node: Node, name: str, kind: SymbolKind, parent: int, *, path: str = "",
        bases: tuple[str, ...] = (), returns: str = "", is_test: bool = False, doc_end: int = 0,
        line: int = 0,
    ) -> int:  # fmt: skip
        begin, end = self.comment
        start = node.start_byte
        if 0 <= end <= start < end + NEAR and not self.facts.source[end:start].strip():
            start = begin
        return self.facts.define(
            name, kind, parent, (line or line_of(node), node.end_point[0] + 1), (start, node.end_byte),
            path=path, bases=bases, returns=returns, is_test=is_test, doc_end_byte=doc_end,
        )  # fmt: skip

    def declare_types(self, root: Node) -> None:
        """Define the file's types before anything else: a method may stand above its type."""
        for child in root.named_children:
            if child.type == "comment":
                self.on_comment(child)
            elif child.type == "type_declaration":
                self.on_type_declaration(child)
                self.done.add(child.id)
        self.comment = (-1, -1)

    def on_type_declaration(self, node: Node) -> None:
        if node.id in self.done:
            return
        specs = [c for c in node.named_children if c.type in ("type_spec", "type_alias")]
        for child in node.named_children:
            if child.type == "comment":
                self.on_comment(child)
            elif child in specs:
                self._type(child, node if len(specs) == 1 else child)

    def _type(self, spec: Node, whole: Node) -> None:
        name, type_ = spec.child_by_field_name("name"), spec.child_by_field_name("type")
        if name is None or type_ is None:
            return
        facts = self.facts
        text = text_of(name)
        kind = _TYPE_KINDS.get(type_.type, SymbolKind.TYPE)
        scope = facts.frame.scope
        generic = _type_parameters(spec)
        number = self.define(
            whole, text, kind, scope, bases=_embedded(type_), line=line_of(name),
            doc_end=type_.start_byte,
        )  # fmt: skip
        facts.declare(text, KEEP)
        if not scope:
            self.types.setdefault(text, number)
        if kind is SymbolKind.STRUCT:
            self._fields(type_, number, generic)
        elif kind is SymbolKind.INTERFACE:
            self._interface_methods(type_, number)
        else:
            alias = type_of(type_)
            if spec.type == "type_alias" or chains.is_result(alias):
                facts.bind_type(number, "", alias, Slot.SELF)

    def _interface_methods(self, type_: Node, number: int) -> None:
        for member in type_.named_children:
            if member.type == "method_elem":
                name = text_of(member.child_by_field_name("name"))
                self.define(
                    member, name, SymbolKind.METHOD, number,
                    returns=result_of(member.child_by_field_name("result")), doc_end=member.end_byte,
                )  # fmt: skip

    def _fields(self, struct: Node, number: int, generic: frozenset[str]) -> None:
        fields = named(struct)
        for field in fields.named_children if fields is not None else ():
            if field.type != "field_declaration":
                continue
            type_ = type_of(field.child_by_field_name("type"))
            if not type_ or chains.held(type_)[0] in generic:
                continue
            names = [text_of(n) for n in field.children_by_field_name("name")]
            for name in names or [type_.rpartition(".")[2]]:
                self.facts.bind_type(number, name, type_, Slot.MEMBER)

    def on_function(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None:
            return
        facts, text = self.facts, text_of(name)
        receiver = node.child_by_field_name("receiver")
        own = named(receiver) if receiver is not None else None
        owner = type_of(own.child_by_field_name("type")) if own is not None else ""
        body = node.child_by_field_name("body")
        generic = _type_parameters(node) | _receiver_parameters(own)
        result = result_of(node.child_by_field_name("result"))
        parent = self.types.get(owner, 0)
        number = self.define(
            node, text, SymbolKind.METHOD if owner else SymbolKind.FUNCTION, parent,
            path=text if parent or not owner else f"{owner}.{text}",
            returns="" if chains.held(result)[0] in generic else result,
            is_test=self.in_tests and not owner and _TEST.match(text) is not None,
            doc_end=body.start_byte if body is not None else node.end_byte,
        )  # fmt: skip
        if not owner:
            facts.declare(text, KEEP)
        facts.enter(node.end_byte, number, is_function=True)
        self.generic = [g for g in self.generic if g[0] > node.start_byte]
        self.generic.append((node.end_byte, generic))
        self._parameters(receiver)
        self._signature(node)

    def on_literal(self, node: Node) -> None:
        self.facts.enter(node.end_byte, is_function=True)
        self._signature(node)

    def _signature(self, node: Node) -> None:
        self._parameters(node.child_by_field_name("parameters"))
        result = node.child_by_field_name("result")
        if result is not None and result.type == "parameter_list":
            self._parameters(result)

    def _parameters(self, parameters: Node | None) -> None:
        for parameter in parameters.named_children if parameters is not None else ():
            is_variadic = parameter.type == "variadic_parameter_declaration"
            value = self.instance(parameter.child_by_field_name("type"), is_variadic)
            for name in parameter.children_by_field_name("name"):
                self.facts.declare(text_of(name), value)

    def instance(self, type_: Node | None, is_variadic: bool = False) -> Chain:
        """What a variable of this type stands for; of a variadic parameter's, a list of them."""
        text = type_of(type_)
        head, _ = chains.held(text)
        if not text or any(head in names for end, names in self.generic if end > self._at(type_)):
            return UNKNOWN
        return chains.instance(chains.collection(text) if is_variadic else text)

    def _at(self, node: Node | None) -> int:
        return node.start_byte if node is not None else 0

    # -- names and values --------------------------------------------------------------------------

    def on_import(self, node: Node) -> None:
        path = text_of(node.child_by_field_name("path")).strip('"`')[:500]
        name = node.child_by_field_name("name")
        alias = text_of(name) if name is not None else default_name(path)
        if alias == ".":
            self.facts.imports.append(Import(0, path, "", "", 0, line_of(node), ImportKind.ALL))
            return
        alias = "" if alias == "_" else alias
        self.facts.imports.append(Import(0, path, "", alias, 0, line_of(node), ImportKind.MODULE))
        if alias:
            self.facts.declare(alias, KEEP)

    def on_var(self, node: Node) -> None:
        names = [text_of(n) for n in node.children_by_field_name("name")]
        type_node = node.child_by_field_name("type")
        values = _expressions(node.child_by_field_name("value"))
        top = self.facts.frame.parent is None
        for index, name in enumerate(names):
            value = self._value(values, index, len(names))
            if type_node is not None:
                value = self.instance(type_node)
            if not top:
                self.facts.declare(name, value)
                continue
            literal = values[index] if len(values) == len(names) else None
            if literal is not None and literal.type == "func_literal":
                self._named_literal(literal, name, node)
                continue
            self.facts.declare(name, KEEP)
            self.facts.bind(0, name, value)

    def _named_literal(self, literal: Node, name: str, spec: Node) -> None:
        """`var F = func() {…}` at the top of a file is a function."""
        returns = result_of(literal.child_by_field_name("result"))
        body = literal.child_by_field_name("body")
        doc_end = body.start_byte if body is not None else 0
        number = self.define(spec, name, SymbolKind.FUNCTION, 0, returns=returns, doc_end=doc_end)
        self.facts.declare(name, KEEP)
        self.facts.enter(spec.end_byte, number, is_function=True)

    def on_const(self, node: Node) -> None:
        if self.facts.frame.parent is not None:
            for name in node.children_by_field_name("name"):
                self.facts.declare(text_of(name), UNKNOWN)

    def _value(self, values: list[Node], index: int, names: int) -> str:
        """What name `index` of `names` gets: its own value, or the first result of the one call."""
        if index < len(values) and (len(values) == names or index == 0):
            return chain_of(values[index])
        return UNKNOWN

    def on_short_var(self, node: Node) -> None:
        """`a, b := …` brings in new names of this block; those it has already keep their type."""
        left = _expressions(node.child_by_field_name("left"))
        right = _expressions(node.child_by_field_name("right"))
        values = self.facts.frame.values
        for index, target in enumerate(left):
            if target.type == "identifier" and (name := text_of(target)) not in values:
                self.facts.declare(name, self._value(right, index, len(left)))

    def on_range(self, node: Node) -> None:
        left = _expressions(node.child_by_field_name("left"))
        over = chain_of(node.child_by_field_name("right"))
        if not any(child.type == ":=" for child in node.children):
            return
        for index, target in enumerate(left):
            value = UNKNOWN if index == 0 else chains.element(over)
            self.facts.declare(text_of(target), value)

    def on_receive(self, node: Node) -> None:
        if any(child.type == ":=" for child in node.children):
            for target in _expressions(node.child_by_field_name("left")):
                self.facts.declare(text_of(target), UNKNOWN)

    def on_type_switch(self, node: Node) -> None:
        self.facts.enter(node.end_byte)
        alias = _expressions(node.child_by_field_name("alias"))
        if not alias:
            return
        name = text_of(alias[0])
        self.facts.declare(name, UNKNOWN)
        for case in node.named_children:
            if case.type == "type_case":
                types = case.children_by_field_name("type")
                self.cases[case.id] = (name, type_of(types[0]) if len(types) == 1 else "")

    def on_type_case(self, node: Node) -> None:
        self.facts.enter(node.end_byte)
        name, type_ = self.cases.pop(node.id, ("", ""))
        if name:
            self.facts.declare(name, chains.instance(type_) if type_ else UNKNOWN)

    def on_block(self, node: Node) -> None:
        if node.end_byte != self.facts.frame.end:
            self.facts.enter(node.end_byte)

    # -- uses --------------------------------------------------------------------------------------

    def on_call(self, node: Node) -> None:
        function = node.child_by_field_name("function")
        if function is None:
            return
        while function.type == "parenthesized_expression" and function.named_child_count == 1:
            function = named(function) or function
            if function.type == "unary_expression":  # (*T)(x) makes a T, as T(x)
                function = function.child_by_field_name("operand") or function
        chain = chain_of(function)
        place = function.child_by_field_name("field") or function
        if function.type == "index_expression":
            chain = chain.removesuffix(chains.ELEMENT)  # f[int](x)
        self.facts.use(chain, line_of(place))
        arguments = node.child_by_field_name("arguments")
        for argument in arguments.named_children if arguments is not None else ():
            if argument.type == "identifier":
                name = text_of(argument)
                if name not in _NOT_CALLBACKS:
                    self.facts.use(name, line_of(argument), ReferenceKind.CALLBACK)
            elif argument.type == "selector_expression":
                chain = chain_of(argument)
                self.facts.use(chain, line_of(argument), ReferenceKind.CALLBACK)

    def on_conversion(self, node: Node) -> None:
        """`F[int](x)` parses as a conversion to a generic type: it may call a function."""
        type_ = node.child_by_field_name("type")
        if type_ is not None and type_.type == "generic_type":
            self.facts.use(type_of(type_) or UNKNOWN, line_of(type_))


def default_name(path: str) -> str:
    """The name an import binds by habit: its last folder, without a version or a `go-` before it."""
    parts = [part for part in path.split("/") if part]
    if len(parts) > 1 and re.fullmatch(r"v\d+", parts[-1]):
        parts.pop()
    name = re.sub(r"\.v\d+$", "", parts[-1]) if parts else ""
    return name.removeprefix("go-").removesuffix("-go").replace("-", "_")


def _expressions(node: Node | None) -> list[Node]:
    if node is None:
        return []
    return node.named_children if node.type == "expression_list" else [node]


def _type_parameters(node: Node) -> frozenset[str]:
    parameters = node.child_by_field_name("type_parameters")
    if parameters is None:
        return frozenset()
    return frozenset(
        text_of(name)
        for p in parameters.named_children
        for name in p.children_by_field_name("name")
    )


def _receiver_parameters(receiver: Node | None) -> frozenset[str]:
    """K and V of `func (m *Map[K, V])`."""
    type_ = receiver.child_by_field_name("type") if receiver is not None else None
    if type_ is not None and type_.type == "pointer_type":
        type_ = named(type_)
    if type_ is None or type_.type != "generic_type":
        return frozenset()
    arguments = type_.child_by_field_name("type_arguments")
    return frozenset(text_of(a) for a in (arguments.named_children if arguments else ()))


def _embedded(type_: Node) -> tuple[str, ...]:
    """The types a struct or an interface embeds."""
    bases = []
    if type_.type == "struct_type":
        fields = named(type_)
        for field in fields.named_children if fields is not None else ():
            if field.type == "field_declaration" and field.child_by_field_name("name") is None:
                bases.append(type_of(field.child_by_field_name("type")))
    elif type_.type == "interface_type":
        for member in type_.named_children:
            if member.type == "type_elem" and member.named_child_count == 1:
                bases.append(type_of(named(member)))
    return tuple(base for base in bases if base)


class Go:
    """The extractor for Go."""

    language = "go"

    def __init__(self) -> None:
        grammar = Language(tree_sitter_go.language())
        self._grammar = Grammar(grammar, GoWalk(FactsBuilder(b"", "", "go", "")).handlers())

    def extract(self, source: bytes, path: str, module: str) -> FileFacts:
        """See `etl.languages.base.Extractor.extract`; the package's name is the module's."""
        root = self._grammar.parse(source)
        facts = FactsBuilder(source, path, "go", package_of(root, path))
        stem = basename(path).replace(".", "_") or "_"
        lines = source.count(b"\n") + (not source.endswith(b"\n"))
        facts.define(stem, SymbolKind.MODULE, 0, (1, max(lines, 1)), (0, len(source)), path=stem)
        walk = GoWalk(facts)
        walk.declare_types(root)
        self._grammar.walk(root, walk.handlers(), facts.leave)
        return facts.finish(root.has_error, _keep)


def package_of(root: Node, path: str) -> str:
    """A package by its folder, or by its own name where the folder is the repository's root."""
    clause = next((c for c in root.named_children[:200] if c.type == "package_clause"), None)
    name = text_of(clause.named_children[0]) if clause is not None and clause.named_children else ""
    folder = [part.replace(".", "_") for part in dirname(path).split("/") if part]
    if not folder:
        return name or "main"
    outside = name.endswith("_test") and path.endswith("_test.go")
    return ".".join(folder) + ("_test" if outside else "")


def _keep(chain: Chain, kind: ReferenceKind, known: bool) -> bool:
    del known  # another file of the package may declare it
    is_value = chains.is_unknown(chain) or chains.is_result(chain)
    return kind is not ReferenceKind.CALLBACK or not is_value


def extractor(language: str) -> Go:
    del language  # there is one Go
    return Go()
