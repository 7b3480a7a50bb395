"""The proof: what a search through every table still finds of what was forgotten.

It reads the catalogue, so that a table that is added later is searched as well. Ids are looked for in
all columns of ids and in the graph's names; words in all texts, and in the terms of the text index.
Words that others say too prove nothing: they are found out before the removal.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from psycopg import sql

from plait.text.near_duplicates import words
from plait.text.tokenize import tokens
from vector.connection.pool import Connection

MAX_WORDS = 12
MAX_CANDIDATES = 24
MIN_WORD = 5  # characters; shorter ones are parts of others
# Code is no memory, and `forgotten` has to say what is gone. Each of the others is searched.
SKIPPED = frozenset(
    {
        "schema_migration", "embedding_space", "repository", "repo_clock", "revision_log", "files",
        "file_version", "file_member", "graph_part", "graph_member", "symbol_name", "forgotten", "segment_dead",
    }
)  # fmt: skip
# The id of a request stays, so that its repeat is recognised. The events that remove it from the graph name its
# nodes until they are done: the outbox empties itself.
COLUMNS_SKIPPED = frozenset({"request_id"})
# Tables that only repeat queries and feedback of agents: a word found there does not count as used elsewhere, and is
# removed there, too.
ECHOES = frozenset({"recall", "feedback", "feedback_item"})
# By these a row is itself of what goes; by others it only refers to it.
OWN = frozenset({"id", "entry_id", "episode_id", "item_id"})
OUTBOX_COLUMNS = frozenset({"repo_id", "cause"})

COLUMNS = """
SELECT c.relname, a.attname, format_type(a.atttypid, NULL)
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
 WHERE c.relnamespace = 'plait'::regnamespace AND c.relkind = 'r'
   AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY c.relname, a.attnum
"""
POSTINGS = """
SELECT DISTINCT p.term FROM posting p JOIN segment s ON s.id = p.segment_id
 WHERE p.repo_id = %(repo)s AND s.repo_id = %(repo)s AND s.collection <> 'files'
   AND p.term = ANY(%(terms)s)
"""
SEGMENTS = "SELECT ids FROM segment WHERE repo_id = %(repo)s AND collection <> 'files'"
# What the planner keeps of columns' values: as text, so that one pattern finds it in any of them.
STATISTICS = """
SELECT count(*) FROM pg_stats
 WHERE schemaname = 'plait' AND tablename = ANY(%(tables)s)
   AND lower(concat(most_common_vals::text, histogram_bounds::text, most_common_elems::text))
       LIKE ANY(%(patterns)s)
