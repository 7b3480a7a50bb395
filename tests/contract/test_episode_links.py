"""What episodes touch, fix and validate: a real repository indexed, a bug made, found and fixed."""

from __future__ import annotations

import hashlib
import itertools
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

import graph
from etl.pipeline import IndexRequest, index_repository
from etl.project import Projector
from plait.domain.deadline import Deadline
from plait.domain.values import Artifact, ArtifactKind, Episode, Evidence, Outcome
from plait.ports import GraphDelta, GraphStore
from plait.settings import Settings
from tests.processes import LIMIT_S
from vector.store import Store

GOOD = """\
def total(prices):
    result = 0
    for price in prices:
        result += price
    return result


def mean(prices):
    if not prices:
        return 0
    return total(prices) / len(prices)
"""
BAD = GOOD.replace("    if not prices:\n        return 0\n", "")
TESTS = """\
from shop.cart import mean, total


def test_total():
    assert total([1, 2]) == 3


class TestMean:
    def test_of_two(self):
        assert mean([1, 3]) == 2

    def test_of_none(self):
        assert mean([]) == 0
"""
BREAK = """\
diff --git a/shop/cart.py b/shop/cart.py
--- a/shop/cart.py
+++ b/shop/cart.py
@@ -6,6 +6,4 @@ def total(prices):


 def mean(prices):
-    if not prices:
-        return 0
     return total(prices) / len(prices)
"""
FIX = """\
diff --git a/shop/cart.py b/shop/cart.py
--- a/shop/cart.py
+++ b/shop/cart.py
@@ -6,4 +6,6 @@ def total(prices):


 def mean(prices):
+    if not prices:
+        return 0
     return total(prices) / len(prices)
"""
MEAN, NONE = "shop.cart.mean", "tests.test_cart.TestMean.test_of_none"
NODE_ID = "tests/test_cart.py::TestMean::test_of_none"
START = datetime(2026, 3, 1, tzinfo=UTC)
_numbers = itertools.count(1)

Edge = tuple[str, str, str]


class Nothing:
    """A graph that takes everything, for tests that look at the rows."""

    async def apply(self, delta: GraphDelta) -> None: ...


