"""A `LanguageModel` over chat completions: OpenAI's, and every server that speaks them.

What comes back is hostile input: read up to `MAX_ANSWER_BYTES` and no further, checked for its shape,
and never run. One time limit holds for a question with all its retries; after a model did not answer,
it is not called again for a while.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections.abc import Callable
from typing import Any

import httpx
import openai
from openai.types.chat import ChatCompletionMessageParam
from pydantic import BaseModel, ConfigDict, ValidationError

from plait.domain.errors import BadSettings, LanguageModelUnavailable
from plait.settings import LanguageSettings

logger = logging.getLogger(__name__)

DEFAULT_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-4o-mini"
MAX_ATTEMPTS = 3
MAX_ANSWER_BYTES = 262_144
BACKOFF_S = 0.25

# What models that think aloud put before their answer.
_THOUGHT = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
_TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore")
    content: str | None = None


class _Choice(BaseModel):
    model_config = ConfigDict(extra="ignore")
    message: _Message


class _Completion(BaseModel):
    model_config = ConfigDict(extra="ignore")
    choices: list[_Choice]


class _Wrong(Exception):
    """What came back is no chat completion."""


def open(settings: LanguageSettings) -> ChatModel:
    """Raises: BadSettings."""
    key = settings.api_key.get_secret_value()
    url = settings.base_url or DEFAULT_URL
    if not key and url == DEFAULT_URL:
        raise BadSettings(
            "`language.provider` is openai and `language.api_key` is empty; set "
            "PLAIT_LANGUAGE__API_KEY, or `language.base_url` of a server that needs none",
            key="language.api_key",
        )
    # Everything explicit: the client would fill gaps from environment variables of other programs.
    client = openai.AsyncOpenAI(
        api_key=key or "none",
        base_url=url,
        organization="",
        project="",
        timeout=settings.timeout_s,
        max_retries=0,  # retried here, inside one time limit
    )
    return ChatModel(client, settings)


class ChatModel:
    """See the module."""

    def __init__(
        self,
        client: openai.AsyncOpenAI,
        settings: LanguageSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._model = settings.model or DEFAULT_MODEL
        self._rest_refused_s = settings.rest_refused_s
        self._rest_away_s = settings.rest_away_s
        self._where = str(client.base_url).rstrip("/")
        self._clock = clock
        self._rest_until = -1.0
        self._cause = ""
        # Models differ in what they take; a refusal that names a parameter changes it for good.
        self._limit = "max_tokens"
        self._temperature = True

    @property
    def model(self) -> str:
        return self._model

    async def complete(self, system: str, user: str, *, max_tokens: int, timeout_s: float) -> str:
        if self._clock() < self._rest_until:
            raise self._unavailable(f"{self._cause} a moment ago and is left alone")
        try:
            async with asyncio.timeout(timeout_s):
                return await self._retried(system, user, max_tokens)
        except TimeoutError:
            raise self._rest(
                f"did not answer within {timeout_s:.1f} s", self._rest_away_s
            ) from None
        except openai.APIStatusError as exc:
            rest = self._rest_away_s if exc.status_code in _TRANSIENT else self._rest_refused_s
            raise self._rest(f"refused with HTTP {exc.status_code}", rest) from exc
        except openai.OpenAIError as exc:
            raise self._rest(f"does not answer ({type(exc).__name__})", self._rest_away_s) from exc
        except (httpx.HTTPError, httpx.StreamError) as exc:  # while its answer was read
            raise self._rest(f"broke off ({type(exc).__name__})", self._rest_away_s) from exc
        except _Wrong as exc:  # it answers: the next question may fare better
            raise self._unavailable(f"answered with {exc}") from exc

    async def close(self) -> None:
        await self._client.close()

    async def _retried(self, system: str, user: str, max_tokens: int) -> str:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return await self._ask(system, user, max_tokens)
            except openai.APIStatusError as exc:
                if not self._adapted(exc):
                    if attempt == MAX_ATTEMPTS or exc.status_code not in _TRANSIENT:
                        raise
                    await asyncio.sleep(_wait_s(attempt, exc.response.headers.get("retry-after")))
            except openai.APIConnectionError:
                if attempt == MAX_ATTEMPTS:
                    raise
                await asyncio.sleep(_wait_s(attempt, None))
        raise _Wrong("one refusal of a parameter after the other")

    async def _ask(self, system: str, user: str, max_tokens: int) -> str:
        messages: list[ChatCompletionMessageParam] = [
            {"role": "system", "content": system},
            {"role": "user", "content": user},
        ]
        more: dict[str, Any] = {self._limit: max_tokens}
        if self._temperature:
            more["temperature"] = 0
        asking = self._client.chat.completions.with_streaming_response.create(
            model=self._model, messages=messages, **more
        )
        raw = bytearray()
        async with asking as response:
            async for part in response.iter_bytes():
                raw += part
                if len(raw) > MAX_ANSWER_BYTES:
                    raise _Wrong(f"more than {MAX_ANSWER_BYTES:,} bytes")
        return _text(bytes(raw))

    def _adapted(self, exc: openai.APIStatusError) -> bool:
        """Whether the refusal was about a parameter that can be sent otherwise, and will be."""
        if exc.status_code not in (400, 422):
            return False
        message = exc.message[:2000]
        if self._limit == "max_tokens" and "max_completion_tokens" in message:
            self._limit = "max_completion_tokens"
            return True
        if self._temperature and "temperature" in message:
            self._temperature = False
            return True
        return False

    def _rest(self, cause: str, rest_s: float) -> LanguageModelUnavailable:
        self._cause = cause
        self._rest_until = self._clock() + rest_s
        logger.warning("language model rests", extra={"model": self._model, "cause": cause})
        return self._unavailable(cause)

    def _unavailable(self, cause: str) -> LanguageModelUnavailable:
        return LanguageModelUnavailable(
            f"{self._model} at {self._where} {cause}; check `language.base_url`, `language.model` and "
            "`language.api_key`, or switch it off by `language.provider: none`",
            model=self._model,
            provider=self._where,
        )


def _text(raw: bytes) -> str:
    """The first choice's text, without its reasoning. Raises: _Wrong."""
    try:
        completion = _Completion.model_validate_json(raw)
    except (ValidationError, UnicodeDecodeError):
        raise _Wrong("what is no chat completion") from None
    text = completion.choices[0].message.content if completion.choices else None
    text = _THOUGHT.sub("", text or "").strip()
    if not text:
        raise _Wrong("no text")
    return text


def _wait_s(attempt: int, retry_after: str | None) -> float:
    """What the server asks for, else exponential with full jitter; the caller's time limit bounds both."""
    try:
        requested_s = max(0.0, float(retry_after)) if retry_after else 0.0
    except ValueError:
        requested_s = 0.0
    return float(requested_s + random.uniform(0.0, BACKOFF_S * 2.0**attempt))  # noqa: S311 - jitter
