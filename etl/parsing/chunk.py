"""Files to chunks: one a symbol, what is left of a module, documentation by its headings.

Every line that isn't blank is in at least one chunk. Chunks hold whole lines, so two symbols on one
line share the chunk of what encloses them. A class's chunk is its header, docstring and attributes
with the first line of each method in place; methods have chunks of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple

from etl.facts import Definition, FileFacts, SymbolKind
from etl.parsing.split import Row, sections, split_rows
from plait.domain.values import embedded_text

# MiniLM sees 256 tokens, about 1,000 characters of code. BM25 likes functions whole. A symbol up to
# MAX_CHARS is one chunk, and what is longer comes in parts of up to that; both guessed, see
# docs/experiments/localisation.md for what was measured.
MAX_CHARS = 1500
# Tables and translations are found by their words, not by their meaning: fewer, longer chunks.
MAX_DATA_CHARS = 6000
# A section or a run of module code below this joins the next one.
MIN_CHARS = 400
# Inside a long function, a nested symbol of this size gets a chunk of its own.
MIN_NESTED_CHARS = 300

_CONTAINERS = frozenset({"class", "interface", "enum", "struct", "trait", "namespace", "instance"})
_CLOSERS = frozenset(" \t\r\f;,)}]")

_DOC = frozenset({"markdown", "rst", "asciidoc", "tex", "text"})
_DATA = frozenset({"csv", "jsonl", "gettext", "diff"})
_CONFIG = frozenset(
    {"json", "yaml", "toml", "ini", "xml", "terraform", "cmake", "make", "dockerfile", "gomod"}
)


class RawChunk(NamedTuple):
    """A chunk without path, language and id, which its file and its run give it."""

    symbol: str
    kind: str
    start_line: int
    end_line: int
    content: str
    content_hash: bytes
    is_test: bool


def decode(source: bytes) -> str:
    """Text as it is stored: broken UTF-8 replaced, CRLF made LF, no NUL (PostgreSQL refuses it) and
    no byte order mark. Line numbers stay."""
    text = source.decode("utf-8", "replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if "\0" in text:
        text = text.replace("\0", "")
    return text.removeprefix("\ufeff")


def chunk_code(source: bytes, text: str, facts: FileFacts, *, is_test: bool) -> list[RawChunk]:
    """The chunks of a parsed file, in the order of their first lines. `text` is `decode(source)`."""
    return _CodeFile(source, text, facts, is_test).chunks()


def chunk_text(path: str, language: str, text: str, *, is_test: bool) -> list[RawChunk]:
    """The chunks of a file that isn't parsed: documentation, configuration, data, other code."""
    lines = text.split("\n")
    kind = text_kind(language)
    if kind == "doc":
        ranges = sections(lines, markdown=language == "markdown")
        parts = _doc_parts(lines, ranges)
    else:
        limit = MAX_DATA_CHARS if kind == "data" else MAX_CHARS
        parts = _split([_rows(lines, 0, len(lines))], limit)
    return [chunk for rows in parts for chunk in _chunk(path, "", kind, rows, is_test)]


def text_kind(language: str) -> str:
    """The kind of chunks of a language without an extractor: doc, data, config or code."""
    if language in _DOC:
        return "doc"
    if language in _DATA:
        return "data"
    return "config" if language in _CONFIG else "code"


class _Symbol(NamedTuple):
    first: int  # line indices, `last` inclusive
    last: int
    definition: Definition


