"""The tokenizer of the shipped model gives the ids of the library that the model was trained with."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from plait.domain.errors import BadModelFile
from plait.models import tokenizer
from plait.models.embedding import model_files

SHIPPED = Path(model_files.__file__).parent / "weights" / "minilm_l6_v2_int8" / "tokenizer.json"
MOST = 256
# Assigned by Unicode 8, whose tables the library carries: a later mark or symbol may be read otherwise.
OLD = st.characters(codec="utf-8", max_codepoint=0x2FFF, exclude_categories=["Cn"]).filter(
    lambda c: c.isascii() or c.isalpha() or c.isspace()
)


@pytest.fixture(scope="module")
def ours() -> tokenizer.Tokenizer:
    loaded = tokenizer.load(SHIPPED)
    assert isinstance(loaded, tokenizer.WordPiece)
    return loaded


@pytest.fixture(scope="module")
def library() -> Tokenizer:
    loaded = Tokenizer.from_file(str(SHIPPED))
    loaded.no_padding()
    loaded.enable_truncation(MOST)
    return loaded


def test_source_code_gets_the_library_s_ids(ours: tokenizer.Tokenizer, library: Tokenizer) -> None:
    root = Path(tokenizer.__file__).parents[2]
    paths = sorted(
        [*root.glob("etl/**/*.py"), *root.glob("docs/*.md"), *root.glob("proto/**/*.proto")]
    )
    for path in random.Random(7).sample(paths, 40):
        text = path.read_text(encoding="utf-8")
        for start in range(0, len(text), 900):
            piece = text[start : start + 900]
            assert ours.ids(piece, MOST) == library.encode(piece).ids, (path, start)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "[CLS] a [SEP]x[MASK]y",
        "[cls] is text",
        "ΑΣ ΟΔΟΣ İstanbul ß ẞ",
        "a\u00a0b\u200bc\u2028d\x85e\x1cf\x0bg\x00h\ufffdi",
        "naïve café Å A\u030a",
        "中文test字 ひらがな 한국어",
        "x" * 101,
        "internationalization_of_things(foo.bar)[0]",
        "word " * 400,
        "🕯️ 👩‍👩‍👧 ¿qué? «oui» “no” …",
        "$a+b=c^d|e~f`g<h>",
    ],
)
def test_odd_texts_get_the_library_s_ids(
    ours: tokenizer.Tokenizer, library: Tokenizer, text: str
) -> None:
    assert ours.ids(text, MOST) == library.encode(text).ids


@given(st.text(OLD, max_size=60))
def test_any_letters_get_the_library_s_ids(
    ours: tokenizer.Tokenizer, library: Tokenizer, text: str
) -> None:
    assert ours.ids(text, MOST) == library.encode(text).ids


def test_ids_are_cut_with_the_special_tokens_kept(ours: tokenizer.Tokenizer) -> None:
    assert ours.ids("one two three four", 4) == [101, 2028, 2048, 102]
    assert ours.ids("one", 2) == [101, 102]


def test_another_kind_of_tokenizer_is_left_to_the_library(tmp_path: Path) -> None:
    tree = json.loads(SHIPPED.read_text())
    tree["normalizer"]["handle_chinese_chars"] = False
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(tree))
    loaded = tokenizer.load(path)
    assert not isinstance(loaded, tokenizer.WordPiece)
    whole = Tokenizer.from_file(str(path))
    whole.no_padding()
    whole.enable_truncation(9)
    assert loaded.ids("def f(x): return 中文", 9) == whole.encode("def f(x): return 中文").ids


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"model": {"type": "WordPiece"}}'])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with pytest.raises(BadModelFile, match="export the model again"):
        tokenizer.load(path)


def test_without_the_library_the_shipped_model_loads_and_another_names_the_fix(
    tmp_path: Path,
) -> None:
    other = tmp_path / "tokenizer.json"
    tree = json.loads(SHIPPED.read_text())
    tree["pre_tokenizer"] = {"type": "Whitespace"}
    other.write_text(json.dumps(tree))
    program = (
        "import sys; sys.modules['tokenizers'] = None\n"
        "from pathlib import Path\n"
        "from plait.domain.errors import BadModelFile\n"
        "from plait.models import tokenizer\n"
        "from plait.models.embedding import local\n"
        f"assert len(tokenizer.load(Path({str(SHIPPED)!r})).ids('def add', 9)) == 4\n"
        f"try: tokenizer.load(Path({str(other)!r}))\n"
        "except BadModelFile as exc: print(exc)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert "pip install 'plait[models]'" in done.stdout
