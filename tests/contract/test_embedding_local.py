"""The local model: what it says of known texts, its files' digests, and folders of your own."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from tokenizers import Tokenizer, models, pre_tokenizers

from plait.domain.errors import BadModelFile, BadSettings, EmbeddingUnavailable
from plait.models import embedding
from plait.models.embedding import local, model_files
from plait.settings import EmbeddingSettings

SHIPPED = Path(model_files.__file__).parent / "weights" / "minilm_l6_v2_int8"

# Cosines of the shipped model. Its int8 kernels differ between CPUs: by up to 0.04 where
# one has no VNNI instructions.
KNOWN = [
    ("def add(a, b):\n    return a + b", "sum of two numbers", 0.485),
    ("retry a request after a timeout", "try again when the connection times out", 0.330),
    ("a cat sat on the mat", "SELECT id FROM users", -0.003),
]


async def test_known_texts_have_known_similarities() -> None:
    provider = await embedding.open(EmbeddingSettings())
    assert provider.model == "local:all-MiniLM-L6-v2-int8"
    assert provider.dim == 384
    for one, other, cosine in KNOWN:
        a, b = await provider.embed_documents([one, other])
        assert float(a @ b) == pytest.approx(cosine, abs=0.05), (one, other)
    await provider.close()


async def test_a_vector_does_not_depend_on_its_neighbours() -> None:
    provider = await embedding.open(EmbeddingSettings(cache_size=0))
    texts = ["short", "word " * 400, "x = 1", "def f(): ..."]
    together = await provider.embed_documents(texts)
    for text, vector in zip(texts, together, strict=True):
        assert await provider.embed_query(text) == pytest.approx(vector, abs=1e-6)
    await provider.close()


async def test_text_beyond_256_tokens_does_not_count() -> None:
    provider = await embedding.open(EmbeddingSettings())
    a, b = await provider.embed_documents(["alpha " * 254, "alpha " * 254 + "beta " * 500])
    assert float(a @ b) == pytest.approx(1.0, abs=1e-5)
    await provider.close()


async def test_a_cancelled_call_stops_soon() -> None:
    provider = await embedding.open(EmbeddingSettings(cache_size=0, threads=1))
    call = asyncio.create_task(provider.embed_documents(["word " * 300] * 100_000))
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await provider.embed_documents(["the thread is free again"])
    await provider.close()


async def test_a_closed_model_says_so() -> None:
    provider = await embedding.open(EmbeddingSettings(cache_size=0))
    await provider.close()
    with pytest.raises(EmbeddingUnavailable):
        await provider.embed_query("a")
    with pytest.raises(EmbeddingUnavailable):
        await provider.embed_documents(["a"])


async def test_a_changed_model_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "weights" / "minilm_l6_v2_int8"
    shutil.copytree(SHIPPED, fake)
    monkeypatch.setattr(model_files, "__file__", str(tmp_path / "model_files.py"))
    await (await embedding.open(EmbeddingSettings())).close()
    with (fake / "model-int8.onnx").open("r+b") as file:
        file.seek(1000)
        file.write(b"\xff")
    with pytest.raises(BadModelFile, match="reinstall"):
        await embedding.open(EmbeddingSettings())
    (fake / "model-int8.onnx").unlink()
    with pytest.raises(BadModelFile, match="cannot read"):
        await embedding.open(EmbeddingSettings())


async def test_settings_that_the_shipped_model_cannot_meet() -> None:
    with pytest.raises(BadSettings, match="model_dir"):
        await embedding.open(EmbeddingSettings(model="another"))
    with pytest.raises(BadSettings, match="384"):
        await embedding.open(EmbeddingSettings(dimension=512))


# -- a folder of your own -------------------------------------------------------------------------


def field(number: int, value: int | bytes | str) -> bytes:
    """One field of a protobuf message: a varint, or bytes."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def tensor_type(name: str, elem: int, rank: int) -> bytes:
    shape = b"".join(field(1, field(2, f"d{i}")) for i in range(rank))
    return field(1, name) + field(2, field(1, field(1, elem) + field(2, shape)))


def lookup_graph(table: np.ndarray[tuple[int, int], np.dtype[np.float32]], output: str) -> bytes:
    """An ONNX model that looks each token up in `table`: `(batch, tokens)` → `(batch, tokens, dim)`."""
    node = field(1, "table") + field(1, "input_ids") + field(2, output) + field(4, "Gather")
    weights = b"".join(field(1, size) for size in table.shape)
    weights += field(2, 1) + field(8, "table") + field(9, table.tobytes())
    graph = field(1, node) + field(2, "g") + field(5, weights)
    graph += field(11, tensor_type("input_ids", 7, 2))
    graph += field(11, tensor_type("attention_mask", 7, 2))
    graph += field(12, tensor_type(output, 1, 3))
    return field(1, 8) + field(8, field(2, 13)) + field(7, graph)


