"""Laws of chunks: nothing is lost, nothing is too long, equal files give equal chunks."""

from __future__ import annotations

from hashlib import blake2b

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from etl.facts import Definition, FileFacts, SymbolKind
from etl.languages import extractor
from etl.parsing.chunk import MAX_CHARS, MAX_DATA_CHARS, RawChunk, chunk_code, chunk_text, decode
from etl.parsing.split import sections, split_rows
from plait.domain.values import embedded_text


def python(source: str | bytes, *, is_test: bool = False) -> list[RawChunk]:
    data = source.encode() if isinstance(source, str) else source
    facts = extractor("python").extract(data, "pkg/mod.py", "pkg.mod")
    return chunk_code(data, decode(data), facts, is_test=is_test)


def brief(chunks: list[RawChunk]) -> list[tuple[str, str, int, int]]:
    return [(c.symbol, c.kind, c.start_line, c.end_line) for c in chunks]


def check_laws(path: str, text: str, chunks: list[RawChunk], limit: int = MAX_CHARS) -> None:
    lines = text.split("\n")
    assert [c.start_line for c in chunks] == sorted(c.start_line for c in chunks)
    for chunk in chunks:
        assert 1 <= chunk.start_line <= chunk.end_line <= len(lines)
        assert chunk.content.strip()
        assert len(chunk.content) <= limit
        chunk.content.encode()
        assert "\0" not in chunk.content
        text_ = embedded_text(path, chunk.symbol, chunk.content)
        assert chunk.content_hash == blake2b(text_.encode(), digest_size=16).digest()
    held: dict[int, set[str]] = {}
    for chunk in chunks:
        own = set(chunk.content.split("\n"))
        for number in range(chunk.start_line, chunk.end_line + 1):
            held.setdefault(number, set()).update(own)
    for number, line in enumerate(lines, 1):
        if line.strip() and len(line) < limit:
            assert line in held.get(number, set()), (number, line)


# -- symbols ----------------------------------------------------------------------------------------


SHOP = '''\
"""A shop."""
import os

LIMIT = 3


@decorated
class Cart(Base):
    """Holds things."""

    size = 1

    # How it begins.
    def __init__(self, a):
        self.a = a

    @property
    def total(self):
        def inner():
            return 1
        return inner()

    after = 2


def top(x):
    return x

if __name__ == "__main__":
    top(1)
'''


def test_a_chunk_for_each_symbol_and_one_for_the_rest() -> None:
    chunks = python(SHOP)
    assert brief(chunks) == [
        ("pkg.mod", "module", 1, 30),
        ("pkg.mod.Cart", "class", 7, 23),
        ("pkg.mod.Cart.__init__", "method", 13, 15),
        ("pkg.mod.Cart.total", "method", 17, 21),
        ("pkg.mod.top", "function", 26, 27),
    ]
    by_name = {c.symbol: c.content for c in chunks}
    assert by_name["pkg.mod.Cart"] == (
        '@decorated\nclass Cart(Base):\n    """Holds things."""\n\n    size = 1\n'
        "    def __init__(self, a):\n    def total(self):\n    after = 2"
    )
    assert by_name["pkg.mod"].endswith('if __name__ == "__main__":\n    top(1)')
    check_laws("pkg/mod.py", SHOP, chunks)


def test_a_long_function_is_split_where_it_comes_apart() -> None:
    blocks = [
        f"    if a == {i}:\n        first({i})\n        second({i})\n        third({i})\n"
        for i in range(60)
    ]
    source = "def long(a):\n" + "\n".join(blocks)
    chunks = python(source)
    assert len(chunks) == 3
    assert all(c.symbol == "pkg.mod.long" for c in chunks)
    assert all(c.content.startswith(("def ", "    if ")) for c in chunks)
    sizes = [len(c.content) for c in chunks]
    assert max(sizes) < 1.5 * min(sizes)
    check_laws("pkg/mod.py", source, chunks)


def test_a_nested_function_in_a_long_one_gets_its_own_chunk() -> None:
    body = "".join(f"        value_{i} = compute({i})\n" for i in range(30))
    source = f"def outer():\n    def inner():\n{body}\n" + body.replace("        ", "    ") * 2
    names = {c.symbol for c in python(source)}
    assert names == {"pkg.mod.outer", "pkg.mod.outer.inner"}
    check_laws("pkg/mod.py", source, python(source))


APART = [
    ("go", "a.go", "package a\n\ntype S struct {\n\tx int\n}\n\nfunc (s *S) M() {\n\tx()\n}\n", "a.S.M", 7),
    ("javascript", "a.js", "function S() {\n  this.x = 1;\n}\n\nS.prototype.m = function () {\n  x();\n};\n", "a.S.m", 5),
]  # fmt: skip


@pytest.mark.parametrize(("language", "path", "source", "symbol", "line"), APART)
def test_a_method_apart_from_its_type_has_its_own_chunk(
    language: str, path: str, source: str, symbol: str, line: int
) -> None:
    facts = extractor(language).extract(source.encode(), path, "a")
    chunks = chunk_code(source.encode(), source, facts, is_test=False)
    assert (symbol, line) in [(c.symbol, c.start_line) for c in chunks]
    check_laws(path, source, chunks)


def test_tests_are_marked() -> None:
    chunks = python("def test_a():\n    pass\n", is_test=True)
    assert [c.is_test for c in chunks] == [True]


