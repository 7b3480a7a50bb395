"""Vectors as parameters, in pgvector's binary form: 0.8 kB for 384 dimensions, where text takes 3."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format


class Half(bytes):
    """A halfvec: its dimension and a spare, int16 each, then big-endian half floats."""


def half(vector: npt.NDArray[np.float32]) -> Half:
    """`vector`, shape `(dim,)`, as a parameter that the statement casts to `halfvec(dim)`."""
    return Half(struct.pack(">hh", vector.size, 0) + vector.astype(">f2").tobytes())


class HalfDumper(Dumper):
    """The type stays unknown to the driver: its number differs from database to database."""

    format = Format.BINARY
    oid = 0

    def dump(self, obj: bytes) -> bytes:
        return bytes(obj)


def register(context: AdaptContext) -> None:
    """Let connections of `context` take `Half`."""
    context.adapters.register_dumper(Half, HalfDumper)
