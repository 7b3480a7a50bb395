"""Make the static table: terms' MiniLM vectors first, then pairs of comments and names with their code.

The loss of a batch of pairs is the symmetric InfoNCE (van den Oord, Li and Vinyals, "Representation Learning with
Contrastive Predictive Coding", 2018) over cosines of weighted sums of rows.
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
# A batch is of four blocks, each of one package: neighbours are hard to tell apart. More epochs learn them by heart.
EPOCHS, BATCH, BLOCK = 2, 1024, 256
TEMPERATURE, RATE, WARM_UP = 0.05, 3e-3, 50
AXES_OF = 20_000  # of the most frequent terms: the main axes of their vectors
# Arora, Liang and Ma, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", ICLR 2017.
SIF = 1e-3 / 30


@dataclass(frozen=True, slots=True)
class Data:
    rows: npt.NDArray[np.int32]  # (pairs, 2): package, kind
    held_out: npt.NDArray[np.bool_]
    terms: list[str]
    words: list[str]
    frequency: npt.NDArray[np.float64]
    queries: sp.csr_matrix
    documents: sp.csr_matrix


def read(pairs: Path) -> Data:
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
    return Data(
        rows,
        held_out,
        [terms[i] for i in chosen],
        [words[i] for i in chosen],
        frequency[chosen],
        _weighed(queries[:, chosen]),
        _weighed(documents[:, chosen]),
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


async def _embedded(texts: Sequence[str]) -> Floats:
    provider = await embedding.open(EmbeddingSettings())
    vectors = await provider.embed_documents(texts)
    await provider.close()
    return vectors.astype(np.float32)


def begun(data: Data, vectors: Floats) -> Floats:
    """The first rows: the terms' vectors centred, on their `DIM` main axes, common terms shorter."""
    centred = vectors - vectors.mean(0)
    often = np.argsort(-data.frequency, kind="stable")[:AXES_OF]
    rows = centred @ np.linalg.svd(centred[often], full_matrices=False)[2][:DIM].T
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9
    share = data.frequency / data.frequency.sum()
    rows *= (SIF / (SIF + share))[:, None]
    begun_rows: Floats = rows.astype(np.float32)
    return begun_rows


def train(data: Data, rows: Floats) -> Floats:
    """`rows` after `EPOCHS`, by Adam (Kingma and Ba, ICLR 2015) at a falling rate."""
    chance = np.random.default_rng(SEED)
    first, second = np.zeros_like(rows), np.zeros_like(rows)
    usable = np.flatnonzero(~data.held_out)
    steps, step = EPOCHS * (len(usable) // BATCH), 0
    for epoch in range(EPOCHS):
        lost = 0.0
        for batch in _batches(data, usable, chance):
            step += 1
            loss, slope = _contrast(data.queries[batch], data.documents[batch], rows)
            lost += loss
            first += 0.1 * (slope - first)
            second += 0.001 * (slope * slope - second)
            rate = RATE * min(1.0, step / WARM_UP) * (1 - step / (steps + 1))
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


def main(pairs: Path, out: Path) -> None:
    data = read(pairs)
    print(f"{len(data.rows)} pairs, {len(data.terms)} terms", flush=True)
    rows = begun(data, asyncio.run(_embedded(data.words)))
    write(data.terms, train(data, rows), out)
