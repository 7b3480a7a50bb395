"""Recall, its replay and its feedback over real gRPC: code, tests, memories and episodes in one context."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import grpc
import pytest

from plait.client import (
    AsyncPlaitClient,
    PlaitClient,
    PlaitRpcError,
    RecallFormat,
    RecallResult,
    format_context,
    new_memory,
)
from plait.domain.options import RecallOptions, SearchOptions
from plait.domain.recall import Freshness, Tier, Trust
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, ItemId, Outcome
from plait.text import token_count
from server.app import App
from server.grpc.server import Server
from tests.e2e.conftest import at_rest

REPO = "recalled"
WHERE = Filter(repos=(REPO,))
CODE = '''\
"""Ferries and their timetables."""


class Harbour:
    """Where ferries are moored."""

    def moor(self, ferry: str) -> int:
        """Give a ferry the next free berth."""
        return next_berth(ferry) + 1


def next_berth(ferry: str) -> int:
    """The number of the next free berth, counted from zero."""
    if not ferry:
        raise ValueError("a ferry needs a name")
    return len(ferry) % 7


def timetable(port: str) -> list[str]:
    """Departures of a port, earliest first."""
    return sorted([port, "09:00"])
'''
TESTS = """\
from ferries.harbour import Harbour, next_berth


def test_next_berth_of_a_short_name():
    assert next_berth("ro") == 2


def test_moor_gives_a_berth():
    assert Harbour().moor("ro") == 3
"""
DIFF = """\
diff --git a/ferries/harbour.py b/ferries/harbour.py
--- a/ferries/harbour.py
+++ b/ferries/harbour.py
@@ -12,5 +12,5 @@
 def next_berth(ferry: str) -> int:
     \"\"\"The number of the next free berth, counted from zero.\"\"\"
     if not ferry:
         raise ValueError("a ferry needs a name")
-    return len(ferry) % 7
+    return len(ferry) % 9
"""
TRACE = """\
Traceback (most recent call last):
  File "/srv/app/ferries/harbour.py", line 9, in moor
    return next_berth(ferry) + 1
  File "/srv/app/ferries/harbour.py", line 15, in next_berth
    raise ValueError("a ferry needs a name")
ValueError: a ferry needs a name
"""
QUESTION = "how is the next free berth of a ferry chosen"


@pytest.fixture(scope="module")
async def recalled(
    client: AsyncPlaitClient, app: App, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Code with tests, three memories and a run, all with their vectors and links."""
    root = tmp_path_factory.mktemp("recalled")
    _write(root / "ferries" / "__init__.py", "")
    _write(root / "ferries" / "harbour.py", CODE)
    _write(root / "tests" / "test_harbour.py", TESTS)
    begun = await client.start_index(str(root), repository=REPO)
    *_, job = [state async for state in client.watch_index_job(begun.id)]
    assert job.state == "succeeded", job.error_message
    for text in (
        "Berths are counted from zero; the harbour adds one.",
        "The berth of a ferry must never depend on its owner.",
        "Winter timetables begin in November.",
    ):
        memory = new_memory(text, repo=REPO, agent_id="pilot", path="ferries/harbour.py")
        await client.store(memory)
    await client.append_episode(_run())
    await at_rest(app)
    return REPO


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _run() -> Episode:
    report = '<testsuite><testcase classname="tests.test_harbour" name="test_moor_gives_a_berth"/></testsuite>'
    return Episode(
        request_id="recall-run",
        repo=REPO,
        outcome=Outcome("success", "berths wrap at seven"),
        artifacts=(
            Artifact(
                ArtifactKind.PLAN, "Make the next free berth of a ferry wrap at seven berths."
            ),
            Artifact(
                ArtifactKind.DIFF,
                DIFF.replace("% 9", "% 7").replace(
                    "-    return len(ferry) % 7", "-    return len(ferry)"
                ),
            ),
            Artifact(
                ArtifactKind.REFLECTION, "Choosing the next free berth by name length was enough."
            ),
            Artifact(ArtifactKind.TEST_RESULT, report),
        ),
        agent_id="pilot",
    )


async def refused(call: Any) -> PlaitRpcError:
    with pytest.raises(PlaitRpcError) as caught:
        await call
    return caught.value


