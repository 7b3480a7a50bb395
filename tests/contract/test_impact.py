"""What a diff or a stack trace reaches, on a real repository with a history: a bug made, found and fixed."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from etl.pipeline import IndexRequest, index_repository
from etl.project import Projector
from plait.domain.deadline import Deadline
from plait.domain.memory import AsOf
from plait.domain.recall import Impact, PackingOptions
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, Outcome
from plait.ports import EmbeddingProvider, GraphDelta, GraphStore, Spot, View
from plait.retrieval.code_graph.impact import impact
from plait.retrieval.packing.impact_lines import impact_lines
from plait.retrieval.query.analysis import SearchQuery, analyse
from plait.retrieval.query.code_references import Anchor, AnchorKind, Anchors
from plait.retrieval.recall import RecallAnswer, RecallService
from plait.retrieval.search_context import Deps, SearchContext
from plait.settings import Settings
from tests.processes import LIMIT_S
from vector.store import Store

CART = """\
RATE = 0.2


def total(prices):
    result = 0
    for price in prices:
        result += price
    return result


class Basket:
    limit = 10

    def __init__(self, prices):
        self.prices = prices

    def mean(self):
        if not self.prices:
            return 0
        return total(self.prices) / len(self.prices)
"""
REPORT = """\
from shop.cart import Basket


def summary(prices):
    return Basket(prices).mean()
"""
TESTS = """\
from shop.cart import total
from shop.report import summary


def test_total():
    assert total([1, 2]) == 3


class TestSummary:
    def test_of_two(self):
        assert summary([1, 3]) == 2

    def test_of_none(self):
        assert summary([]) == 0


def test_nothing():
    assert True
"""
FILES = {"shop/__init__.py": "", "shop/cart.py": CART, "shop/report.py": REPORT}
MEAN, OF_NONE = "shop.cart.Basket.mean", "tests.test_shop.TestSummary.test_of_none"
NODE_ID = "tests/test_shop.py::TestSummary::test_of_none"
GUARD = "        if not self.prices:\n            return 0\n"
FIX = """\
--- a/shop/cart.py
+++ b/shop/cart.py
@@ -17,4 +17,6 @@ class Basket:
     def mean(self):
+        if not self.prices:
+            return 0
         return total(self.prices) / len(self.prices)
"""
BREAK = """\
--- a/shop/cart.py
+++ b/shop/cart.py
@@ -17,6 +17,4 @@ class Basket:
     def mean(self):
-        if not self.prices:
-            return 0
         return total(self.prices) / len(self.prices)
"""
SLOWER = """\
--- a/shop/cart.py
+++ b/shop/cart.py
@@ -4,5 +4,4 @@
 def total(prices):
