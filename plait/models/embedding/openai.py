"""OpenAI's embeddings API, and every server that speaks it (vLLM, TEI, llama.cpp, LM Studio, …)."""

from __future__ import annotations

from collections.abc import Sequence

import openai

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

DEFAULT_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "text-embedding-3-small"
# Published dimensions; any other model is asked once at opening.
KNOWN_DIMS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


async def open(settings: EmbeddingSettings) -> RemoteProvider:
    """A provider for `settings`; asks the server only for an unknown model's dimension.

    Raises: EmbeddingRefused, EmbeddingUnavailable.
    """
    url = settings.base_url or DEFAULT_URL
    model = settings.model or DEFAULT_MODEL
    key = settings.api_key.get_secret_value()
    if not key and not settings.base_url:
        raise EmbeddingRefused(
            f"{DEFAULT_URL} needs a key; set `embedding.api_key` "
            "(PLAIT_EMBEDDING__API_KEY in the environment), or `embedding.base_url` for a server of your own",
            provider=DEFAULT_URL,
        )
    # Everything explicit: the client would fill gaps from environment variables of other programs.
    client = openai.AsyncOpenAI(
        api_key=key or "none",
        base_url=url,
        organization="",
        project="",
        timeout=settings.timeout_s,
        max_retries=0,  # retried in RemoteProvider, with one rule for every provider
    )
    dimensions = settings.dimension or openai.omit

    async def ask(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        try:
            answer = await client.embeddings.create(
                model=model, input=list(texts), dimensions=dimensions
            )
        except openai.APIConnectionError as exc:  # timeouts too
            raise TryAgain(f"{exc} ({exc.__cause__ or 'no answer'})") from exc
        except openai.APIStatusError as exc:
            raise _judge(exc, url, model) from exc
        except (openai.APIError, ValueError, TypeError, AttributeError) as exc:
            # What the client could not read as an answer of this API.
            raise EmbeddingRefused(
                f"{url} did not answer as an embeddings API: {str(exc)[:300]}; check `embedding.base_url`",
                provider=url,
            ) from exc
        # The API numbers its rows; no promise says that they come in order.
        return [row.embedding for row in sorted(answer.data or (), key=lambda row: row.index)]

    provider = RemoteProvider(
        ask,
        client.close,
        model=f"openai:{model}",
        dim=settings.dimension or KNOWN_DIMS.get(model, 0),
        where=url,
        batch_size=settings.batch_size,
        max_attempts=settings.max_attempts,
    )
    try:
        return await provider.measure()
    except BaseException:
        await provider.close()
        raise


def _judge(exc: openai.APIStatusError, url: str, model: str) -> Exception:
    status, text = exc.status_code, exc.message
    if is_too_long(status, text):
        return InputTooLong(text[:300])
    quota = status == 429 and exc.code == "insufficient_quota"
    if status in (408, 409, 425) or (status == 429 and not quota) or status >= 500:
        return TryAgain(f"HTTP {status}", retry_after(exc.response.headers.get("retry-after")))
    return refusal(url, model, status, text)