async def ask(
    client: AsyncPlaitClient, query: str = QUESTION, attached: str = "", **options: Any
) -> RecallResult:
    return await client.recall(
        query, where=WHERE, attached=attached, options=RecallOptions(**options)
    )


# -- what comes back ---------------------------------------------------------------------------------------


async def test_one_question_brings_code_memories_and_episodes(
    client: AsyncPlaitClient, recalled: str
) -> None:
    answer = await ask(client)
    assert answer.degraded == ()
    assert answer.context.startswith("## Relevant Memories\n\n- [score: ")
    kinds = {item.item.collection for item in answer.items}
    assert Collection.FILES in kinds
    assert Collection.MEMORIES in kinds
    assert kinds & {Collection.PLANS, Collection.DIFFS, Collection.REFLECTIONS}
    code = next(i for i in answer.items if i.item.symbol.endswith("next_berth"))
    assert (code.item.path, code.item.repo) == ("ferries/harbour.py", REPO)
    assert code.item.start_line > 0
    assert (code.trust, code.freshness) == (Trust.REPOSITORY, Freshness.FRESH)
    memory = next(i for i in answer.items if i.item.collection is Collection.MEMORIES)
    assert memory.trust is Trust.AGENT_CLAIMED
    assert all(item.reasons for item in answer.items)
    assert all(0.0 < item.score <= 1.0 for item in answer.items)
    assert [r.repository for r in answer.revisions] == [REPO]
    assert answer.kind == "natural"


@pytest.mark.parametrize("budget", [40, 120, 400])
async def test_the_budget_is_never_passed(
    client: AsyncPlaitClient, recalled: str, budget: int
) -> None:
    answer = await ask(client, budget_tokens=budget, tokenizer="gpt-4o")
    assert answer.budget == budget
    assert answer.counted.exact
    assert token_count.count(answer.context) == answer.tokens <= budget
    whole = await ask(client)
    assert len(answer.items) + len(answer.omitted) >= len(whole.items)
    assert all(o.why.stage and o.why.cause for o in answer.omitted)


async def test_a_larger_budget_names_no_less(client: AsyncPlaitClient, recalled: str) -> None:
    for source in (False, True):
        named: set[ItemId] = set()
        for budget in (30, 60, 100, 150, 220, 300, 450, 700, 1_000):
            answer = await ask(client, budget_tokens=budget, prefer_source=source)
            items = {one.item.id for one in answer.items}
            assert named <= items | {id_ for one in answer.items for id_ in one.also}
            named = items
        assert len(named) > 3


async def test_a_stated_window_gives_a_tenth(client: AsyncPlaitClient, recalled: str) -> None:
    answer = await ask(client, window_tokens=3_000)
    assert answer.budget == 300
    assert answer.tokens <= 300


async def test_a_tokenizer_that_is_not_public_keeps_a_margin_back(
    client: AsyncPlaitClient, recalled: str
) -> None:
    answer = await ask(client, budget_tokens=300, tokenizer="claude-sonnet")
    assert not answer.counted.exact
    assert answer.counted.margin > 0.0
    assert token_count.count(answer.context) <= 300 * (1 - answer.counted.margin) + 1


async def test_the_shapes(client: AsyncPlaitClient, recalled: str) -> None:
    structured = await ask(client, format=RecallFormat.STRUCTURED)
    assert structured.context == ""
    assert structured.items
    assert format_context(structured).startswith("## Relevant Memories\n\n- [score: ")
    tree = await ask(client, format="repo-map")
    assert "ferries/harbour.py" in tree.context
    assert "next_berth" in tree.context
    assert "return len(ferry)" not in tree.context


async def test_collections_narrow_it(client: AsyncPlaitClient, recalled: str) -> None:
    where = Filter(repos=(REPO,), collections=(Collection.MEMORIES,))
    answer = await client.recall(QUESTION, where=where)
    assert {item.item.collection for item in answer.items} == {Collection.MEMORIES}


async def test_whole_texts_come_when_asked_for(client: AsyncPlaitClient, recalled: str) -> None:
    plain = await ask(client)
    assert {item.item.content for item in plain.items} == {""}
    whole = await ask(client, with_content=True)
    shown = [item for item in whole.items if item.tier is Tier.FULL]
    assert shown
    assert all(item.item.content.strip() for item in whole.items)


