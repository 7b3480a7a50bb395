"""How Search and Recall answer as a repository grows: 10k, 100k, 1M chunks.

    PLAIT_HOME=… python -m benchmarks.scale fill SOURCE --chunks 100000
    PLAIT_HOME=… python -m benchmarks.scale measure [--queries 300]

`fill` copies the sources under SOURCE as often as needed, a third of the identifiers of each copy
renamed, so that the vocabulary grows as a large repository's does; indexes the tree as `plait index`
does; and stores for each chunk a vector made of its words' vectors (the local model's, of the 4,000 most
frequent words) and noise, since embedding a million chunks takes hours. So latencies are of a real index of
that size; rankings mean nothing. `measure` starts a server and asks it over gRPC, one caller, distinct
queries, each embedded anew. Milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import builtins
import collections
import itertools
import json
import keyword
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import plait.models.embedding
from benchmarks.search_latency import WORD, queries_of, row, timed, wait_for
from etl.truth import open as open_truth
from plait import settings as plait_settings
from plait.client import AsyncPlaitClient, discovery
from plait.domain.options import RecallOptions, SearchOptions
from plait.domain.values import Filter

REPO = "scale"
WORDS = 4_000
BATCH = 10_000
NOISE = 0.6  # of a vector's length, so that copies of a chunk are neighbours and not equal
DEFINITION = re.compile(r"^\s*(?:async )?(?:def|class) ", re.M)
IDENTIFIER = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]{3,}\b")

Array = npt.NDArray[np.float32]


def grow(source: Path, tree: Path, chunks: int) -> None:
    """Copies of `source`'s Python files under `tree`, enough for about `chunks`."""
    files = sorted(p for p in source.rglob("*.py") if p.is_file())
    texts = [(p.relative_to(source), p.read_text("utf-8", "replace")) for p in files]
    reserved = frozenset(dir(builtins)) | frozenset(keyword.kwlist)
    made = 0
    for copy in itertools.count():
        for path, text in texts:
            if made >= chunks:
                return
            target = tree / f"part{copy:04d}" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(renamed(text, copy, reserved), "utf-8")
            made += 1 + len(DEFINITION.findall(text))


def renamed(text: str, copy: int, reserved: frozenset[str]) -> str:
    """A third of the identifiers, another third in each copy, get a suffix of their own."""
    if copy == 0:
        return text

    def rename(match: re.Match[str]) -> str:
        name = match[0]
        if name in reserved or (sum(name.encode()) + copy) % 3:
            return name
        return f"{name}_{copy}"

    return IDENTIFIER.sub(rename, text)


async def fill_vectors(settings: plait_settings.Settings, seed: int = 1) -> int:
    """A vector for every chunk; how many."""
    store = await open_truth(settings)
    provider = await plait.models.embedding.open(settings.embedding)
    await store.vectors.ensure_space(provider.model, provider.dim)
    rows = await store.db.rows(
        "SELECT i.content_hash, left(i.content, 400) FROM files i JOIN repository r ON r.id = i.repo_id"
        " WHERE r.name = %(repo)s AND i.embedding IS NULL",
        {"repo": REPO},
    )
    counts = collections.Counter(w for _, text in rows[:50_000] for w in WORD.findall(text))
    words = [word for word, _ in counts.most_common(WORDS)]
    table = dict(zip(words, await provider.embed_documents(words), strict=True))
    chance = np.random.default_rng(seed)
    for start in range(0, len(rows), BATCH):
        part = {bytes(hash_): text for hash_, text in rows[start : start + BATCH]}
        made = np.stack([_vector(text, table, chance, provider.dim) for text in part.values()])
        await store.vectors.store_vectors(list(part), made)
        print(f"\rvectors {start + len(part)}/{len(rows)}", end="", file=sys.stderr)
    begin = time.perf_counter()
    await store.vectors.finish(REPO)
    print(f"\nvector index {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    await provider.close()
    await store.close()
    return len(rows)


def _vector(text: str, table: dict[str, Array], chance: np.random.Generator, dim: int) -> Array:
    found = [table[word] for word in WORD.findall(text)[:40] if word in table]
    noise = chance.standard_normal(dim).astype(np.float32)
    noise *= NOISE / np.linalg.norm(noise)
    mean = np.mean(found, axis=0) if found else np.zeros(dim, np.float32)
    mean = mean / max(float(np.linalg.norm(mean)), 1e-6) + noise
    out: Array = (mean / np.linalg.norm(mean)).astype(np.float32)
    return out


def fill(args: argparse.Namespace) -> None:
    settings = plait_settings.load()
    with tempfile.TemporaryDirectory(dir=args.work) as folder:
        tree = Path(folder) / REPO
        grow(args.source, tree, args.chunks)
        subprocess.run(
            [sys.executable, "-P", "-m", "etl.index_repo", str(tree), "--repo", REPO, "--no-embed"],
            check=True,
        )
        shutil.rmtree(tree)
    print(json.dumps({"vectors": asyncio.run(fill_vectors(settings))}))


async def client(args: argparse.Namespace) -> list[dict[str, Any]]:
    settings = plait_settings.load()
    address = discovery.read(settings.home)
    assert address is not None
    store = await open_truth(settings)
    # One set of queries for each row: nothing is answered from the cache of query vectors.
    texts = await queries_of(store, REPO, 4 * (args.queries + 50), args.seed)
    await store.close()
    random.Random(args.seed).shuffle(texts)
    where = Filter(repos=(REPO,))
    found = []
    async with AsyncPlaitClient(address.target) as plait_:
        asks: list[tuple[str, Callable[[str], Awaitable[object]]]] = [
            ("Search fast", lambda t: plait_.search(t, where=where)),
            (
                "Search full",
                lambda t: plait_.search(t, where=where, options=SearchOptions(mode="full")),
            ),
            ("Recall fast", lambda t: plait_.recall(t, where=where)),
            (
                "Recall full",
                lambda t: plait_.recall(t, where=where, options=RecallOptions(mode="full")),
            ),
        ]
        for n, (name, ask) in enumerate(asks):
            part = texts[n * (args.queries + 50) : (n + 1) * (args.queries + 50)]
            await timed(part[:50], 1, ask)
            found.append(row(name, 1, await timed(part[50:], 1, ask)))
    return found


def measure(args: argparse.Namespace) -> None:
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "server"],
        env=dict(os.environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(server)
        report(asyncio.run(client(args)))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def report(rows: Sequence[dict[str, Any]]) -> None:
    print("| what | p50 ms | p95 ms | p99 ms | n |")
    print("|---|---|---|---|---|")
    for r in rows:
        print(f"| {r['name']} | {r['p50']:.1f} | {r['p95']:.1f} | {r['p99']:.1f} | {r['n']} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    doing = parser.add_subparsers(required=True)
    fills = doing.add_parser("fill")
    fills.add_argument("source", type=Path, help="a folder of Python sources, as Django's sdist")
    fills.add_argument("--chunks", type=int, default=100_000)
    fills.add_argument(
        "--work", type=Path, help="where the copies are made; default: a temporary one"
    )
    fills.set_defaults(run=fill)
    measures = doing.add_parser("measure")
    measures.add_argument("--queries", type=int, default=300)
    measures.add_argument("--seed", type=int, default=1)
    measures.set_defaults(run=measure)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
