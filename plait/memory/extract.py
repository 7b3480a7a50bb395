"""A summary made of the sources' own sentences: no model, no network, the same every time.

Sentences are scored by their TF-IDF cosine to the centroid of all of them (Radev et al., "Centroid-based
summarization of multiple documents", 2004) with a bonus for what an agent has to keep (decisions, error
texts, paths, identifiers, numbers), and taken by maximal marginal relevance (Carbonell and Goldstein,
SIGIR 1998), so that nothing is repeated. Sentences taken are in their original order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt

from plait.domain.memory import MemoryEntry
from plait.text.near_duplicates import words
from plait.text.token_count import count, cut

Matrix = npt.NDArray[np.float64]

MAX_UNITS = 600  # sentences that compete; each costs a row of similarities
MAX_UNIT_CHARS = 400
MAX_ENTRY_CHARS = 20_000  # of one memory; its subject comes early
# Relevance against novelty; 0.7 is the middle of what Carbonell and Goldstein used.
MMR = 0.7
# From this cosine on a sentence only repeats one that is taken, however relevant it is.
REPEATED = 0.9
# Bonuses by hand: two of them outweigh the difference between a central and a marginal sentence.
DECISION, ERROR, PATH, CODE, NUMBER, FIRST = 0.30, 0.30, 0.10, 0.10, 0.05, 0.10

# fmt: off
_COMMON = frozenset([
    "the", "and", "for", "are", "was", "were", "with", "that", "this", "from", "have", "has",
    "had", "not", "but", "its", "they", "then", "than", "when", "which", "what", "will", "would",
    "can", "could", "into", "about", "there", "their", "been", "being", "also", "just", "very",
    "some", "such", "only", "over", "in", "on", "at", "to", "of", "is", "it", "be", "as", "by",
    "or", "an", "we", "you", "he", "she", "do", "so", "if", "no", "up", "out",
])
# fmt: on
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+(?=\S)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029]")
_BULLET = re.compile(r"^\s*(?:[-*•#>]+|\d{1,3}[.)])\s+")
_SUMMARY_LINE = re.compile(r"^\d{4}-\d\d-\d\d: ")  # of an earlier summary
_DECISION = re.compile(
    r"\b(?:decid\w*|decision|chose|chosen|because|instead of|must|never|always|root cause|fix(?:ed|es)?"
    r"|cause[ds]?|workaround|conclu\w*|turned out|lesson|remember|don't|do not|should|prefer\w*)\b",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"\b(?:\w*(?:Error|Exception)|error|traceback|panic|failed|failure|FAILED|segfault|timed? ?out"
    r"|exit (?:code|status) [1-9]\d*)\b"
)
_PATH = re.compile(
    r"[\w.-]*/[\w./-]+|\b[\w-]+\.(?:py|js|ts|tsx|go|rs|java|c|h|cpp|toml|ya?ml|json|sql|md)\b"
)
_CODE = re.compile(r"`[^`]+`|\b\w+\(\)|\b[A-Za-z]+_\w+\b|\b[a-z]+[A-Z]\w*\b|\b\w+\.\w+\.\w+\b")
_NUMBER = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence and its position. `weight`: importance of its memory, 0 to 1."""

    text: str
    entry: int
    first: bool
    weight: float


def extract(entries: Sequence[MemoryEntry], budget_tokens: int) -> str:
    """A summary of `entries`, oldest first, of at most `budget_tokens` tokens; "" where they hold
    nothing but white space. Deterministic."""
    found = units(entries)
    if not found:
        return ""
    taken = _take(found, entries, budget_tokens)
    return cut("\n".join(_lines(found, sorted(taken), entries)), budget_tokens).rstrip()


