"""The Python extractor: definitions, imports, uses and what is known of types, in one pass."""

from __future__ import annotations

import re
from bisect import bisect_right
from operator import attrgetter

from tree_sitter import Node, Parser, QueryCursor

from etl.facts import Binding, Definition, FileFacts, Import, Reference
from etl.languages import python_syntax as py
from etl.languages.base import Extractor
from etl.languages.names import is_test_path
from etl.languages.python_syntax import QUERY, Reader, first

_NO_NODES: list[Node] = []
_START = attrgetter("start_byte")
_PLACE = attrgetter("start_byte", "end_byte")
_EXPORTED = re.compile(rb"""["']([^"'\\\s]+)["']""")
_SELF = (b"(self", b"(cls")

# Builtins whose arguments tell nothing of the repository's parameters.
_ARGUMENTS_UNTOLD = frozenset(
    {
        *(
            "isinstance",
            "issubclass",
            "len",
            "str",
            "int",
            "float",
            "bool",
            "bytes",
            "repr",
            "super",
        ),
        *("getattr", "setattr", "hasattr", "print", "range", "type", "id", "hash", "list", "dict"),
        *(
            "set",
            "tuple",
            "frozenset",
            "sorted",
            "reversed",
            "enumerate",
            "zip",
            "min",
            "max",
            "sum",
        ),
        *("any", "all", "next", "iter", "open", "vars", "dir", "callable", "str().format"),
    }
)

# Names that are builtins, and never worth a callback unless the module rebinds them.
_CONSTANTS = frozenset({"True", "False", "None", "Ellipsis", "NotImplemented", "self", "cls"})


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