async def test_question_in_string_out(
    client: AsyncPlaitClient, server: Server, recalled: str
) -> None:
    def both() -> tuple[str, str]:
        with PlaitClient(server.target) as sync:
            text = sync.query_and_format(
                QUESTION, where=WHERE, options=RecallOptions(budget_tokens=500)
            )
            return text, sync.recall(
                QUESTION, where=WHERE, options=RecallOptions(budget_tokens=500)
            ).context

    text, context = await asyncio.to_thread(both)
    assert (
        text
        == context
        == await client.query_and_format(
            QUESTION, where=WHERE, options=RecallOptions(budget_tokens=500)
        )
    )
    assert "next_berth" in text


async def test_hits_are_formatted_without_a_server(client: AsyncPlaitClient, recalled: str) -> None:
    hits = (await client.search("next free berth", where=Filter(repos=(REPO,)))).hits
    text = client.format_context(hits, budget_tokens=300)
    assert text.startswith("## Relevant Memories\n\n- [score: ")
    assert token_count.count(text) <= 300


# -- nothing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["hello", "/clear", "what time is it?", "thanks!"])
async def test_a_transactional_query_returns_at_once_and_says_so(
    client: AsyncPlaitClient, app: App, recalled: str, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    async def view(*_: object) -> None:
        raise AssertionError("nothing is to be read")

    monkeypatch.setattr(app.truth.search, "view", view)
    answer = await ask(client, text)
    assert (answer.items, answer.context, answer.kind) == ((), "", "transactional")
    assert answer.silence
    assert answer.recall_id is None
    assert await client.query_and_format(text, where=WHERE) == ""


async def test_below_the_bar_nothing_is_returned_and_it_says_why(
    client: AsyncPlaitClient, recalled: str
) -> None:
    where = Filter(repos=(REPO,), collections=(Collection.DIFFS,), path_glob="nowhere/**")
    answer = await client.recall(QUESTION, where=where)
    assert not answer
    assert answer.silence


# -- sessions ---------------------------------------------------------------------------------------------


async def test_a_session_is_not_shown_the_same_again(
    client: AsyncPlaitClient, recalled: str
) -> None:
    session = f"run-{uuid.uuid4()}"
    first = await ask(client, session_key=session)
    seen = {item.item.id for item in first.items}
    assert seen
    again = await ask(client, session_key=session, why_not=tuple(seen)[:1])
    assert not seen & {item.item.id for item in again.items}
    (why,) = again.why_not.values()
    assert why.cause == "cooldown"
    other = await ask(client, session_key=f"run-{uuid.uuid4()}")
    assert {item.item.id for item in other.items} == seen
    forced = await ask(client, session_key=session, cooldown_s=0.0)
    assert {item.item.id for item in forced.items} == seen


async def test_what_leaves_no_receipt_does_not_count_as_shown(
    client: AsyncPlaitClient, recalled: str
) -> None:
    session = f"run-{uuid.uuid4()}"
    first = await ask(client, session_key=session, receipt=False)
    assert first.recall_id is None
    again = await ask(client, session_key=session)
    assert [i.item.id for i in again.items] == [i.item.id for i in first.items]


# -- explanations --------------------------------------------------------------------------------------------


async def test_every_item_is_explained_stage_by_stage(
    client: AsyncPlaitClient, recalled: str
) -> None:
    answer = await ask(client, explain=True)
    best = answer.items[0]
    assert {"lexical", "semantic"} & set(best.arms)
    steps = answer.ranks[best.item.id]
    assert steps[0].stage == "fetch"
    assert all(step.rank >= 1 for step in steps)
    assert {t.stage for t in answer.timings} >= {"resolve", "fetch", "score", "format"}


async def test_why_not_names_the_stage_and_the_rule(
    client: AsyncPlaitClient, recalled: str
) -> None:
    everything = await ask(client)
    inside = everything.items[0].item.id
    unknown = ItemId(uuid.uuid4())
    answer = await ask(client, why_not=[inside, unknown], budget_tokens=4000)
    assert list(answer.why_not) == [inside, unknown]
    assert answer.why_not[inside].cause == "included"
    assert answer.why_not[unknown].cause == "not-found"
    tight = await ask(client, budget_tokens=40)
    left = next(o for o in tight.omitted if o.why.cause == "budget")
    (why,) = (await ask(client, budget_tokens=40, why_not=[left.id])).why_not.values()
    assert (why.stage, why.cause) == ("format", "budget")
    assert why.bar > 0.0  # the tokens that its shortest form takes


async def test_search_tells_why_not_and_leaves_stages_out(
    client: AsyncPlaitClient, recalled: str
) -> None:
    where = Filter(repos=(REPO,))
    hits = (await client.search("timetable of a port", where=where)).hits
    answer = await client.search(
        "timetable of a port",
        where=where,
        k=1,
        options=SearchOptions(why_not=[hits[-1].item.id], explain=True),
    )
    why = answer.why_not[hits[-1].item.id]
    assert (why.stage, why.cause) == ("format", "limit")
    assert answer.ranks[answer.hits[0].item.id]
    off = await client.search(
        "timetable", where=where, options=SearchOptions(stages_off=["semantic"], explain=True)
    )
    assert all("semantic" not in hit.arms for hit in off.hits)
    assert "semantic" not in {t.stage for t in off.timings}


@pytest.mark.parametrize(
    ("call", "options"), [("search", SearchOptions), ("recall", RecallOptions)]
)
async def test_a_stage_that_is_none_is_refused_with_those_there_are(
    client: AsyncPlaitClient, recalled: str, call: str, options: type[SearchOptions]
) -> None:
    ask_for = getattr(client, call)
    error = await refused(ask_for("x", where=WHERE, options=options(stages_off=["semantics"])))
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "stages_off" in error.fields
    for stage in ("rewrite", "semantic", "fts", "relations", "tags", "rerank"):
        assert stage in error.message
    error = await refused(ask_for("x", where=WHERE, options=options(stages_off=["format"])))
    assert "cannot be left out" in error.message


async def test_a_recall_without_its_arms_still_answers(
    client: AsyncPlaitClient, recalled: str
) -> None:
    for stage in (
        "semantic",
        "fts",
        "relations",
        "rewrite",
        "feedback",
        "tags",
        "hierarchical",
        "filter",
    ):
        answer = await ask(client, stages_off=[stage], explain=True)
        assert answer.items, stage
        assert stage not in {t.stage for t in answer.timings}


# -- diffs and traces ----------------------------------------------------------------------------------------


async def test_a_diff_brings_what_it_reaches(client: AsyncPlaitClient, recalled: str) -> None:
    answer = await ask(client, "what does this break", attached=DIFF)
    assert answer.kind == "diff"
    assert any(node.name.endswith("next_berth") for node in answer.impact.touched)
    assert any(node.name.endswith("moor") for node in answer.impact.callers)
    assert any("test_next_berth" in node.name for node in answer.impact.tests)
    assert answer.impact.touched[0].id.startswith(f"{REPO}:")


async def test_a_trace_alone_is_a_question(client: AsyncPlaitClient, recalled: str) -> None:
    answer = await client.recall(where=WHERE, attached=TRACE)
    assert answer.kind == "stack-trace"
    assert any(node.name.endswith("next_berth") for node in answer.impact.touched)
    assert "next_berth" in answer.context


async def test_an_attachment_too_large_is_refused(client: AsyncPlaitClient, recalled: str) -> None:
    error = await refused(ask(client, attached="+x\n" * 100_000))
    assert (error.code, error.fields.keys()) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        {"attached": ""}.keys(),
    )


