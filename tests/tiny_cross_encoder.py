"""A cross-encoder small enough for a test, as an ONNX file: real weights, a real graph, no training.

`logit = GAIN · (how many of the query's words are in the text) - BIAS`, over token ids and type ids. ONNX
files are protobuf messages; the few fields that are needed are written here, so that tests need no
further library.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

GAIN, BIAS = 2.0, 3.0
WORDS = [
    "open",
    "close",
    "file",
    "socket",
    "session",
    "retry",
    "the",
    "a",
    "def",
    "return",
    "cookie",
    "error",
]
_FLOAT, _INT64 = 1, 7  # TensorProto.DataType


def write(folder: Path, *, logits: int = 1) -> Path:
    """`folder` with model.onnx, tokenizer.json and config.json. `logits` 2: (no, yes)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model(logits))
    (folder / "config.json").write_text('{"max_position_embeddings": 34, "pad_token_id": 0}')
    vocabulary = {word: n for n, word in enumerate(["[PAD]", "[CLS]", "[SEP]", "[UNK]", *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def model(logits: int = 1) -> bytes:
    constants = [
        _tensor("last", np.array([2], np.int64)),
        _tensor("middle", np.array([1], np.int64)),
        _tensor("one", np.array([1.0], np.float32)),
        _tensor("gain", np.array([GAIN], np.float32)),
        _tensor("bias", np.array([BIAS + GAIN], np.float32)),  # [SEP] is in both
    ]
    nodes = [
        _node("Unsqueeze", ["input_ids", "last"], "rows"),
        _node("Unsqueeze", ["input_ids", "middle"], "columns"),
        _node("Equal", ["rows", "columns"], "same"),
        _node("Cast", ["same"], "equal", to=_FLOAT),
        _node("Cast", ["token_type_ids"], "text", to=_FLOAT),
        _node("Sub", ["one", "text"], "query"),
        _node("Unsqueeze", ["query", "last"], "query_rows"),
        _node("Unsqueeze", ["text", "middle"], "text_columns"),
        _node("Mul", ["equal", "query_rows"], "from_query"),
        _node("Mul", ["from_query", "text_columns"], "met"),
        _node("ReduceMax", ["met"], "held", axes=[2], keepdims=0),
        _node("ReduceSum", ["held", "middle"], "count", keepdims=1),
        _node("Mul", ["count", "gain"], "gained"),
        _node("Sub", ["gained", "bias"], "yes" if logits == 2 else "logits"),
    ]
    if logits == 2:
        nodes.append(_node("Neg", ["yes"], "no"))
        nodes.append(_node("Concat", ["no", "yes"], "logits", axis=1))
    inputs = [_value(name, _INT64) for name in ("input_ids", "attention_mask", "token_type_ids")]
    graph = b"".join(
        [
            *(_message(1, node) for node in nodes),
            _text(2, "tiny"),
            *(_message(5, constant) for constant in constants),
            *(_message(11, value) for value in inputs),
            _message(12, _value("logits", _FLOAT)),
        ]
    )
    opset = _number(2, 13)
    return _number(1, 8) + _message(7, graph) + _message(8, opset)


def _node(op: str, inputs: list[str], output: str, **attributes: int | list[int]) -> bytes:
    said = b"".join(_text(1, name) for name in inputs) + _text(2, output) + _text(4, op)
    for name, value in attributes.items():
        if isinstance(value, list):
            body = b"".join(_number(8, one) for one in value) + _number(20, 7)
        else:
            body = _number(3, value) + _number(20, 2)
        said += _message(5, _text(1, name) + body)
    return said


def _tensor(name: str, value: npt.NDArray[np.float32] | npt.NDArray[np.int64]) -> bytes:
    kind = _INT64 if value.dtype == np.int64 else _FLOAT
    dims = b"".join(_number(1, n) for n in value.shape)
    return dims + _number(2, kind) + _text(8, name) + _message(9, value.tobytes())


def _value(name: str, kind: int) -> bytes:
    shape = b"".join(_message(1, _text(2, f"{name}_{axis}")) for axis in range(2))
    tensor = _number(1, kind) + _message(2, shape)
    return _text(1, name) + _message(2, _message(1, tensor))


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def _number(field: int, n: int) -> bytes:
    return _varint(field << 3) + _varint(n)


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())
