"""A local cross-encoder: a real ONNX graph and tokenizer from a user's folder, and folders that are none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from plait.domain.errors import BadModelFile, LanguageModelUnavailable
from plait.models.language import open_reranker, wants_reranker
from plait.ports import Reranker
from plait.settings import RerankSettings
from tests.processes import LIMIT_S
from tests.tiny_cross_encoder import write

TEXTS = ["cookie error", "def open a file", "open socket"]


@pytest.fixture
async def reranker(tmp_path: Path) -> AsyncIterator[Reranker]:
    opened = await open_reranker(settings(write(tmp_path / "tiny")))
    yield opened
    await opened.close()


def settings(folder: Path) -> RerankSettings:
    return RerankSettings(model_dir=str(folder))


async def test_query_and_text_are_read_together(reranker: Reranker) -> None:
    none, both, one = await reranker.score("open file", TEXTS, timeout_s=LIMIT_S)
    assert 0.0 <= none < one < both <= 1.0
    assert one == pytest.approx(1 / (1 + 2.718281828 ** (3.0 - 2.0)), abs=1e-6)
    turned = await reranker.score("cookie", TEXTS, timeout_s=LIMIT_S)
    assert max(turned) == turned[0], "another query, another order"


async def test_two_logits_are_no_and_yes(tmp_path: Path) -> None:
    pair = await open_reranker(settings(write(tmp_path / "pair", logits=2)))
    none, both, one = await pair.score("open file", TEXTS, timeout_s=LIMIT_S)
    assert none < one < both
    await pair.close()


async def test_a_score_depends_on_nothing_but_its_pair(reranker: Reranker) -> None:
    together = await reranker.score("open file", TEXTS * 5, timeout_s=LIMIT_S)
    (alone,) = await reranker.score("open file", TEXTS[1:2], timeout_s=LIMIT_S)
    assert together == (await reranker.score("open file", TEXTS, timeout_s=LIMIT_S)) * 5
    assert together[1] == alone


async def test_nothing_is_scored_when_no_time_is_left(reranker: Reranker) -> None:
    assert await reranker.score("open file", TEXTS, timeout_s=0.0) == []
    assert len(await reranker.score("open file", TEXTS, timeout_s=LIMIT_S)) == 3, "the next is read"


@pytest.mark.parametrize(
    "text", ["", "\ud800", "\x00", "open " * 100_000, "x" * 1_000_000, "日本語" * 1000, "\n\t "]
)
async def test_any_text_has_a_score(reranker: Reranker, text: str) -> None:
    for query in ("open file", text):
        scores = await reranker.score(query, [text, "open file"], timeout_s=LIMIT_S)
        assert len(scores) == 2
        assert all(0.0 <= score <= 1.0 for score in scores)


async def test_a_long_text_gives_way_and_the_query_stays(reranker: Reranker) -> None:
    long = "the " * 500 + "cookie"
    (late,) = await reranker.score("cookie", [long], timeout_s=LIMIT_S)
    (early,) = await reranker.score("cookie", ["cookie " + long], timeout_s=LIMIT_S)
    assert late < early, "34 positions, so the last word is not read"


async def test_the_id_is_of_the_files(tmp_path: Path, reranker: Reranker) -> None:
    assert reranker.model.startswith("local:tiny@")
    other = await open_reranker(settings(write(tmp_path / "other" / "tiny", logits=2)))
    assert other.model.startswith("local:tiny@")
    assert other.model != reranker.model
    await other.close()


async def test_after_closing_it_says_so(tmp_path: Path) -> None:
    closed = await open_reranker(settings(write(tmp_path / "m")))
    await closed.close()
    with pytest.raises(LanguageModelUnavailable, match="closed"):
        await closed.score("a", ["b"], timeout_s=LIMIT_S)


async def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadModelFile, match=r"holds no model\.onnx"):
        await open_reranker(settings(tmp_path))


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("model.onnx", b"no model at all", "cannot load"),
        ("model.onnx", b"", "cannot load"),
        ("tokenizer.json", b"{}", "not a tokenizer"),
        ("config.json", b"{", "not valid JSON"),
    ],
)
async def test_a_broken_file_is_named(tmp_path: Path, file: str, content: bytes, told: str) -> None:
    folder = write(tmp_path / "broken")
    (folder / file).write_bytes(content)
    with pytest.raises(BadModelFile, match=told):
        await open_reranker(settings(folder))


async def test_an_embedding_model_is_no_cross_encoder(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "plait/models/embedding/weights/minilm_l6_v2_int8"
    (tmp_path / "model.onnx").symlink_to(shipped / "model-int8.onnx")
    (tmp_path / "tokenizer.json").symlink_to(shipped / "tokenizer.json")
    with pytest.raises(BadModelFile, match="does not score a pair"):
        await open_reranker(settings(tmp_path))


def test_none_is_wanted_unless_a_folder_is_named() -> None:
    assert not wants_reranker(RerankSettings())
    assert wants_reranker(RerankSettings(model_dir="m"))
