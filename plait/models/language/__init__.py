"""The language ports' adapters: a chat model behind an OpenAI-compatible API, a local cross-encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plait.ports import LanguageModel, Reranker
    from plait.settings import LanguageSettings, RerankSettings


def wants_model(settings: LanguageSettings) -> bool:
    return settings.provider != "none"


def wants_reranker(settings: RerankSettings) -> bool:
    return bool(settings.model_dir)


async def open_model(settings: LanguageSettings) -> LanguageModel:
    """The chat model that `settings` names; it is not called yet. Close it when done.

    Raises: BadSettings.
    """
    # Imports inside: the client costs a command line half a second.
    from plait.models.language import chat

    return chat.open(settings)


async def open_reranker(settings: RerankSettings) -> Reranker:
    """The cross-encoder in `rerank.model_dir`, loaded off the event loop. Close it when done.

    Raises: BadModelFile, BadSettings.
    """
    from plait.models.language import cross_encoder

    return await cross_encoder.open(settings)
