"""Pairs of what code says and what it does: comments with the code below them, names with their bodies.

Texts are bags of Plait's own BM25 terms, so the table learns exactly what the index counts.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.localisation_corpus import Piece, pieces
from benchmarks.lookup import _docstring
from benchmarks.static_table.packages import Package, fetch, packages
from plait.text.tokenize import query_terms, split, tokens, words

COMMENT, NAME = 0, 1
MIN_WORDS, MAX_WORDS = 4, 60  # of a comment
MIN_PARTS = 2  # of a name: one word says too little
MIN_BODY = 8  # distinct terms
MOST = (
    5_000  # pairs of a package and kind, drawn at random, so that large ones don't drown the rest
)
_SKIPPED = re.compile(
    r"(^|/)(dist|build|umd|min|bundles?|vendor|_vendor|third_party|locales?|es|esm|fp|legacy)/"
)
_KINDS = frozenset({"function", "method", "class", "interface"})
_MARKS = re.compile(r"^\s*(?:/\*+|\*+/?|//+[/!]?|#+)\s?|\*+/\s*$")
_TAG = re.compile(r"^\s*@\w+|<[^>]+>|\{@\w+\s([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Pair:
    kind: int
    query: Counter[str]
    document: Counter[str]


@dataclass(frozen=True, slots=True)
class Bags:
    """Bags of terms, one row each: `terms[starts[i]:starts[i + 1]]` with as many `counts`."""

    starts: npt.NDArray[np.int64]
    terms: npt.NDArray[np.int32]
    counts: npt.NDArray[np.uint8]


Surfaces = dict[str, Counter[str]]


def of_package(package: Package, folder: Path, surfaces: Surfaces) -> list[Pair]:
    """The pairs of one package, at most `MOST` a kind; the same ones each time. Counts in `surfaces` the words that
    each term stands for: a model that reads English knows `serialize`, not `serializ`."""
    root = fetch(package, folder)
    found: tuple[list[Pair], list[Pair]] = ([], [])
    seen: set[bytes] = set()
    texts: dict[str, list[str]] = {}
    for piece in pieces(root):
        usable = piece.kind in _KINDS and piece.function and not piece.is_test
        if not usable or piece.content_hash in seen or _SKIPPED.search(piece.path):
            continue
        seen.add(piece.content_hash)
        if piece.path not in texts:
            texts[piece.path] = (root / piece.path).read_text("utf-8", "replace").split("\n")
        _count_surfaces(piece.content, surfaces)
        for pair in _pairs(piece, texts[piece.path]):
            found[pair.kind].append(pair)
    chance = random.Random(package.key)
    return [p for kind in found for p in chance.sample(kind, min(MOST, len(kind)))]


def _count_surfaces(text: str, surfaces: Surfaces) -> None:
    for word in words(text):
        terms = split(word)
        if len(terms) == 1:
            plain = word.decode() if isinstance(word, bytes) else word
            surfaces.setdefault(terms[0], Counter())[plain.lower()] += 1


def _pairs(piece: Piece, lines: list[str]) -> Iterator[Pair]:
    comment, content = _commented(piece, lines)
    name = piece.function.partition("::")[2]
    own = tokens(piece.path) + 2 * tokens(name)
    if comment is not None and len(comment.split()) >= MIN_WORDS:
        query = query_terms(" ".join(comment.split()[:MAX_WORDS]))
        document = Counter(tokens(content) + own)
        if query and len(document) >= MIN_BODY:
            yield Pair(COMMENT, Counter(query), document)
    last = name.partition("#")[0].rpartition(".")[2]
    parts = tokens(last)[1:]
    if len(parts) >= MIN_PARTS:
        document = Counter(tokens(re.sub(rf"\b{re.escape(last)}\b", " ", content)))
        if len(document) >= MIN_BODY:
            yield Pair(NAME, Counter(parts), document)


def _commented(piece: Piece, lines: list[str]) -> tuple[str | None, str]:
    """What is said about the chunk, and its text without that."""
    if piece.language == "python":
        found = _docstring(piece.content)
        if found is None:
            return None, piece.content
        text, first, last = found
        rest = piece.content.split("\n")
        return re.split(r"\n\s*\n", text, maxsplit=1)[0], "\n".join(rest[: first - 1] + rest[last:])
    # A chunk begins with the comment above its code, unless something stands between them.
    own = piece.content.split("\n")
    inside = next((n for n, line in enumerate(own) if not _is_comment(line, own[:n])), len(own))
    if inside:
        return _said(own[:inside]), "\n".join(own[inside:])
    said: list[str] = []
    for line in reversed(lines[max(0, piece.start_line - 60) : piece.start_line - 1]):
        bare = line.strip()
        if bare.startswith("@") and not said:
            continue  # an annotation between comment and code
        if not bare.startswith(("*", "/*", "//")):
            break
        said.insert(0, line)
        if bare.startswith("/*"):
            break
    return _said(said), piece.content


def _is_comment(line: str, before: list[str]) -> bool:
    """Whether a line at the head of a chunk is one of a comment, which may have been opened `before`."""
    opened = [b for b in before if "/*" in b or "*/" in b]
    return line.strip().startswith(("/*", "//")) or bool(opened and "*/" not in opened[-1])


def _said(lines: list[str]) -> str | None:
    """What a comment says first, without its marks and tags."""
    text = "\n".join(
        _MARKS.sub("", _MARKS.sub("", line.strip().removeprefix("*"))) for line in lines
    )
    text = re.split(r"\n\s*@(?:param|return|throws|since|author|type|template)", text, maxsplit=1)[
        0
    ]
    text = re.split(r"\n\s*\n", _TAG.sub(r" \1 ", text).strip(), maxsplit=1)[0]
    return text or None


def _of_one(work: tuple[Package, Path]) -> tuple[list[Pair], Surfaces]:
    surfaces: Surfaces = {}
    return of_package(*work, surfaces), surfaces


def mine(folder: Path, out: Path) -> None:
    """Write the pairs of all packages to `out`, with the vocabulary and each pair's package."""
    vocabulary: dict[str, int] = {}
    queries: list[Counter[str]] = []
    documents: list[Counter[str]] = []
    rows: list[tuple[int, int]] = []
    surfaces: Surfaces = {}
    known = packages()
    with Pool() as pool:
        mined = pool.imap(_of_one, [(package, folder) for package in known])
        for number, (found, counted) in enumerate(mined):
            print(f"{known[number].name} {known[number].version}: {len(found)} pairs", flush=True)
            for term, words_ in counted.items():
                surfaces.setdefault(term, Counter()).update(words_)
            for pair in found:
                queries.append(pair.query)
                documents.append(pair.document)
                rows.append((number, pair.kind))
    q, d = _bags(queries, vocabulary), _bags(documents, vocabulary)
    np.savez_compressed(
        out,
        rows=np.array(rows, np.int32),
        terms=_packed(list(vocabulary)),
        words=_packed([_likeliest(surfaces, term) for term in vocabulary]),
        **{f"q_{name}": getattr(q, name) for name in Bags.__slots__},
        **{f"d_{name}": getattr(d, name) for name in Bags.__slots__},
    )


def _likeliest(surfaces: Surfaces, term: str) -> str:
    counted = surfaces.get(term)
    return min(counted, key=lambda word: (-counted[word], word)) if counted else term


def _packed(texts: list[str]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(json.dumps(texts).encode(), np.uint8)


def _bags(counted: list[Counter[str]], vocabulary: dict[str, int]) -> Bags:
    starts = np.cumsum([0, *map(len, counted)])
    terms = np.fromiter(
        (vocabulary.setdefault(t, len(vocabulary)) for c in counted for t in c),
        np.int32,
        starts[-1],
    )
    counts = np.fromiter((min(n, 255) for c in counted for n in c.values()), np.uint8, starts[-1])
    return Bags(starts, terms, counts)
