"""The definitions of a Python source: symbols, scopes, parameters, blocks."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from tree_sitter import Node

from etl.facts import Binding, BindingKind, Chain, Definition, Export, Import, Reference, SymbolKind
from etl.languages.python import syntax as py
from etl.languages.python.syntax import Reader, first

NO_NODES: list[Node] = []
_SEPARATOR = ("", "", BindingKind.PARAMETER)  # `/` and `*` between parameters


class Definitions:
    """The facts of one source, to be filled from the outside in; this layer finds the scopes."""

    def __init__(self, source: bytes, reader: Reader, in_tests: bool) -> None:
        self.source = source
        self.definitions: list[Definition] = []
        self.imports: list[Import] = []
        self.references: list[Reference] = []
        self.bindings: list[Binding] = []
        self.exports: list[Export] = []
        self._read = reader
        self._in_tests = in_tests
        self._newlines: list[int] = np.flatnonzero(np.frombuffer(source, np.uint8) == 10).tolist()
        # Scope k's code begins at byte _starts[k] and belongs to definition _owners[k].
        self._starts = [-1]
        self._owners = [0]
        self._block_starts = [-1]
        self._block_ends = [
            0
        ]  # last line of the innermost block from that byte on; 0: the file's end
        self._parents = [0]
        self._is_class = [False]
        self._receiver = [""]  # the first parameter's name, for methods

    # -- places -----------------------------------------------------------------------------------

    def _line(self, byte: int) -> int:
        return bisect_right(self._newlines, byte - 1) + 1

    def _scope(self, byte: int) -> int:
        return self._owners[bisect_right(self._starts, byte) - 1]

    def _until(self, byte: int) -> int:
        return self._block_ends[bisect_right(self._block_starts, byte) - 1]

    # -- definitions ------------------------------------------------------------------------------

    def _module(self, root: Node, module: str) -> None:
        size = len(self.source)
        statement = first(root)
        while statement is not None and statement.is_extra:
            statement = statement.next_named_sibling
        self.definitions.append(
            Definition(
                module.rpartition(".")[2],
                "",
                SymbolKind.MODULE,
                0,
                1,
                max(1, self._line(size - 1)) if size else 1,
                0,
                size,
                doc_end_byte=_docstring_end(statement),
            )
        )

    def _decorations(self, nodes: list[Node]) -> dict[int, tuple[int, list[Node]]]:
        """First byte of each decorated `def`/`class` → (first byte of all, decorator expressions)."""
        found: dict[int, tuple[int, list[Node]]] = {}
        for node in nodes:
            definition = node.child_by_field_id(py.F_DEFINITION)
            if definition is None:
                continue
            expressions = []
            for child in node.named_children:
                if child.kind_id == py.DECORATOR:
                    expression = first(child)
                    if expression is not None:
                        expressions.append(expression)
            found[definition.start_byte] = (node.start_byte, expressions)
        return found

    def _define(self, nodes: list[Node], decorated: dict[int, tuple[int, list[Node]]]) -> None:
        stack = [(len(self.source) + 1, 0)]  # (end byte, definition)
        taken: dict[str, int] = {}
        qualnames = [""]
        for node in nodes:
            name_node = node.child_by_field_id(py.F_NAME)
            body = node.child_by_field_id(py.F_BODY)
            if name_node is None or body is None:
                continue
            start, end = node.start_byte, node.end_byte
            while stack[-1][0] <= start:
                self._leave(stack)
            parent = stack[-1][1]
            name = self._read.text(name_node)
            qualname = f"{qualnames[parent]}.{name}" if parent else name
            count = taken.get(qualname, 0) + 1
            taken[qualname] = count
            if count > 1:
                qualname = f"{qualname}#{count}"
            qualnames.append(qualname)
            index = len(self.definitions)
            whole, expressions = decorated.get(start, (start, NO_NODES))
            chains = tuple(self._read.chain(each) for each in expressions)
            self.definitions.append(
                self._definition(node, body, name, qualname, parent, whole, chains)
            )
            self._parents.append(parent)
            stack.append((end, index))
            self._starts.append(body.start_byte)
            self._owners.append(index)
            if node.kind_id == py.FUNCTION:
                self._parameters(node, index, parent, chains)
            else:
                self._receiver.append("")
        while len(stack) > 1:
            self._leave(stack)

    def _leave(self, stack: list[tuple[int, int]]) -> None:
        end, _ = stack.pop()
        self._starts.append(end)
        self._owners.append(stack[-1][1])

    def _definition(
        self,
        node: Node,
        body: Node,
        name: str,
        qualname: str,
        parent: int,
        whole: int,
        decorators: tuple[Chain, ...],
    ) -> Definition:
        is_class = node.kind_id == py.CLASS
        in_class = self._is_class[parent]
        self._is_class.append(is_class)
        start, end = node.start_byte, node.end_byte
        kind = SymbolKind.METHOD if in_class else SymbolKind.FUNCTION
        kind = SymbolKind.CLASS if is_class else kind
        annotation = None if is_class else node.child_by_field_id(py.F_RETURN)
        colon = self.source.rfind(b":", start, body.start_byte)
        doc_end = _docstring_end(first(body)) or colon + 1
        return Definition(
            name,
            qualname,
            kind,
            parent,
            self._line(start),
            self._line(end - 1),
            self._with_comment(whole),
            end,
            self._bases(node) if is_class else (),
            self._read.annotation(annotation) if annotation is not None else "",
            self._is_test(name, parent, is_class),
            doc_end,
            decorators,
            not is_class and self._is_abstract(doc_end, body, decorators),
        )

    def _is_test(self, name: str, parent: int, is_class: bool) -> bool:
        if is_class or not self._in_tests or not name.startswith("test"):
            return False
        return parent == 0 or self._is_class[parent]

    def _bases(self, node: Node) -> tuple[str, ...]:
        arguments = node.child_by_field_id(py.F_BASES)
        if arguments is None:
            return ()
        return tuple(
            self._read.chain(base).removesuffix("[]")
            for base in arguments.named_children
            if base.kind_id in (py.IDENTIFIER, py.ATTRIBUTE, py.SUBSCRIPT, py.CALL)
        )

    def _with_comment(self, start: int) -> int:
        """The first byte of the comment lines directly above the line of `start`, or `start`."""
        source = self.source
        begin = start
        line_start = source.rfind(b"\n", 0, start) + 1
        while line_start:
            above = source.rfind(b"\n", 0, line_start - 1) + 1
            text = source[above : line_start - 1].lstrip()
            if not text.startswith(b"#") or text.startswith(b"#!"):
                break
            begin = line_start - 1 - len(text)
            line_start = above
        return begin

    def _parameters(
        self, node: Node, index: int, parent: int, decorators: tuple[Chain, ...]
    ) -> None:
        """Bind the parameters. `self` and `cls` of a method are bound by the method itself."""
        is_method = self._is_class[parent] and "staticmethod" not in decorators
        parameters = node.child_by_field_id(py.F_PARAMETERS)
        if parameters is None or parameters.end_byte - parameters.start_byte <= 2:
            self._receiver.append("")
            return
        if is_method:
            text = self.source[parameters.start_byte : parameters.end_byte]
            if text == b"(self)" or text == b"(cls)":
                self._receiver.append("self" if text == b"(self)" else "cls")
                return
        line = self._line(node.start_byte)
        receiver = ""
        for number, parameter in enumerate(parameters.named_children):
            name, annotation, kind = self._parameter(parameter)
            if not name:
                continue
            if number == 0 and is_method and kind is BindingKind.PARAMETER:
                receiver = name
                if name in ("self", "cls"):
                    continue
                kind = BindingKind.RECEIVER
            self.bindings.append(Binding(index, name, annotation, kind, line))
        self._receiver.append(receiver)

    def _parameter(self, node: Node) -> tuple[str, str, BindingKind]:
        """(name, annotation, kind) of one parameter; name "" for separators."""
        kind = node.kind_id
        if kind == py.IDENTIFIER:
            return self._read.text(node), "", BindingKind.PARAMETER
        if kind in (py.DEFAULT, py.TYPED_DEFAULT):
            name = node.child_by_field_id(py.F_NAME)
        elif kind == py.TYPED:
            name = first(node)
        else:
            name = node
        annotation = node.child_by_field_id(py.F_TYPE) if kind != py.DEFAULT else None
        text = self._read.annotation(annotation) if annotation is not None else ""
        if name is not None and name.kind_id in (py.SPLAT, py.DICT_SPLAT):
            inner = first(name)
            box = "tuple" if name.kind_id == py.SPLAT else "dict"
            if inner is None:
                return _SEPARATOR
            element = f"[{'str, ' if box == 'dict' else ''}{text}]" if text else ""
            return self._read.text(inner), f"{box}{element}", BindingKind.TYPE
        if name is None or name.kind_id != py.IDENTIFIER:
            return _SEPARATOR
        return self._read.text(name), text, BindingKind.PARAMETER

    def _is_abstract(self, doc_end: int, body: Node, decorators: tuple[Chain, ...]) -> bool:
        """True for a function that only raises NotImplementedError, or is declared abstract."""
        if any(name.endswith("abstractmethod") for name in decorators):
            return True
        text = self.source[doc_end : body.end_byte].lstrip() if doc_end else b""
        return text.startswith(b"raise ") or text in (b"...", b"pass")

    def _blocks(self, nodes: list[Node]) -> None:
        """Where each block ends, so that a binding is known to hold to the end of its own block."""
        stack: list[tuple[int, int]] = []
        starts, ends = self._block_starts, self._block_ends
        for node in nodes:
            start, end = node.start_byte, node.end_byte
            while stack and stack[-1][0] <= start:
                starts.append(stack.pop()[0])
                ends.append(stack[-1][1] if stack else 0)
            last = self._line(end - 1)
            stack.append((end, last))
            starts.append(start)
            ends.append(last)
        while stack:
            starts.append(stack.pop()[0])
            ends.append(stack[-1][1] if stack else 0)


def _docstring_end(statement: Node | None) -> int:
    """The end of a body's first statement when it is a string, else 0."""
    if statement is not None and statement.kind_id == py.STATEMENT:
        string = first(statement)
        if string is not None and string.kind_id == py.STRING:
            return string.end_byte
    return 0