# -- receipts -----------------------------------------------------------------------------------------------


async def test_a_replay_gives_the_same_answer_after_the_world_moved_on(
    client: AsyncPlaitClient, app: App, recalled: str
) -> None:
    first = await ask(client)
    assert first.recall_id is not None
    text = "The next free berth of a ferry is chosen by the harbour master."
    stored = await client.store(new_memory(text, repo=REPO, agent_id="pilot"))
    await at_rest(app)
    now = await ask(client)
    assert stored.entry.id in {item.item.id for item in now.items}
    replayed = await client.replay(first.recall_id, explain=True)
    assert replayed.recall.context == first.context
    assert replayed.same
    assert replayed.recall.context == first.context
    assert replayed.recall.recall_id == first.recall_id
    assert replayed.recall.timings


async def test_a_replay_of_nothing_is_not_found(client: AsyncPlaitClient) -> None:
    error = await refused(client.replay(uuid.uuid4()))
    assert (error.code, error.reason) == (grpc.StatusCode.NOT_FOUND, "RECALL_UNKNOWN")
    error = await refused(client.replay("no-id"))
    assert (error.code, list(error.fields)) == (grpc.StatusCode.INVALID_ARGUMENT, ["recall_id"])


async def test_feedback_is_taken_in_once_and_ranks(client: AsyncPlaitClient, recalled: str) -> None:
    first = await ask(client, explain=True)
    assert first.recall_id is not None
    best, worst = first.items[0].item.id, first.items[-1].item.id
    stranger = uuid.uuid4()
    report: dict[str, Any] = {
        "helped": [worst],
        "harmed": [best, stranger],
        "outcome": Outcome("success"),
        "proof": ["tests/test_harbour.py::test_moor_gives_a_berth"],
    }
    taken = await client.report_feedback(first.recall_id, **report)
    assert (taken.accepted, taken.unknown, taken.repeated) == (2, (stranger,), False)
    assert taken.attributed == len(first.items) - 2
    assert taken.request_id
    again = await client.report_feedback(first.recall_id, **report)
    assert again.repeated
    assert again.accepted == 2
    later = await ask(client, explain=True)
    before = {i.item.id: i.score for i in first.items}
    after = {i.item.id: i.score for i in later.items}
    assert after[worst] >= before[worst]
    assert after[worst] / after[best] > before[worst] / before[best]


