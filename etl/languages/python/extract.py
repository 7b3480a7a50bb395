"""The Python extractor: definitions, imports, uses and what is known of types, in one pass."""

from __future__ import annotations

import re
from bisect import bisect_right
from operator import attrgetter

from tree_sitter import Node, Parser, QueryCursor

from etl.facts import Argument, Binding, BindingKind, Export, FileFacts, Reference, ReferenceKind
from etl.languages.base import Extractor
from etl.languages.names import is_test_path
from etl.languages.python import syntax as py
from etl.languages.python.definitions import NO_NODES
from etl.languages.python.names import Names
from etl.languages.python.syntax import QUERY, Reader

_CALL = ReferenceKind.CALL
_START = attrgetter("start_byte")
_PLACE = attrgetter("start_byte", "end_byte")
_EXPORTED = re.compile(rb"""["']([^"'\\\s]+)["']""")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Builtins whose arguments say nothing about the repository's parameters.
_OPAQUE = _words(
    "isinstance issubclass len str int float bool bytes repr super getattr setattr hasattr print range "
    "type id hash list dict set tuple frozenset sorted reversed enumerate zip min max sum any all next "
    "iter open vars dir callable str().format"
)


def extractor(language: str) -> Extractor:
    """The Python extractor; `language` is "python"."""
    return PythonExtractor()


class PythonExtractor:
    """See `etl.languages.base.Extractor`."""

    language = "python"

    def __init__(self) -> None:
        self._parser = Parser(py.LANGUAGE)
        self._reader = Reader()

    def extract(self, source: bytes, path: str, module: str) -> FileFacts:
        if b"\r" in source and b"\n" not in source:
            source = source.replace(
                b"\r", b"\n"
            )  # old Mac line ends: same offsets, countable lines
        if b"\0" in source:
            source = source.replace(b"\0", b" ")  # the parser takes one for the end
        self._reader.open(source)
        tree = self._parser.parse(source)
        root = tree.root_node
        captures = QueryCursor(QUERY).captures(root)
        file = _File(source, self._reader, is_test_path(path, "python"))
        file.collect(root, captures, module)
        return FileFacts(
            path,
            "python",
            module,
            file.definitions,
            file.imports,
            file.references,
            file.bindings,
            file.exports,
            root.has_error,
        )


class _File(Names):
    """Adds the uses, and fills all layers in order: scopes, names, uses."""

    def collect(self, root: Node, captures: dict[str, list[Node]], module: str) -> None:
        # The binding gathers captures in sets, so their order differs from run to run.
        for nodes in captures.values():
            nodes.sort(key=_START)
        captures.get("call", NO_NODES).sort(key=_PLACE)

        def get(name: str) -> list[Node]:
            return captures.get(name, NO_NODES)

        decorated = self._decorations(get("decorated"))
        self._module(root, module)
        self._define(get("def"), decorated)
        self._blocks(get("block"))
        self._import(get("import"))
        self._assign(get("assign"))
        self._bind_loops(get("for"), get("comprehension"))
        self._bind_others(captures)
        self._results(get("return"), get("yield"))
        self._calls(get("call"), get("arguments"))
        self._decorator_uses(decorated)
        if b"__all__" in self.source:
            self._export(get("assign"), get("augmented"))

    # -- uses -------------------------------------------------------------------------------------

    def _calls(self, nodes: list[Node], arguments: list[Node]) -> None:
        chain_of, scope_of, newlines = self._read.chain, self._scope, self._newlines
        add = self.references.append
        given = {node.start_byte: node for node in arguments}
        args_of = self._read.arguments
        for node in nodes:
            kind = node.kind_id
            chain = chain_of(node)
            # The interpreter's line of a method call is its name's, which counts in long chains.
            byte = node.end_byte if kind == py.ATTRIBUTE else node.start_byte
            line = bisect_right(newlines, byte - 1) + 1
            scope = scope_of(node.start_byte)
            args: tuple[Argument, ...] = ()
            if chain not in _OPAQUE and not chain.startswith("self.assert"):
                values = given.get(node.end_byte)
                if values is not None and values.end_byte - values.start_byte > 2:
                    args = args_of(values)
            add(Reference(scope, chain, line, _CALL, args))
            if chain == "isinstance":
                self._narrow(node, scope)

    def _narrow(self, function: Node, scope: int) -> None:
        """`if isinstance(x, A):` types x in that branch; `if not isinstance(x, A): return` after it."""
        call = function.parent
        given = call.child_by_field_id(py.F_ARGS) if call is not None else None
        tested = given.named_children if given is not None else []
        if call is None or len(tested) != 2 or tested[0].kind_id != py.IDENTIFIER:
            return
        lines = self._narrowed_lines(call)
        if lines is None:
            return
        name = self._read.text(tested[0])
        classes = tested[1].named_children if tested[1].kind_id == py.TUPLE else [tested[1]]
        for each in classes:
            if each.kind_id in (py.IDENTIFIER, py.ATTRIBUTE):
                chain = self._read.chain(each)
                self.bindings.append(Binding(scope, name, chain, BindingKind.NARROWED, *lines))

    def _narrowed_lines(self, call: Node) -> tuple[int, int] | None:
        """The lines `(line, until)` on which a test that `call` is part of has passed."""
        below, negated = _condition(call)
        test = below.parent if below is not None else None
        if below is None or test is None or test.kind_id != py.IF:
            return None
        block = test.child_by_field_id(py.F_CONSEQUENCE)
        if block is None or test.child_by_field_id(py.F_CONDITION) != below:
            return None
        line, until = self._line(block.start_byte) - 1, self._line(block.end_byte - 1)
        if not negated:
            return line, until
        last = block.named_children[-1] if block.named_child_count else None
        if last is None or last.kind_id not in (py.RETURN, py.RAISE, py.CONTINUE):
            return None
        return until, self._until(test.start_byte)

    def _decorator_uses(self, decorated: dict[int, tuple[int, list[Node]]]) -> None:
        """The call of each decorator; its argument is what it decorates."""
        names = {d.start_line: d.name for d in self.definitions[1:]}
        for start, (_, expressions) in decorated.items():
            name = names.get(self._line(start), "")
            given = (Argument(name),) if name else ()
            for node in expressions:
                scope = self._scope(node.start_byte)
                line = self._line(node.start_byte)
                chain = self._read.chain(node)
                self.references.append(
                    Reference(scope, chain, line, ReferenceKind.DECORATOR, given)
                )

    def _export(self, assigned: list[Node], augmented: list[Node]) -> None:
        for node in (*assigned, *augmented):
            left, right = node.child_by_field_id(py.F_LEFT), node.child_by_field_id(py.F_RIGHT)
            if left is None or right is None or self._scope(node.start_byte):
                continue
            if self.source[left.start_byte : left.end_byte] == b"__all__":
                text = self.source[right.start_byte : right.end_byte]
                names = [m.decode("utf-8", "replace") for m in _EXPORTED.findall(text)]
                self.exports += [Export(name, name) for name in names]


def _condition(call: Node) -> tuple[Node | None, bool]:
    """The whole condition that must hold, or must not, for `call` to hold; None behind an `or`."""
    below, test, negated = call, call.parent, False
    while test is not None and test.kind_id in (py.BOOLEAN, py.NOT, py.PARENTHESIZED):
        if test.kind_id == py.BOOLEAN:
            operator = test.child(1)
            if operator is None or operator.type != "and":
                return None, negated
        negated ^= test.kind_id == py.NOT
        below, test = test, test.parent
    return below, negated
