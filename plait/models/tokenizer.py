"""The tokenizer of a local model: BERT's WordPiece, or any other by the `tokenizers` library.

The shipped model and most sentence encoders use BERT's tokenizer, which is implemented here: the library adds 34 MB to
an installation, two thirds of which is a client for a model hub that Plait never calls. It comes with `plait[models]`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from plait.domain.errors import BadModelFile

# Distinct words whose ids are cached: some 10 MB. Code repeats its identifiers.
CACHED_WORDS = 50_000
_NORMALIZER = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
# The blocks that BERT separates into single characters: CJK unified ideographs, extensions A to E, compatibility.
_IDEOGRAPHS = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b920-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]"
)
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")
_NOT_PRINTED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")  # ASCII; \t, \n and \r are blanks


class Tokenizer(Protocol):
    def ids(self, text: str, most: int) -> list[int]:
        """At most `most` token ids, the model's special tokens counted. `text` holds no lone surrogate."""
        ...


def load(path: Path) -> Tokenizer:
    """The tokenizer that a `tokenizer.json` describes.

    Raises: BadModelFile: it can't be read, or needs the `tokenizers` library, which is not installed.
    """
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        if _is_bert(tree):
            return WordPiece(tree)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as exc:
        raise not_a_tokenizer(path, exc) from exc
    return _ByLibrary(path)


def not_a_tokenizer(path: Path, why: object) -> BadModelFile:
    return BadModelFile(
        f"{path} is not a tokenizer of the `tokenizers` library: {why}; export the model again",
        file=path,
    )


def library(path: Path) -> Any:
    """The `tokenizers` library's object for `path`. Raises: BadModelFile."""
    try:
        from tokenizers import Tokenizer as Loaded
    except ImportError as exc:
        raise BadModelFile(
            f"{path} describes a tokenizer that needs the `tokenizers` library; "
            "install it with `pip install 'plait[models]'`",
            file=path,
        ) from exc
    try:
        return Loaded.from_file(str(path))
    except Exception as exc:  # the library raises bare Exception
        raise not_a_tokenizer(path, exc) from exc


class _ByLibrary:
    def __init__(self, path: Path) -> None:
        self._loaded = library(path)
        self._loaded.no_padding()
        self._loaded.no_truncation()
        self._most = 0

    def ids(self, text: str, most: int) -> list[int]:
        if most != self._most:
            self._loaded.enable_truncation(most)
            self._most = most
        ids: list[int] = self._loaded.encode(text).ids
        return ids


class WordPiece:
    """BERT's tokenizer (Devlin et al. 2019): normalise, split at blanks and punctuation, then greedily take the
    longest known piece from the left."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        """`tree`: a parsed tokenizer.json for which `_is_bert` holds."""
        model, normalizer = tree["model"], tree["normalizer"]
        self._vocabulary: dict[str, int] = model["vocab"]
        self._unknown = self._vocabulary[model["unk_token"]]
        self._prefix: str = model["continuing_subword_prefix"]
        self._longest: int = model["max_input_chars_per_word"]
        self._lower: bool = normalizer["lowercase"]
        strip = normalizer["strip_accents"]
        self._strip: bool = self._lower if strip is None else strip
        self._first, self._last = _ends(tree)
        special = {token["content"]: int(token["id"]) for token in tree["added_tokens"]}
        self._special = special
        # Special tokens are recognised in raw text, as the library does.
        self._special_in = (
            re.compile("(" + "|".join(map(re.escape, special)) + ")") if special else None
        )
        self._pieces = lru_cache(CACHED_WORDS)(self._split_word)

    def ids(self, text: str, most: int) -> list[int]:
        room = max(0, most - len(self._first) - len(self._last))
        found: list[int] = []
        for pieces in self._all(text):
            found += pieces
            if len(found) >= room:
                break
        return [*self._first, *found[:room], *self._last]

    def _all(self, text: str) -> Iterator[tuple[int, ...]]:
        if self._special_in is None:
            yield from map(self._pieces, self._words(text))
            return
        for number, part in enumerate(self._special_in.split(text)):
            if number % 2:
                yield (self._special[part],)
            else:
                yield from map(self._pieces, self._words(part))

    def _words(self, text: str) -> Iterator[str]:
        if text.isascii():
            text = _NOT_PRINTED.sub("", text)
            for found in _ASCII_WORD.finditer(text.lower() if self._lower else text):
                yield found[0]
            return
        text = _IDEOGRAPHS.sub(r" \g<0> ", _clean(text))
        if self._strip:
            decomposed = unicodedata.normalize("NFD", text)
            text = "".join([c for c in decomposed if unicodedata.category(c) != "Mn"])
        if self._lower:
            # One character at a time: str.lower() knows the final sigma, the library does not.
            text = "".join(map(str.lower, text))
        for word in text.split():
            yield from _at_punctuation(word)

    def _split_word(self, word: str) -> tuple[int, ...]:
        if len(word) > self._longest:
            return (self._unknown,)
        known, start, found = self._vocabulary, 0, []
        while start < len(word):
            prefix = self._prefix if start else ""
            for end in range(len(word), start, -1):
                piece = known.get(prefix + word[start:end])
                if piece is not None:
                    break
            else:
                return (self._unknown,)
            found.append(piece)
            start = end
        return tuple(found)


def _is_bert(tree: Mapping[str, Any]) -> bool:
    """Whether `WordPiece` gives the library's ids for this tokenizer."""
    model, normalizer = tree["model"], tree.get("normalizer") or {}
    return (
        model["type"] == "WordPiece"
        and _NORMALIZER.items() <= normalizer.items()
        and (tree.get("pre_tokenizer") or {}).get("type") == "BertPreTokenizer"
        and (tree.get("post_processor") or {}).get("type") == "TemplateProcessing"
        and all(_is_plain(token) for token in tree.get("added_tokens") or [])
    )


def _is_plain(token: Mapping[str, Any]) -> bool:
    return not any(token[flag] for flag in ("single_word", "lstrip", "rstrip", "normalized"))


def _ends(tree: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """The special tokens before and after a single text."""
    template = tree["post_processor"]
    before: list[int] = []
    after: list[int] = []
    side = before
    for piece in template["single"]:
        if "Sequence" in piece:
            side = after
        else:
            side += template["special_tokens"][piece["SpecialToken"]["id"]]["ids"]
    return before, after


def _clean(text: str) -> str:
    """Without control characters, each blank as a space."""
    kept = []
    for char in text:
        if char.isascii():
            if char in "\t\n\r":
                kept.append(" ")
            elif " " <= char <= "~":
                kept.append(char)
            continue
        category = unicodedata.category(char)
        if category[0] == "Z":
            kept.append(" ")
        elif char != "\ufffd" and (category[0] != "C" or category == "Cn"):
            kept.append(char)
    return "".join(kept)


def _at_punctuation(word: str) -> Iterator[str]:
    start = 0
    for place, char in enumerate(word):
        if _is_punctuation(char):
            if place > start:
                yield word[start:place]
            yield char
            start = place + 1
    if start < len(word):
        yield word[start:]


@lru_cache(4096)
def _is_punctuation(char: str) -> bool:
    """ASCII symbols such as $ and + count, though Unicode calls them no punctuation."""
    if char.isascii():
        return bool(char.isprintable()) and not char.isalnum() and char != " "
    return unicodedata.category(char)[0] == "P"
