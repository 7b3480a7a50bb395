"""What a batch's look-up of texts alike reads: what it finds, however young and small the table is."""

from __future__ import annotations

from typing import Any, LiteralString
from uuid import uuid4

import numpy as np
import psycopg
import pytest

from plait.domain.memory import NO_ID, MemoryEntry, MemoryMetadata, MemoryReceipt, MemoryWrite
from plait.memory.entry import check
from plait.text.near_duplicates import sketches, words
from vector.store import Store

TENANT = "default"
# Of this transaction; `memories` are the only rows that the look-up can read many of.
READ: LiteralString = (
    "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0) FROM pg_stat_xact_user_tables"
    " WHERE relname = 'memories'"
)


def text(n: int) -> str:
    """Of 20 words that no other has."""
    return " ".join(f"w{n}x{i}" for i in range(20))


def write(content: str) -> MemoryWrite:
    said = MemoryMetadata(session_key="s")
    return check(MemoryEntry(NO_ID, "r", "a", content, said), str(uuid4()))


def look_up(conn: psycopg.Connection[Any], repo_id: int, texts: list[str]) -> tuple[int, int]:
    """`(memories found, rows of memories read)` for `texts`."""
    rows = np.array(sketches("r", [words(one) for one in texts])).T.tolist()
    with conn.transaction():
        conn.execute("SELECT set_config('plait.tenant', %s, true)", (TENANT,))
        found = conn.execute(
            "SELECT id FROM similar_memories(%s, %s::int8[], 10, 2000)", (repo_id, rows)
        ).fetchall()
        (read,) = conn.execute(READ).fetchone() or (0,)
    return len(found), int(read)


@pytest.mark.parametrize("held", [20, 400])
async def test_a_look_up_reads_what_is_alike_and_no_more(
    store: Store, truth_dsn: str, held: int
) -> None:
    done = await store.memories.store(TENANT, [write(text(n)) for n in range(held)])
    assert all(isinstance(one, MemoryReceipt) for one in done)
    asked = [text(n) for n in range(held - 10, held + 200)]  # ten of them are there
    with psycopg.connect(truth_dsn, autocommit=True, options="-c search_path=plait") as conn:
        (repo_id,) = conn.execute("SELECT id FROM repository WHERE name = 'r'").fetchone() or (0,)
        found, read = look_up(conn, repo_id, asked)
    # Each of the ten is read once for each of its five numbers.
    assert (found, read) == (10, 50)


async def test_what_is_closed_is_not_found(store: Store, truth_dsn: str) -> None:
    kept, gone = await store.memories.store(TENANT, [write(text(1)), write(text(2))])
    assert isinstance(kept, MemoryReceipt)
    assert isinstance(gone, MemoryReceipt)
    await store.memories.delete(TENANT, "r", gone.entry.id)
    with psycopg.connect(truth_dsn, autocommit=True, options="-c search_path=plait") as conn:
        (repo_id,) = conn.execute("SELECT id FROM repository WHERE name = 'r'").fetchone() or (0,)
        assert look_up(conn, repo_id, [text(1), text(2)]) == (1, 5)


async def test_a_process_from_before_finds_as_much(store: Store, truth_dsn: str) -> None:
    """It asks with one list for all places, and goes on when another brings the schema up to date."""
    done = await store.memories.store(TENANT, [write(text(n)) for n in range(20)])
    assert all(isinstance(one, MemoryReceipt) for one in done)
    made = sketches("r", [words(text(n)) for n in range(20)])
    every = sorted({number for sketch in made for number in sketch})
    firsts = [sketch[0] for sketch in made]
    with psycopg.connect(truth_dsn, autocommit=True, options="-c search_path=plait") as conn:
        (repo_id,) = conn.execute("SELECT id FROM repository WHERE name = 'r'").fetchone() or (0,)
        conn.execute("SELECT set_config('plait.tenant', %s, false)", (TENANT,))
        for numbers in (every, firsts):
            found = conn.execute(
                "SELECT id FROM similar_memories(%s, %s::int8[], 10, 2000)", (repo_id, numbers)
            ).fetchall()
            assert len(found) == 20
