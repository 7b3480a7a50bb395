"""The promises of `EmbeddingProvider` on every adapter, and how remote ones meet trouble.

Remote adapters speak to a real HTTP server on the loopback that hashes words into vectors, so that
equal texts get equal vectors, and that can be told to answer badly.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plait.domain.errors import EmbeddingRefused, EmbeddingUnavailable
from plait.models import embedding
from plait.models.embedding.remote import MAX_INPUT_BYTES
from plait.ports import EmbeddingProvider
from plait.settings import EmbeddingSettings, parse
from tests.chat_server import HttpServer, body_of
from tests.processes import LIMIT_S

DIM = 24
Reply = tuple[int, dict[str, str], Any]  # status, headers, body: JSON, or bytes as they are


def vector(text: str, dim: int) -> list[float]:
    """A bag of hashed words: not of unit length, never zero."""
    out = np.full(dim, 0.01)
    for word in text.split():
        out[int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest()) % dim] += 1.0
    return [float(x) for x in out]


class Server:
    """Speaks /v1/embeddings and /api/embed. `trouble` holds replies to give first, one a request."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.trouble: list[Reply | Callable[[dict[str, Any]], Reply | None]] = []
        self.delay_s = 0.0
        self.max_bytes = 10**9
        self.release = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = body_of(self)
                status, headers, answer = outer.answer(
                    self.path, body, {k.lower(): v for k, v in self.headers.items()}
                )
                raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    for key, value in {"Content-Type": "application/json", **headers}.items():
                        self.send_header(key, value)
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)
                except OSError:
                    pass  # the client gave up, as some tests mean it to

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = HttpServer(Handler)

    @property
    def url(self) -> str:
        return self.http.url

    def answer(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        self.requests.append((path, body, headers))
        if self.delay_s:
            self.release.wait(self.delay_s)
        if self.trouble:
            trouble = self.trouble.pop(0)
            reply = trouble(body) if callable(trouble) else trouble
            if reply is not None:
                return reply
        texts = body["input"]
        if max(len(t.encode()) for t in texts) > self.max_bytes:
            return 400, {}, {"error": {"message": "maximum context length is 512 tokens"}}
        rows = [vector(t, body.get("dimensions") or DIM) for t in texts]
        if path == "/api/embed":
            return 200, {}, {"model": body["model"], "embeddings": rows}
        if body.get("encoding_format") == "base64":
            encoded: list[Any] = [
                base64.b64encode(np.asarray(r, np.float32).tobytes()).decode() for r in rows
            ]
        else:
            encoded = list(rows)
        data = [{"object": "embedding", "index": i, "embedding": e} for i, e in enumerate(encoded)]
        data.reverse()  # the API promises an index, not an order
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return 200, {}, {"object": "list", "model": body["model"], "data": data, "usage": usage}

    def close(self) -> None:
        self.release.set()
        self.http.close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def remote(kind: str, server: Server, **changes: Any) -> EmbeddingSettings:
    url = server.url + ("/v1" if kind == "openai" else "")
    given = {
        "provider": kind,
        "base_url": url,
        "model": "m",
        "api_key": "k",
        "cache_size": 0,
        "timeout_s": LIMIT_S,
    }
    return parse(EmbeddingSettings, {**given, **changes})


@pytest.fixture(params=["openai", "ollama"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["local", "openai", "ollama"])
async def provider(
    request: pytest.FixtureRequest, server: Server
) -> AsyncIterator[EmbeddingProvider]:
    name = str(request.param)
    settings = EmbeddingSettings(cache_size=0) if name == "local" else remote(name, server)
    opened = await embedding.open(settings)
    yield opened
    await opened.close()


# -- the port's promises --------------------------------------------------------------------------


async def test_documents_become_unit_rows_in_their_order(provider: EmbeddingProvider) -> None:
    texts = ["open the file", "", "close the socket " * 300, "x", "open the file"]
    vectors = await provider.embed_documents(texts)
    assert vectors.shape == (5, provider.dim)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5), abs=1e-3)
    alone = await provider.embed_query("x")
    assert alone.shape == (provider.dim,)
    assert float(vectors[3] @ alone) > 0.999
    assert int(np.argmax(vectors @ alone)) == 3


async def test_no_texts_give_no_rows(provider: EmbeddingProvider) -> None:
    assert (await provider.embed_documents([])).shape == (0, provider.dim)