-    result = 0
-    for price in prices:
-        result += price
-    return result
+    prices = list(prices)
+    return sum(prices)
"""
ERROR = "ZeroDivisionError: division by zero in the shopping basket"
START = datetime(2026, 3, 1, tzinfo=UTC)
_numbers = itertools.count(1)


class Nothing:
    """A graph that takes everything: these tests look at the rows."""

    async def apply(self, delta: GraphDelta) -> None: ...


async def no_graph() -> GraphStore:
    return cast(GraphStore, Nothing())


async def no_model() -> EmbeddingProvider:
    raise AssertionError("no text is embedded here")


Index = Callable[..., Awaitable[None]]


@pytest.fixture
def indexed(store: Store, truth_settings: Settings, tmp_path: Path) -> Index:
    async def index(cart: str = CART, repo: str = "shop") -> None:
        for path, text in {**FILES, "shop/cart.py": cart, "tests/test_shop.py": TESTS}.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text)
        request = IndexRequest(tmp_path, repo, embed=False)
        await index_repository(request, truth_settings, store, no_graph, None)

    return index


async def ran(store: Store, day: float, *artifacts: Artifact, **more: Any) -> None:
    number = next(_numbers)
    outcome = Outcome(more.pop("status", "success"), more.pop("summary", ""))
    await store.episodes.append(
        Episode(
            request_id=f"impact{number}",
            repo="shop",
            outcome=outcome,
            artifacts=artifacts,
            started_at=START + timedelta(days=day),
            body_hash=str(number).encode(),
        )
    )
    await Projector(store.outbox, no_graph).run_until_idle()


def diff(text: str) -> Artifact:
    return Artifact(ArtifactKind.DIFF, text)


def reported(status: str) -> Artifact:
    tests = [{"name": NODE_ID, "status": status}]
    return Artifact(ArtifactKind.TEST_RESULT, "ran", meta={"tests": tests})


async def asked(
    store: Store, text: str, anchors: Anchors | None = None, as_of: datetime | None = None
) -> tuple[Impact, SearchContext]:
    where = Filter(repos=("shop",), collections=tuple(Collection))
    if as_of is not None:
        where = replace(where, as_of=AsOf(recorded=as_of))
    query = SearchQuery(text="what breaks", attached=text, where=where)
    ctx = SearchContext(
        query=query,
        analysis=analyse(query),
        k=10,
        fusion="minmax",
        deadline=Deadline.after(LIMIT_S),
        view=await store.search.view(where),
        anchors=anchors or Anchors(is_diff=True),
    )
    settings = store.app.settings
    deps = Deps(
        store.search,
        no_model,
        settings.search,
        settings.recall,
        relations=store.relations,
        impact=store.impact,
    )
    ctx = await impact(ctx, deps)
    return ctx.impact, ctx


def names(found: Impact, part: str) -> list[str]:
    return [node.name for node in getattr(found, part)]


# -- diffs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
async def test_a_diff_touches_its_functions_whether_it_is_applied_or_not(
    store: Store, indexed: Index, applied: bool
) -> None:
    await indexed(CART.replace(GUARD, "") if applied else CART)
    found, _ = await asked(store, BREAK)
    assert names(found, "touched") == [MEAN]
    assert found.touched[0].path == "shop/cart.py"
    assert found.touched[0].line == CART.split("\n").index("    def mean(self):") + 1


async def test_callers_come_with_their_distance_and_tests_as_their_runner_names_them(
    store: Store, indexed: Index
) -> None:
    await indexed()
    found, ctx = await asked(store, SLOWER)
    assert ctx.degraded == ()
    assert names(found, "touched") == ["shop.cart.total"]
    near = {node.name: node.distance for node in found.callers}
    assert near[MEAN] == 1
    assert near["shop.report.summary"] == 2
    tests = {node.name: node.distance for node in found.tests}
    assert tests == {
        "tests/test_shop.py::test_total": 1,
        "tests/test_shop.py::TestSummary::test_of_two": 3,
        NODE_ID: 3,
    }
    assert names(found, "tests")[0] == "tests/test_shop.py::test_total"


async def test_a_changed_test_is_one_to_run(store: Store, indexed: Index) -> None:
    await indexed()
    patch = (
        "--- a/tests/test_shop.py\n+++ b/tests/test_shop.py\n@@ -17,2 +17,2 @@\n"
        " def test_nothing():\n-    assert True\n+    assert 1\n"
    )
    found, _ = await asked(store, patch)
    (test,) = found.tests
    assert (test.name, test.distance) == ("tests/test_shop.py::test_nothing", 0)


async def test_a_changed_constant_reaches_who_imports_its_module(
    store: Store, indexed: Index
) -> None:
    await indexed()
    patch = "--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -1 +1 @@\n-RATE = 0.2\n+RATE = 0.25\n"
    found, _ = await asked(store, patch)
    assert names(found, "touched") == ["shop/cart.py"]
    assert "shop.report" in names(found, "callers")
    assert "tests/test_shop.py::test_total" in names(found, "tests")


async def test_new_functions_and_imports_are_no_change_of_the_module(
    store: Store, indexed: Index
) -> None:
    await indexed()
    patch = (
        "--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -1,3 +1,8 @@\n+import math\n RATE = 0.2\n \n \n"
        "+def ceil(x):\n+    return math.ceil(x)\n+\n+\n def total(prices):\n"
    )
    found, _ = await asked(store, patch)
    assert not found


async def test_paths_from_another_folder_are_found_by_their_end(
    store: Store, indexed: Index
) -> None:
    await indexed()
    for path in ("monorepo/services/shop/cart.py", "cart.py"):
        found, _ = await asked(store, BREAK.replace("shop/cart.py", path))
        assert names(found, "touched") == [MEAN]


async def test_a_diff_of_unknown_files_reaches_nothing(store: Store, indexed: Index) -> None:
    await indexed()
    found, _ = await asked(store, BREAK.replace("shop/cart.py", "lib/other.py"))
    assert not found
    assert impact_lines(found) == []


async def test_a_hunk_that_stands_nowhere_changes_its_file_with_doubt(
    store: Store, indexed: Index
) -> None:
    await indexed()
    patch = (
        "--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -400,2 +400,2 @@\n"
        " def unheard_of(thing):\n-    return thing.one\n+    return thing.two\n"
    )
    found, _ = await asked(store, patch)
    (touched,) = found.touched
    assert touched.name == "shop/cart.py"
    assert touched.confidence < 0.5


# -- history ------------------------------------------------------------------------------------------


async def history(store: Store) -> None:
    """Green, broken by a diff, red, fixed by a diff, green."""
    await ran(store, 0, reported("passed"))
    await ran(store, 1, diff(BREAK), summary="simplify the mean")
    await ran(store, 2, reported("failed"), status="failure", summary="see issue #7")
    await ran(store, 3, diff(FIX), reported("passed"), summary="empty baskets have a mean of 0")


async def test_past_failures_and_fixes_of_the_symbol_are_told(store: Store, indexed: Index) -> None:
    await indexed()
    await history(store)
    found, _ = await asked(store, BREAK)
    kinds = [event.kind for event in found.history]
    fix = found.history[kinds.index("fix")]
    assert "empty baskets have a mean of 0" in fix.title
    assert fix.at == START + timedelta(days=3)
    assert fix.symbols == (MEAN,)
    assert fix.tests == (OF_NONE,)
    failure = found.history[kinds.index("failure")]
    assert failure.tests == (OF_NONE,)
    assert "has passed since" in failure.title
    caused = found.history[kinds.index("issue")]
    assert "caused 7" in caused.title
    assert fix.item_id is not None
    view = await store.search.view(Filter(repos=("shop",)))
    assert fix.item_id in await store.search.fetch(view, [fix.item_id])


async def test_a_test_that_a_fix_turned_green_comes_before_one_three_calls_away(
    store: Store, indexed: Index
) -> None:
    await indexed()
    await history(store)
    found, _ = await asked(store, BREAK)
    assert names(found, "tests")[0] == NODE_ID
    assert found.tests[0].via == "test-run"


async def test_an_answer_as_of_a_time_has_nothing_from_after_it(
    store: Store, indexed: Index
) -> None:
    await indexed()
    await ran(store, 0, diff(BREAK), summary="first")
    first = await store.search.view(Filter(repos=("shop",), collections=tuple(Collection)))
    at = first.revisions[0].published_at
    (event,) = (await asked(store, BREAK))[0].history
    assert "first" in event.title
    assert at is not None
    then, _ = await asked(store, BREAK, as_of=at)
    assert names(then, "touched") == [MEAN]
    assert then.history == ()


async def test_another_tenants_history_is_not_told(store: Store, indexed: Index) -> None:
    await indexed()
    await history(store)
    view = await store.search.view(Filter(repos=("shop",)))
    other = replace(view, tenant="other")
    assert await store.impact.history(other, "shop", [MEAN], [OF_NONE], 10) == []
    assert (await store.impact.changed(other, BREAK)).symbols == ()
    assert (await store.impact.history(view, "shop", [MEAN], [OF_NONE], 1)) != []
    assert len(await store.impact.history(view, "shop", [MEAN], [OF_NONE], 1)) == 1


# -- stack traces -------------------------------------------------------------------------------------


def trace() -> Anchors:
    spots = (
        Spot("/srv/app/shop/cart.py", "mean", 20, 20),
        Spot("/srv/app/shop/report.py", "summary", 5, 5),
        Spot("/srv/app/tests/test_shop.py", "test_of_none", 14, 14),
    )
    frames = tuple(Anchor(AnchorKind.FRAME, spot) for spot in spots)
    return Anchors(frames, (ERROR,), is_trace=True)


async def test_a_trace_names_its_frames_the_raising_one_first(store: Store, indexed: Index) -> None:
    await indexed()
    found, _ = await asked(store, "Traceback …", trace())
    assert names(found, "touched") == [MEAN, "shop.report.summary", OF_NONE]
    assert [node.distance for node in found.touched] == [0, 1, 2]
    weights = [node.confidence for node in found.touched]
    assert weights == sorted(weights, reverse=True)
    assert NODE_ID in names(found, "tests")


async def test_runs_that_met_the_same_error_are_told_with_what_they_changed(
    store: Store, indexed: Index
) -> None:
    await indexed()
    note = Artifact(ArtifactKind.REFLECTION, f"The run stopped with {ERROR} again.")
    other = Artifact(ArtifactKind.REFLECTION, "Division was taught by zero teachers in the shop.")
    await ran(store, 0, note, diff(FIX), summary="guarded the mean")
    await ran(store, 1, other, summary="unrelated")
    found, _ = await asked(store, "Traceback …", trace())
    met = [event for event in found.history if "same error" in event.title]
    assert [event.kind for event in met] == ["fix"]
    assert "guarded the mean" in met[0].title
    assert "shop/cart.py" in met[0].title
    assert not any("unrelated" in event.title for event in found.history)


# -- hostile ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "--- a/\0x\n+++ b/\0x\n@@ -1 +1 @@\n-a\n+b\n",
        "--- a/../../etc/passwd\n+++ b/../../etc/passwd\n@@ -1 +1 @@\n-a\n+b\n",
        "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-a\n+b\n".format("x/" * 900),
        "--- a/shop/cart.py\n+++ b/shop/cart.py\n" + "@@ -1 +1 @@\n-a\n+b\n" * 5_000,
        "".join(f"--- a/f{n}.py\n+++ b/f{n}.py\n@@ -1 +1 @@\n-a\n+b\n" for n in range(3_000)),
        "--- a/\ud800\n+++ b/\ud800\n@@ -1 +1 @@\n-a\n+b\n",
    ],
    ids=["nul", "parents", "deep", "hunks", "files", "surrogate"],
)
async def test_hostile_diffs_are_read_within_bounds(
    store: Store, indexed: Index, text: str
) -> None:
    await indexed()
    view: View = await store.search.view(Filter(repos=("shop",)))
    changed = await store.impact.changed(view, text)
    assert len(changed.symbols) <= 1
    assert len(changed.unknown) <= 50


# -- the whole recall ---------------------------------------------------------------------------------

TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/app/tests/test_shop.py", line 14, in test_of_none
    assert summary([]) == 0
  File "/srv/app/shop/report.py", line 5, in summary
    return Basket(prices).mean()
  File "/srv/app/shop/cart.py", line 21, in mean
    return total(self.prices) / len(self.prices)
ZeroDivisionError: division by zero
"""


