"""What providers across a network share: batches, retries, limits, and distrust of the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_random_exponential

from plait.domain.errors import EmbeddingRefused, EmbeddingUnavailable
from plait.ports import Vectors

logger = logging.getLogger(__name__)

# A token of a byte-level tokeniser is a byte or more, so this never passes OpenAI's 8,192 tokens.
MAX_INPUT_BYTES = 8_000
# OpenAI takes 300,000 tokens a request; bytes bound tokens.
MAX_BATCH_BYTES = 300_000
MIN_INPUT_BYTES = 256
MAX_RETRY_AFTER_S = 60.0
CONCURRENCY = 4

Ask = Callable[[Sequence[str]], Awaitable[Sequence[Any]]]
_backoff = wait_random_exponential(multiplier=0.5, max=20.0)


class TryAgain(Exception):
    """The provider may answer later. `after_s`: when it gives a time, else None."""

    def __init__(self, cause: str, after_s: float | None = None) -> None:
        super().__init__(cause)
        self.after_s = after_s


class InputTooLong(Exception):
    """The provider refused the input for its length."""


class RemoteProvider:
    """An `EmbeddingProvider` over `ask`, which makes one request and raises `TryAgain`,
    `InputTooLong` or `EmbeddingRefused`."""

    def __init__(
        self,
        ask: Ask,
        aclose: Callable[[], Awaitable[None]],
        *,
        model: str,
        dim: int,
        where: str,
        batch_size: int,
        max_attempts: int,
    ) -> None:
        self._ask = ask
        self._aclose = aclose
        self._model = model
        self._dim = dim
        self._where = where
        self._batch_size = batch_size
        self._max_attempts = max_attempts
        self._limit = MAX_INPUT_BYTES
        self._slots = asyncio.Semaphore(CONCURRENCY)

    @property
    def model(self) -> str:
        return self._model

    @property
    def dim(self) -> int:
        return self._dim

    async def measure(self) -> RemoteProvider:
        """Ask the model for its dimension when it is unknown. Raises as `embed_documents`."""
        if self._dim == 0:
            rows = await self._retried(["dimension"])
            self._dim = len(rows[0]) if len(rows) == 1 else 0
            if self._dim == 0:
                raise self._wrong(f"{len(rows)} vectors for 1 text")
        return self

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        vectors = np.empty((len(texts), self._dim), np.float32)

        async def fill(start: int, stop: int) -> None:
            async with self._slots:
                vectors[start:stop] = await self._embed(texts[start:stop])

        tasks = [asyncio.create_task(fill(a, b)) for a, b in self._batches(texts)]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return vectors

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        vector: npt.NDArray[np.float32] = (await self._embed([text]))[0]
        return vector

    async def close(self) -> None:
        await self._aclose()

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[int, int]]:
        start = size = 0
        for i, text in enumerate(texts):
            cost = min(len(text) * 4, self._limit)
            if i > start and (i - start >= self._batch_size or size + cost > MAX_BATCH_BYTES):
                yield start, i
                start, size = i, 0
            size += cost
        if start < len(texts):
            yield start, len(texts)

    async def _embed(self, texts: Sequence[str]) -> Vectors:
        while True:
            limit = self._limit
            try:
                rows = await self._retried([cut(text, limit) for text in texts])
                break
            except InputTooLong as exc:
                # Say which limit works only by trying: providers word it in a hundred ways.
                if limit <= MIN_INPUT_BYTES:
                    raise EmbeddingRefused(
                        f"{self._where} refuses texts of {limit} bytes as too long: {exc}; "
                        "choose a model with a longer context in `embedding.model`",
                        provider=self._where,
                        bytes=limit,
                    ) from exc
                self._limit = min(self._limit, max(MIN_INPUT_BYTES, limit // 2))
                logger.warning(
                    "embedding input cut", extra={"provider": self._where, "bytes": self._limit}
                )
        return self._checked(rows, len(texts))

    async def _retried(self, texts: Sequence[str]) -> Sequence[Any]:
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._max_attempts),
            wait=_wait,
            retry=retry_if_exception_type(TryAgain),
            reraise=True,
        )
        try:
            return await retrying(self._ask, texts)
        except TryAgain as exc:
            raise EmbeddingUnavailable(
                f"the embedding provider at {self._where} did not answer in {self._max_attempts} attempts: "
                f"{exc}; check that it runs and `embedding.base_url`, then run again: finished work is kept",
                provider=self._where,
                attempts=self._max_attempts,
            ) from exc

    def _checked(self, rows: Sequence[Any], n: int) -> Vectors:
        """Rows → unit vectors `(n, dim)`. Raises: EmbeddingRefused, for anything else."""
        try:
            vectors = np.asarray(rows, np.float32)
        except (TypeError, ValueError) as exc:
            raise self._wrong("rows that are not vectors of numbers of one length") from exc
        if n == 0:
            return np.empty((0, self._dim), np.float32)
        if vectors.ndim != 2 or len(vectors) != n:
            raise self._wrong(f"{len(rows)} vectors for {n} texts")
        if vectors.shape[1] != self._dim:
            raise EmbeddingRefused(
                f"{self._model} at {self._where} gave {vectors.shape[1]}-d vectors where {self._dim}-d were "
                f"expected; set `embedding.dimension` to {vectors.shape[1]}, or to 0 for the model's own",
                provider=self._where,
                expected=self._dim,
                actual=vectors.shape[1],
            )
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(vectors).all() or not norms.all():
            raise self._wrong("vectors that are zero or not finite")
        unit: Vectors = vectors / norms
        return unit

    def _wrong(self, what: str) -> EmbeddingRefused:
        return EmbeddingRefused(
            f"{self._model} at {self._where} answered with {what}; it is no embedding model, "
            "or `embedding.base_url` points at another API",
            provider=self._where,
            model=self._model,
        )


def cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, never half a character; an empty text becomes a space, which
    providers refuse less often."""
    raw = text[:limit].encode("utf-8", "replace")
    return (raw if len(raw) <= limit else raw[:limit]).decode("utf-8", "ignore") or " "


