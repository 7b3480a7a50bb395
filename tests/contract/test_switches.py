"""Code that comes back (branches, undone edits) is answered as a clean index answers it, and is not read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from benchmarks.switches import Play, Tree, answers, no_graph
from etl.pipeline import IndexRequest, index_repository
from etl.report import IndexReport
from etl.truth import open as open_truth
from plait.domain.values import Filter
from plait.settings import Settings
from vector.index.kept_trees import RECENT, selected
from vector.store import Store

MAIN = {
    "a.py": "from b import two\n\n\ndef one():\n    return two()\n",
    "b.py": "def two():\n    return 2\n",
}
BRANCH = {**MAIN, "b.py": "def two(value):\n    return value\n", "c.md": "# notes\n"}


async def test_random_switches_answer_as_clean_indexes(
    store: Store, truth_settings: Settings, tmp_path: Path
) -> None:
    counts = await Play(store, truth_settings, tmp_path, seed=13).run(40)
    assert counts.wrong == []
    assert counts.runs["taken up"] > 3, counts.runs
    assert counts.runs["a copy"], counts.runs


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "tree")


def limited(settings: Settings, trees: int) -> Settings:
    return msgspec.structs.replace(
        settings, index=msgspec.structs.replace(settings.index, keep_trees=trees)
    )


async def indexed(store: Store, settings: Settings, tree: Tree) -> IndexReport:
    request = IndexRequest(tree.root, "r", embed=False)
    return await index_repository(request, settings, store, no_graph, None)


def ids(dsn: str) -> set[Any]:
    with psycopg.connect(dsn) as conn:
        return {row[0] for row in conn.execute("SELECT id FROM plait.files").fetchall()}


async def test_a_tree_that_comes_back_is_neither_parsed_nor_bound(
    store: Store, truth_settings: Settings, truth_dsn: str, tree: Tree
) -> None:
    tree.bring(MAIN, "main")
    first = await indexed(store, truth_settings, tree)
    before = await answers(store, "r")
    tree.bring(BRANCH, "feature")
    await indexed(store, truth_settings, tree)
    stored = ids(truth_dsn)
    tree.bring(MAIN, "main")
    back = await indexed(store, truth_settings, tree)
    assert (back.changed, back.files_parsed, back.chunks_written) == (True, 0, 0)
    assert back.revision == first.revision + 2
    assert (back.symbols, back.nodes, back.edges) == (first.symbols, first.nodes, first.edges)
    assert (back.files, back.chunks) == (first.files, first.chunks)
    assert await answers(store, "r") == before
    assert ids(truth_dsn) == stored


async def test_a_content_that_comes_back_in_another_tree_is_not_parsed(
    store: Store, truth_settings: Settings, tree: Tree
) -> None:
    tree.bring(MAIN, "main")
    await indexed(store, truth_settings, tree)
    tree.bring(BRANCH, "feature")
    await indexed(store, truth_settings, tree)
    tree.bring({**MAIN, "a.py": MAIN["a.py"] + "\n\nONE = one()\n"}, "main")
    report = await indexed(store, truth_settings, tree)
    assert (report.files_parsed, report.files_removed) == (1, 1)


async def test_a_module_that_is_renamed_by_its_neighbours_is_parsed_again(
    store: Store, truth_settings: Settings, tree: Tree
) -> None:
    """The same content at the same path, but `lib.a` in place of `a`."""
    plain = {"lib/a.py": "def alpha():\n    return 1\n"}
    package = {**plain, "lib/__init__.py": ""}
    for files, symbol in ((plain, "a"), (package, "lib.a"), (plain, "a"), (package, "lib.a")):
        tree.bring(files, "main")
        await indexed(store, truth_settings, tree)
        named = (await answers(store, "r"))[0]["named alpha"]
        assert named == [("lib/a.py", f"{symbol}.alpha")]


async def test_words_that_come_back_as_segments_are_merged_are_found(
    store: Store, truth_settings: Settings, tree: Tree
) -> None:
    """The ninth small segment makes one of all, and brings back all that one of them holds."""
    heron, cormorant = {"n.md": "about a heron\n"}, {"n.md": "about a cormorant\n"}
    files = {"first.md": "first\n"}
    for n, change in enumerate(
        (
            heron,
            cormorant,
            heron,
            *({f"m{m}.md": f"number {m}\n"} for m in range(6)),
            {**cormorant, "last.md": "last\n"},
        )
    ):
        files |= change
        tree.bring(files, f"branch-{n}")  # the last tree of each stays
        await indexed(store, truth_settings, tree)
    where = Filter(repos=("r",))
    view = await store.search.view(where)
    assert len(await store.search.lexical(view, ["cormorant"], where, 10)) == 1
    assert await store.search.lexical(view, ["heron"], where, 10) == []


async def test_without_kept_trees_what_left_is_gone_after_the_next_run(
    store: Store, truth_settings: Settings, truth_dsn: str, tree: Tree
) -> None:
    settings = limited(truth_settings, 0)
    forgetful = await open_truth(settings)
    for files in (MAIN, BRANCH, {**BRANCH, "d.md": "# one\n"}, {**BRANCH, "d.md": "# two\n"}):
        tree.bring(files, "main")
        await indexed(forgetful, settings, tree)
    with psycopg.connect(truth_dsn) as conn:
        left = conn.execute(
            "SELECT count(*) FROM plait.file_version WHERE path = 'b.py'"
        ).fetchone()
    assert left == (1,)
    tree.bring(MAIN, "main")
    assert (await indexed(forgetful, settings, tree)).files_parsed == 1
    await forgetful.close()


async def test_a_run_that_breaks_off_while_it_takes_a_tree_up_leaves_nothing(
    store: Store, truth_settings: Settings, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.bring(MAIN, "main")
    await indexed(store, truth_settings, tree)
    tree.bring(BRANCH, "feature")
    await indexed(store, truth_settings, tree)
    there = await answers(store, "r")
    tree.bring(MAIN, "main")

    async def broken(*args: object, **named: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(store.index, "publish", broken)
        with pytest.raises(RuntimeError):
            await indexed(store, truth_settings, tree)
    assert await answers(store, "r") == there
    assert (await indexed(store, truth_settings, tree)).files_parsed == 0
    tree.bring(BRANCH, "feature")
    await indexed(store, truth_settings, tree)
    assert await answers(store, "r") == there


def test_each_branch_keeps_its_last_tree() -> None:
    """Newest first; many saves on one branch do not push out another's tree."""
    saves = [(100 - n, b"%d" % n, "main") for n in range(20)]
    others = [(50, b"x", "feature"), (49, b"y", "feature"), (48, b"z", "old")]
    kept = selected([*saves, *others], 16)
    assert kept == [100, 99, 98, 97, 50, 48][: RECENT + 2]
    assert selected([*saves, *others], 5) == [100, 99, 98, 97, 50]
    assert selected([(2, b"same", "a"), (1, b"same", "b")], 16) == [2]
    assert selected(saves, 0) == []