async def recalled(store: Store, attached: str, budget: int, **more: Any) -> RecallAnswer:
    settings = store.app.settings
    deps = Deps(
        store.search,
        no_model,
        settings.search,
        settings.recall,
        relations=store.relations,
        impact=store.impact,
    )
    where = Filter(repos=("shop",), collections=tuple(Collection))
    query = SearchQuery(text="", attached=attached, where=where, deadline=Deadline.after(LIMIT_S))
    return await RecallService(deps).recall(query, PackingOptions(budget_tokens=budget, **more))


@pytest.mark.parametrize("attached", [BREAK, TRACEBACK], ids=["diff", "trace"])
async def test_a_recall_with_a_diff_or_a_trace_says_what_to_run_within_its_budget(
    store: Store, indexed: Index, attached: str
) -> None:
    await indexed()
    await history(store)
    answer = await recalled(store, attached, 900)
    assert answer.impact.touched[0].name == MEAN
    assert f"Run `{NODE_ID}`" in answer.block.context
    assert "Past fix 2026-03-04" in answer.block.context
    assert 0 < answer.block.tokens <= 900
    short = await recalled(store, attached, 120)
    assert f"`{MEAN}`" in short.block.context
    assert 0 < short.block.tokens <= 120


async def test_an_answer_that_is_out_of_time_names_what_it_lacks(
    store: Store, indexed: Index
) -> None:
    await indexed()
    where = Filter(repos=("shop",), collections=tuple(Collection))
    query = SearchQuery(text="what breaks", attached=BREAK, where=where)
    ctx = SearchContext(
        query=query,
        analysis=analyse(query),
        k=10,
        fusion="minmax",
        deadline=Deadline.after(0.0),
        view=await store.search.view(where),
        anchors=Anchors(is_diff=True),
    )
    settings = store.app.settings
    deps = Deps(
        store.search,
        no_model,
        settings.search,
        settings.recall,
        relations=store.relations,
        impact=store.impact,
    )
    ctx = await impact(ctx, deps)
    assert [str(one) for one in ctx.degraded] == ["impact: deadline"]
    assert not ctx.impact