@pytest.mark.parametrize("source", ["", "\n\n", "   \n\t\n", "\ufeff"])
def test_a_blank_file_has_no_chunk(source: str) -> None:
    assert python(source) == []
    assert chunk_text("a.txt", "text", decode(source.encode()), is_test=False) == []


def test_broken_text_becomes_storable() -> None:
    assert decode(b"\xef\xbb\xbfa\r\nb\0c\xff") == "a\nbc\ufffd"
    source = b"# caf\xe9\r\n\r\ndef f():\r\n    return 1\r\n"
    chunks = python(source)
    check_laws("pkg/mod.py", decode(source), chunks)
    assert brief(chunks)[1] == ("pkg.mod.f", "function", 3, 4)
    assert chunks[1].content == "def f():\n    return 1"
    nul = b"def f():\n    return '\0'\n\ndef g():\n    pass\n"
    check_laws("pkg/mod.py", decode(nul), python(nul))


def test_deep_nesting_and_long_lines_are_cut() -> None:
    deep = "x = " + "(" * 5000 + "1" + ")" * 5000 + "\n"
    check_laws("pkg/mod.py", deep, python(deep))
    indented = "".join(" " * i + "if x:\n" for i in range(400)) + " " * 400 + "pass\n"
    check_laws("pkg/mod.py", indented, python(indented))


# -- facts of any shape -------------------------------------------------------------------------------


KINDS = [SymbolKind(kind) for kind in ("class", "function", "method", "interface", "type")]
LINE = st.sampled_from(["x = 1", "", "    y = f(2)", "\t# note", "}", "é = '日本'", "  "])


@st.composite
def files(draw: st.DrawFn) -> tuple[str, FileFacts]:
    """A source, and definitions over any spans of it: nested, overlapping, out of order, one line."""
    lines = draw(
        st.lists(st.one_of(LINE, st.text(st.characters(exclude_categories=["Cs"]))), max_size=40)
    )
    if draw(st.booleans()):
        lines = [line * draw(st.integers(1, 40)) for line in lines]
    source = "\n".join(lines).encode()
    definitions = [Definition("mod", "", SymbolKind.MODULE, 0, 1, 1, 0, len(source))]
    for i in range(draw(st.integers(0, 8))):
        start = draw(st.integers(0, len(source)))
        if draw(st.booleans()):  # at the start of a line, as most are
            start = source.rfind(b"\n", 0, start) + 1
        end = draw(st.integers(start, len(source)))
        if draw(st.booleans()):
            end = len(source) if source.find(b"\n", end) < 0 else source.find(b"\n", end)
        line = source.count(b"\n", 0, start) + 1
        definitions.append(
            Definition(
                f"d{i}",
                f"d{i}",
                draw(st.sampled_from(KINDS)),
                draw(st.integers(0, i)),
                line,
                source.count(b"\n", 0, end) + 1,
                start,
                end,
            )
        )
    facts = FileFacts("a/mod.py", "python", "a.mod", definitions, [], [], [])
    return source.decode(), facts


@given(files())
def test_no_facts_lose_a_line(file: tuple[str, FileFacts]) -> None:
    source, facts = file
    data = source.encode()
    chunks = chunk_code(data, decode(data), facts, is_test=False)
    check_laws("a/mod.py", decode(data), chunks)
    assert chunks == chunk_code(data, decode(data), facts, is_test=False)


# -- text ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "kind"),
    [("markdown", "doc"), ("text", "doc"), ("yaml", "config"), ("csv", "data"), ("rust", "code")],
)
def test_kinds_of_text(language: str, kind: str) -> None:
    (chunk,) = chunk_text("a/b", language, "some text", is_test=False)
    assert (chunk.kind, chunk.symbol) == (kind, "")


def test_documentation_is_split_at_its_headings() -> None:
    body = "word " * 100
    text = f"# One\n{body}\n```sh\n# not a heading\n```\n## Two\n{body}\n# Three\nshort\n# Four\nshort\n"
    chunks = chunk_text("README.md", "markdown", text, is_test=False)
    assert [c.content.split("\n")[0] for c in chunks] == ["# One", "## Two"]
    assert chunks[1].content.endswith("# Four\nshort")  # small sections stay together
    check_laws("README.md", text, chunks)


def test_underlined_titles_are_headings() -> None:
    text = "=====\nTitle\n=====\n\nx\n\nPart\n----\n\ny\n\n- - -\n\n    code\n    ----\n"
    assert sections(text.split("\n"), markdown=False) == [(0, 6), (6, 16)]


@pytest.mark.parametrize("language", ["markdown", "rst", "text", "yaml", "csv", "rust", "html"])
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
@example(text="x" * 20_000)
@example(text="# h\n" * 800)
@example(text="word " * 4000 + "\nend")
@example(text="\n\n== a\n==\n--\n--\n")
def test_no_text_loses_a_line(language: str, text: str) -> None:
    text = decode(text.encode())
    limit = MAX_DATA_CHARS if language == "csv" else MAX_CHARS
    check_laws("f", text, chunk_text("f", language, text, is_test=False), limit)


@given(st.lists(st.text(st.characters(exclude_characters="\n"), max_size=80)), st.integers(2, 200))
def test_parts_together_are_the_whole(texts: list[str], limit: int) -> None:
    rows = list(enumerate(texts))
    parts = split_rows(rows, limit)
    joined: dict[int, str] = {}
    for index, text in (row for part in parts for row in part):
        joined[index] = joined.get(index, "") + text
    assert joined == dict(rows)
    assert all(sum(len(text) + 1 for _, text in part) <= limit for part in parts)