def retry_after(value: str | None) -> float | None:
    """Seconds of a `Retry-After` header that holds a number; None for a date or nonsense."""
    try:
        return max(0.0, float(value)) if value else None
    except ValueError:
        return None


def refusal(where: str, model: str, status: int, text: str) -> EmbeddingRefused:
    """A permanent HTTP refusal, with the setting to look at."""
    fix = {
        401: "check `embedding.api_key`",
        403: "check that the key in `embedding.api_key` may use this model",
        404: f"check `embedding.model` ({model}) and `embedding.base_url`",
        429: "the quota is used up: check the plan and billing of the account",
    }.get(
        status, f"check `embedding.model` ({model}), `embedding.dimension` and `embedding.base_url`"
    )
    return EmbeddingRefused(
        f"{where} refused with HTTP {status}: {text[:300]}; {fix}",
        provider=where,
        status=status,
        model=model,
    )


def is_too_long(status: int, text: str) -> bool:
    """Whether a refusal is about the input's length, as OpenAI, vLLM, TEI, llama.cpp and Ollama word it."""
    if status not in (400, 413, 422, 500):
        return False
    low = text.lower()
    marks = (
        "context length",
        "maximum context",
        "too long",
        "too large",
        "token limit",
        "max_tokens",
    )
    return status == 413 or any(mark in low for mark in marks)


def _wait(state: RetryCallState) -> float:
    """What the provider asked for, at most a minute, plus jitter; else exponential with full jitter."""
    failure = state.outcome.exception() if state.outcome else None
    jittered = _backoff(state)
    if isinstance(failure, TryAgain) and failure.after_s is not None:
        return min(failure.after_s, MAX_RETRY_AFTER_S) + min(jittered, 0.5)
    return jittered