async def no_graph() -> GraphStore:
    return cast(GraphStore, Nothing())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in {
        "shop/__init__.py": "",
        "shop/cart.py": GOOD,
        "tests/test_cart.py": TESTS,
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.fixture
def indexed(store: Store, truth_settings: Settings, root: Path) -> Callable[..., Awaitable[None]]:
    """Index `root`, with `cart.py` as given; what waits is projected."""

    async def index(
        cart: str = GOOD, repo: str = "shop", opened: Callable[..., Any] = no_graph
    ) -> None:
        (root / "shop/cart.py").write_text(cart)
        request = IndexRequest(root, repo, embed=False)
        await index_repository(request, truth_settings, store, opened, None)

    return index


async def project(store: Store, opened: Callable[..., Any] = no_graph) -> None:
    await Projector(store.outbox, opened).run_until_idle()


def diff(text: str = FIX) -> Artifact:
    return Artifact(ArtifactKind.DIFF, text)


def ran(status: str, name: str = NODE_ID) -> Artifact:
    tests = [{"name": name, "status": status, "took_ms": 1.5}]
    return Artifact(ArtifactKind.TEST_RESULT, "ran", meta={"tests": tests})


def episode(
    day: float, *artifacts: Artifact, summary: str = "", status: str = "success", **more: Any
) -> Episode:
    number = next(_numbers)
    return Episode(
        request_id=f"q{number}",
        repo=more.pop("repo", "shop"),
        outcome=Outcome(status, summary, commit=more.pop("commit", "")),
        artifacts=artifacts,
        started_at=START + timedelta(days=day),
        body_hash=str(number).encode(),
        **more,
    )


@pytest.fixture
def edges(truth_dsn: str) -> Callable[..., set[Edge]]:
    """The open edges of some relations, ids shortened: `diff/<item>/p` is `diff/p`."""

    def read(*relations: str) -> set[Edge]:
        with psycopg.connect(truth_dsn) as conn:
            rows = conn.execute(
                "SELECT source, relation, target FROM plait.memory_edge"
                " WHERE recorded_to IS NULL AND relation = ANY(%s)",
                (list(relations),),
            ).fetchall()
        return {(_short(s), r, _short(t)) for s, r, t in rows}

    return read


def _short(name: str) -> str:
    kind, _, rest = name.partition("/")
    if kind == "diff":
        return f"diff/{rest.partition('/')[2]}"
    return kind if kind == "episode" else name


async def test_a_failing_test_a_fix_and_the_chain(
    store: Store, indexed: Callable[..., Awaitable[None]], edges: Callable[..., set[Edge]]
) -> None:
    await indexed(BAD)
    await store.episodes.append(
        episode(1, ran("failed"), summary="reproduced #12", status="failure")
    )
    await store.episodes.append(episode(2, diff(), ran("passed"), summary="guard for no prices"))
    await project(store)
    assert edges("FIXES") == {("diff/shop/cart.py", "FIXES", "issue/12")}
    assert edges("VALIDATED_BY") == {
        ("diff/shop/cart.py", "VALIDATED_BY", NONE),
        (MEAN, "VALIDATED_BY", NONE),
        ("episode", "VALIDATED_BY", NONE),
    }
    assert ("diff/shop/cart.py", "TOUCHES", MEAN) in edges("TOUCHES")
    assert ("diff/shop/cart.py", "TOUCHES", "shop.cart.total") not in edges("TOUCHES")
    assert edges("MENTIONS") == {("episode", "MENTIONS", "issue/12")}


@pytest.mark.parametrize("state", [GOOD, BAD], ids=["after the fix", "before the fix"])
@pytest.mark.parametrize("text", [FIX, BREAK], ids=["fix", "break"])
async def test_hunks_are_found_in_the_file_before_and_after_them(
    store: Store, indexed: Callable[..., Awaitable[None]], truth_dsn: str, state: str, text: str
) -> None:
    await indexed("# moved\n\n\n" + state)
    await store.episodes.append(episode(1, diff(text)))
    await project(store)
    with psycopg.connect(truth_dsn) as conn:
        assert conn.execute("SELECT symbols FROM plait.hunk").fetchall() == [([MEAN],)]


CHAIN: list[Callable[[], Episode]] = [
    lambda: episode(1, ran("passed")),
    lambda: episode(2, diff(BREAK)),
    lambda: episode(3, ran("failed"), summary="#12 again", status="failure"),
    lambda: episode(4, diff()),
    lambda: episode(5, ran("passed")),
]


@pytest.mark.parametrize("order", list(itertools.permutations(range(5)))[::17])
async def test_episodes_may_arrive_in_any_order(
    store: Store,
    indexed: Callable[..., Awaitable[None]],
    edges: Callable[..., set[Edge]],
    truth_dsn: str,
    order: tuple[int, ...],
) -> None:
    await indexed(GOOD)
    episodes = [make() for make in CHAIN]
    for place in order:
        await store.episodes.append(episodes[place])
        await project(store)
    with psycopg.connect(truth_dsn) as conn:
        found = conn.execute(
            "SELECT e.relation, d.started_at, e.target FROM plait.memory_edge e"
            "  JOIN plait.memory_node n ON n.name = e.source AND n.label = 'Diff'"
            "  JOIN plait.episode d ON d.id = n.episode_id"
            " WHERE e.recorded_to IS NULL AND e.resolver = 'test-run' ORDER BY 1"
        ).fetchall()
    day = {n: START + timedelta(days=n) for n in range(6)}
    assert found == [
        ("CAUSES", day[2], "issue/12"),
        ("FIXES", day[4], "issue/12"),
        ("VALIDATED_BY", day[4], NONE),
    ]
    assert (MEAN, "VALIDATED_BY", NONE) in edges("VALIDATED_BY")


async def test_before_and_after_in_one_episode(
    store: Store, indexed: Callable[..., Awaitable[None]], edges: Callable[..., set[Edge]]
) -> None:
    await indexed(BAD)
    await store.episodes.append(
        episode(1, ran("failed"), diff(), ran("passed"), summary="Fixes #7")
    )
    await project(store)
    assert edges("FIXES") == {("diff/shop/cart.py", "FIXES", "issue/7")}
    assert (MEAN, "VALIDATED_BY", NONE) in edges("VALIDATED_BY")


@pytest.mark.parametrize(
    "episodes",
    [
        [lambda: episode(1, diff(), ran("passed"))],
        [lambda: episode(1, ran("passed")), lambda: episode(2, diff(), ran("passed"))],
        [lambda: episode(1, ran("failed")), lambda: episode(2, ran("passed"), diff())],
        [lambda: episode(1, ran("skipped")), lambda: episode(2, diff(), ran("passed"))],
        [
            lambda: episode(1, ran("failed")),
            lambda: episode(2, diff()),
            lambda: episode(3, diff()),
            lambda: episode(4, ran("passed")),
        ],
        [
            lambda: episode(1, ran("failed", "tests/elsewhere.py::test_of_none")),
            lambda: episode(2, diff(), ran("passed", "tests/elsewhere.py::test_of_none")),
        ],
    ],
    ids=["never run", "never failed", "green before", "skipped", "two diffs", "unknown test"],
)  # fmt: skip
async def test_no_claim_without_evidence(
    store: Store,
    indexed: Callable[..., Awaitable[None]],
    edges: Callable[..., set[Edge]],
    episodes: list[Callable[[], Episode]],
) -> None:
    await indexed(BAD)
    for make in episodes:
        await store.episodes.append(make())
    await project(store)
    assert not {e for e in edges("VALIDATED_BY") if e[0] != "episode"}
    assert not edges("FIXES", "CAUSES")


async def test_what_a_later_finding_disproves_is_closed_and_stays_in_history(
    store: Store, indexed: Callable[..., Awaitable[None]], edges: Callable[..., set[Edge]],
    truth_dsn: str,
) -> None:  # fmt: skip
    await indexed(BAD)
    await store.episodes.append(episode(1, ran("failed")))
    await store.episodes.append(episode(3, diff(), ran("passed")))
    await project(store)
    assert (MEAN, "VALIDATED_BY", NONE) in edges("VALIDATED_BY")
    await store.episodes.append(episode(2, ran("passed")))  # it had passed before the diff
    await project(store)
    assert {e[0] for e in edges("VALIDATED_BY")} == {"episode"}
    with psycopg.connect(truth_dsn) as conn:
        closed = conn.execute(
            "SELECT count(*) FROM plait.memory_edge WHERE recorded_to > recorded_from"
        ).fetchone()
    assert closed == (2,)


async def test_episodes_before_the_first_index_are_settled_by_it(
    store: Store, indexed: Callable[..., Awaitable[None]], edges: Callable[..., set[Edge]]
) -> None:
    await store.episodes.append(episode(1, ran("failed"), summary="about #3", status="failure"))
    await store.episodes.append(episode(2, diff(), ran("passed")))
    await project(store)
    assert not edges("VALIDATED_BY")
    await indexed(GOOD)
    await project(store)
    assert (MEAN, "VALIDATED_BY", NONE) in edges("VALIDATED_BY")
    assert edges("FIXES") == {("diff/shop/cart.py", "FIXES", "issue/3")}
    assert await store.outbox.waiting() == 0


async def test_settling_again_changes_nothing(
    store: Store, indexed: Callable[..., Awaitable[None]], truth_dsn: str
) -> None:
    await indexed(BAD)
    await store.episodes.append(episode(1, ran("failed"), summary="#1", status="failure"))
    await store.episodes.append(episode(2, diff(), ran("passed")))
    await project(store)

    def rows() -> list[Any]:
        with psycopg.connect(truth_dsn) as conn:
            return conn.execute("SELECT * FROM plait.memory_edge ORDER BY id").fetchall()

    before = rows()
    await store.outbox.reset("shop")
    await project(store)
    assert rows() == before


async def test_evidence_is_kept_as_it_came(store: Store, truth_dsn: str) -> None:
    body = b"\x00\xff transcript " * 1000
    await store.episodes.append(
        episode(1, evidence=(Evidence("run.jsonl", "application/jsonl", body),))
    )
    with psycopg.connect(truth_dsn) as conn:
        row = conn.execute("SELECT name, size_bytes, sha256, body FROM plait.evidence").fetchone()
    assert row is not None
    assert row[:3] == ("run.jsonl", len(body), hashlib.sha256(body).digest())
    assert zlib.decompress(row[3]) == body


@pytest.fixture
async def real_graph(settings: Settings, embedded_graph: object) -> AsyncIterator[GraphStore]:
    opened = await graph.open(settings)
    yield opened
    await opened.close()


CHAIN_QUERY = """
MATCH (i:Issue {id: $issue})<-[:FIXES]-(d:Diff)-[:TOUCHES]->(f:Function)-[:VALIDATED_BY]->(t:Test)
WHERE (d)-[:VALIDATED_BY]->(t)
RETURN DISTINCT i.name, d.path, f.qualified_name, t.qualified_name
"""


async def test_the_chain_is_in_the_graph(
    store: Store, indexed: Callable[..., Awaitable[None]], real_graph: GraphStore
) -> None:
    async def opened() -> GraphStore:
        return real_graph

    repo = f"chain{next(_numbers)}-{START.timestamp():.0f}"
    await indexed(BAD, repo, opened)
    await store.episodes.append(
        episode(1, ran("failed"), summary="reproduced #12", status="failure", repo=repo)
    )
    await store.episodes.append(episode(2, diff(), ran("passed"), repo=repo))
    await project(store, opened)
    answer = await real_graph.query(
        CHAIN_QUERY, {"issue": f"{repo}:issue/12"}, max_rows=10, deadline=Deadline.after(LIMIT_S)
    )
    assert [tuple(row) for row in answer.rows] == [("12", "shop/cart.py", MEAN, NONE)]


# -- without a graph: nobody has asked Cypher yet ----------------------------------------------------------


async def publish(store: Store, settings: Settings, root: Path, cart: str) -> None:
    """Index `root`, and leave what waits."""
    (root / "shop/cart.py").write_text(cart)
    await index_repository(IndexRequest(root, "shop", embed=False), settings, store, None, None)


async def test_what_episodes_touch_is_settled_while_no_graph_runs(
    store: Store, truth_settings: Settings, root: Path, edges: Callable[..., set[Edge]]
) -> None:
    await publish(store, truth_settings, root, BAD)
    await store.episodes.append(
        episode(1, ran("failed"), summary="reproduced #12", status="failure")
    )
    await store.episodes.append(episode(2, diff(), ran("passed"), summary="guard for no prices"))
    assert await store.outbox.settle() == 1
    assert edges("FIXES") == {("diff/shop/cart.py", "FIXES", "issue/12")}
    assert ("diff/shop/cart.py", "TOUCHES", MEAN) in edges("TOUCHES")
    assert (MEAN, "VALIDATED_BY", NONE) in edges("VALIDATED_BY")
    assert await store.outbox.settle() == 0
    before = edges("FIXES", "TOUCHES", "VALIDATED_BY", "MENTIONS")
    await project(store)
    assert edges("FIXES", "TOUCHES", "VALIDATED_BY", "MENTIONS") == before
    assert await store.outbox.waiting() == 0


async def test_an_episode_from_before_the_index_is_settled_when_its_code_is_published(
    store: Store, truth_settings: Settings, root: Path, edges: Callable[..., set[Edge]]
) -> None:
    await store.episodes.append(episode(1, diff(), ran("passed")))
    await store.outbox.settle()
    assert ("diff/shop/cart.py", "TOUCHES", MEAN) not in edges("TOUCHES")
    await publish(store, truth_settings, root, GOOD)
    assert await store.outbox.settle() == 1
    assert ("diff/shop/cart.py", "TOUCHES", MEAN) in edges("TOUCHES")
    assert ("episode", "VALIDATED_BY", NONE) in edges("VALIDATED_BY")
