"""Templates of the memory layer, and the verbs of MemoryLinkStore under them, as of two times."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
import pytest

from plait.domain.answers.graph import GraphResult
from plait.domain.errors import AmbiguousSymbol, UnknownSymbol
from plait.domain.graph import Relation
from plait.domain.scope import qualify
from plait.domain.values import Collection, Filter
from plait.ports import View
from plait.retrieval.code_graph.templates import memories
from plait.retrieval.code_graph.templates.catalogue import find
from plait.retrieval.code_graph.templates.cells import Limits
from tests.contract.test_scopes import index_for
from tests.processes import LIMIT_S
from vector.store import Store

REPO = "story"
F, TEST, FILE = "m.f", "test_m.test_f", "/m.toy"
COMMIT = "commit/0123456789abcdef0123456789abcdef01234567"
RUN, RUN_0 = (f"episode/{n}0000000-0000-7000-8000-000000000000" for n in (1, 2))
DIFF, DIFF_0 = "diff/1/m.toy", "diff/0/m.toy"
MEMORY = "memory/30000000-0000-7000-8000-000000000000"

# source, relation, target, resolver, confidence, valid from and to, recorded from and to
LINKS: list[tuple[Any, ...]] = [
    (COMMIT, "CAUSES", "issue/7", "text", 0.7, None, None, 50, None),
    (DIFF_0, "FIXES", "issue/7", "text", 0.8, None, None, 100, 200),
    (DIFF_0, "CAUSES", "issue/7", "test-run", 0.9, None, None, 120, None),
    (RUN, "CONTAINS", DIFF, "", 1.0, None, None, 150, None),
    (RUN_0, "CONTAINS", DIFF_0, "", 1.0, None, None, 110, None),
    (DIFF, "FIXES", "issue/7", "text", 0.8, None, None, 150, None),
    (DIFF, "TOUCHES", F, "hunk", 1.0, None, None, 150, None),
    (DIFF, "TOUCHES", "m.gone", "hunk", 1.0, None, None, 150, None),
    (F, "VALIDATED_BY", TEST, "test-run", 1.0, None, None, 150, None),
    (MEMORY, "MENTIONS", F, "anchor", 1.0, 1000, 2000, 300, None),
]


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@pytest.fixture
async def story(store: Store, truth_dsn: str) -> Store:
    """Issue 7 was caused by a commit, and fixed by a diff of a run that touches m.f, shown by a test; until
    200 an earlier diff was said to fix it; a memory names m.f, true from 1,000 to 2,000."""
    await index_for(store, "default", REPO, {"m.toy": ["f:"], "test_m.toy": ["test_f: f"]})
    with psycopg.connect(truth_dsn, options="-c search_path=plait") as conn:
        row = conn.execute("SELECT id FROM repository WHERE name = %s", (REPO,)).fetchone()
        assert row is not None
        (repo,) = row
        for name in (RUN, RUN_0):
            conn.execute(
                "INSERT INTO episode (id, repo_id, outcome, started_at, recorded_at)"
                ' VALUES (%s, %s, \'{"status": "success"}\', %s, %s)',
                (name.partition("/")[2], repo, at(1), at(110)),
            )
        for name, label in (
            ("issue/7", "Issue"), (COMMIT, "Commit"), (DIFF, "Diff"), (DIFF_0, "Diff"),
        ):  # fmt: skip
            conn.execute(
                "INSERT INTO memory_node (repo_id, name, label, recorded_at) VALUES (%s, %s, %s, %s)",
                (repo, name, label, at(40)),
            )
        conn.execute(
            "INSERT INTO item (id, repo_id, collection, kind, entry_id, content, content_hash, rev_from, ts,"
            " recorded_at) VALUES (gen_random_uuid(), %s, 'memories', 'entry', %s, 'f is called late', '\\x01', 0,"
            " %s, %s)",
            (repo, MEMORY.partition("/")[2], at(300), at(300)),
        )
        for source, relation, target, resolver, confidence, *times in LINKS:
            conn.execute(
                "INSERT INTO memory_edge (repo_id, source, relation, target, resolver, confidence,"
                " valid_from, valid_to, recorded_from, recorded_to)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                (
                    repo,
                    source,
                    relation,
                    target,
                    resolver,
                    confidence,
                    *tuple(None if one is None else at(one) for one in times),
                ),
            )
    return store


async def view_at(
    store: Store, valid: float | None = None, recorded: float | None = None, **more: Any
) -> View:
    where = Filter(repos=(REPO,), collections=tuple(Collection), **more)
    view = await store.search.view(where)
    return View(
        view.revisions,
        "",
        0,
        view.tenant,
        view.valid if valid is None else at(valid),
        None if recorded is None else at(recorded),
    )


async def ask(
    store: Store,
    name: str,
    valid: float | None = None,
    recorded: float | None = None,
    max_rows: int = 100,
    **given: Any,
) -> GraphResult:
    view = await view_at(store, valid, recorded)
    code = partial(store.relations.code_graph, view, REPO, wait_s=LIMIT_S)
    source = memories.Source(store.memory_links, view, REPO, code)
    return await memories.answer(source, name, find(name).check(given), Limits(max_rows, 1 << 20))


def ids(result: GraphResult, column: str) -> list[str]:
    index = result.columns.index(column)
    return [row[index].id.partition(":")[2] if row[index] else "" for row in result.rows]


async def test_history_is_what_touched_or_named_a_symbol_newest_first(story: Store) -> None:
    found = await ask(story, "history", 1500, thing=F)
    assert found.columns == ("what", "link", "relation", "recorded_from")
    assert ids(found, "what") == [MEMORY, DIFF]
    assert [row[2:] for row in found.rows] == [["MENTIONS", 300_000], ["TOUCHES", 150_000]]
    assert found.rows[0][0].properties["name"] == "f is called late"
    for valid, recorded in ((None, None), (999, None), (2000, None), (1500, 299)):
        assert ids(await ask(story, "history", valid, recorded, thing=F), "what") == [DIFF]
    assert not (await ask(story, "history", recorded=149, thing=F)).rows
    cut = await ask(story, "history", 1500, thing=F, max_rows=1)
    assert (ids(cut, "what"), cut.truncated) == ([MEMORY], True)


@pytest.mark.parametrize("issue", ["issue/7", "#7", "7", "story:issue/7"])
async def test_chain_goes_from_issue_to_diff_to_function_to_test(story: Store, issue: str) -> None:
    found = await ask(story, "chain", issue=issue)
    assert ids(found, "issue") == ["issue/7"]
    assert ids(found, "fix") == [DIFF]
    assert ids(found, "code") == [F]
    assert ids(found, "test") == [TEST]
    assert [edge.relation for edge in found.rows[0][4:]] == ["FIXES", "TOUCHES", "VALIDATED_BY"]


@pytest.mark.parametrize(
    ("recorded", "fixes"), [(99, []), (100, [DIFF_0]), (199, [DIFF_0, DIFF]), (200, [DIFF])]
)
async def test_chain_answers_as_of_what_was_known(
    story: Store, recorded: int, fixes: list[str]
) -> None:
    found = await ask(story, "chain", recorded=recorded, issue="issue/7")
    assert ids(found, "fix") == fixes
    touched = {DIFF_0: "", DIFF: F}
    assert ids(found, "code") == [touched[fix] for fix in fixes]


async def test_causes_are_named_the_surest_first_each_with_its_run(story: Store) -> None:
    found = await ask(story, "causes", issue="issue/7")
    assert ids(found, "cause") == [DIFF_0, COMMIT]
    assert ids(found, "run") == [RUN_0, ""]
    assert [row[2] for row in found.rows] == [0.9, 0.7]
    assert ids(await ask(story, "causes", recorded=60, issue="issue/7"), "cause") == [COMMIT]


async def test_a_commit_is_found_by_its_first_digits(story: Store, truth_dsn: str) -> None:
    assert not (await ask(story, "history", thing="0123456")).rows
    for unknown in ("fedcba9", "0123457", "0123456g"):
        with pytest.raises(UnknownSymbol):
            await ask(story, "history", thing=unknown)
    with psycopg.connect(truth_dsn, options="-c search_path=plait") as conn:
        conn.execute(
            "INSERT INTO memory_node (repo_id, name, label, recorded_at)"
            " SELECT repo_id, left(name, -1) || '8', label, recorded_at FROM memory_node WHERE name = %s",
            (COMMIT,),
        )
    with pytest.raises(AmbiguousSymbol, match="any of 2"):
        await ask(story, "history", thing="0123456")


async def test_a_file_and_a_run_have_a_history_too(story: Store) -> None:
    assert not (await ask(story, "history", thing="m.toy")).rows
    assert ids(await ask(story, "history", thing=DIFF), "what") == [RUN]
    assert not (await ask(story, "history", thing=RUN)).rows
    with pytest.raises(UnknownSymbol, match=r"m\.g"):
        await ask(story, "history", thing="m.g")


async def test_without_code_only_what_agents_did_is_known(store: Store, truth_dsn: str) -> None:
    with psycopg.connect(truth_dsn, options="-c search_path=plait") as conn:
        conn.execute(
            "WITH r AS (INSERT INTO repository (name, tenant) VALUES (%s, 'default') RETURNING id)"
            " INSERT INTO memory_node (repo_id, name, label, recorded_at)"
            " SELECT id, 'issue/7', 'Issue', now() FROM r",
            (REPO,),
        )
    assert not (await ask(store, "history", thing="#7")).rows
    with pytest.raises(UnknownSymbol, match=r"m\.f"):
        await ask(store, "history", thing=F)


async def test_links_and_nodes_are_the_tenant_s(story: Store) -> None:
    mine = await view_at(story)
    links = partial(story.memory_links.links, into=True, limit=10)
    assert len(await links(mine, REPO, [F])) == 1
    assert len(await links(mine, REPO, [F], [Relation.MENTIONS])) == 0
    assert len(await links(mine, REPO, [F], sources=("memory",))) == 0
    assert await links(mine, "elsewhere", [F]) == []
    assert await links(mine, REPO, ["\0"]) == []
    assert set(await story.memory_links.nodes(mine, REPO, [RUN, "issue/7", "issue/8", "\0"])) == {
        RUN,
        "issue/7",
    }
    # A view with somebody else's revisions in it: row security shows none of their rows.
    await index_for(story, "acme", qualify("acme", "r"), {"a.toy": ["x:"]})
    forged = View(mine.revisions, "", 0, "acme", mine.valid, None)
    assert await links(forged, REPO, [F]) == []
    assert await story.memory_links.nodes(forged, REPO, [RUN, "issue/7"]) == {}
    assert await story.memory_links.commits(forged, REPO, "0123456") == []
