"""One query over Bolt, by hand: how a keeper knows that the graph server answers.

The driver would cost a keeper 30 MB and 0.3 CPU s for one `RETURN 1`. This speaks just enough of Bolt
4.4 and PackStream 1 (https://neo4j.com/docs/bolt/current/) to log in and run it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping

MAGIC = b"\x60\x60\xb0\x17"
VERSIONS = b"\x00\x00\x04\x04" + b"\x00\x00\x03\x04" + bytes(8)  # 4.4, 4.3
HELLO, GOODBYE, RUN, PULL = 0x01, 0x02, 0x10, 0x3F
SUCCESS, FAILURE = 0x70, 0x7F
LIMIT = 2**20  # bytes of one answer


class ProbeFailed(Exception):
    """The server refused or gave an unexpected answer; `refused`: it understood and refused."""

    def __init__(self, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


def probe(
    host: str, port: int, *, user: str, password: str, database: str, timeout_s: float = 5.0
) -> None:
    """Log in and run `RETURN 1` on `database`.

    Raises: ProbeFailed, OSError.
    """
    with socket.create_connection((host, port), timeout=timeout_s) as link:
        link.sendall(MAGIC + VERSIONS)
        if _exactly(link, 4) == bytes(4):
            raise ProbeFailed("no common version of Bolt")
        login = {
            "user_agent": "plait-keeper/1",
            "scheme": "basic",
            "principal": user,
            "credentials": password,
        }
        _ask(link, HELLO, pack(login))
        _ask(link, RUN, pack("RETURN 1") + pack({}) + pack({"db": database}))
        _ask(link, PULL, pack({"n": 1000}))
        link.sendall(message(GOODBYE, b""))


def pack(value: str | int | Mapping[str, str | int]) -> bytes:
    """PackStream of the few shapes used here: strings under 64 KiB, small whole numbers, small maps."""
    if isinstance(value, str):
        data = value.encode()
        return b"\xd1" + struct.pack(">H", len(data)) + data
    if isinstance(value, int):
        return b"\xc9" + struct.pack(">h", value)
    items = b"".join(pack(key) + pack(item) for key, item in value.items())
    return bytes([0xA0 + len(value)]) + items


def message(tag: int, fields: bytes) -> bytes:
    """One chunked message; the number of fields is known by its tag."""
    count = {HELLO: 1, GOODBYE: 0, RUN: 3, PULL: 1}[tag]
    body = bytes([0xB0 + count, tag]) + fields
    return struct.pack(">H", len(body)) + body + b"\x00\x00"


def _ask(link: socket.socket, tag: int, fields: bytes) -> None:
    """Send one message and read until its SUCCESS; records in between are let go."""
    link.sendall(message(tag, fields))
    while True:
        answer = _receive(link)
        kind = answer[1] if len(answer) > 1 else 0
        if kind == SUCCESS:
            return
        if kind == FAILURE:
            text = answer[2:].decode("utf-8", "replace")
            raise ProbeFailed("".join(c for c in text if c.isprintable()), refused=True)


def _receive(link: socket.socket) -> bytes:
    body = b""
    while len(body) < LIMIT:
        (size,) = struct.unpack(">H", _exactly(link, 2))
        if size == 0:
            if body:
                return body
            continue  # a keep-alive
        body += _exactly(link, size)
    raise ProbeFailed("the answer is too long")


def _exactly(link: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = link.recv(count - len(data))
        if not part:
            raise ProbeFailed("the server closed the connection")
        data += part
    return data
