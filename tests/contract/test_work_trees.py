"""A second work tree or copy of what is indexed takes it over from the store, and shares no row with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
import pytest

from benchmarks.switches import Tree, answers, no_graph
from etl.embed import fill_vectors
from etl.pipeline import IndexRequest, index_repository
from etl.plan import IndexPlan, make_plan
from etl.report import IndexReport, NoProgress
from plait.domain.errors import PlaitError
from plait.domain.scope import DEFAULT_TENANT
from plait.domain.values import Filter
from plait.ports import Vectors
from plait.settings import Settings
from vector.index import copies
from vector.store import Store

MAIN = {
    "app/__init__.py": "",
    "app/one.py": "from app.two import two\n\n\ndef one():\n    return two()\n",
    "app/two.py": "def two():\n    return 2\n",
    "notes.md": "# Notes\n\nwhat one and two are for\n",
    "web/main.js": "function shown(x) {\n  return x;\n}\n",
}
# What only one of two work trees holds; the other may not even have its words.
BRANCH = {**MAIN, "app/two.py": "def two(cormorant):\n    return cormorant\n"}
TABLES = ("file_version", "file_member", "graph_part", "graph_member", "files", "segment")


class Model:
    """Counts the texts that are embedded."""

    model, dim = "m", 4

    def __init__(self) -> None:
        self.texts = 0

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.texts += len(texts)
        return np.ones((len(texts), self.dim), np.float32)

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        return np.ones(self.dim, np.float32)

    async def close(self) -> None: ...


class Case:
    def __init__(self, store: Store, settings: Settings, dsn: str, folder: Path) -> None:
        self.store, self._settings, self._dsn, self._folder = store, settings, dsn, folder
        self._trees: dict[str, Tree] = {}

    async def run(
        self,
        repo: str,
        files: dict[str, str],
        tenant: str = DEFAULT_TENANT,
        plan: IndexPlan | None = None,
    ) -> IndexReport:
        tree = self._trees.setdefault(repo, Tree(self._folder / repo))
        tree.bring(files, "main")
        request = IndexRequest(tree.root, repo, embed=False, tenant=tenant, plan=plan)
        return await index_repository(request, self._settings, self.store, no_graph, None)

    def plan(self, repo: str) -> IndexPlan:
        return make_plan(self._trees[repo].root, self._settings)

    async def clean(self, files: dict[str, str]) -> Any:
        """Answers of an index that has nobody to take anything from; names are as long as others'."""
        report = await self.run("alone", files, "x")
        assert report.files_parsed == len(files)
        found = await answers(self.store, report.repo)
        await self.store.repositories.delete(report.repo, "x")
        return found

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._dsn, options="-c search_path=plait") as conn:
            return conn.execute(query.encode()).fetchall()


@pytest.fixture
def case(store: Store, truth_settings: Settings, truth_dsn: str, tmp_path: Path) -> Case:
    return Case(store, truth_settings, truth_dsn, tmp_path)


async def test_an_equal_tree_is_neither_parsed_nor_bound(case: Case) -> None:
    first = await case.run("main-01", MAIN)
    second = await case.run("work-01", MAIN)
    assert (second.files_parsed, second.chunks_written) == (0, 0)
    assert (second.files, second.chunks, second.symbols) == (
        first.files,
        first.chunks,
        first.symbols,
    )
    assert (second.nodes, second.edges) == (first.nodes, first.edges)
    assert await answers(case.store, "work-01") == await case.clean(MAIN)


async def test_of_another_branch_only_what_differs_is_parsed_and_nothing_else_is_taken(
    case: Case,
) -> None:
    await case.run("main-01", BRANCH)
    second = await case.run("work-01", MAIN)
    assert (second.files_parsed, second.files) == (1, len(MAIN))
    assert await answers(case.store, "work-01") == await case.clean(MAIN)
    holders = case.rows(
        "SELECT DISTINCT r.name FROM posting p JOIN repository r ON r.id = p.repo_id WHERE term = 'cormorant'"
    )
    assert holders == [("main-01",)]


async def test_contents_of_a_sibling_are_taken_into_a_repository_that_is_indexed(
    case: Case,
) -> None:
    many = {f"lib/m{n:02}.py": f"def made{n}(value):\n    return value\n" for n in range(60)}
    await case.run("main-01", MAIN)
    await case.run("work-01", {**MAIN, **many})
    merged = await case.run("main-01", {**BRANCH, **many})
    assert (merged.changed, merged.files_parsed) == (True, 1)
    assert await answers(case.store, "main-01") == await case.clean({**BRANCH, **many})


@pytest.mark.parametrize("removed", ["main-01", "work-01"])
async def test_a_removed_work_tree_leaves_the_others_rows(case: Case, removed: str) -> None:
    await case.run("main-01", MAIN)
    await case.run("work-01", MAIN)
    await case.store.repositories.delete(removed)
    left = "work-01" if removed == "main-01" else "main-01"
    assert await answers(case.store, left) == await case.clean(MAIN)
    gone = f"(SELECT id FROM repository WHERE name = '{removed}')"
    for table in TABLES:
        assert case.rows(f"SELECT FROM {table} WHERE repo_id = {gone}") == [], table


async def test_nothing_is_taken_from_another_tenant(case: Case) -> None:
    await case.run("main-01", MAIN, "a")
    assert (await case.run("work-01", MAIN, "b")).files_parsed == len(MAIN)


