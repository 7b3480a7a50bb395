"""Ollama's /api/embed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx

from plait.domain.errors import EmbeddingRefused
from plait.models.embedding.remote import (
    InputTooLong,
    RemoteProvider,
    TryAgain,
    is_too_long,
    refusal,
    retry_after,
)
from plait.settings import EmbeddingSettings

DEFAULT_URL = "http://127.0.0.1:11434"
DEFAULT_MODEL = "nomic-embed-text"


async def open(settings: EmbeddingSettings) -> RemoteProvider:
    """A provider for `settings`; asks Ollama once for the model's dimension unless they name it.

    Raises: EmbeddingRefused, EmbeddingUnavailable.
    """
    url = (settings.base_url or DEFAULT_URL).rstrip("/")
    model = settings.model or DEFAULT_MODEL
    key = settings.api_key.get_secret_value()  # Ollama has none; a proxy before it may
    client = httpx.AsyncClient(
        timeout=settings.timeout_s, headers={"Authorization": f"Bearer {key}"} if key else None
    )
    body: dict[str, Any] = {"model": model, "truncate": True}
    if settings.dimension:
        body["dimensions"] = settings.dimension

    async def ask(texts: Sequence[str]) -> Sequence[Any]:
        try:
            response = await client.post(f"{url}/api/embed", json={**body, "input": list(texts)})
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as exc:
            raise EmbeddingRefused(
                f"`embedding.base_url` {url} is no HTTP address: {exc}; write it as {DEFAULT_URL}",
                provider=url,
            ) from exc
        except httpx.TransportError as exc:  # timeouts too
            raise TryAgain(f"{type(exc).__name__}: {exc}") from exc
        if response.status_code != 200:
            raise _judge(response, url, model)
        try:
            answer = response.json()
        except ValueError as exc:
            raise refusal(url, model, 200, "an answer that is not JSON") from exc
        rows = answer.get("embeddings") if isinstance(answer, dict) else None
        if not isinstance(rows, list):
            raise refusal(url, model, 200, "an answer without `embeddings`")
        return rows

    provider = RemoteProvider(
        ask,
        client.aclose,
        model=f"ollama:{model}",
        dim=settings.dimension,
        where=url,
        batch_size=settings.batch_size,
        max_attempts=settings.max_attempts,
    )
    try:
        return await provider.measure()
    except BaseException:
        await provider.close()
        raise


def _judge(response: httpx.Response, url: str, model: str) -> Exception:
    status, text = response.status_code, response.text
    if is_too_long(status, text):
        return InputTooLong(text[:300])
    if status in (408, 425, 429) or status >= 500:
        return TryAgain(f"HTTP {status}", retry_after(response.headers.get("retry-after")))
    if status == 404 and "not found" in text.lower():
        return EmbeddingRefused(
            f"Ollama at {url} has no model {model!r}; run `ollama pull {model}`",
            provider=url,
            model=model,
        )
    return refusal(url, model, status, text)