class _CodeFile:
    """One file's lines and symbols while they are cut."""

    def __init__(self, source: bytes, text: str, facts: FileFacts, is_test: bool) -> None:
        self.path = facts.path
        self.facts = facts
        self.is_test = is_test
        self.lines = text.split("\n")
        self.source = source
        # Offsets of line starts in the source, and sizes in characters before each line.
        self.sizes = [0, *accumulate([len(line) + 1 for line in self.lines])]
        if len(text) == len(source) and text.isascii():  # byte for byte the same
            self.starts = self.sizes
        else:
            self.starts = [0, *accumulate([len(line) + 1 for line in source.split(b"\n")])]

    def chunks(self) -> list[RawChunk]:
        children: dict[int, list[int]] = {}
        symbols = self._symbols(children)
        out: list[RawChunk] = []
        for index, symbol in symbols.items():
            inner = [symbols[child] for child in children.get(index, ())]
            out += self._chunks_of(index, symbol, inner)
        out.sort(key=lambda chunk: (chunk.start_line, -chunk.end_line))
        return out

    def _symbols(self, children: dict[int, list[int]]) -> dict[int, _Symbol]:
        """The definitions that get chunks; fills `children` with the nearest ones inside each."""
        definitions = self.facts.definitions
        module = _Symbol(0, len(self.lines) - 1, definitions[0])
        symbols = {0: module}
        owner = {0: 0}  # definition → itself or the nearest enclosing one with a chunk
        order = sorted(
            range(1, len(definitions)),
            key=lambda i: (definitions[i].start_byte, -definitions[i].end_byte),
        )
        last_end = dict.fromkeys(range(len(definitions)), -1)
        for i in order:
            definition = definitions[i]
            symbol = self._lines_of(definition)
            parent = owner.get(definition.parent, 0)
            # A method may stand apart from its type: it is cut from what its lines are in.
            while parent and symbol is not None and not _holds(symbols[parent], symbol):
                parent = owner.get(definitions[parent].parent, 0)
            if symbol is not None and self._fits(symbol, symbols[parent], last_end[parent]):
                symbols[i] = symbol
                owner[i] = i
                last_end[parent] = symbol.last
                children.setdefault(parent, []).append(i)
            else:
                owner[i] = parent
        return symbols

    def _lines_of(self, definition: Definition) -> _Symbol | None:
        """The whole lines of a definition; None when it shares its first or last line with others."""
        first = bisect_right(self.starts, definition.start_byte) - 1
        last = bisect_right(self.starts, max(definition.end_byte - 1, definition.start_byte)) - 1
        if first >= len(self.lines) or last >= len(self.lines):
            return None
        if self.source[self.starts[first] : definition.start_byte].strip(b" \t\xef\xbb\xbf\f"):
            return None
        after = self.source[definition.end_byte : self.starts[last + 1] - 1]
        if after and not _CLOSERS.issuperset(after.decode("latin-1")):
            return None if not _is_comment(after) else _Symbol(first, last, definition)
        return _Symbol(first, last, definition)

    def _fits(self, symbol: _Symbol, parent: _Symbol, taken: int) -> bool:
        """True when `symbol` gets chunks of its own inside `parent`, whose lines to `taken` are gone."""
        if symbol.first <= taken or not _holds(parent, symbol):
            return False
        kind = parent.definition.kind
        if kind is SymbolKind.MODULE or kind in _CONTAINERS:
            # The class line itself must stay with the class.
            return kind is SymbolKind.MODULE or symbol.first > parent.definition.start_line - 1
        long = self._size(parent.first, parent.last + 1) > MAX_CHARS
        return long and self._size(symbol.first, symbol.last + 1) >= MIN_NESTED_CHARS

    def _size(self, first: int, end: int) -> int:
        return self.sizes[end] - self.sizes[first]

    def _chunks_of(
        self, index: int, symbol: _Symbol, inner: Sequence[_Symbol]
    ) -> Iterator[RawChunk]:
        definition = symbol.definition
        name = self.facts.module
        if definition.qualname:
            name = f"{name}.{definition.qualname}"
        is_test = self.is_test or definition.is_test
        kind = definition.kind
        if not inner and self._size(symbol.first, symbol.last + 1) <= MAX_CHARS:
            start, end = _bounds(self.lines, symbol.first, symbol.last + 1)
            if start < end:
                content = "\n".join(self.lines[start:end])
                yield _made(self.path, name, kind.value, content, start, end, is_test)
            return
        if kind is SymbolKind.MODULE:
            runs = self._gaps(symbol, inner)
            parts = [part for run in _pack(runs, MAX_CHARS) for part in _split([run], MAX_CHARS)]
        else:
            rows = self._outline(symbol, inner)
            parts = _split([rows], MAX_CHARS)
        end = symbol.last + 1 if len(parts) == 1 and kind in _CONTAINERS else 0
        for part in parts:
            yield from _chunk(self.path, name, kind.value, part, is_test, end)

    def _gaps(self, symbol: _Symbol, inner: Sequence[_Symbol]) -> list[list[Row]]:
        """The runs of lines of `symbol` that are in none of `inner`."""
        runs = []
        at = symbol.first
        for child in inner:
            runs.append(_rows(self.lines, at, child.first))
            at = child.last + 1
        runs.append(_rows(self.lines, at, symbol.last + 1))
        return [run for run in runs if run]

    def _outline(self, symbol: _Symbol, inner: Sequence[_Symbol]) -> list[Row]:
        """The lines of `symbol`, each of `inner` shortened to its first line."""
        rows: list[Row] = []
        at = symbol.first
        for child in inner:
            rows += _rows(self.lines, at, child.first)
            line = min(max(child.definition.start_line - 1, child.first), child.last)
            rows.append((line, self.lines[line]))
            at = child.last + 1
        rows += _rows(self.lines, at, symbol.last + 1)
        return rows


