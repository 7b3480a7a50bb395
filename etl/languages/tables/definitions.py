"""Definitions by table: one walk for every language of which only the symbols are read.

Names, kinds, nesting, spans with the comment above, tests and base types are found; uses and imports
are not. What is a definition in a language is in its table in `etl/languages/tables/`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from posixpath import basename
from typing import NamedTuple, cast

import msgspec
from tree_sitter import Node, Query, QueryCursor

from etl.facts import FileFacts, SymbolKind
from etl.languages import registry
from etl.languages.kit.grammar import Grammar
from etl.languages.kit.nodes import line_of
from etl.languages.kit.scopes import NEAR, FactsBuilder
from etl.languages.names import is_test_path
from etl.languages.tables.rules import MEMBERS, File, Found, Table, dotted, newlines_of
from etl.languages.tables.salvage import Head, Lines

_DEEPEST = 100  # scopes inside scopes: deeper ones count as the hundredth
_MAX_PREFIX = 400  # characters of the namespaces round a name: graphs index no text of any length
_HEAD = 2000  # bytes before a name in which a test's mark is looked for
_MAX_NAME = 200  # characters; what is longer is no name
_SMALL = 4  # lines from which an error is read without the parser
_CALLABLE = frozenset({"function", "method", "constructor", "macro"})
_BLANK = b" \t\r\n\f"
_AFTER = _BLANK + b";"  # what a wrapper may have behind what it wraps


class Scope(NamedTuple):
    """What encloses a place: definition `number`, and names of namespaces inside that."""

    end: int
    number: int
    prefix: str
    members: bool


class Walk:
    """One file's walk: each node of the table's kinds comes by in the order of the source."""

    def __init__(self, table: Table, facts: FactsBuilder, file: File) -> None:
        self.table = table
        self.facts = facts
        self.file = file
        self.scopes = [Scope(len(file.source) + 1, 0, "", False)]
        self.above = (-1, -1)  # bytes of the comments and attributes just above
        self.wrapper = (-1, -1)
        self.types: dict[str, int] = {}  # qualname → definition
        self.inherited: dict[int, tuple[str, ...]] = {}
        self.lines: Lines | None = None
        self.swallowed: list[
            tuple[int, int]
        ] = []  # bytes behind a definition that an error took in
        self.salvaged = 0  # up to this byte, definitions were found without the parser
        self.last: dict[int, int] = {}  # definition → the last one inside it
        self.ends: dict[int, int] = {}  # definition → where the last one inside it ends
        self.open: dict[
            int, tuple[str, int]
        ] = {}  # parent → its last definition, if it may be joined

    def handlers(self) -> dict[str, Callable[[Node], None]]:
        table: dict[str, Callable[[Node], None]] = dict.fromkeys(
            self.table.rules, self.on_definition
        )
        table |= dict.fromkeys(self.table.wrappers, self.on_wrapper)
        table |= {kind: self.on_leading for kind in self.table.leading if kind not in table}
        if self.table.heads:
            table |= dict.fromkeys(("ERROR", *self.table.opaque), self.on_error)
        return table

    def leave(self, start: int) -> None:
        """Close what ends before byte `start`; called for each node."""
        while self.swallowed and self.swallowed[-1][0] <= start:
            begin, end = self.swallowed.pop()
            self._close(begin)
            if begin >= self.salvaged:
                self._salvage(begin, end)
        self._close(start)

    def _close(self, start: int) -> None:
        while len(self.scopes) > 1 and self.scopes[-1].end <= start:
            self.scopes.pop()

    # -- what stands before a definition -----------------------------------------------------------

    def on_leading(self, node: Node) -> None:
        begin, end = node.start_byte, self._trimmed(node.start_byte, node.end_byte)
        if self._follows(begin):
            begin = self.above[0]
        elif not self._first_on_line(begin):
            return
        self.above = (begin, end)

    def on_wrapper(self, node: Node) -> None:
        if not self.wrapper[0] <= node.start_byte < self.wrapper[1]:
            begin = self.above[0] if self._follows(node.start_byte) else node.start_byte
            self.wrapper = (begin, node.end_byte)

    def _follows(self, start: int) -> bool:
        """True when only white space, and no blank line, parts `start` from what is noted above."""
        end = self.above[1]
        if not 0 <= end <= start < end + NEAR:
            return False
        between = self.file.source[end:start]
        return between.count(b"\n") <= 1 and not between.strip()

    def _first_on_line(self, start: int) -> bool:
        line = self.file.source.rfind(b"\n", max(0, start - NEAR), start) + 1
        return not self.file.source[max(line, start - NEAR) : start].strip()

    def _span(self, start: int, end: int) -> tuple[int, int]:
        """The bytes of a definition with what belongs to it before."""
        outer = self.wrapper
        if end <= outer[1]:
            self.wrapper = (-1, -1)
        near = outer[0] <= start and end <= outer[1] < end + NEAR
        if near and not self.file.source[end : outer[1]].strip(_AFTER):
            return outer
        if self._follows(start):
            return self.above[0], self._trimmed(start, end)
        return start, self._trimmed(start, end)

    def _trimmed(self, start: int, end: int) -> int:
        source = self.file.source
        while end > start and source[end - 1] in _BLANK:
            end -= 1
        return end

    # -- definitions -------------------------------------------------------------------------------

    def on_definition(self, node: Node) -> None:
        if node.id in self.file.skip or node.start_byte < self.salvaged:
            return
        rule = self.table.rules[node.type]
        found = rule(node, self.file)
        if found is None or len(found.name) > _MAX_NAME:
            if node.type in self.table.leading:
                self.on_leading(node)
            return
        if "#" in found.name or "#" in found.owner:  # in a qualified name it numbers copies
            name, owner = found.name.replace("#", "_"), found.owner.replace("#", "_")
            found = replace(found, name=name, owner=owner)
        if found.kind:
            if found.name:
                self._define(node, found)
        else:
            self._namespace(node, found)

    def _namespace(self, node: Node, found: Found) -> None:
        scope = self.scopes[-1]
        prefix = _outer(scope.prefix, found.name)
        known = self._type(found.name) if found.members else None
        if known is not None:
            self.inherited[known] = (*self.inherited.get(known, ()), *found.bases)
            self._push(Scope(node.end_byte, known, "", True))
        elif found.name:
            self._push(Scope(node.end_byte, scope.number, prefix, found.members))

    def _push(self, scope: Scope) -> None:
        if len(self.scopes) < _DEEPEST:
            self.scopes.append(scope)

    def _type(self, name: str) -> int | None:
        """The type `name` of this file, as seen from here: in the namespaces round it, inside out."""
        scope = self.scopes[-1]
        outer = self.facts.definitions[scope.number].qualname if scope.number else ""
        prefix = _join(outer, scope.prefix)
        while prefix:
            if (known := self.types.get(f"{prefix}.{name}")) is not None:
                return known
            prefix = prefix.rpartition(".")[0]
        return self.types.get(name)

    def _define(self, node: Node, found: Found) -> None:
        scope, parent, path = self.scopes[-1], self.scopes[-1].number, found.name
        owner = self._type(found.owner) if found.owner else None
        if owner is not None:
            parent = owner
        else:
            path = _join(scope.prefix, _join(_outer("", found.owner), found.name))
        kind = found.kind
        outer = self.facts.definitions[parent].kind if parent else ""
        if kind == "function" and (found.owner or scope.members or outer in self.table.owners):
            kind = "method"
        first = node.start_byte if found.since < 0 else found.since
        start, end = self._span(first, (found.until or node).end_byte)
        end = self._believed(node, found.at or node, end)
        if self._joined(found, parent, path, start, end):
            return
        number = self.facts.define(
            found.name.rpartition(".")[2], SymbolKind(kind), parent,
            (line_of(found.at or node), self._line(end)), (start, end),
            path=path, bases=found.bases, is_test=self._is_test(found, kind, start, node),
            doc_end_byte=found.body.start_byte if found.body is not None else end,
        )  # fmt: skip
        if kind not in _CALLABLE:
            self.types.setdefault(self.facts.definitions[number].qualname, number)
        self.open[parent] = (f"{path} {found.joins}", number) if found.joins else ("", -1)
        self.ends[parent] = max(end, self.ends.get(parent, 0))
        self.last[parent] = number
        self._push(Scope(end, number, "", False))

    def _joined(self, found: Found, parent: int, path: str, start: int, end: int) -> bool:
        """Clauses of one function are one definition: the last one grows."""
        name, number = self.open.get(parent, ("", -1))
        if not found.joins or name != f"{path} {found.joins}":
            return False
        before = self.facts.definitions[number]
        self.facts.definitions[number] = msgspec.structs.replace(
            before, end_byte=max(end, before.end_byte), end_line=self._line(end)
        )
        self._push(Scope(end, number, "", False))
        return True

    def _line(self, end: int) -> int:
        """1-based line of the byte before `end`."""
        return bisect_left(self.file.newlines, end - 1) + 1

    def _is_test(self, found: Found, kind: str, start: int, node: Node) -> bool:
        if found.is_test or kind not in ("function", "method"):
            return found.is_test
        return self._marked(found.name, start, (found.at or node).start_byte)

    def _marked(self, name: str, start: int, end: int) -> bool:
        """A test by its name, or by what stands before that, from `start` to `end`."""
        table = self.table
        if table.test_name is not None and self.file.in_tests and table.test_name.match(name):
            return True
        if table.test_mark is None:
            return False
        return table.test_mark.search(self.file.source, max(start, end - _HEAD), end) is not None

    # -- what the parser could not read ------------------------------------------------------------

    def on_error(self, node: Node) -> None:
        """Find definitions in a large error by their first lines; one inside a function is left alone.

        The same in what a macro is given: only the macro knows how to read it.
        """
        if node.end_byte < self.salvaged:
            return
        while (scope := self.scopes[-1]).number and self._callable(scope):
            if node.end_byte <= scope.end:
                return
            self.scopes.pop()  # it begins in there, and goes on behind
        if self.file.newlines_in(max(node.start_byte, self.salvaged), node.end_byte) < _SMALL:
            return
        self._reopen()
        scope = self.scopes[-1]
        # What stands before the error in the same scope was not understood either.
        outer = self.facts.definitions[scope.number]
        begin = max(self.ends.get(scope.number, 0), self.salvaged)
        if scope.number:
            begin = max(begin, self.file.newlines[outer.start_line - 1])
        self._salvage(begin, node.end_byte)

    def _callable(self, scope: Scope) -> bool:
        return self.facts.definitions[scope.number].kind in _CALLABLE

    def _reopen(self) -> None:
        """Where the body of a type could not be read, the type seems to end before it: let it go on."""
        number = self.last.get(self.scopes[-1].number, 0)
        before = self.facts.definitions[number]
        if not number or before.kind in _CALLABLE or before.start_line < 2:
            return
        head = self.file.newlines[before.start_line - 2] + 1
        stop = self._lines().end_of(head)
        if stop > before.end_byte:
            self.facts.definitions[number] = msgspec.structs.replace(
                before, end_byte=stop, end_line=self._line(stop)
            )
            self.ends[number] = max(before.end_byte, self.ends.get(number, 0))
            self._push(Scope(stop, number, "", False))

    def on_end(self, root: Node) -> None:
        """Of some errors the tree ends long before the source does."""
        self.leave(len(self.file.source) + 1)
        end = root.children[-1].end_byte if root.child_count else 0
        if root.has_error and self.file.source.count(b"\n", end) >= _SMALL and self.table.heads:
            self._salvage(max(end, self.salvaged), len(self.file.source))

    def _salvage(self, begin: int, end: int) -> None:
        for found in self._lines().heads(begin, end, self.table.heads):
            self._define_head(found)
        self.salvaged = max(end, self.salvaged)

    def _lines(self) -> Lines:
        if self.lines is None:
            self.lines = Lines(self.file.source)
        return self.lines

    def _believed(self, node: Node, at: Node, end: int) -> int:
        """The end of a definition with errors inside: where its indentation says.

        What an error swallowed behind it is read again, without the parser, when the walk leaves it.
        """
        if not (node.has_error and self.table.heads and self.table.bounded):
            return end
        stop = self._lines().end_of(at.start_byte)
        if stop <= at.start_byte:
            return end
        if stop < end:
            self.swallowed.append((stop, end))
        return stop

    def _define_head(self, found: Head) -> None:
        self._close(found.start)
        scope = self.scopes[-1]
        outer = self.facts.definitions[scope.number].kind if scope.number else ""
        name, kind = dotted(found.name), found.kind
        if kind in ("", MEMBERS):
            known = self._type(name) if kind else None
            prefix = _outer(scope.prefix, name) if known is None else ""
            number = scope.number if known is None else known
            self._push(Scope(found.end, number, prefix, bool(kind)))
            return
        if kind == "function" and (scope.members or outer in self.table.owners):
            kind = "method"
        number = self.facts.define(
            name.rpartition(".")[2], SymbolKind(kind), scope.number,
            (found.line + 1, self._line(found.end)), (found.start, found.end),
            path=_join(scope.prefix, name), doc_end_byte=found.end,
            is_test=kind in _CALLABLE and self._marked(name, found.start, found.at),
        )  # fmt: skip
        if kind not in _CALLABLE:
            self.types.setdefault(self.facts.definitions[number].qualname, number)
        self.ends[scope.number] = max(found.end, self.ends.get(scope.number, 0))
        self._push(Scope(found.end, number, "", False))

    def finish(self, has_error: bool) -> FileFacts:
        definitions = self.facts.definitions
        for number, bases in self.inherited.items():
            both = dict.fromkeys((*definitions[number].bases, *bases))
            definitions[number] = msgspec.structs.replace(definitions[number], bases=tuple(both))
        return self.facts.finish(has_error)


def _join(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer and name else outer or name


def _outer(outer: str, name: str) -> str:
    return _join(outer, name)[:_MAX_PREFIX].rstrip(".")


class Definitions:
    """The extractor of a language that has a table."""

    def __init__(self, language: str, table: Table) -> None:
        self.language = language
        self._table = table
        grammar = table.load()
        file = File(b"", "", False)
        walk = Walk(table, FactsBuilder(b"", "", language, ""), file)
        patterns = {"ERROR": "(ERROR) @n", **table.patterns} if table.heads else table.patterns
        self._grammar = Grammar(grammar, walk.handlers(), patterns)
        self._errors = Query(grammar, "(ERROR) @e")

    def extract(self, source: bytes, path: str, module: str) -> FileFacts:
        """See `etl.languages.base.Extractor.extract`."""
        dialect = self._table.dialect(source, path) if self._table.dialect is not None else ""
        if dialect:
            found = _shared(dialect).extract(source, path, module)
            return msgspec.structs.replace(found, language=self.language)
        if b"\r" in source and b"\n" not in source:
            source = source.replace(
                b"\r", b"\n"
            )  # old Mac line ends: same offsets, countable lines
        if b"\0" in source:
            source = source.replace(b"\0", b" ")  # the parser takes one for the end
        prepare = self._table.prepare
        root = self._parse(prepare(source, path) if prepare is not None else source)
        file = File(source, path, is_test_path(path, self.language), newlines=newlines_of(source))
        table = self._table
        package = table.package(root, file) if table.package is not None else ""
        file.package = package
        facts = FactsBuilder(source, path, self.language, package or module, one_type=True)
        name, _, suffix = basename(path).rpartition(".")
        own = f"{name}_{suffix}".replace(".", "_") if name else basename(path)
        lines = source.count(b"\n") + (not source.endswith(b"\n"))
        facts.define(
            own if package else module.rpartition(".")[2],
            SymbolKind.MODULE, 0, (1, max(lines, 1)), (0, len(source)), path=own if package else "",
        )  # fmt: skip
        walk = Walk(table, facts, file)
        self._grammar.walk(root, walk.handlers(), walk.leave)
        walk.on_end(root)
        return walk.finish(root.has_error)

    def _parse(self, source: bytes) -> Node:
        root = self._grammar.parse(source)
        repair = self._table.repair
        if repair is None or not root.has_error:
            return root
        mended = repair(source)
        if mended == source:
            return root
        again = self._grammar.parse(mended)
        return again if self._broken(again, source) < self._broken(root, source) else root

    def _broken(self, root: Node, source: bytes) -> float:
        """The share of the source in syntax errors, 0–1."""
        if not root.has_error:
            return 0.0
        end = total = 0
        spans = sorted(
            (node.start_byte, node.end_byte)
            for node in QueryCursor(self._errors).captures(root).get("e", ())
        )
        for begin, stop in spans:
            if stop > end:
                total += stop - max(begin, end)
                end = stop
        return total / max(len(source), 1)


@cache
def _shared(language: str) -> Definitions:
    return extractor(language)


def extractor(language: str) -> Definitions:
    """The extractor of a language that the registry gives a table."""
    module = import_module(f"{registry.TABLES}.{registry.language(language).table}")
    return Definitions(language, cast(Table, module.table(language)))