async def test_a_request_id_used_for_another_report_is_refused(
    client: AsyncPlaitClient, recalled: str
) -> None:
    answer = await ask(client)
    assert answer.recall_id is not None
    name = f"report-{uuid.uuid4()}"
    one, two = (item.item.id for item in answer.items[:2])
    await client.report_feedback(answer.recall_id, helped=[one], request_id=name)
    error = await refused(client.report_feedback(answer.recall_id, helped=[two], request_id=name))
    assert (error.code, error.reason) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")


async def test_feedback_on_no_recall_and_on_nothing(
    client: AsyncPlaitClient, recalled: str
) -> None:
    error = await refused(client.report_feedback(uuid.uuid4(), outcome=Outcome("success")))
    assert (error.code, error.reason) == (grpc.StatusCode.NOT_FOUND, "RECALL_UNKNOWN")
    error = await refused(client.report_feedback(uuid.uuid4()))
    assert (error.code, list(error.fields)) == (grpc.StatusCode.INVALID_ARGUMENT, ["items"])


# -- scope and bounds -------------------------------------------------------------------------------------------


async def test_a_recall_of_all_repositories(client: AsyncPlaitClient, recalled: str) -> None:
    everywhere = await client.recall(QUESTION, where=Filter(all_repos=True, collections=()))
    assert REPO in {item.item.repo for item in everywhere.items}
    error = await refused(client.recall(QUESTION, where=Filter(repos=("nowhere",))))
    assert error.reason == "REPOSITORY_NOT_INDEXED"


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("query", {"query": "  "}),
        ("query", {"query": "x" * 9000}),
        ("budget_tokens", {"budget_tokens": 5}),
        ("budget_tokens", {"budget_tokens": 2_000_000}),
        ("min_score", {"min_score": 1.5}),
        ("max_items", {"max_items": 500}),
        ("why_not", {"why_not": ["nope"]}),
    ],
)
async def test_bad_input_names_its_field(
    client: AsyncPlaitClient, recalled: str, field: str, asked: dict[str, Any]
) -> None:
    error = await refused(ask(client, **({"query": QUESTION} | asked)))
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert [name.split("[")[0] for name in error.fields] == [field]


async def test_a_recall_is_answered_as_of_a_time(client: AsyncPlaitClient, recalled: str) -> None:
    first = await ask(client)
    now = await client.recall(QUESTION, where=WHERE, options=RecallOptions(recorded_as_of="now"))
    assert now.as_of.recorded is not None
    assert {i.item.id for i in now.items} == {i.item.id for i in first.items}
    before = await client.recall(
        QUESTION, where=WHERE, options=RecallOptions(recorded_as_of="2001-01-01")
    )
    assert not before
    assert before.silence
