"""What is found in languages of which only definitions are read: one small source a promise."""

from __future__ import annotations

from itertools import pairwise

import pytest

from etl.chunk import chunk_code, decode
from etl.facts import FileFacts
from etl.languages import extractor
from etl.languages.names import module_name
from etl.languages.tables import MODULES
from tests.definition_sources import SOURCES, Source


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
    data = source.text.encode()
    chunks = chunk_code(data, decode(data), facts(source), is_test=False)
    held = dict.fromkeys(range(1, source.text.count("\n") + 2), "")
    for chunk in chunks:
        for number in range(chunk.start_line, chunk.end_line + 1):
            held[number] += chunk.content + "\n"
    for number, line in enumerate(source.text.split("\n"), 1):
        assert line.strip() in held[number]
    assert all(a.start_line <= b.start_line for a, b in pairwise(chunks))


def test_every_table_has_sources() -> None:
    assert {source.language for source in SOURCES} == set(MODULES)
