"""Words for BM25: identifiers and prose split the same way when indexing and when asking.

An identifier gives its parts and itself whole: `getHTTPResponse` → gethttpresponse, get, http,
response. Words are lowercased; text outside ASCII is NFKC-normalised and casefolded; scripts without
spaces give bigrams. Single ASCII letters and digits are left out: they are in nearly every chunk.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import chain

MAX_TERM = 64  # characters; longer words are cut, so that a cut query finds a cut document
# Words and their terms, remembered from one text to the next: short texts, as memories are, repeat each
# other's words more than their own. 6 MB; a plain dict takes a third of `lru_cache`'s time.
MAX_KNOWN = 2**15


class _Known(dict[bytes | str, tuple[str, ...]]):
    def __missing__(self, word: bytes | str) -> tuple[str, ...]:
        terms = split(word)
        if len(word) <= MAX_TERM:
            self[word] = terms
        return terms


_known = _Known()
_WORD_BYTES = b"_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# 70 ns a word where `re.findall` takes 180: every byte that is in no word becomes a space.
_ASCII_WORDS = bytes(c if c in _WORD_BYTES else 32 for c in range(256))

_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
# Digests, ids and other blobs: their parts mean nothing. Above 40 hex digits (a SHA-1) nor do they.
_HEX = re.compile(r"(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{12,}")
_MIN_HEX, _MAX_HEX = 12, 40
_VOWEL = frozenset("aeiouy")

# Han, kana, and the scripts of South-East Asia that put no space between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003134f]+"
)
_CASED_PARTS = re.compile(r"[^\W\d_]+|\d+")


# Words that say how a sentence is built, not what it is about: left out of queries, indexed in documents.
STOP_WORDS = frozenset(
    [
        "a",
        "about",
        "above",
        "after",
        "again",
        "all",
        "also",
        "am",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "because",
        "been",
        "before",
        "being",
        "below",
        "between",
        "both",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "doing",
        "done",
        "during",
        "each",
        "else",
        "for",
        "from",
        "further",
        "had",
        "has",
        "have",
        "having",
        "he",
        "her",
        "here",
        "him",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "itself",
        "just",
        "may",
        "me",
        "might",
        "more",
        "most",
        "must",
        "my",
        "no",
        "nor",
        "not",
        "of",
        "off",
        "on",
        "once",
        "only",
        "onto",
        "or",
        "other",
        "our",
        "out",
        "over",
        "own",
        "per",
        "same",
        "shall",
        "she",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "through",
        "to",
        "too",
        "under",
        "up",
        "us",
        "very",
        "via",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "within",
        "without",
        "would",
        "you",
        "your",
    ]
)


def tokens(text: str) -> list[str]:
    """Every term of `text` in order, with repeats. 0.1 µs a word when most words repeat."""
    if len(_known) > MAX_KNOWN:
        _known.clear()
    return list(chain.from_iterable(map(_known.__getitem__, words(text))))


def query_terms(text: str) -> list[str]:
    """The distinct terms of a query, in the order of their first place.

    Without stop words, unless nothing else is there.
    """
    telling = [word for word in words(text) if not _is_stop_word(word)]
    return list(dict.fromkeys(t for word in telling for t in split(word))) or list(
        dict.fromkeys(tokens(text))
    )


def _is_stop_word(word: bytes | str) -> bool:
    plain = word.decode() if isinstance(word, bytes) else word
    return plain.lower() in STOP_WORDS


def words(text: str) -> Iterable[bytes | str]:
    """Whole words, not yet split: bytes for ASCII text, else strings."""
    if text.isascii():
        return text.encode().translate(_ASCII_WORDS).split()
    return _word_pattern().findall(unicodedata.normalize("NFKC", text))


def split(word: bytes | str) -> tuple[str, ...]:
    """The terms of one word of `words`: itself first, then its parts when it has several."""
    if isinstance(word, bytes):
        word = word.decode()
    return _split_ascii(word) if word.isascii() else _split_unicode(word)


def _split_ascii(word: str) -> tuple[str, ...]:
    if len(word) < 2:
        return ()
    if word.isalpha() and word.islower():  # most words: no parts, no hexadecimal digits among them
        return (_stems[word],) if len(word) <= MAX_TERM else ()
    if (word := word.strip("_")) == "":
        return ()
    if len(word) >= _MIN_HEX and _HEX.fullmatch(word):
        return (word.lower(),) if len(word) <= _MAX_HEX else ()
    if len(word) > MAX_TERM and "_" not in word:
        return ()  # base64 and the like: no identifier is as long without a `_`
    parts = _PARTS.findall(word)
    whole = stem(word.lower()[:MAX_TERM])
    if len(parts) == 1:
        return (whole,) if len(whole) > 1 else ()
    return (whole, *[_stems[part.lower()[:MAX_TERM]] for part in parts if len(part) > 1])


class _Stems(dict[str, str]):
    """Stems of parts, which most identifiers share. As `_known`, it never grows past `MAX_KNOWN`."""

    def __missing__(self, word: str) -> str:
        if len(self) >= MAX_KNOWN:
            self.clear()
        found = self[word] = stem(word)
        return found


_stems = _Stems()
_USE = {"uses": "use", "used": "use", "using": "use"}


def stem(word: str) -> str:
    """A lower-case English word without its ending; anything but letters a to z comes back as it is.

    Lighter than Porter's, and as good here: requests, requested and requesting are `request`.
    """
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    if word in _USE:
        return _USE[word]
    word = _singular(word)
    for ending in ("ing", "ed"):
        bare = word.removesuffix(ending)
        if bare != word and len(bare) > 2 and not _VOWEL.isdisjoint(bare):
            doubled = bare[-1] == bare[-2] and bare[-1] not in "lsz"  # running, but calling
            word = bare[:-1] if doubled else bare
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _singular(word: str) -> str:
    if word.endswith(("ies", "ied")) and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ses", "xes", "zes", "shes", "ches")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _split_unicode(word: str) -> tuple[str, ...]:
    """Bigrams of unspaced scripts; else the word and its parts at `_`, digits and lower→Upper."""
    out: list[str] = []
    start = 0
    for run in _UNSPACED.finditer(word):
        out += _cased(word[start : run.start()])
        out += _bigrams(run.group())
        start = run.end()
    out += _cased(word[start:])
    return tuple(out)


def _bigrams(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def _cased(word: str) -> list[str]:
    word = word.strip("_")
    if word.isascii():
        return list(_split_ascii(word))
    if len(word) > MAX_TERM and "_" not in word:
        word = word[:MAX_TERM]
    parts = [part for piece in _CASED_PARTS.findall(word) for part in _camel(piece)]
    whole = word.casefold()[:MAX_TERM]
    if len(parts) <= 1:
        return [whole]
    return [whole, *(part.casefold()[:MAX_TERM] for part in parts if len(part) > 1)]


def _camel(piece: str) -> list[str]:
    """`МойКласс` → `Мой`, `Класс`: a part begins at an upper-case letter that borders a lower one."""
    out = []
    start = 0
    for i in range(1, len(piece)):
        if not piece[i].isupper():
            continue
        follows_lower = piece[i - 1].islower()
        starts_word = piece[i - 1].isupper() and i + 1 < len(piece) and piece[i + 1].islower()
        if follows_lower or starts_word:
            out.append(piece[start:i])
            start = i
    out.append(piece[start:])
    return out


@cache
def _word_pattern() -> re.Pattern[str]:
    """`\\w` and combining marks: without them a vowel sign would cut a Hindi word in pieces."""
    marks = (
        c
        for block in (range(0x300, 0x1DFF + 1), range(0x20D0, 0x20FF + 1), range(0xA66F, 0xABFF))
        for c in map(chr, block)
        if unicodedata.category(c) in ("Mn", "Mc")
    )
    return re.compile(rf"[\w{''.join(marks)}]+")
