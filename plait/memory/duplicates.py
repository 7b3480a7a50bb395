"""Which memories say what another one says: exact, or so near that nothing is lost with one of them.

Words alike are not enough. "retries is 3" and "retries is 5" have a cosine of 0.98, "A calls B" and
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

# Kept memories that one is compared with by words, of those whose sketch meets its own.
MAX_COMPARED = 50

# What words alone don't tell: `x = 1` from `x != 1`, 3.5 from "3, 5".
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
    """`entry` says what `kept` says; `reason` in plain words."""

    entry: MemoryEntry
    kept: MemoryEntry
    reason: str


def facts(text: str) -> tuple[str, ...]:
    """What must be equal, in order, for two texts to be near-duplicates."""
    found = [(m.start(), m[0].rstrip(".:-")) for m in _FACT.finditer(text)]
    found += [(m.start(), m[0].lower()) for m in _TURN.finditer(text)]
    return tuple(fact for _, fact in sorted(found))


def marks(text: str) -> tuple[str, ...]:
    """What must be equal besides the words for two texts to be the same; case does not count."""
    return tuple(m[0].rstrip(".:-").casefold() for m in _EXACT.finditer(text))


def covers(kept: MemoryEntry, entry: MemoryEntry) -> bool:
    """Whether `kept` is true whenever `entry` is, so that no answer as of a valid time is lost."""
    begins = kept.valid_from is None or (
        entry.valid_from is not None and kept.valid_from <= entry.valid_from
    )
    ends = kept.valid_to is None or (entry.valid_to is not None and kept.valid_to >= entry.valid_to)
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
class _Kept:
    """Memories of one place (agent, anchor, facts) that stay, and how to find those alike."""

    entries: list[MemoryEntry] = field(default_factory=list)
    words: list[set[str]] = field(default_factory=list)
    by_band: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    vectors: dict[int, _Vectors] = field(default_factory=dict)  # by dimension


def duplicates(
    ranked: Sequence[MemoryEntry], protected: frozenset[object], near: float | None
) -> Iterator[Duplicate]:
    """`ranked`: living memories, those that should rather stay first. `protected`: ids that stay
    whatever they say. `near`: cosine, or share of common words, from which two are near-duplicates; None:
    none are but those of the same words.

    Memories of two agents, or of two places in the code, are never duplicates of each other.
    """
    same: dict[tuple[object, ...], list[MemoryEntry]] = defaultdict(list)
    alike: dict[tuple[object, ...], _Kept] = defaultdict(_Kept)
    texts = [words(entry.content) for entry in ranked]
    bands = sketches("", texts) if near is not None else [[]] * len(texts)
    for entry, said, band in zip(ranked, texts, bands, strict=True):
        place = (entry.agent_id, entry.path, entry.symbol)
        exact = same[(*place, tuple(said), marks(entry.content))]
        group = alike[(*place, facts(entry.content) if near is not None else ())]
        if entry.id not in protected:
            if kept := next((k for k in exact if covers(k, entry)), None):
                yield Duplicate(entry, kept, "has the same words as a memory that stays")
                continue
            if near is not None and (found := _near(group, entry, set(said), band, near)):
                yield found
                continue
        exact.append(entry)
        if near is not None:
            _keep(group, entry, set(said), band)


def _near(
    group: _Kept, entry: MemoryEntry, said: set[str], band: Sequence[int], near: float
) -> Duplicate | None:
    best: tuple[float, int, str] | None = None
    for at in _candidates(group, band):
        share = jaccard(said, group.words[at])
        if share >= near and covers(group.entries[at], entry) and (not best or share > best[0]):
            best = (share, at, f"shares {share:.0%} of its words with a memory that stays")
    if best is None and entry.embedding is not None:
        best = _nearest(group, entry, near)
    return Duplicate(entry, group.entries[best[1]], best[2]) if best else None


def _candidates(group: _Kept, band: Sequence[int]) -> list[int]:
    """Kept ones that share a sketch, the surest to stay first."""
    found = {at for place in enumerate(band) for at in group.by_band.get(place, ())[:MAX_COMPARED]}
    return sorted(found)[:MAX_COMPARED]


def _nearest(group: _Kept, entry: MemoryEntry, near: float) -> tuple[float, int, str] | None:
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


def _keep(group: _Kept, entry: MemoryEntry, said: set[str], band: Sequence[int]) -> None:
    at = len(group.entries)
    group.entries.append(entry)
    group.words.append(said)
    for place in enumerate(band):
        group.by_band[place].append(at)
    if entry.embedding is not None:
        dim = len(entry.embedding)
        known = group.vectors.setdefault(dim, _Vectors(np.zeros((16, dim), np.float32)))
        known.add(at, entry.embedding)
