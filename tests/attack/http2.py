"""HTTP/2 by hand, for what no honest client sends. RFC 9113; header fields as literals, RFC 7541, 6.2.2."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from types import TracebackType
from typing import Self

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
INITIAL_WINDOW_SIZE = 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    )


def setting(key: int, value: int) -> bytes:
    return key.to_bytes(2, "big") + value.to_bytes(4, "big")


def field(name: str, value: str) -> bytes:
    return b"\x00" + _text(name) + _text(value)


def _text(text: str) -> bytes:
    data, size = text.encode(), b""
    if len(data) < 127:
        return bytes((len(data),)) + data
    rest = len(data) - 127
    while rest >= 128:
        size += bytes((rest % 128 + 128,))
        rest //= 128
    return b"\x7f" + size + bytes((rest,)) + data


def call_headers(path: str, *more: tuple[str, str]) -> bytes:
    """The header block of a gRPC call."""
    pairs = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "attack"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *more,
    ]
    return b"".join(field(name, value) for name, value in pairs)


class Raw:
    """One connection that says whatever it is told to; reads nothing by itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.stream = 1

    @classmethod
    async def to(cls, target: str | int, window: int = 65_535, *, silent: bool = False) -> Raw:
        """To a Unix socket's path, or a port of this machine; with its preface said."""
        if isinstance(target, str):
            made = cls(*await asyncio.open_unix_connection(target))
        else:
            made = cls(*await asyncio.open_connection("127.0.0.1", target))
        if silent:
            return made
        made.send(PREFACE, frame(SETTINGS, 0, 0, setting(INITIAL_WINDOW_SIZE, window)))
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.writer.transport.abort()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    def send(self, *frames: bytes) -> None:
        if not self.writer.transport.is_closing():
            self.writer.write(b"".join(frames))

    def begin(
        self, path: str, headers: Iterable[tuple[str, str]] = (), message: bytes = b""
    ) -> int:
        """Begin a call, with the beginning of its message; gives its stream."""
        stream, self.stream = self.stream, self.stream + 2
        self.send(frame(HEADERS, END_HEADERS, stream, call_headers(path, *headers)))
        if message:
            self.send(frame(DATA, 0, stream, message))
        return stream

    async def closed(self) -> bool:
        """Wait until the other side has closed; what it says meanwhile is read and dropped."""
        try:
            while await self.reader.read(65_536):
                pass
        except OSError:
            pass
        return True
