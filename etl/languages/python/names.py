"""The names of a Python source: what imports, assignments and statements bind."""

from __future__ import annotations

from tree_sitter import Node

from etl.facts import Binding, BindingKind, Import, ImportKind, Slot
from etl.languages.kit import chains
from etl.languages.kit.chains import is_whole
from etl.languages.python import syntax as py
from etl.languages.python.definitions import NO_NODES, Definitions
from etl.languages.python.syntax import Assigned, first

_NAME, _MEMBER = Slot.NAME, Slot.MEMBER
_NO_VALUES = [Assigned(BindingKind.UNKNOWN, "")]


class Names(Definitions):
    """Adds imports, and bindings with what is known of their types."""

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
            self.imports.append(Import(scope, module, "", "", level, line, ImportKind.ALL))
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
            self.imports.append(Import(scope, name, "", bound, 0, line, ImportKind.MODULE))
        else:
            bound = alias or name
            self.imports.append(Import(scope, module, name, bound, level, line))

    # -- bindings ---------------------------------------------------------------------------------

    def _bind(self, node: Node, values: list[Assigned], line: int, until: int) -> None:
        """Bind what `node` (a name, `self.x`, or a pattern of them) may be; without values, unknown."""
        kind = node.kind_id
        scope, slot = self._scope(node.start_byte), _NAME
        if kind == py.IDENTIFIER:
            name = self._read.text(node)
        elif kind == py.ATTRIBUTE:
            head, dot, name = self._read.chain(node).partition(".")
            if not dot or "." in name or head != self._receiver[scope] or not head:
                return
            slot = _MEMBER
        else:
            self._bind_pattern(node, line, until)
            return
        for how, value, elements in values or _NO_VALUES:
            self.bindings.append(Binding(scope, name, value, how, line, until, slot, elements))

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
                self._bind(
                    left,
                    [Assigned(BindingKind.TYPE, self._read.annotation(annotation))],
                    line,
                    until,
                )
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
        self._bind(left, _iterated(self._read.chain(right)), line, until)

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
            chain = self._read.chain(given) if given is not None else chains.UNKNOWN
        elif chain.endswith(".items"):
            chain = chains.called(chains.member(chain.removesuffix(".items"), "values"))
        else:
            return False
        self._bind(names[0], [], line, until)
        self._bind(names[1], _iterated(chain), line, until)
        return True

    def _bind_others(self, captures: dict[str, list[Node]]) -> None:
        for node in captures.get("with", NO_NODES):
            self._bind_with(node)
        for node in captures.get("walrus", NO_NODES):
            name, value = node.child_by_field_id(py.F_NAME), node.child_by_field_id(py.F_VALUE)
            if name is not None:
                line = self._line(node.start_byte) - 1
                self._bind(name, self._read.values(value), line, 0)
        for node in captures.get("except", NO_NODES):
            self._bind_except(node)
        for node in captures.get("case", NO_NODES):
            self._bind_case(node)
        for node in captures.get("lambda", NO_NODES):
            self._bind_lambda(node)
        for node in captures.get("global", NO_NODES):
            scope = self._scope(node.start_byte)
            for name in node.named_children:
                text = self._read.text(name)
                self.bindings.append(Binding(scope, text, "", BindingKind.GLOBAL))

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
        values = [Assigned(BindingKind.ENTERED, chain)] if is_whole(chain) else []
        self._bind(target, values, line - 1 if line == self._line(node.start_byte) else line, 0)

    def _bind_except(self, node: Node) -> None:
        value, alias = first(node), node.child_by_field_id(py.F_ALIAS)
        target = first(alias) if alias is not None else None
        if value is None or target is None:
            return
        classes = value.named_children if value.kind_id == py.TUPLE else [value]
        values = [
            Assigned(BindingKind.TYPE, self._read.annotation(each))
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
                self.bindings.append(Binding(scope, name, "", BindingKind.UNKNOWN, line))
        elif inner.kind_id == py.AS_PATTERN:
            parts = inner.named_children
            if len(parts) == 2 and parts[1].kind_id == py.IDENTIFIER:
                head = self.source[parts[0].start_byte : parts[0].end_byte].partition(b"(")
                known = head[0].strip().decode("utf-8", "replace") if head[1] else ""
                values = [Assigned(BindingKind.TYPE, known)] if known else []
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
                self.bindings.append(Binding(scope, name, "", BindingKind.LAMBDA, line, until))

    def _results(self, returns: list[Node], yields: list[Node]) -> None:
        for slot, nodes in ((Slot.RESULT, returns), (Slot.YIELD, yields)):
            for node in nodes:
                scope = self._scope(node.start_byte)
                value = first(node)
                if not scope or value is None or value.kind_id == py.NONE:
                    continue
                line = self._line(node.start_byte)
                for how, chain, elements in self._read.values(value) or _NO_VALUES:
                    self.bindings.append(Binding(scope, "", chain, how, line, 0, slot, elements))


def _iterated(chain: str) -> list[Assigned]:
    """An element of what a loop runs over."""
    return [Assigned(BindingKind.ITERATED, chain)] if is_whole(chain) else []
