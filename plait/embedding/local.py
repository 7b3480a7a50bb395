"""A model on this machine's CPU: onnxruntime and tokenizers, nothing fetched, nothing sent."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from tokenizers import Tokenizer

from plait.domain.errors import BadModelFile, BadSettings, EmbeddingUnavailable
from plait.embedding.model_files import SHIPPED_MODEL, ModelFiles, own, shipped
from plait.ports import Vectors
from plait.settings import EmbeddingSettings

# Measured on two cores with Django's functions (119 tokens on average), chunks a CPU second:
# batches of 256 tokens 126, 512 119, 1024 115, 2048 102 (more padding, worse cache use); and two
# sessions' runs side by side with one thread each 110 where one run with two threads did 76 to 88.
BATCH_TOKENS = 512
# No model reads more than a few thousand characters; this bounds the tokeniser's work on a long text.
MAX_CHARS = 16_384
_POOLED = ("embedding", "sentence_embedding")
_PER_TOKEN = ("last_hidden_state", "token_embeddings")


async def open(settings: EmbeddingSettings) -> LocalProvider:
    """Load the model that `settings` names, off the event loop.

    Raises: BadModelFile, BadSettings.
    """
    return await asyncio.to_thread(load, settings)


def load(settings: EmbeddingSettings) -> LocalProvider:
    """As `open`, blocking."""
    if not settings.model_dir and settings.model not in ("", SHIPPED_MODEL):
        raise BadSettings(
            f"`embedding.model` is {settings.model!r}, but the local provider ships {SHIPPED_MODEL} alone; "
            "leave it empty, or set `embedding.model_dir` to that model's ONNX folder",
            key="embedding.model",
            model=settings.model,
        )
    files = own(Path(settings.model_dir)) if settings.model_dir else shipped()
    provider = LocalProvider(files, threads=settings.threads or _cores())
    if settings.dimension not in (0, provider.dim):
        raise BadSettings(
            f"`embedding.dimension` is {settings.dimension}, but {provider.model} makes "
            f"{provider.dim}-d vectors; set it to 0 or {provider.dim}",
            key="embedding.dimension",
            dimension=settings.dimension,
            model_dimension=provider.dim,
        )
    return provider


class LocalProvider:
    """An `EmbeddingProvider` over one ONNX session, which several threads may run at a time.

    A vector shifts by up to 0.01 cosine with its batch and the CPU: int8 activations are scaled over
    the whole batch. Documents are embedded at low priority, so that a query need not wait for them.
    """

    def __init__(self, files: ModelFiles, *, threads: int) -> None:
        """Raises: BadModelFile."""
        self._files = files
        self._tokenizer = _load_tokenizer(files)
        self._pad = int((self._tokenizer.padding or {}).get("pad_id", 0))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(files.max_tokens)
        self._session = _load_session(files)
        self._inputs = {i.name for i in self._session.get_inputs()}
        self._output, self._pooled = _choose_output(self._session, files)
        self._threads = max(1, threads)
        self._documents = ThreadPoolExecutor(
            self._threads, thread_name_prefix="embed-documents", initializer=_lower_priority
        )
        self._queries = ThreadPoolExecutor(1, thread_name_prefix="embed-query")
        try:
            self._dim = int(self._run([self._encode("dimension")]).shape[1])
        except Exception as exc:  # onnxruntime raises its own, undocumented ones
            raise BadModelFile(
                f"{files.onnx} loads but does not run: {exc}; it must take input_ids and attention_mask "
                f"and give one of {', '.join((*_POOLED, *_PER_TOKEN))}",
                file=files.onnx,
            ) from exc

    @property
    def model(self) -> str:
        return self._files.id

    @property
    def dim(self) -> int:
        return self._dim

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Pass hundreds at a time: batches are cut from the whole, sorted by length."""
        vectors = np.empty((len(texts), self._dim), np.float32)
        if not texts:
            return vectors
        prefix = self._files.document_prefix
        tokens: list[list[int]] = [[] for _ in texts]

        def encode(start: int) -> None:
            for i in range(start, len(texts), self._threads):
                tokens[i] = self._encode(prefix + texts[i])

        def embed(batch: Sequence[int]) -> None:
            vectors[list(batch)] = self._run([tokens[i] for i in batch])

        await self._spread(encode, range(self._threads))
        await self._spread(embed, batches([len(t) for t in tokens]))
        return vectors

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """About 1.5 ms."""
        text = self._files.query_prefix + text
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._queries, lambda: self._run([self._encode(text)])[0])

    async def close(self) -> None:
        """Wait for batches under way (tens of ms), drop the rest."""
        for pool in (self._documents, self._queries):
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)

    async def _spread(self, work: Any, parts: Any) -> None:
        """Run `work` on each part over the documents' threads; on an error or a cancel, drop the rest."""
        loop = asyncio.get_running_loop()
        try:
            futures = [loop.run_in_executor(self._documents, work, part) for part in parts]
        except RuntimeError as exc:  # "cannot schedule new futures after shutdown"
            raise EmbeddingUnavailable(
                "the local embedding model is closed; open it again"
            ) from exc
        try:
            await asyncio.gather(*futures)
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def _encode(self, text: str) -> list[int]:
        text = text[:MAX_CHARS]
        if not text.isascii():  # a lone surrogate has no UTF-8, and the tokeniser would raise
            text = text.encode("utf-8", "replace").decode("utf-8")
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def _run(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """Token rows → unit vectors, shape `(len(rows), dim)`."""
        shape = (len(rows), max(1, max(map(len, rows))))
        ids = np.full(shape, self._pad, np.int64)
        mask = np.zeros(shape, np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        out = self._session.run(
            [self._output], {k: v for k, v in feed.items() if k in self._inputs}
        )
        vectors = np.asarray(out[0], np.float32)
        if not self._pooled:
            vectors = _pool(vectors, mask, self._files.pooling)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        result: Vectors = vectors / np.maximum(norms, 1e-12)
        return result


def batches(lengths: Sequence[int], tokens: int = BATCH_TOKENS) -> Iterator[list[int]]:
    """Cut `range(len(lengths))` into batches of at most `tokens` padded tokens, longest text first
    (one text at least). Sorting keeps padding, which costs as much as text, under a few per cent."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if batch and (len(batch) + 1) * lengths[batch[0]] > tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _pool(hidden: Vectors, mask: npt.NDArray[np.int64], pooling: str) -> Vectors:
    """`(n, tokens, dim)` → `(n, dim)`."""
    if pooling == "cls":
        return hidden[:, 0]
    weights = mask[:, :, None].astype(np.float32)
    pooled: Vectors = (hidden * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1.0)
    return pooled


def _load_tokenizer(files: ModelFiles) -> Any:
    try:
        return Tokenizer.from_file(str(files.tokenizer))
    except Exception as exc:  # tokenizers raises bare Exception
        raise BadModelFile(
            f"{files.tokenizer} is not a tokenizer of the `tokenizers` library: {exc}; "
            "export the model again",
            file=files.tokenizer,
        ) from exc


def _load_session(files: ModelFiles) -> Any:
    options = ort.SessionOptions()
    # One thread a run, runs side by side: see BATCH_TOKENS.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(str(files.onnx), options, providers=["CPUExecutionProvider"])
    except Exception as exc:  # onnxruntime raises its own, undocumented ones
        raise BadModelFile(
            f"onnxruntime cannot load {files.onnx}: {exc}; export the model again", file=files.onnx
        ) from exc


def _choose_output(session: Any, files: ModelFiles) -> tuple[str, bool]:
    """`(output, is it pooled already)`."""
    names = {o.name for o in session.get_outputs()}
    for name in (*_POOLED, *_PER_TOKEN):
        if name in names:
            return name, name in _POOLED
    raise BadModelFile(
        f"{files.onnx} gives {', '.join(sorted(names))}, none of which is a text embedding; "
        f"export it with one of {', '.join((*_POOLED, *_PER_TOKEN))}",
        file=files.onnx,
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _lower_priority() -> None:
    if sys.platform == "linux":  # elsewhere a thread has no priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
