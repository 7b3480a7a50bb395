"""What goes through the pipes between the indexer and its parse workers: length-prefixed msgpack.

msgpack and not pickle: a worker reads hostile files, and a pickle from a worker that such a file has
taken over would be code in the indexer. Imported by every worker, so it imports nearly nothing.
"""

from __future__ import annotations

import struct
from typing import IO, TypeVar

import msgspec

from etl.parsing.chunk import RawChunk
from plait.secrets.rules import BUILT_IN, Rules

_LENGTH = struct.Struct(">I")
T = TypeVar("T")


class Setup(msgspec.Struct, frozen=True, array_like=True):
    """The first frame to a worker."""

    root: str
    max_file_bytes: int
    timeout_s: float
    memory_bytes: int
    rules: Rules = BUILT_IN  # of secrets


class WireJob(msgspec.Struct, frozen=True, array_like=True, gc=False):
    path: str
    language: str
    module: str
    is_test: bool
    share: float = 1.0  # of the time a file may take


class WireFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    path: str
    content_hash: bytes
    language: str
    size_bytes: int
    lines: int
    facts: bytes
    is_test: bool
    chunks: list[RawChunk]
    masked: int  # credentials


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """What came of one batch. Chunks count through `files` in order; so do `lengths` and `distinct`.

    `new_terms` go on the worker's own numbering of terms, which it keeps from batch to batch.
    """

    files: list[WireFile]
    skipped: list[tuple[str, str]]
    unparsed: list[tuple[str, str]]  # indexed as text: their extractor failed
    syntax_errors: int
    symbols: int
    new_terms: list[str]
    lengths: bytes  # int32, terms a chunk
    distinct: bytes  # int32, distinct terms a chunk
    terms: bytes  # int32, the distinct terms of chunk 0, then of chunk 1, …
    tfs: bytes  # uint8, their frequencies, capped at 255


_encoder = msgspec.msgpack.Encoder()


def write_frame(pipe: IO[bytes], value: object) -> None:
    """Raises: BrokenPipeError, when the other side is gone."""
    body = _encoder.encode(value)
    pipe.write(_LENGTH.pack(len(body)))
    pipe.write(body)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> bytes | None:
    """The next frame; None when the pipe ended, in the middle of a frame too."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = pipe.read(length)
    return body if len(body) == length else None


def decode(body: bytes, kind: type[T]) -> T:
    """Raises: msgspec.DecodeError."""
    return msgspec.msgpack.decode(body, type=kind)
