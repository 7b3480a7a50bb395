"""Which memories are duplicates: exact, or so near that removing one loses nothing.

Similar words are not enough. "retries is 3" and "retries is 5" have a cosine of 0.98, "A calls B" and
"B calls A" the same words: two memories are near-duplicates only when all that looks like a fact in them
(numbers, identifiers, paths, negations, how a test ended) is equal, in order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from plait.domain.memory import MemoryEntry
from plait.text.near_duplicates import jaccard, sketches, words

# Memories that each one is compared with by words, among those that share a sketch band.
MAX_COMPARED = 50

# Differences that words do not show: `x = 1` or `x != 1`, 3.5 or "3, 5".
_MARK = (
    r"[!=<>]=|[=<>~]|&&|\|\|"
    r"|[\w./:+-]*\d[\w./:-]*"  # numbers, versions, ids
    r"|[\w.-]*/[\w./-]+"  # paths
    r"|\w+(?:\.\w+)+|[A-Za-z]+_\w+|_\w+"  # code
)
_EXACT = re.compile(_MARK)
_FACT = re.compile(_MARK + r"|[a-z]+[A-Z]\w*|[A-Z]{2,}\w*|[A-Z][a-z]+[A-Z]\w*")
_TURN = re.compile(
    r"\b(?:not?|never|none|nothing|neither|nor|without|cannot|always|only|except|unless|but|before|after"
    r"|pass(?:e[sd])?|fail(?:s|ed|ure)?|success\w*|ok|broken?|fixed|true|false|on|off|enabled?|disabled?"
    r"|added?|removed?|less|more|old|new)\b|n't\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """`entry` repeats `original`, which stays; `reason` is for people."""

    entry: MemoryEntry
    original: MemoryEntry
    reason: str


def facts(text: str) -> tuple[str, ...]:
    """What must be equal, in order, for two texts to be near-duplicates."""
    found = [(m.start(), m[0].rstrip(".:-")) for m in _FACT.finditer(text)]
    found += [(m.start(), m[0].lower()) for m in _TURN.finditer(text)]
    return tuple(fact for _, fact in sorted(found))


def marks(text: str) -> tuple[str, ...]:
    """What must be equal besides the words for two texts to be the same; case does not count."""
    return tuple(m[0].rstrip(".:-").casefold() for m in _EXACT.finditer(text))


def covers(original: MemoryEntry, entry: MemoryEntry) -> bool:
    """Whether `original` is valid whenever `entry` is, so that no answer as of a valid time is lost."""
    begins = original.valid_from is None or (
        entry.valid_from is not None and original.valid_from <= entry.valid_from
    )
    ends = original.valid_to is None or (
        entry.valid_to is not None and original.valid_to >= entry.valid_to
    )
    return begins and ends


@dataclass(slots=True)
class _Vectors:
    """Rows of one dimension, in a buffer that doubles; `places`: whose they are."""

    rows: npt.NDArray[np.float32]
    places: list[int] = field(default_factory=list)

    def add(self, place: int, vector: Sequence[float]) -> None:
        n = len(self.places)
        if n == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        self.rows[n] = vector
        self.places.append(place)

    def cosines(self, vector: Sequence[float]) -> npt.NDArray[np.float32]:
        out: npt.NDArray[np.float32] = self.rows[: len(self.places)] @ np.asarray(
            vector, np.float32
        )
        return out


@dataclass(slots=True)
class _Group:
    """Memories of one location (agent, anchor, facts) that stay, indexed to find near-duplicates."""

    entries: list[MemoryEntry] = field(default_factory=list)
    words: list[set[str]] = field(default_factory=list)
    by_band: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    vectors: dict[int, _Vectors] = field(default_factory=dict)  # by dimension


def duplicates(
    ranked: Sequence[MemoryEntry], protected: frozenset[object], near: float | None
) -> Iterator[Duplicate]:
    """`ranked`: living memories, best to retain first. `protected`: ids that always
    stay. `near`: cosine, or share of common words, from which two are near-duplicates; None:
    only exact duplicates are found.

    Memories of two agents, or of two places in the code, are never duplicates of each other.
    """
    same: dict[tuple[object, ...], list[MemoryEntry]] = defaultdict(list)
    groups: dict[tuple[object, ...], _Group] = defaultdict(_Group)
    texts = [words(entry.content) for entry in ranked]
    bands = sketches("", texts) if near is not None else [[]] * len(texts)
    for entry, terms, band in zip(ranked, texts, bands, strict=True):
        place = (entry.agent_id, entry.path, entry.symbol)
        exact = same[(*place, tuple(terms), marks(entry.content))]
        group = groups[(*place, facts(entry.content) if near is not None else ())]
        if entry.id not in protected:
            if original := next((k for k in exact if covers(k, entry)), None):
                yield Duplicate(entry, original, "has the same words as a memory that stays")
                continue
            if near is not None and (found := _near(group, entry, set(terms), band, near)):
                yield found
                continue
        exact.append(entry)
        if near is not None:
            _add(group, entry, set(terms), band)


def _near(
    group: _Group, entry: MemoryEntry, terms: set[str], band: Sequence[int], near: float
) -> Duplicate | None:
    best: tuple[float, int, str] | None = None
    for at in _candidates(group, band):
        share = jaccard(terms, group.words[at])
        if share >= near and covers(group.entries[at], entry) and (not best or share > best[0]):
            best = (share, at, f"shares {share:.0%} of its words with a memory that stays")
    if best is None and entry.embedding is not None:
        best = _nearest(group, entry, near)
    return Duplicate(entry, group.entries[best[1]], best[2]) if best else None


def _candidates(group: _Group, band: Sequence[int]) -> list[int]:
    """Memories of the group that share a sketch band, best first."""
    found = {at for place in enumerate(band) for at in group.by_band.get(place, ())[:MAX_COMPARED]}
    return sorted(found)[:MAX_COMPARED]


def _nearest(group: _Group, entry: MemoryEntry, near: float) -> tuple[float, int, str] | None:
    assert entry.embedding is not None
    known = group.vectors.get(len(entry.embedding))
    if known is None:
        return None
    cosines = known.cosines(entry.embedding)
    near_enough = np.flatnonzero(cosines >= near)
    for at in near_enough[np.argsort(-cosines[near_enough], kind="stable")]:
        place = known.places[int(at)]
        if covers(group.entries[place], entry):
            # A product of rounded unit vectors may pass 1.
            cosine = min(1.0, float(cosines[at]))
            return cosine, place, f"means the same as a memory that stays (cosine {cosine:.2f})"
    return None


def _add(group: _Group, entry: MemoryEntry, terms: set[str], band: Sequence[int]) -> None:
    at = len(group.entries)
    group.entries.append(entry)
    group.words.append(terms)
    for place in enumerate(band):
        group.by_band[place].append(at)
    if entry.embedding is not None:
        dim = len(entry.embedding)
        known = group.vectors.setdefault(dim, _Vectors(np.zeros((16, dim), np.float32)))
        known.add(at, entry.embedding)