class _File:
    """The facts of one source, filled in the order: scopes, names, uses."""

    def __init__(self, source: bytes, reader: Reader, in_tests: bool) -> None:
        self.source = source
        self.definitions: list[Definition] = []
        self.imports: list[Import] = []
        self.references: list[Reference] = []
        self.bindings: list[Binding] = []
        self.exports: list[str] = []
        self._read = reader
        self._in_tests = in_tests
        self._newlines = [match.start() for match in re.finditer(b"\n", source)]
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
        self._bound: list[set[str]] = [set()]  # names bound in each function

    def collect(self, root: Node, captures: dict[str, list[Node]], module: str) -> None:
        # The binding gathers captures in sets, so their order differs from run to run.
        for nodes in captures.values():
            nodes.sort(key=_START)
        captures.get("call", _NO_NODES).sort(key=_PLACE)

        def get(name: str) -> list[Node]:
            return captures.get(name, _NO_NODES)

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
        self._callbacks(get("callback"))
        if b"__all__" in self.source:
            self._export(get("assign"), get("augmented"))

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
                "module",
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
            whole, expressions = decorated.get(start, (start, _NO_NODES))
            chains = tuple(self._read.chain(each) for each in expressions)
            self.definitions.append(
                self._definition(node, body, name, qualname, parent, whole, chains)
            )
            self._parents.append(parent)
            self._bound[parent].add(name)
            self._bound.append(set())
            stack.append((end, index))
            self._starts.append(body.start_byte)
            self._owners.append(index)
            if node.kind_id == py.FUNCTION:
                self._parameters(node, index, parent, chains, body)
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
        decorators: tuple[str, ...],
    ) -> Definition:
        is_class = node.kind_id == py.CLASS
        in_class = self._is_class[parent]
        self._is_class.append(is_class)
        start, end = node.start_byte, node.end_byte
        kind = "class" if is_class else "method" if in_class else "function"
        annotation = None if is_class else node.child_by_field_id(py.F_RETURN)
        doc_end = _docstring_end(first(body))
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
            doc_end or self.source.rfind(b":", start, body.start_byte) + 1,
            decorators,
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
        self, node: Node, index: int, parent: int, decorators: tuple[str, ...], body: Node
    ) -> None:
        """Bind the parameters. `self` and `cls` of a method are bound by the method itself."""
        is_method = self._is_class[parent] and "staticmethod" not in decorators
        parameters = node.child_by_field_id(py.F_PARAMETERS)
        self._abstract(index, body, decorators)
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
            name, annotation, how = self._parameter(parameter)
            if not name:
                continue
            if number == 0 and is_method and how == "param":
                receiver = name
                if name in ("self", "cls"):
                    continue
                how = "self"
            self._bound[index].add(name)
            self.bindings.append(Binding(index, name, annotation, how, line))
        self._receiver.append(receiver)

    def _parameter(self, node: Node) -> tuple[str, str, str]:
        """(name, annotation, how) of one parameter; name "" for separators."""
        kind = node.kind_id
        if kind == py.IDENTIFIER:
            return self._read.text(node), "", "param"
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
                return "", "", ""
            element = f"[{'str, ' if box == 'dict' else ''}{text}]" if text else ""
            return self._read.text(inner), f"{box}{element}", "type"
        if name is None or name.kind_id != py.IDENTIFIER:
            return "", "", ""
        return self._read.text(name), text, "param"

    def _abstract(self, index: int, body: Node, decorators: tuple[str, ...]) -> None:
        """Note a function that only raises NotImplementedError, or is declared abstract."""
        if any(name.endswith("abstractmethod") for name in decorators):
            abstract = True
        else:
            start = self.definitions[index].doc_end_byte
            text = self.source[start : body.end_byte].lstrip() if start else b""
            abstract = text.startswith(b"raise ") or text in (b"...", b"pass")
        if abstract:
            self.bindings.append(Binding(index, "return", "", "abstract"))

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

    # -- imports ----------------------------------------------------------------------------------

    def _import(self, nodes: list[Node]) -> None:
        for node in nodes:
            start = node.start_byte
            scope, line, kind = self._scope(start), self._line(start), node.kind_id
            if kind == py.FUTURE:
                continue
            module, level, skip = "", 0, None
            if kind != py.IMPORT:
                skip = node.child_by_field_id(py.F_MODULE)
                if skip is None:
                    continue
                module, level = self._module_name(skip)
            for child in node.named_children:
                if child == skip:
                    continue
                self._imported(child, scope, line, module, level, kind == py.IMPORT)

    def _module_name(self, node: Node) -> tuple[str, int]:
        text = "".join(
            self.source[node.start_byte : node.end_byte].decode("utf-8", "replace").split()
        )
        name = text.lstrip(".")
        return name, len(text) - len(name)

    def _imported(
        self, node: Node, scope: int, line: int, module: str, level: int, whole: bool
    ) -> None:
        alias = ""
        kind = node.kind_id
        if kind == py.WILDCARD:
            self.imports.append(Import(scope, module, "*", "", level, line))
            return
        if kind == py.ALIASED:
            target, as_ = node.child_by_field_id(py.F_NAME), node.child_by_field_id(py.F_ALIAS)
            if target is None or as_ is None:
                return
            node, alias = target, self._read.text(as_)
        elif kind != py.DOTTED:
            return
        name, _ = self._module_name(node)
        if whole:
            # `import a.b` binds `a`; `import a.b as c` binds the module a.b.
            bound = alias or name.partition(".")[0]
            self.imports.append(Import(scope, name, "", bound, 0, line))
        else:
            bound = alias or name
            self.imports.append(Import(scope, module, name, bound, level, line))
        if scope:
            self._bound[scope].discard(bound)

    # -- bindings ---------------------------------------------------------------------------------

    def _bind(self, node: Node, values: list[tuple[str, str]], line: int, until: int) -> None:
        """Bind what `node` (a name, `self.x`, or a pattern of them) may be; nothing known: "local"."""
        kind = node.kind_id
        scope = self._scope(node.start_byte)
        if kind == py.IDENTIFIER:
            name = self._read.text(node)
            self._bound[scope].add(name)
        elif kind == py.ATTRIBUTE:
            name = self._read.chain(node)
            head, dot, rest = name.partition(".")
            if not dot or "." in rest or head != self._receiver[scope] or not head:
                return
            name = f"self.{rest}"
        else:
            self._bind_pattern(node, line, until)
            return
        for how, value in values:
            self.bindings.append(Binding(scope, name, value, how, line, until))
        if not values:
            self.bindings.append(Binding(scope, name, "", "local", line, until))

    def _bind_pattern(self, node: Node, line: int, until: int) -> None:
        todo = [node]
        while todo:
            node = todo.pop()
            kind = node.kind_id
            if kind in (py.IDENTIFIER, py.ATTRIBUTE):
                self._bind(node, [], line, until)
            elif kind != py.SUBSCRIPT:
                todo += reversed(node.named_children)

    def _assign(self, nodes: list[Node]) -> None:
        values = self._read.values
        for node in nodes:
            left = node.child_by_field_id(py.F_LEFT)
            if left is None or left.kind_id == py.SUBSCRIPT:
                continue
            end = node.end_byte
            line, until = self._line(end), self._until(end - 1)
            annotation = node.child_by_field_id(py.F_TYPE)
            right = node.child_by_field_id(py.F_RIGHT)
            if annotation is not None:
                self._bind(left, [("type", self._read.annotation(annotation))], line, until)
                if right is None:
                    continue
                if left.kind_id != py.IDENTIFIER or self._is_class[self._scope(node.start_byte)]:
                    continue
            if left.kind_id in (py.IDENTIFIER, py.ATTRIBUTE):
                if annotation is None:
                    self._bind(left, values(right), line, until)
            elif right is not None:
                self._unpack(left, right, line, until)

    def _unpack(self, left: Node, right: Node, line: int, until: int) -> None:
        """`a, b = x, y` pairwise; anything else binds the names to something unknown."""
        if right.kind_id in (py.EXPRESSION_LIST, py.TUPLE, py.LIST):
            targets, given = left.named_children, right.named_children
            if len(targets) == len(given) and not any(t.kind_id == py.SPLAT for t in targets):
                for target, value in zip(targets, given, strict=True):
                    self._bind(target, self._read.values(value), line, until)
                return
        self._bind_pattern(left, line, until)

    def _bind_loops(self, loops: list[Node], comprehensions: list[Node]) -> None:
        for node in loops:
            self._bind_element(node, self._line(node.start_byte), 0)
        for node in comprehensions:
            # Its body stands before it, often on the same line.
            owner = node.parent
            start = owner.start_byte if owner is not None else node.start_byte
            end = owner.end_byte if owner is not None else node.end_byte
            self._bind_element(node, self._line(start) - 1, self._line(end))

    def _bind_element(self, node: Node, line: int, until: int) -> None:
        left, right = node.child_by_field_id(py.F_LEFT), node.child_by_field_id(py.F_RIGHT)
        if left is None or right is None:
            return
        until = until or self._until(node.end_byte - 1)
        if left.kind_id != py.IDENTIFIER:
            if not self._bind_pairs(left, right, line, until):
                self._bind_pattern(left, line, until)
            return
        chain = self._read.chain(right)
        self._bind(left, [("iter", chain)] if "?" not in chain else [], line, until)

    def _bind_pairs(self, left: Node, right: Node, line: int, until: int) -> bool:
        """`for i, x in enumerate(xs)` and `for k, v in d.items()`: the second name is an element."""
        if left.kind_id not in (py.PATTERN_LIST, py.TUPLE_PATTERN) or right.kind_id != py.CALL:
            return False
        names = left.named_children
        function, arguments = (
            right.child_by_field_id(py.F_FUNCTION),
            right.child_by_field_id(py.F_ARGS),
        )
        if len(names) != 2 or function is None or arguments is None:
            return False
        chain = self._read.chain(function)
        if chain == "enumerate":
            given = first(arguments)
            chain = self._read.chain(given) if given is not None else "?"
        elif chain.endswith(".items"):
            chain = chain.removesuffix(".items") + ".values()"
        else:
            return False
        self._bind(names[0], [], line, until)
        self._bind(names[1], [("iter", chain)] if "?" not in chain else [], line, until)
        return True

    def _bind_others(self, captures: dict[str, list[Node]]) -> None:
        for node in captures.get("with", _NO_NODES):
            self._bind_with(node)
        for node in captures.get("walrus", _NO_NODES):
            name, value = node.child_by_field_id(py.F_NAME), node.child_by_field_id(py.F_VALUE)
            if name is not None:
                line = self._line(node.start_byte) - 1
                self._bind(name, self._read.values(value), line, 0)
        for node in captures.get("except", _NO_NODES):
            self._bind_except(node)
        for node in captures.get("case", _NO_NODES):
            self._bind_case(node)
        for node in captures.get("lambda", _NO_NODES):
            self._bind_lambda(node)
        for node in captures.get("global", _NO_NODES):
            scope = self._scope(node.start_byte)
            for name in node.named_children:
                text = self._read.text(name)
                self._bound[scope].discard(text)
                self.bindings.append(Binding(scope, text, "", "global"))

    def _bind_with(self, node: Node) -> None:
        while node.kind_id == py.PARENTHESIZED:
            inner = first(node)
            if inner is None:
                return
            node = inner
        if node.kind_id != py.AS_PATTERN:
            return
        value, alias = first(node), node.child_by_field_id(py.F_ALIAS)
        target = first(alias) if alias is not None else None
        if value is None or target is None:
            return
        chain = self._read.chain(value)
        line = self._line(node.end_byte)
        values = [("enter", chain)] if "?" not in chain else []
        self._bind(target, values, line - 1 if line == self._line(node.start_byte) else line, 0)

    def _bind_except(self, node: Node) -> None:
        value, alias = first(node), node.child_by_field_id(py.F_ALIAS)
        target = first(alias) if alias is not None else None
        if value is None or target is None:
            return
        classes = value.named_children if value.kind_id == py.TUPLE else [value]
        values = [
            ("type", self._read.annotation(each))
            for each in classes
            if each.kind_id in (py.IDENTIFIER, py.ATTRIBUTE)
        ]
        self._bind(target, values, self._line(node.start_byte), self._until(node.start_byte))

    def _bind_case(self, node: Node) -> None:
        """Names that a pattern captures; `case Foo() as x` gives x's type."""
        scope, line = self._scope(node.start_byte), self._line(node.start_byte) - 1
        inner = first(node)
        if inner is None:
            return
        if inner.kind_id == py.DOTTED:
            name, _ = self._module_name(inner)
            if "." not in name and name != "_":
                self._bound[scope].add(name)
                self.bindings.append(Binding(scope, name, "", "local", line))
        elif inner.kind_id == py.AS_PATTERN:
            parts = inner.named_children
            if len(parts) == 2 and parts[1].kind_id == py.IDENTIFIER:
                head = self.source[parts[0].start_byte : parts[0].end_byte].partition(b"(")
                known = head[1] == b"(" and head[0].strip().decode("utf-8", "replace")
                values = [("type", known)] if known else []
                self._bind(parts[1], values, line, 0)

    def _bind_lambda(self, node: Node) -> None:
        """A lambda's parameters hide outer names inside it."""
        owner = node.parent
        end = owner.end_byte if owner is not None else node.end_byte
        scope = self._scope(node.start_byte)
        line = self._line(node.start_byte) - 1
        for parameter in node.named_children:
            name = self._parameter(parameter)[0]
            if name:
                until = self._line(end)
                self.bindings.append(Binding(scope, name, "", "lambda", line, until))

    def _results(self, returns: list[Node], yields: list[Node]) -> None:
        for name, nodes in (("return", returns), ("yield", yields)):
            for node in nodes:
                scope = self._scope(node.start_byte)
                value = first(node)
                if not scope or value is None or value.kind_id == py.NONE:
                    continue
                values = self._read.values(value) or [("local", "")]
                line = self._line(node.start_byte)
                for how, chain in values:
                    self.bindings.append(Binding(scope, name, chain, how, line))

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
            args = ""
            if chain not in _ARGUMENTS_UNTOLD and not chain.startswith("self.assert"):
                values = given.get(node.end_byte)
                if values is not None and values.end_byte - values.start_byte > 2:
                    args = args_of(values)
            add(Reference(scope, chain, line, "call", args))
            if chain == "isinstance":
                self._narrow(node, scope)

    def _narrow(self, function: Node, scope: int) -> None:
        """`if isinstance(x, A):` types x in that branch; `if not isinstance(x, A): return` after it."""
        call = function.parent
        arguments = call.child_by_field_id(py.F_ARGS) if call is not None else None
        given = arguments.named_children if arguments is not None else []
        if call is None or len(given) != 2 or given[0].kind_id != py.IDENTIFIER:
            return
        classes = given[1].named_children if given[1].kind_id == py.TUPLE else [given[1]]
        test, negated = call.parent, False
        below = call
        while test is not None and test.kind_id in (py.BOOLEAN, py.NOT, py.PARENTHESIZED):
            if test.kind_id == py.BOOLEAN:
                operator = test.child(1)
                if operator is None or operator.type != "and":
                    return
            negated ^= test.kind_id == py.NOT
            below, test = test, test.parent
        if test is None or test.kind_id != py.IF:
            return
        block = test.child_by_field_id(py.F_CONSEQUENCE)
        if block is None or test.child_by_field_id(py.F_CONDITION) != below:
            return
        line, until = self._line(block.start_byte) - 1, self._line(block.end_byte - 1)
        if negated:
            last = block.named_children[-1] if block.named_child_count else None
            if last is None or last.kind_id not in (py.RETURN, py.RAISE, py.CONTINUE):
                return
            line, until = until, self._until(test.start_byte)
        name = self._read.text(given[0])
        for each in classes:
            if each.kind_id in (py.IDENTIFIER, py.ATTRIBUTE):
                chain = self._read.chain(each)
                self.bindings.append(Binding(scope, name, chain, "narrow", line, until))

    def _decorator_uses(self, decorated: dict[int, tuple[int, list[Node]]]) -> None:
        """The call of each decorator; its argument is what it decorates."""
        names = {d.start_line: d.name for d in self.definitions[1:]}
        for start, (_, expressions) in decorated.items():
            name = names.get(self._line(start), "")
            for node in expressions:
                scope = self._scope(node.start_byte)
                line = self._line(node.start_byte)
                chain = self._read.chain(node)
                self.references.append(Reference(scope, chain, line, "decorator", name))

    def _callbacks(self, nodes: list[Node]) -> None:
        """Names passed or stored that may be functions: not locals, not the builtin constants."""
        text_of, chain_of = self._read.text, self._read.chain
        for node in nodes:
            if node.kind_id == py.IDENTIFIER:
                chain = head = text_of(node)
            else:
                chain = chain_of(node)
                head = chain.partition(".")[0]
            scope = self._scope(node.start_byte)
            if chain in _CONSTANTS or self._is_local(scope, head):
                continue
            line = self._line(node.end_byte)
            self.references.append(Reference(scope, chain, line, "callback"))

    def _is_local(self, scope: int, name: str) -> bool:
        """True when `name` is a variable of `scope` or of a function around it."""
        if name[-1] in ")]?":
            return True
        while scope:
            if name in self._bound[scope] and not self._is_class[scope]:
                return True
            scope = self._parents[scope]
        return False

    def _export(self, assigned: list[Node], augmented: list[Node]) -> None:
        for node in (*assigned, *augmented):
            left, right = node.child_by_field_id(py.F_LEFT), node.child_by_field_id(py.F_RIGHT)
            if left is None or right is None or self._scope(node.start_byte):
                continue
            if self.source[left.start_byte : left.end_byte] == b"__all__":
                text = self.source[right.start_byte : right.end_byte]
                self.exports += [m.decode("utf-8", "replace") for m in _EXPORTED.findall(text)]


def _docstring_end(statement: Node | None) -> int:
    """The end of a body's first statement when it is a string, else 0."""
    if statement is not None and statement.kind_id == py.STATEMENT:
        string = first(statement)
        if string is not None and string.kind_id == py.STRING:
            return string.end_byte
    return 0
