"""A model on this machine's CPU by onnxruntime: nothing is fetched, nothing is sent."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plait.domain.errors import BadModelFile, BadSettings, EmbeddingUnavailable
from plait.models import onnx_runtime, tokenizer
from plait.models.embedding.model_files import SHIPPED_MODEL, ModelFiles, own, shipped
from plait.ports import Vectors
from plait.settings import EmbeddingSettings

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
    """An `EmbeddingProvider` over one ONNX session, which several threads run at a time.

    One text a run, one thread a run. Measured with MiniLM int8 on two cores over Django's functions
    (119 tokens on average): 124 chunks a CPU second, as in batches of 256 or 512 sorted tokens (125,
    124; 1,024: 116; 2,048: 109), 214 a second of wall time with two threads where one run with two
    threads gave 76 to 88. And int8 activations are scaled over a whole batch, so a batch shifts its
    members' vectors by up to 0.02 cosine: alone, a text's vector depends on nothing but the text and
    the kind of CPU. Documents are embedded at low priority, so that a query need not wait for them.
    """

    def __init__(self, files: ModelFiles, *, threads: int) -> None:
        """Raises: BadModelFile."""
        self._files = files
        self._tokenizer = tokenizer.load(files.tokenizer)
        self._session = onnx_runtime.session(files.onnx)
        self._inputs = {i.name for i in self._session.get_inputs()}
        self._output, self._pooled = _choose_output(self._session, files)
        self._threads = max(1, threads)
        self._documents = ThreadPoolExecutor(
            self._threads, thread_name_prefix="embed-documents", initializer=_lower_priority
        )
        self._queries = ThreadPoolExecutor(1, thread_name_prefix="embed-query")
        try:
            self._dim = int(self._run("dimension").shape[0])
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
        """About 8 ms a text of 120 tokens and thread. A cancel stops after the texts under way."""
        vectors = np.empty((len(texts), self._dim), np.float32)
        prefix = self._files.document_prefix
        numbers = iter(range(len(texts)))  # shared: each thread takes the next text
        stopped = threading.Event()

        def work() -> None:
            for i in numbers:
                if stopped.is_set():
                    return
                vectors[i] = self._run(prefix + texts[i])

        loop = asyncio.get_running_loop()
        try:
            workers = [loop.run_in_executor(self._documents, work) for _ in range(self._threads)]
        except RuntimeError as exc:
            raise _closed() from exc
        try:
            await asyncio.gather(*workers)
        finally:
            stopped.set()
        return vectors

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """About 1.5 ms."""
        text = self._files.query_prefix + text
        loop = asyncio.get_running_loop()
        try:
            running = loop.run_in_executor(self._queries, self._run, text)
        except RuntimeError as exc:
            raise _closed() from exc
        return await running

    async def close(self) -> None:
        """Wait for texts under way (tens of ms), drop the rest."""
        for pool in (self._documents, self._queries):
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)

    def _run(self, text: str) -> npt.NDArray[np.float32]:
        """One text → its unit vector, shape `(dim,)`."""
        ids = np.asarray([self._encode(text)], np.int64)
        mask = np.ones_like(ids)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        out = self._session.run(
            [self._output], {k: v for k, v in feed.items() if k in self._inputs}
        )
        vector = np.asarray(out[0][0], np.float32)
        if not self._pooled:  # `(tokens, dim)`; no padding, so the mean is over every row
            vector = vector[0] if self._files.pooling == "cls" else vector.mean(axis=0)
        unit: npt.NDArray[np.float32] = vector / max(float(np.linalg.norm(vector)), 1e-12)
        return unit

    def _encode(self, text: str) -> list[int]:
        text = text[:MAX_CHARS]
        if not text.isascii():  # a lone surrogate has no UTF-8, and the tokeniser would raise
            text = text.encode("utf-8", "replace").decode("utf-8")
        # A tokenizer without special tokens makes nothing of an empty text; a graph needs one row.
        return self._tokenizer.ids(text, self._files.max_tokens) or [0]


def _closed() -> EmbeddingUnavailable:
    return EmbeddingUnavailable("the local embedding model is closed; open it again")


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