def _holds(outer: _Symbol, symbol: _Symbol) -> bool:
    return outer.first <= symbol.first and symbol.last <= outer.last


def _is_comment(after: bytes) -> bool:
    return after.lstrip(b" \t;,)}]").startswith((b"//", b"/*", b"#"))


def _rows(lines: Sequence[str], start: int, end: int) -> list[Row]:
    """Lines `[start, end)` without the blank ones around them."""
    start, end = _bounds(lines, start, end)
    return list(zip(range(start, end), lines[start:end], strict=True))


def _bounds(lines: Sequence[str], start: int, end: int) -> tuple[int, int]:
    """`[start, end)` without the blank lines around it; empty when all are blank."""
    while start < end and (not lines[start] or lines[start].isspace()):
        start += 1
    while start < end and (not lines[end - 1] or lines[end - 1].isspace()):
        end -= 1
    return start, end


def _pack(runs: Sequence[list[Row]], limit: int) -> list[list[Row]]:
    """Neighbouring runs joined while the first of them is small and the sum stays within `limit`."""
    out: list[list[Row]] = []
    size = 0
    for run in runs:
        more = _length(run)
        if out and (size < MIN_CHARS or more < MIN_CHARS) and size + more <= limit:
            out[-1] = [*out[-1], *run]
            size += more
        else:
            out.append(run)
            size = more
    return out


def _length(rows: Sequence[Row]) -> int:
    return sum([len(text) for _, text in rows]) + len(rows)


def _split(groups: Sequence[list[Row]], limit: int) -> list[list[Row]]:
    """Each group in parts of at most `limit` characters."""
    out = []
    for rows in groups:
        out += split_rows(rows, limit) if _length(rows) > limit else [rows]
    return [_trim(part) for part in out]


def _trim(rows: list[Row]) -> list[Row]:
    while rows and not rows[0][1].strip():
        rows = rows[1:]
    while rows and not rows[-1][1].strip():
        rows = rows[:-1]
    return rows


def _doc_parts(lines: Sequence[str], ranges: Sequence[tuple[int, int]]) -> list[list[Row]]:
    """Sections, small ones joined with the next, long ones in parts."""
    return _split(_pack([_rows(lines, a, b) for a, b in ranges], MAX_CHARS), MAX_CHARS)


def _chunk(
    path: str, symbol: str, kind: str, rows: Sequence[Row], is_test: bool, end_line: int = 0
) -> Iterator[RawChunk]:
    """The chunk of `rows`, none when all are blank."""
    if not rows:
        return
    content = "\n".join([text for _, text in rows])
    last = end_line or rows[-1][0] + 1
    yield _made(path, symbol, kind, content, rows[0][0], last, is_test)


def _made(
    path: str, symbol: str, kind: str, content: str, start: int, end: int, is_test: bool
) -> RawChunk:
    """The chunk of the lines `[start, end)`, counted from 0."""
    digest = blake2b(embedded_text(path, symbol, content).encode(), digest_size=16).digest()
    return RawChunk(symbol, kind, start + 1, end, content, digest, is_test)
