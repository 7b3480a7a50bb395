"""The embedding provider port's adapters: local, OpenAI-compatible, Ollama; and the query cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plait.ports import EmbeddingProvider
    from plait.settings import EmbeddingSettings


async def open(settings: EmbeddingSettings) -> EmbeddingProvider:
    """The provider that `settings` names, with hot queries cached. Close it when done.

    The local model takes about 0.2 s to load, off the event loop. A remote provider is asked only
    for what the settings leave out (the dimension of a model Plait does not know).

    Raises:
        BadModelFile: a local model's file is missing, broken, or not the one Plait shipped.
        BadSettings: the section contradicts itself.
        EmbeddingRefused, EmbeddingUnavailable: a remote provider, asked for its dimension.
    """
    provider = await _open(settings)
    if settings.cache_size == 0 or settings.cache_ttl_s == 0:
        return provider
    from plait.models.embedding.cache import CachedProvider

    return CachedProvider(provider, size=settings.cache_size, ttl_s=settings.cache_ttl_s)


def identity(settings: EmbeddingSettings) -> tuple[str, int] | None:
    """`(id, dimension)` of the model that `settings` names, where it is known without loading it: the
    shipped one's. None: open it to know."""
    from plait.models.embedding.model_files import SHIPPED_DIM, SHIPPED_ID, SHIPPED_MODEL

    shipped = settings.provider == "local" and not settings.model_dir
    if not shipped or settings.model not in ("", SHIPPED_MODEL):
        return None
    return (SHIPPED_ID, SHIPPED_DIM) if settings.dimension in (0, SHIPPED_DIM) else None


async def _open(settings: EmbeddingSettings) -> EmbeddingProvider:
    # Imports inside: each adapter brings a library that costs a command line 50 to 600 ms.
    match settings.provider:
        case "local":
            from plait.models.embedding import local

            return await local.open(settings)
        case "openai":
            from plait.models.embedding import openai

            return await openai.open(settings)
        case "ollama":
            from plait.models.embedding import ollama

            return await ollama.open(settings)
