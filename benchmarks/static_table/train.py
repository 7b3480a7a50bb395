"""Make the static table: terms' MiniLM vectors first, then pairs of comments and names with their code.

The loss of a batch of pairs is the symmetric InfoNCE (van den Oord, Li and Vinyals, "Representation Learning with
Contrastive Predictive Coding", 2018) over cosines of weighted sums of rows, plus the distance of a batch of chunks to
what MiniLM makes of them. BM25 finds what shares its words with a query; so that the table learns the rest, words that
a comment shares with its code are taken out of one of the two for half of the pairs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from benchmarks.static_table.packages import packages
from benchmarks.static_table.pairs import COMMENT, NAME
from plait.models import embedding
from plait.models.embedding.static import MAX_SCALE, WEIGHTS
from plait.settings import EmbeddingSettings

Floats = npt.NDArray[np.float32]
SEED = 7
MOST_TERMS, LEAST_PACKAGES, LEAST_TIMES = 40_000, 2, 3  # of the vocabulary
DIM = 256
WIDTH = 32  # bytes of a term
EPOCHS, BATCH, BLOCK = (
    2,
    2048,
    256,
)  # a batch is of 8 blocks, each of one package: neighbours are hard to tell apart
TEMPERATURE, RATE = 0.05, 4e-3
APART = 0.5  # share of pairs whose common words are taken out of one side
TEACHING, TAUGHT = 0.3, 1024  # weight of the teacher's loss, chunks a batch
SIF = (
    1e-3 / 30
)  # Arora, Liang and Ma, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", ICLR 2017


@dataclass(frozen=True, slots=True)
class Data:
    rows: npt.NDArray[np.int32]  # (pairs, 2): package, kind
    held_out: npt.NDArray[np.bool_]
    terms: list[str]
    words: list[str]
    frequency: npt.NDArray[np.float64]
    queries: sp.csr_matrix
    documents: sp.csr_matrix
    chunks: sp.csr_matrix
    taught: Floats  # (chunks, MiniLM's dim)


def read(pairs: Path, teacher: Path) -> Data:
    """The pairs over the chosen vocabulary, with the weights that the encoder gives to frequencies."""
    kept = np.load(pairs)
    terms = json.loads(kept["terms"].tobytes())
    words = json.loads(kept["words"].tobytes())
    rows = kept["rows"]
    held_out = np.array([p.held_out for p in packages()])[rows[:, 0]]
    shape = (len(rows), len(terms))
    queries, documents = (
        sp.csr_matrix((kept[f"{s}_counts"], kept[f"{s}_terms"], kept[f"{s}_starts"]), shape=shape)
        for s in "qd"
    )
    frequency, spread = _spread(rows, held_out, queries, documents)
    usable = (spread >= LEAST_PACKAGES) & (frequency >= LEAST_TIMES)
    usable &= np.array([len(t.encode()) <= WIDTH for t in terms])
    chosen = np.argsort(-np.where(usable, frequency, -1), kind="stable")[:MOST_TERMS]
    chosen = np.array(sorted(chosen[usable[chosen]], key=lambda i: terms[i].encode()))
    number = {terms[i]: n for n, i in enumerate(chosen.tolist())}
    return Data(
        rows,
        held_out,
        [terms[i] for i in chosen],
        [words[i] for i in chosen],
        frequency[chosen],
        _weighed(queries[:, chosen]),
        _weighed(documents[:, chosen]),
        _chunks(json.loads(teacher.read_text(encoding="utf-8")), number),
        np.load(teacher.with_suffix(".npy")).astype(np.float32),
    )


def _spread(
    rows: npt.NDArray[np.int32],
    held_out: npt.NDArray[np.bool_],
    *matrices: sp.csr_matrix,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """In how many texts of the training packages each term is, and in how many of the packages."""
    frequency = np.zeros(matrices[0].shape[1])
    spread = np.zeros(matrices[0].shape[1], np.int64)
    for package in np.unique(rows[~held_out, 0]):
        here = np.flatnonzero(rows[:, 0] == package)
        times = sum(np.asarray((m[here] > 0).sum(0)).ravel() for m in matrices)
        frequency += times
        spread += times > 0
    return frequency, spread


def _weighed(counts: sp.csr_matrix) -> sp.csr_matrix:
    weighed = counts.tocsr().astype(np.float32)
    bits = np.floor(np.log2(np.maximum(weighed.data, 1))).astype(int)
    weighed.data = np.array(WEIGHTS, np.float32)[np.minimum(bits, len(WEIGHTS) - 1)]
    return weighed


def _chunks(bags: Sequence[dict[str, int]], number: dict[str, int]) -> sp.csr_matrix:
    known = [[(number[t], n) for t, n in bag.items() if t in number] for bag in bags]
    starts = np.cumsum([0, *map(len, known)])
    columns = [c for bag in known for c, _ in bag]
    counts = np.array([n for bag in known for _, n in bag], np.float32)
    return _weighed(sp.csr_matrix((counts, columns, starts), shape=(len(bags), len(number))))


async def _embedded(texts: Sequence[str]) -> Floats:
    provider = await embedding.open(EmbeddingSettings())
    vectors = await provider.embed_documents(texts)
    await provider.close()
    return vectors.astype(np.float32)


def begun(data: Data, vectors: Floats) -> tuple[Floats, Floats]:
    """The first rows, and the teacher's vectors in their space: centred, on its `DIM` main axes."""
    taught = data.taught - data.taught.mean(0)
    axes = np.linalg.svd(taught, full_matrices=False)[2][:DIM].T
    rows = (vectors - vectors.mean(0)) @ axes
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9
    share = data.frequency / data.frequency.sum()
    rows *= (SIF / (SIF + share))[:, None]
    return rows.astype(np.float32), _unit(taught @ axes)[0]