TABLE = np.array([[1, 1, 0], [3, 0, 0], [0, 4, 0], [0, 0, 5]], np.float32)


def folder_of(path: Path, output: str = "last_hidden_state") -> Path:
    """A word-level model: unknown, north, east, up."""
    path.mkdir(exist_ok=True)
    (path / "model.onnx").write_bytes(lookup_graph(TABLE, output))
    vocabulary = {"[UNK]": 0, "north": 1, "east": 2, "up": 3}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(path / "tokenizer.json"))
    return path


def settings(path: Path) -> EmbeddingSettings:
    return EmbeddingSettings(model_dir=str(path), cache_size=0)


async def test_a_graph_of_token_vectors_is_pooled_by_the_mean(tmp_path: Path) -> None:
    provider = await embedding.open(settings(folder_of(tmp_path / "own")))
    assert provider.dim == 3
    assert await provider.embed_query("north") == pytest.approx([1, 0, 0])
    assert await provider.embed_query("north east") == pytest.approx([0.6, 0.8, 0])
    assert (await provider.embed_documents(["", "up"]))[1] == pytest.approx([0, 0, 1])
    await provider.close()


async def test_pooling_limits_and_prompts_are_the_model_s_own(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "own")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 3}')
    prompts = '{"prompts": {"query": "up ", "document": "east "}}'
    (folder / "config_sentence_transformers.json").write_text(prompts)
    provider = await embedding.open(settings(folder))
    assert await provider.embed_query("north") == pytest.approx([0, 0, 1])
    assert (await provider.embed_documents(["north"]))[0] == pytest.approx([0, 1, 0])
    await provider.close()


async def test_the_id_tells_two_models_of_one_name_apart(tmp_path: Path) -> None:
    first = await embedding.open(settings(folder_of(tmp_path / "own")))
    same = await embedding.open(settings(folder_of(tmp_path / "own")))
    (tmp_path / "own" / "model.onnx").write_bytes(lookup_graph(TABLE * 2, "last_hidden_state"))
    other = await embedding.open(settings(tmp_path / "own"))
    assert first.model == same.model
    assert first.model.startswith("local:own@")
    assert other.model != first.model
    for provider in (first, same, other):
        await provider.close()


async def test_the_shipped_files_serve_as_a_folder_of_your_own(tmp_path: Path) -> None:
    shutil.copy(SHIPPED / "model-int8.onnx", tmp_path / "model.onnx")
    shutil.copy(SHIPPED / "tokenizer.json", tmp_path)
    mine = await embedding.open(settings(tmp_path))
    shipped = await embedding.open(EmbeddingSettings())
    text = "def open(path): ..."
    assert await mine.embed_query(text) == pytest.approx(await shipped.embed_query(text), abs=1e-6)
    assert mine.model != shipped.model
    await mine.close()
    await shipped.close()


async def test_folders_that_hold_no_usable_model(tmp_path: Path) -> None:
    with pytest.raises(BadModelFile, match=r"model\.onnx"):
        await embedding.open(settings(tmp_path))
    with pytest.raises(BadModelFile, match="none of which"):
        await embedding.open(settings(folder_of(tmp_path / "a", output="logits")))
    broken = folder_of(tmp_path / "b")
    (broken / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(BadModelFile, match="cannot load"):
        await embedding.open(settings(broken))
    broken = folder_of(tmp_path / "c")
    (broken / "tokenizer.json").write_text("{}")
    with pytest.raises(BadModelFile, match="tokenizer"):
        await embedding.open(settings(broken))
    broken = folder_of(tmp_path / "d")
    (broken / "config_sentence_transformers.json").write_text("{")
    with pytest.raises(BadModelFile, match="JSON"):
        await embedding.open(settings(broken))


async def test_documents_are_embedded_by_every_thread(tmp_path: Path) -> None:
    provider = await local.open(replace(settings(folder_of(tmp_path / "own")), threads=4))
    texts = ["north", "east", "up"] * 500
    vectors = await provider.embed_documents(texts)
    assert (vectors.argmax(axis=1) == np.tile([0, 1, 2], 500)).all()
    await provider.close()
