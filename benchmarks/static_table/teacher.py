"""What the shipped MiniLM makes of some of the training packages' chunks, for the table to come near to."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.localisation_corpus import Piece, pieces
from benchmarks.static_table.packages import Package, fetch, packages
from plait.models import embedding
from plait.settings import EmbeddingSettings
from plait.text.tokenize import tokens

# The smallest packages that are more than a few files: reading all of the large ones for a sample would cost more.
PACKAGES, SMALLEST_BYTES = 64, 60_000
EACH, SHORTEST = 130, 80  # chunks of a package; characters
_SOURCES = frozenset({".py", ".js", ".ts", ".java", ".mjs", ".md", ".rst"})


def counted(piece: Piece) -> Counter[str]:
    """A chunk's terms as the index counts them."""
    name = piece.function.partition("::")[2]
    return Counter(tokens(piece.content) + tokens(piece.path) + 2 * tokens(name))


async def teach(folder: Path) -> tuple[list[Counter[str]], list[npt.NDArray[np.float16]]]:
    """The bags of the chunks, and their vectors by package."""
    provider = await embedding.open(EmbeddingSettings())
    chosen = [p for p in packages() if not p.held_out]
    sizes = {p.key: _size(p, folder) for p in chosen}
    chosen.sort(key=lambda p: (sizes[p.key], p.key))
    bags: list[Counter[str]] = []
    vectors = []
    for package in [p for p in chosen if sizes[p.key] > SMALLEST_BYTES][:PACKAGES]:
        found = [p for p in pieces(fetch(package, folder)) if len(p.content) > SHORTEST]
        sample = random.Random(package.key).sample(found, min(EACH, len(found)))
        vectors.append(
            (await provider.embed_documents([p.text for p in sample])).astype(np.float16)
        )
        bags += map(counted, sample)
        print(f"{package.name} {package.version}: {len(sample)} chunks", flush=True)
    await provider.close()
    return bags, vectors


def _size(package: Package, folder: Path) -> int:
    root = fetch(package, folder)
    return sum(f.stat().st_size for f in root.rglob("*") if f.suffix in _SOURCES)


def main(folder: Path, out: Path) -> None:
    """Write the bags to `out` as JSON, and their vectors beside it (`.npy`)."""
    bags, vectors = asyncio.run(teach(folder))
    out.write_text(json.dumps(bags), encoding="utf-8")
    np.save(out.with_suffix(".npy"), np.concatenate(vectors))