def train(data: Data, rows: Floats, taught: Floats) -> Floats:
    """`rows` after `EPOCHS`, by Adam (Kingma and Ba, ICLR 2015) at a falling rate."""
    chance = np.random.default_rng(SEED)
    first, second = np.zeros_like(rows), np.zeros_like(rows)
    usable = np.flatnonzero(~data.held_out)
    steps, step = EPOCHS * (len(usable) // BATCH), 0
    for epoch in range(EPOCHS):
        lost = 0.0
        for batch in _batches(data, usable, chance):
            step += 1
            queries, documents = _parted(data.queries[batch], data.documents[batch], chance)
            loss, slope = _contrast(queries, documents, rows)
            lost += loss
            drawn = chance.choice(len(taught), TAUGHT, replace=False)
            slope += TEACHING * _approach(data.chunks[drawn], taught[drawn], rows)
            first += 0.1 * (slope - first)
            second += 0.001 * (slope * slope - second)
            rate = RATE * min(1.0, step / 30) * (1 - step / (steps + 1))
            rows = rows - rate * (first / (1 - 0.9**step)) / (
                np.sqrt(second / (1 - 0.999**step)) + 1e-8
            )
        figures = " / ".join(f"{100 * held_out(data, rows, kind):.1f}" for kind in (COMMENT, NAME))
        print(
            f"epoch {epoch}: loss {lost * EPOCHS / steps:.3f}; held out MRR {figures}", flush=True
        )
    return rows


def _batches(
    data: Data, usable: npt.NDArray[np.int64], chance: np.random.Generator
) -> list[npt.NDArray[np.int64]]:
    order = usable[np.lexsort((chance.random(len(usable)), data.rows[usable, 0]))]
    blocks = [order[i : i + BLOCK] for i in range(0, len(order), BLOCK)]
    chance.shuffle(blocks)
    flat = np.concatenate(blocks)
    return [flat[i : i + BATCH] for i in range(0, len(flat) - BATCH + 1, BATCH)]


def _parted(
    queries: sp.csr_matrix, documents: sp.csr_matrix, chance: np.random.Generator
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """The batch with the words that both sides share taken out of one, for `APART` of the pairs."""
    lot = chance.random(queries.shape[0])
    out = []
    for one, other, mine in (
        (queries, documents, lot < APART / 2),
        (documents, queries, (lot >= APART / 2) & (lot < APART)),
    ):
        shared = one.multiply(other > 0)
        left = one - sp.diags_array(mine.astype(np.float32)) @ shared
        empty = np.asarray(left.sum(1)).ravel() <= 0
        if empty.any():
            left = left + sp.diags_array(empty.astype(np.float32)) @ one
        out.append(left.tocsr())
    return out[0], out[1]


def _contrast(
    queries: sp.csr_matrix, documents: sp.csr_matrix, rows: Floats
) -> tuple[float, Floats]:
    """The loss, and its slope by row."""
    asked, asked_lengths = _unit(queries @ rows)
    found, found_lengths = _unit(documents @ rows)
    alike = asked @ found.T / TEMPERATURE
    across = np.exp(alike - alike.max(1, keepdims=True))
    across /= across.sum(1, keepdims=True)
    down = np.exp(alike - alike.max(0, keepdims=True))
    down /= down.sum(0, keepdims=True)
    loss = float(-np.log(np.diag(across) + 1e-9).mean())
    slope = (across + down) / 2
    slope[np.diag_indices(len(slope))] -= 1.0
    slope /= len(slope) * TEMPERATURE
    of_asked = _through(slope @ found, asked, asked_lengths)
    of_found = _through(slope.T @ asked, found, found_lengths)
    total: Floats = queries.T @ of_asked + documents.T @ of_found
    return loss, total


def _approach(chunks: sp.csr_matrix, taught: Floats, rows: Floats) -> Floats:
    """The slope of the mean of 1 - cosine, scaled like `_contrast`'s."""
    made, lengths = _unit(chunks @ rows)
    slope: Floats = chunks.T @ _through(-taught / (len(taught) * TEMPERATURE), made, lengths)
    return slope


def _unit(vectors: Floats) -> tuple[Floats, Floats]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-6
    return vectors / lengths, lengths


def _through(slope: Floats, unit: Floats, lengths: Floats) -> Floats:
    """A slope by unit vectors as one by the vectors before they were made so."""
    through: Floats = (slope - unit * (slope * unit).sum(1, keepdims=True)) / lengths
    return through


def held_out(data: Data, rows: Floats, kind: int) -> float:
    """MRR of each pair's query among the documents of its package, over the packages that are not trained on."""
    scores = []
    for package in np.unique(data.rows[data.held_out, 0]):
        here = np.flatnonzero((data.rows[:, 0] == package) & (data.rows[:, 1] == kind))
        if len(here) < 20:
            continue
        alike = _unit(data.queries[here] @ rows)[0] @ _unit(data.documents[here] @ rows)[0].T
        ranks = (alike >= np.diag(alike)[:, None]).sum(1)
        scores.append(float((1 / ranks).mean()))
    return float(np.mean(scores))


def write(terms: Sequence[str], rows: Floats, folder: Path) -> None:
    """`terms`, ascending, and their rows in whole numbers: `rows` × `scales`."""
    largest = np.abs(rows).max(axis=1)
    unit = 127 * MAX_SCALE / np.quantile(largest, 0.9995)
    scales = np.clip(np.ceil(largest * unit / 127), 1, MAX_SCALE)
    whole = np.clip(np.rint(rows * unit / scales[:, None]), -127, 127)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "terms.npy", np.array([t.encode() for t in terms], dtype=f"S{WIDTH}"))
    np.save(folder / "rows.npy", whole.astype(np.int8))
    np.save(folder / "scales.npy", scales.astype(np.uint8))


def main(pairs: Path, teacher: Path, out: Path) -> None:
    data = read(pairs, teacher)
    print(f"{len(data.rows)} pairs, {len(data.terms)} terms, {len(data.taught)} chunks", flush=True)
    rows, taught = begun(data, asyncio.run(_embedded(data.words)))
    write(data.terms, train(data, rows, taught), out)