async def test_a_text_is_nearest_to_its_equal(provider: EmbeddingProvider) -> None:
    texts = [f"function number {i} reads the {w}" for i, w in enumerate("abcdefghij" * 30)]
    vectors = await provider.embed_documents(texts)
    query = await provider.embed_query(texts[123])
    assert float(vectors[123] @ query) == pytest.approx(float((vectors @ query).max()), abs=0.01)


@pytest.mark.parametrize(
    "odd", ["\ud800 half a character", "nul \x00 byte", "日本語 🎉", " ", "\u202e"]
)
async def test_odd_texts_are_embedded(provider: EmbeddingProvider, odd: str) -> None:
    assert np.isfinite(await provider.embed_query(odd)).all()


async def test_concurrent_calls_do_not_mix(provider: EmbeddingProvider) -> None:
    texts = [f"text {i} about {'snow' if i % 2 else 'engines'}" for i in range(12)]
    many = await asyncio.gather(*(provider.embed_documents([t, "other"]) for t in texts))
    for text, vectors in zip(texts, many, strict=True):
        assert float(vectors[0] @ await provider.embed_query(text)) > 0.999


# -- remote adapters ------------------------------------------------------------------------------


async def test_the_model_tells_its_dimension(kind: str, server: Server) -> None:
    provider = await embedding.open(remote(kind, server))
    assert provider.dim == DIM
    assert provider.model == f"{kind}:m"
    await provider.close()


async def test_a_dimension_in_the_settings_is_asked_for(kind: str, server: Server) -> None:
    provider = await embedding.open(remote(kind, server, dimension=8))
    assert server.requests == []
    assert (await provider.embed_query("a")).shape == (8,)
    assert server.requests[0][1]["dimensions"] == 8
    await provider.close()


async def test_batches_are_no_larger_than_set(kind: str, server: Server) -> None:
    provider = await embedding.open(remote(kind, server, batch_size=10, dimension=8))
    vectors = await provider.embed_documents([f"t{i}" for i in range(25)])
    assert sorted(len(body["input"]) for _, body, _ in server.requests) == [5, 10, 10]
    assert float(vectors[24] @ await provider.embed_query("t24")) == pytest.approx(1.0, abs=1e-5)
    await provider.close()


async def test_the_key_is_sent(kind: str, server: Server) -> None:
    provider = await embedding.open(remote(kind, server, api_key="s3cret"))
    assert server.requests[0][2]["authorization"] == "Bearer s3cret"
    await provider.close()


async def test_inputs_are_cut_to_what_every_model_takes(kind: str, server: Server) -> None:
    provider = await embedding.open(remote(kind, server, dimension=8))
    await provider.embed_query("ä" * 50_000)
    (sent,) = server.requests[0][1]["input"]
    assert len(sent.encode()) == MAX_INPUT_BYTES
    await provider.close()


async def test_a_model_with_a_short_context_gets_shorter_inputs(kind: str, server: Server) -> None:
    server.max_bytes = 1500
    provider = await embedding.open(remote(kind, server))
    assert (await provider.embed_documents(["word " * 2000, "b"])).shape == (2, DIM)
    server.requests.clear()
    await provider.embed_query("word " * 2000)
    assert len(server.requests) == 1, "the limit is remembered"
    server.max_bytes = 10
    with pytest.raises(EmbeddingRefused, match="longer context"):
        await provider.embed_query("word " * 2000)
    await provider.close()


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_passing_trouble_is_retried(kind: str, server: Server, status: int) -> None:
    provider = await embedding.open(remote(kind, server))
    server.trouble = [(status, {"Retry-After": "0"}, {"error": {"message": "busy"}})] * 2
    assert (await provider.embed_query("a")).shape == (DIM,)
    assert len(server.requests) == 1 + 3
    await provider.close()