def units(entries: Sequence[MemoryEntry]) -> list[Unit]:
    """Distinct sentences in order; when there are too many, each memory gives its first ones."""
    by_entry = [list(_sentences(entry.content[:MAX_ENTRY_CHARS])) for entry in entries]
    share = max(1, MAX_UNITS // max(1, len(entries)))
    if sum(map(len, by_entry)) > MAX_UNITS:
        by_entry = [sentences[:share] for sentences in by_entry]
    seen: set[str] = set()
    out: list[Unit] = []
    for at, sentences in enumerate(by_entry):
        for place, text in enumerate(sentences):
            if text not in seen and len(out) < MAX_UNITS:
                seen.add(text)
                out.append(Unit(text, at, place == 0, entries[at].metadata.importance))
    return out


def _sentences(text: str) -> list[str]:
    out = []
    for line in _CONTROL.sub(" ", text).splitlines():
        bare = _SUMMARY_LINE.sub("", _BULLET.sub("", line))
        for sentence in _SENTENCE.split(bare):
            plain = " ".join(sentence.split())
            if any(c.isalnum() for c in plain):
                out.append(_short(plain))
    return out


def _short(text: str) -> str:
    if len(text) <= MAX_UNIT_CHARS:
        return text
    return text[: MAX_UNIT_CHARS - 1].rpartition(" ")[0] + "…"


def _take(found: Sequence[Unit], entries: Sequence[MemoryEntry], budget_tokens: int) -> set[int]:
    """Sentences by MMR for as long as the summary fits; one that is too long is passed over."""
    vectors = _vectors([unit.text for unit in found])
    relevance = np.round(_centrality(vectors) + _bonuses(found), 9)
    similar = vectors @ vectors.T
    nearest = np.zeros(len(found))
    open_ = np.ones(len(found), np.bool_)
    cost = [count(_line(unit.text, entries[unit.entry])) + 1 for unit in found]
    taken: set[int] = set()
    used = 0
    while open_.any():
        gain = np.where(open_, MMR * relevance - (1 - MMR) * np.round(nearest, 9), -np.inf)
        best = int(np.argmax(gain))  # the first of equals
        open_[best] = False
        if taken and (nearest[best] >= REPEATED or used + cost[best] > budget_tokens):
            continue
        taken.add(best)
        used += cost[best]
        nearest = np.maximum(nearest, similar[best])
    return taken


def _vectors(texts: Sequence[str]) -> Matrix:
    """TF-IDF rows of unit length, `(n, terms)`; zero for a sentence without telling words."""
    counted = [Counter(_content_words(text)) for text in texts]
    places = {term: i for i, term in enumerate(sorted({t for c in counted for t in c}))}
    out = np.zeros((len(texts), max(1, len(places))))
    for row, terms in enumerate(counted):
        for term, n in terms.items():
            out[row, places[term]] = n
    df = np.maximum((out > 0).sum(axis=0), 1)
    out *= np.log(1 + len(texts) / df)
    norms = np.linalg.norm(out, axis=1, keepdims=True)
    np.divide(out, norms, out=out, where=norms > 0)
    return out


def _content_words(text: str) -> list[str]:
    """The content words of a sentence, without common words."""
    return [
        word
        for word in words(text)
        if word not in _COMMON and (len(word) > 1 or word.isdigit() or not word.isascii())
    ]


def _centrality(vectors: Matrix) -> Matrix:
    centroid = vectors.sum(axis=0)
    norm = float(np.linalg.norm(centroid))
    if norm == 0.0:
        return np.zeros(len(vectors))
    return np.asarray(vectors @ (centroid / norm))


def _bonuses(found: Sequence[Unit]) -> Matrix:
    return np.array([bonus(unit.text, first=unit.first) + 0.2 * unit.weight for unit in found])


def bonus(text: str, *, first: bool = False) -> float:
    """The value of a sentence by its own contents."""
    marks = (
        (_DECISION, DECISION),
        (_ERROR, ERROR),
        (_PATH, PATH),
        (_CODE, CODE),
        (_NUMBER, NUMBER),
    )
    return sum(worth for mark, worth in marks if mark.search(text)) + (FIRST if first else 0.0)


def _lines(
    found: Sequence[Unit], taken: Sequence[int], entries: Sequence[MemoryEntry]
) -> list[str]:
    return [_line(found[i].text, entries[found[i].entry]) for i in taken]


def _line(text: str, entry: MemoryEntry) -> str:
    return f"- {day_of(entry)}: {text}" if day_of(entry) else f"- {text}"


def day_of(entry: MemoryEntry) -> str:
    """The day on which a memory is from; "" when it was never stored."""
    at: datetime | None = entry.valid_from or entry.created_at
    return at.date().isoformat() if at else ""
