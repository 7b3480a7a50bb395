"""A run whose words are many writes several BM25 segments, and each chunk is in one of them."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import psycopg
import pytest

from etl.parsing import pool, segment
from etl.pipeline import IndexRequest, index_repository
from plait.settings import Settings
from vector.store import Store

FILES = 6


async def test_a_large_run_writes_several_segments(
    store: Store,
    truth_settings: Settings,
    truth_dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "BATCH_FILES", 1)
    monkeypatch.setattr(segment, "MOST_POSTINGS", 10)
    for i in range(FILES):
        (tmp_path / f"m{i}.py").write_text(f"def f{i}(one, two):\n    return word{i}(one, two)\n")
    request = IndexRequest(tmp_path, "r", embed=False)
    report = await index_repository(request, truth_settings, store, None, None)
    with psycopg.connect(truth_dsn) as conn:
        conn.execute("SET search_path = plait, public")
        rows = conn.execute("SELECT docs, length(ids) / 16 FROM segment").fetchall()
        terms = "SELECT term, count(*) FROM posting WHERE term LIKE 'word_' OR term = 'two' GROUP BY term"
        found = dict(cast(list[tuple[str, int]], conn.execute(terms).fetchall()))
    assert 1 < len(rows) <= FILES
    assert sum(docs for docs, _ in rows) == sum(ids for _, ids in rows) == report.chunks == FILES
    assert {f"word{i}": 1 for i in range(FILES)}.items() <= found.items()
    assert found["two"] == len(rows)