async def test_a_search_of_one_work_tree_finds_nothing_of_the_other(case: Case) -> None:
    await case.run("main-01", MAIN)
    await case.run("work-01", MAIN)
    await case.run("work-01", BRANCH)
    for repo, there in (("main-01", []), ("work-01", ["app/two.py"])):
        where = Filter(repos=(repo,))
        view = await case.store.search.view(where)
        found = await case.store.search.lexical(view, ["cormorant"], where, 10)
        items = await case.store.search.fetch(view, [c.id for c in found])
        assert sorted({item.path for item in items.values()}) == there


@pytest.mark.parametrize("in_background", [False, True])
async def test_an_equal_text_is_never_embedded_again(
    case: Case, monkeypatch: pytest.MonkeyPatch, in_background: bool
) -> None:
    """Large copies leave the growing of an HNSW index to the background."""
    model = Model()
    await case.run("main-01", MAIN)
    await fill_vectors(case.store.vectors, model, "main-01", NoProgress())
    once = model.texts
    assert once
    if in_background:
        monkeypatch.setattr(copies, "MOST_VECTORS", 0)
        with psycopg.connect(case._dsn, options="-c search_path=plait,public") as conn:
            conn.execute(
                "CREATE INDEX files_embedding_4 ON files USING hnsw"
                " ((embedding::halfvec(4)) halfvec_cosine_ops)"
            )
    second = await case.run("work-01", MAIN)
    assert second.embedded == (0 if in_background else second.chunks)
    filled = await fill_vectors(case.store.vectors, model, "work-01", NoProgress())
    assert filled == (second.chunks, second.chunks)
    assert model.texts == once
    assert case.rows("SELECT embedded = chunks FROM repository WHERE published > 0") == [
        (True,),
        (True,),
    ]


async def test_a_copy_that_breaks_off_leaves_nothing(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    await case.run("main-01", MAIN)

    async def broken(*args: object, **named: object) -> None:
        raise PlaitError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(case.store.index, "publish", broken)
        with pytest.raises(PlaitError):
            await case.run("work-01", MAIN)
    for table in TABLES:
        assert not case.rows(
            f"SELECT FROM {table} WHERE repo_id = (SELECT id FROM repository WHERE name = 'work-01')"
        )
    assert (await case.run("work-01", MAIN)).files_parsed == 0
    assert await answers(case.store, "work-01") == await case.clean(MAIN)


async def test_a_copy_that_is_tried_again_is_there_once(case: Case) -> None:
    """As after a connection that was lost behind a commit."""
    await case.run("main-01", MAIN)
    index = case.store.index
    draft = await index.begin("work-01", "/elsewhere")
    paths = case.rows("SELECT path, content_hash FROM source_file")
    wanted = {path: bytes(digest) for path, digest in paths}
    version = case.rows("SELECT (stats->>'facts_version')::int FROM repository WHERE published > 0")
    sibling = await index.sibling(draft, wanted, version[0][0])
    assert sibling is not None
    files = list((await index.sibling_files(sibling, wanted)).values())
    for _ in range(2):
        assert await index.copy_files(draft, sibling, files) == frozenset(MAIN)
    counted = "SELECT repo_id, count(*) FROM {} GROUP BY repo_id"
    for table in ("file_version", "file_member", "files", "segment"):
        counts = [n for _, n in case.rows(counted.format(table))]
        assert len(counts) == 2, table
        assert counts[0] == counts[1], table
    await index.discard(draft)


async def test_what_the_sibling_replaced_meanwhile_is_not_copied(case: Case) -> None:
    """Between finding a file and copying it, another run may publish."""
    await case.run("main-01", MAIN)
    index = case.store.index
    draft = await index.begin("work-01", "/elsewhere")
    rows = case.rows("SELECT path, content_hash FROM source_file")
    wanted = {path: bytes(digest) for path, digest in rows}
    version = case.rows("SELECT (stats->>'facts_version')::int FROM repository WHERE published > 0")
    sibling = await index.sibling(draft, wanted, version[0][0])
    assert sibling is not None
    files = list((await index.sibling_files(sibling, wanted)).values())
    await case.run("main-01", BRANCH)
    assert await index.copy_files(draft, sibling, files) == frozenset(MAIN) - {"app/two.py"}
    await index.discard(draft)


async def test_words_that_come_without_vectors_get_theirs(case: Case, truth_dsn: str) -> None:
    await case.run("main-01", MAIN)
    with psycopg.connect(truth_dsn, options="-c search_path=plait") as conn:
        assert conn.execute("DELETE FROM segment_vector").rowcount > 0
    await case.run("work-01", MAIN)
    lacking = (
        "SELECT count(*) FROM segment s JOIN repository r ON r.id = s.repo_id"
        " WHERE r.name = 'work-01' AND s.collection = 'files'"
        " AND NOT EXISTS (SELECT FROM segment_vector v WHERE v.segment_id = s.id)"
    )
    assert case.rows(lacking) == [(0,)]


async def test_a_walk_from_before_a_publish_is_done_again(case: Case) -> None:
    """A run that waited for another would remove the files that came with it."""
    await case.run("main-01", MAIN)
    old = case.plan("main-01")
    more = {**MAIN, "app/three.py": "def three():\n    return 3\n"}
    await case.run("main-01", more)
    report = await case.run("main-01", more, plan=old)
    assert (report.files, report.files_removed) == (len(more), 0)