"""
_TEXT = {"text", "jsonb", "text[]", "character varying"}


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    ids: tuple[str, ...]  # columns of type uuid
    id_lists: tuple[str, ...]
    texts: tuple[str, ...]
    of_repo: bool
    of_repos: bool = False  # a row may be of several

    def has_id(self, columns: Container[str] | None = None) -> sql.Composable:
        """Whether a row holds an id; in `columns`, or in any."""
        one: list[sql.Composable] = [sql.SQL("false")]
        one += [
            sql.SQL("{} = ANY(%(ids)s)").format(sql.Identifier(c))
            for c in self.ids
            if columns is None or c in columns
        ]
        many = [sql.SQL("{} && %(ids)s").format(sql.Identifier(c)) for c in self.id_lists]
        names = [
            sql.SQL("{} = ANY(%(names)s)").format(sql.Identifier(c))
            for c in ("source", "target", "name")
            if c in self.texts and self.name.startswith("memory_")
        ]
        return sql.SQL(" OR ").join([*one, *many, *names])

    def has_word(self, word: sql.Composable) -> sql.Composable:
        parts: list[sql.Composable] = [sql.SQL("false")]
        parts += [
            sql.SQL("lower({}::text) LIKE {}").format(sql.Identifier(c), word) for c in self.texts
        ]
        return sql.SQL(" OR ").join(parts)

    @property
    def mine(self) -> sql.Composable:
        if self.of_repos:
            return sql.SQL("%(repo)s = ANY(repo_ids)")
        return sql.SQL("repo_id = %(repo)s" if self.of_repo else "true")


@dataclass(frozen=True, slots=True)
class Gone:
    """What is looked for. `ids`: of entries, versions, items and episodes; `names`: of graph nodes."""

    repo_id: int
    ids: Sequence[Any]
    names: Sequence[str]
    words: tuple[str, ...] = ()

    @property
    def params(self) -> dict[str, Any]:
        return {
            "repo": self.repo_id,
            "ids": list(self.ids),
            "names": list(self.names),
            "words": list(self.words),
            "patterns": [f"%{_escaped(word)}%" for word in self.words],
            # A word's parts (`bo` of `bo399`) may well be parts of other words.
            "terms": sorted(word for word in self.words if word in tokens(word)),
        }


async def distinctive(conn: Connection, gone: Gone, texts: Sequence[str]) -> tuple[str, ...]:
    """Words of `texts` that occur nowhere else in the repository's memory. Call it before the removal; empty when
    every word occurs elsewhere, too."""
    found = {word for text in texts for word in words(text) if len(word) >= MIN_WORD}
    candidates = sorted(found, key=lambda w: (-len(w), w))[:MAX_CANDIDATES]
    if not candidates:
        return ()
    params = Gone(gone.repo_id, gone.ids, gone.names, tuple(candidates)).params
    for table in await _tables(conn):
        if table.name in ECHOES:
            continue
        # `words` are plain: nothing in them is a pattern but `_`.
        pattern = sql.SQL("'%%' || replace(w.word, '_', '\\_') || '%%'")
        cursor = await conn.execute(
            sql.SQL(
                "SELECT w.word FROM unnest(%(words)s::text[]) AS w (word) WHERE EXISTS ("
                "SELECT FROM {table} WHERE {mine} AND NOT coalesce({ids}, false) AND ({hit}))"
            ).format(
                table=sql.Identifier("plait", table.name),
                mine=table.mine,
                ids=sql.SQL("({})").format(table.has_id(OWN)),
                hit=table.has_word(pattern),
            ),
            params,
        )
        elsewhere = {word for (word,) in await cursor.fetchall()}
        candidates = [word for word in candidates if word not in elsewhere]
        params["words"] = candidates
        if not candidates:
            break
    return tuple(candidates[:MAX_WORDS])


async def left(conn: Connection, gone: Gone) -> dict[str, int]:
    """Rows of each table that still hold an id or a word of what is gone."""
    out: dict[str, int] = {}
    params = gone.params
    for table in await _tables(conn):
        query = sql.SQL("SELECT count(*) FROM {} WHERE {} AND (({}) OR ({}))").format(
            sql.Identifier("plait", table.name),
            table.mine,
            table.has_id(),
            table.has_word(sql.SQL("ANY(%(patterns)s)")),
        )
        cursor = await conn.execute(query, params)
        row = await cursor.fetchone()
        out[table.name] = int(row[0]) if row else 0
    cursor = await conn.execute(POSTINGS, params)
    out["posting"] = len(await cursor.fetchall())
    out["segment"] = await _in_segments(conn, gone)
    return out


async def in_statistics(conn: Connection, gone: Gone, tables: Sequence[str]) -> int:
    """The number of columns of `tables` whose statistics still contain a word that no row has any more. Statistics
    cover all repositories, so words of other repositories may remain."""
    if not (count := await _statistics(conn, gone, tables)):
        return 0
    still_used: set[str] = set()
    for table in await _tables(conn):
        query = sql.SQL(
            "SELECT w.word FROM unnest(%(words)s::text[], %(patterns)s::text[]) AS w (word, pattern) "
            "WHERE EXISTS (SELECT FROM {} WHERE {})"
        ).format(sql.Identifier("plait", table.name), table.has_word(sql.SQL("w.pattern")))
        cursor = await conn.execute(query, gone.params)
        still_used |= {word for (word,) in await cursor.fetchall()}
    unused = tuple(word for word in gone.words if word not in still_used)
    if not unused:
        return 0
    return await _statistics(conn, replace(gone, words=unused), tables) if still_used else count


async def _statistics(conn: Connection, gone: Gone, tables: Sequence[str]) -> int:
    cursor = await conn.execute(STATISTICS, {**gone.params, "tables": list(tables)})
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


async def _tables(conn: Connection) -> list[Table]:
    """All but the text index, which is searched its own way."""
    cursor = await conn.execute(COLUMNS)
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in await cursor.fetchall():
        if table in SKIPPED or table in ("posting", "segment"):
            continue
        if table != "outbox" or column in OUTBOX_COLUMNS:
            found.setdefault(table, []).append((column, kind))
    return [
        Table(
            name,
            tuple(c for c, kind in columns if kind == "uuid"),
            tuple(c for c, kind in columns if kind == "uuid[]"),
            tuple(c for c, kind in columns if kind in _TEXT and c not in COLUMNS_SKIPPED),
            any(c == "repo_id" for c, _ in columns),
            any(c == "repo_ids" for c, _ in columns),
        )
        for name, columns in found.items()
    ]


async def _in_segments(conn: Connection, gone: Gone) -> int:
    """Segments that hold a document of what is gone."""
    if not gone.ids:
        return 0
    removed = np.frombuffer(b"".join(id_.bytes for id_ in gone.ids), "S16")
    cursor = await conn.execute(SEGMENTS, gone.params)
    return sum(
        bool(np.isin(np.frombuffer(bytes(ids), "S16"), removed).any())
        for (ids,) in await cursor.fetchall()
    )


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
