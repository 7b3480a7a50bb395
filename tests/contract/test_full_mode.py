"""Mode `full` whole: a real store, a chat model over HTTP, a cross-encoder from a folder."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from plait.domain.values import Filter
from plait.models import embedding, language
from plait.ports import EmbeddingProvider, LanguageModel, Reranker
from plait.retrieval.search import Mode, SearchAnswer, SearchQuery, SearchService
from plait.retrieval.search_context import Deps
from plait.settings import EmbeddingSettings, LanguageSettings, RerankSettings, SearchSettings
from tests.chat_server import ChatServer, refused, said
from tests.contract.test_search_store import CODE
from tests.processes import LIMIT_S
from tests.tiny_cross_encoder import write
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]
QUERY = "where do bytes leave this machine"
REWRITTEN = said(json.dumps({"terms": ["open_socket"], "passage": "def open_socket(): ..."}))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    running = ChatServer()
    yield running
    running.close()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


async def service(
    store: Store, stack: AsyncExitStack, server: ChatServer, folder: Path | None = None
) -> SearchService:
    chat_settings = LanguageSettings(
        provider="openai", model="m", base_url=server.url, timeout_s=LIMIT_S
    )
    provider = await embedding.open(EmbeddingSettings())
    chat = await language.open_model(chat_settings)
    stack.push_async_callback(provider.close)
    stack.push_async_callback(chat.close)

    async def open_provider() -> EmbeddingProvider:
        return provider

    async def open_chat() -> LanguageModel:
        return chat

    reranker = None
    if folder is not None:
        read = await language.open_reranker(RerankSettings(model_dir=str(folder)))
        stack.push_async_callback(read.close)

        async def reranker() -> Reranker:
            return read

    deps = Deps(
        store.search,
        open_provider,
        SearchSettings(timeout_s=LIMIT_S),
        reranker=reranker,
        language=open_chat,
        language_settings=chat_settings,
        rerank_settings=RerankSettings(timeout_s=LIMIT_S),
    )
    return SearchService.over(deps)


def symbols(answer: SearchAnswer) -> list[str]:
    return [hit.item.symbol.rpartition(".")[2] for hit in answer.hits]


def judged(body: dict[str, Any], best: str) -> str:
    """What a model says that finds the item at `best` alone worth reading."""
    items = json.loads(body["messages"][1]["content"])["items"]
    told = [{"n": i["n"], "score": 10 if i["place"].endswith(best) else 0} for i in items]
    return json.dumps({"scores": told})


async def test_the_models_words_find_it_and_its_scores_order_it(
    store: Store, index: IndexFiles, server: ChatServer, stack: AsyncExitStack
) -> None:
    await index(store, "r", CODE)
    search = await service(store, stack, server)
    fast = await search.search(SearchQuery(QUERY))
    assert fast.hits == ()
    assert server.requests == []
    server.answers = [lambda _: REWRITTEN, lambda body: said(judged(body, "send_request"))]
    full = await search.search(SearchQuery(QUERY, mode=Mode.FULL))
    assert symbols(full)[0] == "send_request"
    assert set(symbols(full)) == {"open_file", "open_socket", "send_request"}
    assert [str(d) for d in full.degraded] == ["semantic: no_vectors"]
    assert {"rewrite", "cross_encoder"} <= {t.stage for t in full.timings}


async def test_a_model_that_refuses_is_named_twice_and_asked_once(
    store: Store, index: IndexFiles, server: ChatServer, stack: AsyncExitStack
) -> None:
    await index(store, "r", CODE)
    search = await service(store, stack, server)
    server.says(refused(401))
    answer = await search.search(SearchQuery("what calls open socket here", mode=Mode.FULL))
    assert "open_socket" in symbols(answer)
    assert [str(d) for d in answer.degraded if d.part != "semantic"] == [
        "rewrite: LANGUAGE_MODEL_UNAVAILABLE",
        "cross_encoder: LANGUAGE_MODEL_UNAVAILABLE",
    ]
    assert len(server.requests) == 1


async def test_either_second_opinion_can_be_left_out(
    store: Store, index: IndexFiles, server: ChatServer, stack: AsyncExitStack
) -> None:
    await index(store, "r", CODE)
    search = await service(store, stack, server)
    off = ("rewrite", "cross_encoder")
    await search.search(SearchQuery("what calls open socket", mode=Mode.FULL, off=off))
    assert server.requests == []


async def test_a_local_cross_encoder_serves_fast_too(
    store: Store, index: IndexFiles, server: ChatServer, stack: AsyncExitStack, tmp_path: Path
) -> None:
    await index(store, "r", CODE)
    search = await service(store, stack, server, write(tmp_path / "m"))
    where = Filter(path_glob="src/**")
    answer = await search.search(SearchQuery("what calls open_socket", where, explain=True))
    assert server.requests == []
    assert "rerank" in {t.stage for t in answer.timings}
    assert len(answer.hits) == 3
    assert all("rerank" in hit.arms for hit in answer.hits)
