"""Runs semble or LanceDB for benchmarks/against.py, inside an environment that has them and not Plait.

Reads one JSON object from standard input (tool, tree, store, model, queries, rounds, chunks) and prints one: measure →
[wall s, CPU s]. It imports nothing of Plait's.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DIM = 384  # of the vectors that LanceDB is given
STAND_IN_DIM = 256  # of semble's stand-in table


def timed(work: Callable[[], Any]) -> tuple[Any, list[float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    made = work()
    return made, [time.perf_counter() - wall, time.process_time() - cpu]


def warm(given: dict[str, Any], ask: Callable[[str], Any]) -> list[float]:
    for text in given["queries"] * given["rounds"]:
        ask(text)
    took = []
    cpu = time.process_time()
    for n, text in enumerate(given["queries"] * given["rounds"]):
        start = time.perf_counter()
        ask(f"{text} {n}")
        took.append(time.perf_counter() - start)
    return [statistics.median(took), (time.process_time() - cpu) / len(took)]


def semble(given: dict[str, Any]) -> dict[str, list[float]]:
    from semble import SembleIndex

    model = given["model"] or stand_in(Path(given["store"]))

    def build() -> Any:
        return SembleIndex.from_path(given["tree"], model_path=model)

    index, built = timed(build)
    return {"index": built, "search, warm": warm(given, lambda text: index.search(text, top_k=10))}


def stand_in(folder: Path) -> str:
    """A model2vec folder of random vectors over the words of a few letters: the cost of a real table, not its sense."""
    import numpy as np
    from model2vec import StaticModel
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[UNK]", *letters, *(a + b for a in letters for b in letters)]
    words += [a + b + c for a in letters for b in letters for c in letters]
    vocabulary = {word: number for number, word in enumerate(words)}
    vocabulary |= {f"##{word}": len(vocabulary) + n for n, word in enumerate(words[1:703])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    vectors = (
        np.random.default_rng(1).normal(size=(len(vocabulary), STAND_IN_DIM)).astype("float32")
    )
    target = folder / "model"
    StaticModel(vectors, tokenizer, normalize=True).save_pretrained(target)
    return str(target)


def lancedb(given: dict[str, Any]) -> dict[str, list[float]]:
    import lancedb
    import numpy as np
    import pyarrow as pa

    vectors = np.random.default_rng(1).normal(size=(len(given["chunks"]), DIM)).astype("float32")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    paths, texts = zip(*given["chunks"], strict=True)

    def build() -> Any:
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIM)
        rows = pa.table({"path": list(paths), "text": list(texts), "vector": column})
        table = lancedb.connect(given["store"]).create_table("chunks", rows)
        table.create_fts_index("text")
        return table

    table, built = timed(build)

    def ask(text: str) -> Any:
        hybrid = table.search(query_type="hybrid").vector(vectors[0]).text(text)
        return hybrid.limit(10).to_list()

    return {"index": built, "search, warm": warm(given, ask)}


def main() -> None:
    given = json.load(sys.stdin)
    print(json.dumps({"semble": semble, "LanceDB": lancedb}[given["tool"]](given)))


if __name__ == "__main__":
    main()
