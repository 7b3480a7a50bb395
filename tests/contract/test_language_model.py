"""The chat model over HTTP: it answers, adapts, is retried in one time limit, fails, lies, and rests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from plait.domain.errors import BadSettings, LanguageModelUnavailable
from plait.models.language import open_model, wants_model
from plait.ports import LanguageModel
from plait.settings import LanguageSettings, parse
from tests.chat_server import ChatServer, refused, said
from tests.processes import LIMIT_S


@pytest.fixture
def server() -> Iterator[ChatServer]:
    running = ChatServer()
    yield running
    running.close()


@pytest.fixture
async def model(server: ChatServer) -> AsyncIterator[LanguageModel]:
    opened = await open_model(settings(server.url))
    yield opened
    await opened.close()


def settings(url: str, **changes: Any) -> LanguageSettings:
    given = {"provider": "openai", "model": "m", "base_url": url, "api_key": "key-1"}
    # Who is left alone is so for as long as a test takes.
    given |= {"rest_refused_s": str(2 * LIMIT_S), "rest_away_s": str(2 * LIMIT_S)}
    return parse(LanguageSettings, {**given, **changes})


async def ask(model: LanguageModel, timeout_s: float = LIMIT_S) -> str:
    return await model.complete("system", "user", max_tokens=50, timeout_s=timeout_s)


async def test_an_answer_is_its_text(model: LanguageModel, server: ChatServer) -> None:
    assert await ask(model) == "hello"
    (sent,) = server.requests
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("m", 50, 0)
    assert [m["content"] for m in sent["messages"]] == ["system", "user"]
    assert server.headers[0]["authorization"] == "Bearer key-1"


async def test_what_is_thought_aloud_is_no_part_of_the_answer(
    model: LanguageModel, server: ChatServer
) -> None:
    server.says(said("<think>\nthe user wants {}\n</think>\n\n{}"))
    assert await ask(model) == "{}"


async def test_what_passes_is_tried_again(model: LanguageModel, server: ChatServer) -> None:
    server.says(refused(503), refused(429), said("late"))
    assert await ask(model) == "late"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("complaint", "gone", "there"),
    [
        ("Unsupported parameter: use max_completion_tokens", "max_tokens", "max_completion_tokens"),
        ("temperature does not support 0 with this model", "temperature", "max_tokens"),
    ],
)
async def test_a_parameter_that_a_model_refuses_is_sent_otherwise_from_then_on(
    model: LanguageModel, server: ChatServer, complaint: str, gone: str, there: str
) -> None:
    server.says(refused(400, complaint), said("now"))
    assert await ask(model) == "now"
    assert await ask(model) == "now"
    assert len(server.requests) == 3
    assert all(gone not in sent and there in sent for sent in server.requests[1:])


async def test_a_refusal_is_named_and_not_asked_again_for_a_while(
    model: LanguageModel, server: ChatServer
) -> None:
    server.says(refused(401))
    for told in ("refused with HTTP 401", "left alone", "left alone"):
        with pytest.raises(LanguageModelUnavailable, match=told):
            await ask(model)
    assert len(server.requests) == 1


async def test_time_is_one_limit_for_all_tries(model: LanguageModel, server: ChatServer) -> None:
    def wait(_: dict[str, Any]) -> tuple[int, bytes]:
        server.release.wait(LIMIT_S)
        return said("too late")

    server.answers = [lambda _: refused(503), wait]
    with pytest.raises(LanguageModelUnavailable, match=r"did not answer within 0\.8 s"):
        await ask(model, timeout_s=0.8)
    with pytest.raises(LanguageModelUnavailable, match="left alone"):
        await ask(model, timeout_s=0.8)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((200, b"<html>not this API</html>"), "no chat completion"),
        ((200, b'{"choices": []}'), "no text"),
        ((200, b'{"choices": [{"message": {"content": null}}]}'), "no text"),
        ((200, b'{"choices": [{"message": {"content": 7}}]}'), "no chat completion"),
        ((200, b"\xff\xfe"), "no chat completion"),
        ((200, b"[" * 100_000), "no chat completion"),
        (said("x" * 300_000), "more than 262,144 bytes"),
        (said("<think>for ever"), "no text"),
    ],
)
async def test_what_is_no_answer_is_an_error_and_the_next_one_counts(
    model: LanguageModel, server: ChatServer, answer: tuple[int, bytes], told: str
) -> None:
    server.says(answer, said("well"))
    with pytest.raises(LanguageModelUnavailable, match=told):
        await ask(model)
    assert await ask(model) == "well"


async def test_a_server_that_is_not_there_is_named(server: ChatServer) -> None:
    gone = await open_model(settings("http://127.0.0.1:9/v1"))
    with pytest.raises(LanguageModelUnavailable, match=r"127\.0\.0\.1:9/v1 does not answer"):
        await ask(gone)
    await gone.close()


async def test_a_key_is_asked_for_where_one_is_needed() -> None:
    with pytest.raises(BadSettings, match=r"language\.api_key"):
        await open_model(LanguageSettings(provider="openai"))
    assert not wants_model(LanguageSettings())
