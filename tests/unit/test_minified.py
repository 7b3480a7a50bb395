"""Minified JavaScript is told from long lines that a person, or a table's generator, wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from etl.facts import decode
from etl.parsing.count import Vocabulary
from etl.parsing.minified import MAX_CHARS, is_minified
from etl.parsing.pipe import WireJob
from etl.parsing.worker import MINIFIED, Batch
from etl.source.secrets import Files
from plait.secrets.rules import BUILT_IN

SAMPLES = Path(__file__).parents[1] / "data" / "minified"


@pytest.mark.parametrize(
    "path", [p for p in sorted(SAMPLES.iterdir()) if p.suffix != ".md"], ids=lambda p: p.name
)
def test_a_real_file_is_known_by_who_wrote_it(path: Path) -> None:
    language = "typescript" if path.suffix == ".ts" else "javascript"
    assert is_minified(path.read_bytes(), language) is path.name.startswith("machine-")


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"a();\n",
        b"const rows = [" + b"[1,2],[3,4]," * 200 + b"];\n",
        b"const text = '" + b"lorem ipsum dolor sit amet " * 50 + b"';\n",
        b"x(" * 100 + b")" * 100 + b";",
        b"".join(b"function f%d(a) { return g(a, %d); }\n" % (i, i) for i in range(50)),
        b"function f(a) { return g( a ) ; } " * 20,  # one line, but with a person's blanks
    ],
    ids=["empty", "short", "table", "prose", "nesting", "many lines", "spaced"],
)
def test_other_long_lines_are_not_minified(source: bytes) -> None:
    assert not is_minified(source, "javascript")


def test_only_javascript_is_minified() -> None:
    source = (SAMPLES / "machine-jquery.js").read_bytes()
    assert is_minified(source, "typescript")
    assert not is_minified(source, "php")
    assert not is_minified(source, "css")


def test_a_minified_file_is_indexed_as_text_of_a_bounded_size(tmp_path: Path) -> None:
    line = b"function a(b){var c=d(b);return c.e(b),f(c)};"
    (tmp_path / "app.js").write_bytes(b"/*! app 1.0 */" + line * 2_000)
    batch = Batch(Vocabulary(), Files(BUILT_IN))
    batch.add(WireJob("app.js", "javascript", "app", False), str(tmp_path), 1_000_000)
    assert batch.unparsed == [("app.js", MINIFIED)]
    (file,) = batch.files
    assert [d.kind for d in decode(file.facts).definitions] == ["module"]
    assert {chunk.symbol for chunk in file.chunks} == {""}
    assert sum(len(chunk.content) for chunk in file.chunks) <= MAX_CHARS
    assert file.chunks[0].content.startswith("/*! app 1.0 */")
    assert file.size_bytes == 14 + len(line) * 2_000
