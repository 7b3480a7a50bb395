"""What is found in languages of which only definitions are read: one small source a promise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.facts import FileFacts
from etl.facts import encode as encode_facts
from etl.languages import extractor, language_of
from etl.languages.names import module_name
from etl.languages.registry import LANGUAGES
from etl.parsing.chunk import chunk_code, decode
from tests.definition_sources import SOURCES, Source

TABLED = sorted(line.id for line in LANGUAGES if line.table and line.suffixes)


def facts(source: Source) -> FileFacts:
    module = module_name(source.path, source.language)
    return extractor(source.language).extract(source.text.encode(), source.path, module)


def name_of(source: Source) -> str:
    return f"{source.language}: {source.title}"


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_symbols(source: Source) -> None:
    """Each symbol by name and kind, with the lines of its source, comments above included."""
    found = []
    for d in facts(source).definitions[1:]:
        before, inside = source.text.encode()[: d.start_byte], source.text.encode()[: d.end_byte]
        lines = (before.count(b"\n") + 1, inside.count(b"\n") + 1)
        assert lines[0] <= d.start_line <= d.end_line == lines[1], d.qualname
        found.append((d.qualname, d.kind + (" test" if d.is_test else ""), *lines))
    assert found == source.symbols


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_every_line_is_in_a_chunk(source: Source) -> None:
    check_chunks(source.text.encode(), facts(source))


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_equal_sources_give_equal_bytes(source: Source) -> None:
    assert encode_facts(facts(source)) == encode_facts(facts(source))


def test_every_table_has_sources() -> None:
    assert {source.language for source in SOURCES} == set(TABLED)


# -- any bytes ----------------------------------------------------------------------------------------

HOSTILE = {
    "nothing": b"",
    "binary": bytes(range(256)) * 8,
    "open braces": b"{" * 5000,
    "closed braces": b"}" * 5000,
    "open calls": b"f(" * 5000,
    "one line": b"int f(int a) { return 1; } " * 400,
    "nested types": b"class A { " * 500,
    "nested functions": b"function f() { fn g() { def h(\n" * 200,
    "an open string": b'"' + b"fun f() { \n" * 200,
    "an open comment": b"/* " + b"class A {\n" * 300,
    "only comments": b"// a\n# a\n-- a\n" * 200,
    "old Mac line ends": b"void f() {\r}\rfunc g() {\r}\r",
    "a NUL": b"void f() {\n}\0\nint g() {\n}\n",
    "not UTF-8": b"/// \xff\nclass \xe9A { }\n",
    "deep indentation": b"".join(b" " * i + b"fun f%d() {\n" % i for i in range(150)),
    "a byte order mark": b"\xef\xbb\xbfclass A { void m() { } }\r\n",
}


def check_chunks(data: bytes, found: FileFacts) -> None:
    """Every line is in a chunk, and facts are in order and inside their file."""
    text = decode(data)
    chunks = chunk_code(data, text, found, is_test=False)
    held = dict.fromkeys(range(1, text.count("\n") + 2), "")
    for chunk in chunks:
        for number in range(chunk.start_line, chunk.end_line + 1):
            held[number] += chunk.content + "\n"
    for number, line in enumerate(text.split("\n"), 1):
        assert line.strip()[:500] in held[number]
    assert len({d.qualname for d in found.definitions}) == len(found.definitions)
    for number, d in enumerate(found.definitions[1:], 1):
        assert 0 <= d.start_byte <= d.end_byte <= len(data)
        assert 1 <= d.start_line <= d.end_line <= data.count(b"\n") + data.count(b"\r") + 1
        assert d.parent < number


@pytest.mark.parametrize("language", TABLED)
def test_any_bytes_give_facts_and_lose_no_line(language: str) -> None:
    for data in HOSTILE.values():
        found = extractor(language).extract(data, "a/b.x", "a.b")
        if b"\r" not in data or b"\n" in data:  # chunks are cut at line feeds alone
            check_chunks(data, found)


PIECES = sorted({line for source in SOURCES for line in source.text.split("\n")})


@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(TABLED))
def test_any_lines_in_any_order_lose_nothing(lines: list[str], language: str) -> None:
    """Broken code: lines of real sources, mixed. What the parser makes of them may be anything."""
    data = "\n".join(lines).encode()
    check_chunks(data, extractor(language).extract(data, "a/b.x", "a.b"))


@pytest.mark.parametrize(
    ("path", "opens"),
    [
        ("a.cc", "namespace {} {{"),
        ("a.rs", "mod {} {{"),
        ("a.cs", "namespace {} {{"),
        ("a.rb", "module {}\n"),
        ("a.kt", "class {} {{"),
    ],
)
def test_names_stay_short_however_deep_they_are(path: str, opens: str) -> None:
    """An index of Neo4j refuses what is longer than some 8,000 bytes, and all that comes with it."""
    names = [f"N{'a' * 190}{number}" for number in range(99)]
    body = {"a.cc": "int f() { return 1; }", "a.rs": "fn f() {}", "a.rb": "class C\n end"}
    closed = ("end\n" if path == "a.rb" else "}\n") * len(names)
    text = (
        "\n".join(map(opens.format, names)) + "\n" + body.get(path, "class C { }") + "\n" + closed
    )
    language = language_of(path)
    found = extractor(language).extract(text.encode(), path, module_name(path, language))
    assert {d.name for d in found.definitions} & {"f", "C"}
    assert max(len(d.qualname) for d in found.definitions) < 1500


def test_an_owner_of_any_length_is_cut() -> None:
    text = f"void {'::'.join(['A' * 190] * 20)}::f() {{\n}}\n"
    found = extractor("cpp").extract(text.encode(), "a.cc", "a")
    assert [d.name for d in found.definitions] == ["a", "f"]
    assert len(found.definitions[1].qualname) < 1500
