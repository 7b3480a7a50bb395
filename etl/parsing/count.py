"""Counting words: which terms each chunk holds and how often, a batch of chunks at a time.

A word is looked up once where it stands, for its number; its terms are counted in numpy, by one sort of
(chunk, term) over the batch. Counting each chunk's terms in a dict of its own took three times as long.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plait.text.tokenize import split, words

Word = bytes | str
_TERM_BITS = 32
MAX_WORDS = 500_000  # of a vocabulary: some 100 MB. Django has 190,000


class _Numbers(dict[str, int]):
    def __init__(self) -> None:
        self.new: list[str] = []  # terms that nobody was told yet

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        self.new.append(term)
        return number


class Vocabulary(dict[Word, int]):
    """Words to their numbers; grows with each new word. Its terms have numbers of their own, from 0 and in
    the order in which `unsent` tells them, which go on when `trim` forgets."""

    def __init__(self) -> None:
        self._begin()
        self._before = 0  # terms that were forgotten

    def _begin(self) -> None:
        self._numbers = _Numbers()  # of terms
        self._terms = array("i")  # of word 0, then of word 1, …
        self._ends = array("i")  # of each word's terms

    def __missing__(self, word: Word) -> int:
        for term in split(word):
            self._terms.append(self._numbers[term])
        self._ends.append(len(self._terms))
        number = self[word] = len(self)
        return number

    def trim(self) -> None:
        """Between two batches: forget all once there are more than `MAX_WORDS`, so that memory has a
        bound. A term that comes again is told again, under a new number."""
        if len(self) > MAX_WORDS:
            self._before += len(self._numbers)
            self.clear()
            self._begin()

    def of(self, text: str) -> Iterable[int]:
        """The numbers of the words of `text`, in order."""
        return map(self.__getitem__, words(text))

    def unsent(self) -> list[str]:
        """Terms that no earlier call returned, in the order of their numbers."""
        new, self._numbers.new = self._numbers.new, []
        return new

    def postings(self, words: Sequence[int], sizes: Sequence[int]) -> Postings:
        """The terms of chunks given as the numbers of their words: `sizes[i]` of them make chunk `i`."""
        found = np.array(words, dtype=np.int32)
        chunks = np.arange(len(sizes)).repeat(np.array(sizes, dtype=np.int64))
        ends, terms = np.array(self._ends, dtype=np.int64), np.array(self._terms, dtype=np.int64)
        width = np.diff(ends, prepend=0)
        # Where each word's terms begin in `terms`, and where they go in the list of all.
        widths = width[found]
        begin = (ends - width)[found]
        total = np.cumsum(widths)
        places = np.repeat(begin - total + widths, widths)
        places += np.arange(len(places))
        documents = chunks.repeat(widths)
        keys = terms[places] | documents << _TERM_BITS
        keys.sort()
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        times = np.diff(first, append=len(keys))
        keys = keys[first]
        return Postings(
            np.bincount(documents, minlength=len(sizes)).astype(np.int32),
            np.bincount(keys >> _TERM_BITS, minlength=len(sizes)).astype(np.int32),
            keys.astype(np.int32) + np.int32(self._before),  # the low half is the term
            np.minimum(times, 255).astype(np.uint8),
        )


@dataclass(frozen=True, slots=True)
class Postings:
    """The terms of some chunks. Chunk `i` has `distinct[i]` postings, one after the other, by term."""

    lengths: npt.NDArray[np.int32]  # (chunks,) terms, repeats counted
    distinct: npt.NDArray[np.int32]  # (chunks,)
    terms: npt.NDArray[np.int32]  # (postings,) numbers
    tfs: npt.NDArray[np.uint8]  # (postings,) capped at 255