async def test_retry_after_is_waited_for(
    kind: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = await embedding.open(remote(kind, server))
    waits: list[float] = []
    real = asyncio.sleep
    # What others do on the session's loop sleeps as it did.
    mine = ContextVar("mine", default=False)
    mine.set(True)

    async def sleep(seconds: float) -> None:
        if mine.get():
            waits.append(seconds)
        await real(0 if mine.get() else seconds)

    monkeypatch.setattr("asyncio.sleep", sleep)
    server.trouble = [(429, {"Retry-After": "7"}, {}), (429, {"Retry-After": "9999"}, {})]
    await provider.embed_query("a")
    told = [w for w in waits if w >= 1]
    assert 7.0 <= told[0] <= 7.5
    assert 60.0 <= told[1] <= 60.5, "a provider can't park us for hours"
    await provider.close()


async def test_lasting_trouble_is_named(kind: str, server: Server) -> None:
    provider = await embedding.open(remote(kind, server, max_attempts=2))
    server.trouble = [(503, {"Retry-After": "0"}, {})] * 2
    with pytest.raises(EmbeddingUnavailable, match=r"2 attempts.*503") as caught:
        await provider.embed_documents(["a"])
    assert server.url in caught.value.metadata["provider"]
    await provider.close()


async def test_a_slow_provider_is_given_up(kind: str, server: Server) -> None:
    provider = await embedding.open(
        remote(kind, server, timeout_s=0.05, max_attempts=1, dimension=8)
    )
    server.delay_s = LIMIT_S
    with pytest.raises(EmbeddingUnavailable):
        await provider.embed_query("a")
    server.release.set()
    await provider.close()


async def test_nobody_listening_is_unavailable(kind: str, server: Server) -> None:
    settings = remote(kind, server, max_attempts=1, base_url="http://127.0.0.1:9/v1")
    with pytest.raises(EmbeddingUnavailable, match="base_url"):
        await embedding.open(settings)


@pytest.mark.parametrize(
    ("status", "fix"), [(401, "api_key"), (403, "api_key"), (404, "model"), (400, "model")]
)
async def test_refusals_name_the_setting(kind: str, server: Server, status: int, fix: str) -> None:
    server.trouble = [(status, {}, {"error": {"message": "no"}})]
    with pytest.raises(EmbeddingRefused, match=fix):
        await embedding.open(remote(kind, server, api_key="s3cret"))
    assert len(server.requests) == 1, "no retry"


async def test_a_spent_quota_is_not_retried(server: Server) -> None:
    body = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    server.trouble = [(429, {}, body)]
    with pytest.raises(EmbeddingRefused, match="quota"):
        await embedding.open(remote("openai", server))


async def test_openai_itself_needs_a_key() -> None:
    with pytest.raises(EmbeddingRefused, match="api_key"):
        await embedding.open(EmbeddingSettings(provider="openai"))


async def test_a_model_that_is_not_pulled_names_the_command(server: Server) -> None:
    server.trouble = [(404, {}, {"error": 'model "m" not found, try pulling it first'})]
    with pytest.raises(EmbeddingRefused, match="ollama pull m"):
        await embedding.open(remote("ollama", server))


def _rows(kind: str, rows: list[Any]) -> Any:
    if kind == "ollama":
        return {"embeddings": rows}
    data = [{"object": "embedding", "index": i, "embedding": r} for i, r in enumerate(rows)]
    return {"object": "list", "model": "m", "data": data}


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([[1.0] * 5], id="another dimension"),
        pytest.param([], id="no row"),
        pytest.param([[1.0] * DIM] * 2, id="a row too many"),
        pytest.param([[0.0] * DIM], id="zero"),
        pytest.param([[float("nan")] * DIM], id="not finite"),
        pytest.param([["a"] * DIM], id="no numbers"),
    ],
)
async def test_bad_vectors_are_refused(kind: str, server: Server, rows: list[Any]) -> None:
    provider = await embedding.open(remote(kind, server))
    server.trouble = [(200, {}, _rows(kind, rows))]
    with pytest.raises(EmbeddingRefused):
        await provider.embed_query("a")
    await provider.close()


@pytest.mark.parametrize("body", [b"<html>login</html>", b"[]", b"null", b"{}", b'{"data": 3}'])
async def test_an_answer_of_another_api_is_refused(kind: str, server: Server, body: bytes) -> None:
    server.trouble = [(200, {}, body)]
    with pytest.raises(EmbeddingRefused, match="base_url"):
        await embedding.open(remote(kind, server))


async def test_one_failed_batch_fails_the_call_and_leaves_nothing_running(
    kind: str, server: Server
) -> None:
    provider = await embedding.open(remote(kind, server, batch_size=1, dimension=8))
    server.trouble = [(400, {}, {"error": {"message": "no"}})]
    with pytest.raises(EmbeddingRefused):
        await provider.embed_documents([f"t{i}" for i in range(20)])
    # The loop is the session's, and other tests' pools come and go on it.
    codes = [getattr(task.get_coro(), "cr_code", None) for task in asyncio.all_tasks()]
    names = [code.co_filename for code in codes if code is not None]
    assert not [name for name in names if "embedding" in Path(name).parts]
    await provider.close()
