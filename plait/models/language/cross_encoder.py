"""A `Reranker` over a cross-encoder of the user's own: onnxruntime and tokenizers (`plait[models]`), nothing is fetched.

The folder is laid out as sentence-transformers exports a `CrossEncoder` to ONNX: `model.onnx` or
`onnx/model.onnx`, `tokenizer.json`, and where present `config.json`. Plait ships none: no package holds a
model's weights under a licence and of a size that would do.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plait.domain.errors import BadModelFile, LanguageModelUnavailable
from plait.models import onnx_runtime as onnx
from plait.models import tokenizer
from plait.settings import RerankSettings

# Bounds the tokeniser's work on a long text; no model reads so much.
MAX_CHARS = 8_192
# The longest pair: time grows with it faster than what is gained. A model that takes less says so in
# config.json (max_position_embeddings).
MAX_TOKENS = 384
# A query gets at most so many of them, so that there is always room for the text.
MAX_QUERY_TOKENS = 128


@dataclass(frozen=True, slots=True)
class CrossEncoderFiles:
    """A model ready to load. `id` changes with any of its files."""

    id: str
    onnx: Path
    tokenizer: Path
    max_tokens: int = MAX_TOKENS
    pad_id: int = 0


async def open(settings: RerankSettings) -> LocalReranker:
    """Load what `rerank.model_dir` names, off the event loop. Raises: BadModelFile."""
    files = await asyncio.to_thread(find, Path(settings.model_dir))
    return await asyncio.to_thread(LocalReranker, files, threads=settings.threads or _cores())


def find(folder: Path) -> CrossEncoderFiles:
    """Raises: BadModelFile."""
    folder = folder.expanduser()
    onnx = next((p for n in ("model.onnx", "onnx/model.onnx") if (p := folder / n).is_file()), None)
    tokenizer = folder / "tokenizer.json"
    if onnx is None or not tokenizer.is_file():
        raise BadModelFile(
            f"`rerank.model_dir` {folder} holds no model.onnx with a tokenizer.json beside it; export one "
            "by `CrossEncoder(NAME, backend='onnx').save_pretrained(FOLDER)`",
            folder=folder,
        )
    config = _config(folder / "config.json")
    longest = config.get("max_position_embeddings")
    pad = config.get("pad_token_id")
    digest = hashlib.sha256()
    for path in (onnx, *sorted(onnx.parent.glob(onnx.name + "?data")), tokenizer):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return CrossEncoderFiles(
        id=f"local:{folder.resolve().name}@{digest.hexdigest()[:12]}",
        onnx=onnx,
        tokenizer=tokenizer,
        max_tokens=min(MAX_TOKENS, longest - 2)
        if isinstance(longest, int) and longest > 16
        else MAX_TOKENS,
        pad_id=pad if isinstance(pad, int) and pad >= 0 else 0,
    )


class LocalReranker:
    """See the module. Pairs are read one by one, several threads side by side, the best candidates
    first, until the time is up: one pair a run is as fast as a batch on a CPU (measured for the embedding
    model) and a score does not depend on its neighbours."""

    def __init__(self, files: CrossEncoderFiles, *, threads: int) -> None:
        """Raises: BadModelFile."""
        self._files = files
        self._tokenizer = _load_tokenizer(files)
        # The text gives way, the query stays: it is far shorter by then.
        self._tokenizer.enable_truncation(files.max_tokens, strategy="only_second")
        self._uncut = _load_tokenizer(files)
        self._session = onnx.session(files.onnx)
        self._inputs = {i.name for i in self._session.get_inputs()}
        self._threads = max(1, threads)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="rerank")
        try:
            self._run(self._shortened("probe"), "def probe(): ...")
        except Exception as exc:  # onnxruntime raises its own, undocumented ones
            raise BadModelFile(
                f"{files.onnx} loads but does not score a pair: {exc}; it must take input_ids and "
                "attention_mask and give logits of shape (n, 1) or (n, 2)",
                file=files.onnx,
            ) from exc

    @property
    def model(self) -> str:
        return self._files.id

    async def score(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """The scores of the first texts, as many as were read in time: a run under way when it is up is
        waited for, so one pair's time may come on top."""
        until = time.monotonic() + timeout_s
        query = self._shortened(query)
        scores: list[float | None] = [None] * len(texts)
        numbers = iter(range(len(texts)))  # shared: each thread takes the next pair
        stopped = threading.Event()

        def work() -> None:
            for i in numbers:
                if stopped.is_set() or time.monotonic() >= until:
                    return
                scores[i] = self._run(query, texts[i])

        loop = asyncio.get_running_loop()
        try:
            workers = [loop.run_in_executor(self._pool, work) for _ in range(self._threads)]
        except RuntimeError as exc:
            raise LanguageModelUnavailable("the reranker is closed; open it again") from exc
        try:
            await asyncio.gather(*workers)
        except asyncio.CancelledError:
            raise
        except Exception as exc:  # onnxruntime raises its own, undocumented ones
            raise LanguageModelUnavailable(
                f"{self.model} failed on a pair: {exc}; export it again, or empty `rerank.model_dir`",
                model=self.model,
            ) from exc
        finally:
            stopped.set()
        done: list[float] = []
        for score in scores:
            if score is None:
                break
            done.append(score)
        return done

    async def close(self) -> None:
        """Wait for the pairs under way (tens of ms)."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

    def _run(self, query: str, text: str) -> float:
        """One pair's relevance in [0, 1]: the sigmoid of one logit, or the softmax of two (no, yes)."""
        ids, types = self._pair(query, text)
        feed = {
            "input_ids": np.asarray([ids], np.int64),
            "attention_mask": np.ones((1, len(ids)), np.int64),
            "token_type_ids": np.asarray([types], np.int64),
        }
        (out, *_) = self._session.run(None, {k: v for k, v in feed.items() if k in self._inputs})
        return probability(np.asarray(out, np.float64))

    def _pair(self, query: str, text: str) -> tuple[list[int], list[int]]:
        """Token ids and type ids; of the text what has room beside the query."""
        pair = self._tokenizer.encode(query, _clean(text))
        return pair.ids or [self._files.pad_id], pair.type_ids or [0]

    def _shortened(self, query: str) -> str:
        """Its first `MAX_QUERY_TOKENS` tokens, or half of what the model takes."""
        query = _clean(query)
        most = min(MAX_QUERY_TOKENS, self._files.max_tokens // 2)
        encoded = self._uncut.encode(query, add_special_tokens=False)
        return query if len(encoded.ids) <= most else query[: encoded.offsets[most - 1][1]]


def probability(logits: npt.NDArray[np.float64]) -> float:
    """Raises: ValueError, for logits that are no cross-encoder's or not finite."""
    row = logits.reshape(-1)
    if logits.ndim not in (1, 2) or row.size not in (1, 2) or not np.isfinite(row).all():
        raise ValueError(f"logits of shape {logits.shape}")
    margin = float(row[0]) if row.size == 1 else float(row[1] - row[0])
    return float(1.0 / (1.0 + np.exp(-np.clip(margin, -60.0, 60.0))))


def _clean(text: str) -> str:
    """A lone surrogate has no UTF-8, and the tokeniser would raise."""
    text = text[:MAX_CHARS]
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise BadModelFile(f"{path} is not valid JSON: {exc}; export the model again") from exc
    return tree if isinstance(tree, dict) else {}


def _load_tokenizer(files: CrossEncoderFiles) -> Any:
    loaded = tokenizer.library(files.tokenizer)
    loaded.no_padding()
    loaded.no_truncation()
    return loaded


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
