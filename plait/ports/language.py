"""Models that read and write text: optional, remote or local, never needed by `fast`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class LanguageModel(Protocol):
    """A chat model. Its answers are hostile input: bounded, checked, never executed."""

    @property
    def model(self) -> str: ...

    async def complete(self, system: str, user: str, *, max_tokens: int, timeout_s: float) -> str:
        """The answer's text. Raises: LanguageModelUnavailable, after retries inside `timeout_s`."""
        ...

    async def close(self) -> None: ...


class Reranker(Protocol):
    """A cross-encoder: reads the query and a text together."""

    @property
    def model(self) -> str: ...

    async def score(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Relevance of each text, larger is better, in [0, 1]; as many as were scored in time, in order.

        Raises: LanguageModelUnavailable, BadModelFile.
        """
        ...

    async def close(self) -> None: ...
