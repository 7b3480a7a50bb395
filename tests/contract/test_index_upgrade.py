"""A newer version of ours reads again what an older one read, though no file has changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import psycopg
import pytest

from etl.pipeline import IndexRequest, index_repository
from etl.report import IndexReport
from plait.ports import GraphDelta, GraphStore
from plait.settings import Settings
from vector.store import Store

Run = Callable[[], Awaitable[IndexReport]]


class Nothing:
    """A graph that takes everything: these tests look at the rows."""

    async def apply(self, delta: GraphDelta) -> None: ...


async def no_graph() -> GraphStore:
    return cast(GraphStore, Nothing())


@pytest.fixture
def run(store: Store, truth_settings: Settings, tmp_path: Path) -> Run:
    (tmp_path / "a.c").write_text("int total(int a) {\n  return a;\n}\n")
    (tmp_path / "b.py").write_text("def other():\n    return 1\n")
    (tmp_path / "c.txt").write_text("text\n")

    async def again() -> IndexReport:
        request = IndexRequest(tmp_path, "r", embed=False)
        return await index_repository(request, truth_settings, store, no_graph, None)

    return again


async def test_what_an_older_version_read_is_read_again_once(run: Run, truth_dsn: str) -> None:
    assert (await run()).symbols == 2
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        # As version 1 left it: no symbols of C, an older shape of Python's, and no version of a run.
        conn.execute("SET search_path = plait, public")
        conn.execute("UPDATE file_version SET facts = '' WHERE language = 'c'")
        conn.execute("UPDATE file_version SET facts = 'older' WHERE language = 'python'")
        conn.execute("UPDATE repository SET stats = stats - 'facts_version'")
    second = await run()
    assert (second.changed, second.files_parsed, second.symbols) == (True, 2, 2)
    third = await run()
    assert (third.changed, third.files_parsed) == (False, 0)
    assert third.revision == second.revision


async def test_a_version_with_nothing_new_writes_nothing(run: Run, truth_dsn: str) -> None:
    first = await run()
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        conn.execute("SET search_path = plait, public")
        conn.execute("UPDATE repository SET stats = stats - 'facts_version'")
    again = await run()
    assert (again.changed, again.files_parsed, again.revision) == (False, 0, first.revision)
