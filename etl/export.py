"""The graph as JSON lines, written whole or not at all; needs no store."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from plait.domain.display import escaped
from plait.domain.errors import ExportFailed
from plait.domain.graph import Edge, Node

_json = msgspec.json.Encoder()


def export_graph(
    target: str | Path, parts: Iterable[tuple[Iterable[Node], Iterable[Edge]]]
) -> dict[str, int]:
    """Write each part's nodes, then its edges, to the file `target`, or to standard output for "-".

    Returns `{"nodes": n, "edges": m}`. A file appears under its name only when it is complete; what
    stood there before stays when anything fails.

    Raises: ExportFailed, when it can't be written.
    """
    counts = {"nodes": 0, "edges": 0}
    name = str(target)
    with _output(name) as out:
        for nodes, edges in parts:
            lines = [_line(node_line(node)) for node in nodes]
            counts["nodes"] += len(lines)
            edge_lines = [_line(edge_line(edge)) for edge in edges]
            counts["edges"] += len(edge_lines)
            lines += [*edge_lines, b""]
            with _translated(name):
                out.write(b"\n".join(lines))
    return counts


def _line(row: dict[str, object]) -> bytes:
    """One line of JSON. Names of files and symbols may hold anything: a terminal is not steered by them."""
    data = _json.encode(row)
    if data.isascii() and b"\x7f" not in data:
        return data
    return escaped(data.decode()).encode()


def node_line(node: Node) -> dict[str, object]:
    return {
        "type": "node",
        "id": node.id,
        "label": node.label,
        "name": node.name,
        "qualified_name": node.qualified_name,
        "path": node.path,
        "start_line": node.start_line,
        "end_line": node.end_line,
        "language": node.language,
    }


def edge_line(edge: Edge) -> dict[str, object]:
    return {
        "type": "edge",
        "relation": edge.relation,
        "from": edge.source,
        "to": edge.target,
        "lines": edge.lines,
        "resolver": edge.resolver,
        "confidence": edge.confidence,
    }


@contextmanager
def _output(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        yield sys.stdout.buffer
        with _translated(name):
            sys.stdout.buffer.flush()
    elif _is_special(name):  # /dev/stdout, a fifo: there is nothing to rename over
        with _translated(name):
            file: IO[bytes] = open(name, "wb")  # noqa: SIM115, PTH123
        yield file
        with _translated(name):
            file.close()
    else:
        with _replaced(name) as file:
            yield file


@contextmanager
def _replaced(name: str) -> Iterator[IO[bytes]]:
    """A new file beside `name`, renamed to it when the block ends well, removed when it doesn't."""
    final = os.path.realpath(name)  # a link stays a link
    draft = f"{final}.{secrets.token_hex(4)}.part"
    with _translated(name):
        file = open(draft, "xb")  # noqa: SIM115, PTH123
    try:
        with file:
            yield file
            with _translated(name):
                file.flush()
                os.fsync(file.fileno())
        with _translated(name):
            os.replace(draft, final)  # noqa: PTH105
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)  # noqa: PTH108
        raise


def _is_special(name: str) -> bool:
    try:
        return not stat.S_ISREG(os.stat(name).st_mode)  # noqa: PTH116
    except OSError:
        return False


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Errors of the file system as `ExportFailed`, with the file and a way out."""
    try:
        yield
    except OSError as exc:
        if name == "-" and isinstance(exc, BrokenPipeError):
            # Python would try to write the rest when it exits, and fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        where = "standard output" if name == "-" else name
        raise ExportFailed(
            f"cannot write the graph to {where}: {exc.strerror}; "
            "give `--export` a file in a folder that exists, may be written and has room",
            file=where,
        ) from exc
