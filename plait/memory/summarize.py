"""What writes summaries: the sentences of the sources themselves, or a model (`summary_model`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from plait.domain.errors import BadSettings
from plait.domain.memory import MemoryEntry
from plait.domain.retention import Summary
from plait.memory.extract import extract
from plait.settings import MemorySettings

DEFAULT_URL = "https://api.openai.com/v1"


class Summarizer(Protocol):
    async def summarize(self, entries: Sequence[MemoryEntry], budget_tokens: int) -> Summary:
        """`entries`, oldest first, in at most `budget_tokens` tokens. Never fails for what a model or
        network does: it then says so in `degraded`."""
        ...

    async def close(self) -> None: ...


def extractive(entries: Sequence[MemoryEntry], budget_tokens: int) -> Summary:
    return Summary(extract(entries, budget_tokens))


class Extractive:
    """The default `Summarizer`."""

    async def summarize(self, entries: Sequence[MemoryEntry], budget_tokens: int) -> Summary:
        # Some 20 ms, which other tasks need not wait for.
        return await asyncio.to_thread(extractive, entries, budget_tokens)

    async def close(self) -> None:
        return


def open_summarizer(settings: MemorySettings) -> Summarizer:
    """What `memory.summarizer` asks for. Raises: BadSettings."""
    if settings.summarizer == "extractive":
        return Extractive()
    key = settings.summary_api_key.get_secret_value()
    url = settings.summary_base_url or DEFAULT_URL
    if not key and url == DEFAULT_URL:
        raise BadSettings(
            "`memory.summarizer` is openai and `memory.summary_api_key` is empty; set "
            "PLAIT_MEMORY__SUMMARY_API_KEY, or `memory.summary_base_url` of a server that needs none",
            key="memory.summary_api_key",
        )
    # A second of imports, for those alone who asked for a model.
    import openai

    from plait.memory.summary_model import ModelSummarizer

    client = openai.AsyncOpenAI(
        api_key=key or "none",
        base_url=url,
        timeout=settings.summary_timeout_s,
        max_retries=0,  # retried here, so that it is counted once
    )
    return ModelSummarizer(settings, client)
