"""Many rows in one statement, without COPY: on tables that row security holds, and in a pipeline.

A column is sent as one array in binary. For 500 rows that is as fast as COPY into a temporary table
and INSERT from there, takes one round trip instead of five, and may stand in a pipeline with others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from psycopg import sql

from vector.connection.arrays import bytea_array, text_array, uuid_array
from vector.connection.pool import Columns, Connection


@dataclass(frozen=True, slots=True)
class Insert:
    """Rows in the form in which they are sent."""

    statement: sql.Composed
    given: list[object]


async def insert_rows(
    conn: Connection,
    table: str,
    columns: Columns,
    rows: Sequence[Sequence[Any]],
    *,
    on_conflict: str = "",
) -> None:
    """Insert `rows` in their order; `columns` are `(name, type)`. Arrays and JSON go in as text, see
    `array_literal`. Does nothing when there are no rows.
    """
    await send(conn, insert(table, columns, rows, on_conflict=on_conflict))


async def send(conn: Connection, made: Insert | None) -> None:
    """Carry `made` out; None: nothing."""
    if made is not None:
        await conn.execute(made.statement, made.given, binary=True)


def insert(
    table: str, columns: Columns, rows: Sequence[Sequence[Any]], *, on_conflict: str = ""
) -> Insert | None:
    """What `insert_rows` sends; None when there are no rows.

    A column whose values are all equal is sent once: most columns of a batch are such.
    """
    if not rows:
        return None
    values = list(zip(*rows, strict=True))
    once = tuple(
        i > 0 and column.count(column[0]) == len(column) for i, column in enumerate(values)
    )
    kinds = [kind for _, kind in columns]
    given = [
        column[0] if is_once else _array(kind, column)
        for kind, column, is_once in sorted(
            zip(kinds, values, once, strict=True), key=lambda sent: not sent[2]
        )
    ]
    return Insert(_statement(table, tuple(columns), once, on_conflict), given)


@cache
def _statement(
    table: str, columns: Columns, once: tuple[bool, ...], on_conflict: str
) -> sql.Composed:
    """Placeholders of the columns sent `once` come first, then those of the arrays."""
    many = [column for column, is_once in zip(columns, once, strict=True) if not is_once]
    single = [column for column, is_once in zip(columns, once, strict=True) if is_once]
    # Types and `on_conflict` are ours, from the code.
    values: list[sql.Composable] = [sql.SQL(f"%b::{_sent(kind)}::{kind}") for _, kind in single]
    values += [sql.SQL("{}::" + kind).format(sql.Identifier(name)) for name, kind in many]
    arrays = [sql.SQL(f"%b::{_sent(kind)}[]") for _, kind in many]
    comma = sql.SQL(", ")
    return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM unnest({}) AS sent ({}) {}").format(
        sql.Identifier("plait", table),
        comma.join(sql.Identifier(name) for name, _ in (*single, *many)),
        comma.join(values),
        comma.join(arrays),
        comma.join(sql.Identifier(name) for name, _ in many),
        sql.SQL(on_conflict),
    )


def _array(kind: str, column: Sequence[Any]) -> object:
    sent = _sent(kind)
    if sent == "text":
        return text_array(column)
    if sent == "bytea":
        return bytea_array(column)
    return uuid_array(column) if sent == "uuid" and None not in column else list(column)


def _sent(kind: str) -> str:
    """The type a column's values travel as: an array of arrays must not be ragged, so text."""
    return "text" if kind.endswith("[]") or kind == "jsonb" else kind


def array_literal(values: Iterable[object]) -> str:
    """`values` as PostgreSQL writes an array: `{"a","b"}`."""
    return "{" + ",".join(_quoted(str(value)) for value in values) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
