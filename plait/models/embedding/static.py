"""The static table: a vector for each of some ten thousand BM25 terms, so that a text's vector is a weighted sum.

Ten thousands of chunks a CPU second, from the very postings that BM25 counts: no second tokeniser, no
network. Made by benchmarks/static_table; docs/models.md says of what, docs/experiments/static-table.md how good it is.

Sums are of whole numbers below 2**24 in float32, which is exact in any order, and what follows (squares, a
root, a division, rounding to even) IEEE 754 defines: every machine makes the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plait.domain.errors import BadModelFile

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

FOLDER = Path(__file__).parent / "weights" / "static_code"
# Names the table and this arithmetic; vectors of different names are never compared. Raise it with either.
NAME = "static:code-1"
# What a term that occurs once, 2 or 3, 4 to 7, and 8 or more times counts; by the number of bits of its frequency.
WEIGHTS = (2, 3, 4, 5)
# |row · scale| ≤ 127 · 31 and a weight of at most 5: up to so many terms a text every partial sum is below 2**24.
MAX_SCALE = 31
EXACT_TERMS = 2**24 // (127 * MAX_SCALE * WEIGHTS[-1])
# Documents whose rows are gathered at a time, to stay in the processor's cache (of 16, 64 and 256: Django's sums
# took .22, .35 and .5 CPU s); rounded at a time; and sorted at a time, which bounds memory.
GATHER = 16
BLOCK = 256
SLICE = 65_536


@dataclass(frozen=True, slots=True)
class Encoded:
    """One vector a document: `scales[i] · rows[i]` has unit length; a scale of 0 means that no term is known."""

    rows: npt.NDArray[np.int8]  # (documents, dim)
    scales: Floats  # (documents,)


class StaticTable:
    """Terms, ascending, with their rows; `scales[i] · rows[i]` is what term `i` adds to a text, in whole numbers."""

    def __init__(
        self,
        terms: npt.NDArray[np.bytes_],
        rows: npt.NDArray[np.int8],
        scales: npt.NDArray[np.uint8],
    ) -> None:
        self._terms = terms
        self._rows = rows
        self._scales = scales

    @property
    def dim(self) -> int:
        return int(self._rows.shape[1])

    def __len__(self) -> int:
        return len(self._terms)

    def find(self, terms: Sequence[str]) -> Ints:
        """The row of each term, -1 for one that the table lacks."""
        width = self._terms.dtype.itemsize
        # A longer term is in no table, and must not be cut to one that is.
        sought = np.array([_key(term, width) for term in terms], dtype=f"S{width}")
        at = np.minimum(np.searchsorted(self._terms, sought), max(0, len(self._terms) - 1))
        known = self._terms[at] == sought if len(self._terms) else np.zeros(len(sought), np.bool_)
        return np.where(known, at, -1).astype(np.int32)

    def encode(
        self, documents: int, terms: Sequence[str], docs: Sequence[bytes], tfs: Sequence[bytes]
    ) -> Encoded:
        """The vectors of a segment's documents, from its postings: of each term the int32 documents, ascending, and
        their uint8 frequencies."""
        found = self.find(terms)
        known = np.flatnonzero(found >= 0).tolist()
        sizes = np.array([len(tfs[i]) for i in known], dtype=np.int64)
        numbers = np.frombuffer(b"".join([docs[i] for i in known]), "<i4")
        rows = np.repeat(found[known], sizes)
        weights = _weights(np.frombuffer(b"".join([tfs[i] for i in known]), np.uint8))
        weights *= self._scales[rows]
        out = Encoded(np.zeros((documents, self.dim), np.int8), np.zeros(documents, np.float32))
        for first in range(0, documents, SLICE):
            last = min(documents, first + SLICE)
            part = np.flatnonzero((numbers >= first) & (numbers < last))
            part = part[np.argsort(numbers[part], kind="stable")]
            starts = np.searchsorted(numbers[part], np.arange(first, last + 1))
            for at, sums in _sums(self._rows, rows[part], weights[part], starts.tolist()):
                here = slice(first + at, first + at + len(sums))
                out.rows[here], out.scales[here] = _rounded(sums)
        return out

    def query(self, counts: Mapping[str, int]) -> Floats | None:
        """The unit vector of a text given as its terms; None when the table knows none of them."""
        terms = sorted(counts)
        found = self.find(terms)
        rows = found[found >= 0]
        if not len(rows):
            return None
        times = np.array([min(255, counts[t]) for t in terms], np.uint8)[found >= 0]
        added = self._rows[rows].astype(np.float32) * self._scales[rows, None]
        total = (added * _weights(times)[:, None]).sum(axis=0)
        length = float(np.linalg.norm(total))
        return (total / length).astype(np.float32) if length else None


def _key(term: str, width: int) -> bytes:
    key = term.encode("utf-8", "surrogatepass")
    return key if len(key) <= width and not key.endswith(b"\0") else b""


def _weights(frequencies: npt.NDArray[np.uint8]) -> Floats:
    table = np.zeros(256, np.float32)
    for bits in range(8, 0, -1):
        table[: 1 << bits] = WEIGHTS[min(bits, len(WEIGHTS)) - 1]
    return table[frequencies]


def _sums(
    table: npt.NDArray[np.int8], rows: Ints, weights: Floats, starts: Sequence[int]
) -> Iterator[tuple[int, Floats]]:
    """The sums of a block of documents at a time, with the first one's place. Document `i` has the rows
    `rows[starts[i] : starts[i + 1]]` of the table, each as often as its weight says."""
    documents = len(starts) - 1
    for first in range(0, documents, BLOCK):
        last = min(documents, first + BLOCK)
        sums = np.zeros((last - first, table.shape[1]), np.float32)
        for begin in range(first, last, GATHER):
            end = min(last, begin + GATHER)
            at = starts[begin]
            gathered = table[rows[at : starts[end]]].astype(np.float32)
            # A product each: `np.add.reduceat` goes down the columns, and took nine times as long.
            for i in range(begin, end):
                own = slice(starts[i] - at, starts[i + 1] - at)
                np.dot(weights[starts[i] : starts[i + 1]], gathered[own], out=sums[i - first])
        yield first, sums


def _rounded(sums: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    largest = np.abs(sums).max(axis=1, initial=0.0)
    step = np.where(largest > 0, largest, 1.0).astype(np.float64) / 127.0
    rows = np.rint(sums / step[:, None]).astype(np.int8)
    # Of what is stored, so that a dot product with it is a cosine.
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.int64)
    scales = np.where(squares > 0, 1.0 / np.sqrt(np.maximum(squares, 1)), 0.0)
    return rows, scales.astype(np.float32)


@cache
def shipped() -> StaticTable:
    """The table in the wheel, mapped into memory: a query reads a few of its rows."""
    return load(FOLDER)


def load(folder: Path) -> StaticTable:
    """Raises: BadModelFile."""
    try:
        terms, rows, scales = (
            np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("terms", "rows", "scales")
        )
    except (OSError, ValueError) as exc:
        raise BadModelFile(
            f"the static table in {folder} cannot be read ({exc}); install Plait again, or set "
            "`embedding.tiers` to `model`",
            folder=str(folder),
        ) from exc
    return StaticTable(terms, rows, scales)
