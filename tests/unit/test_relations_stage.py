"""The arm that follows relations: what it asks, finds, says, and what is missing when it can't."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from plait.domain.deadline import Deadline
from plait.domain.recall import PackingOptions
from plait.domain.values import Candidate, Collection, Filter, ItemId, Revision
from plait.ports import CodeGraph, MemoryLink, Place, View
from plait.retrieval.query.analysis import SearchQuery, analyse
from plait.retrieval.query.code_references import Anchors
from plait.retrieval.query.strategy import Kind, Strategy
from plait.retrieval.search_context import Degraded, Deps, SearchContext
from plait.retrieval.stages.relations import relations
from plait.settings import SearchSettings
from tests.unit.code_graphs import graph

CODE = graph([("CALLS", "m.caller", "m.hit"), ("VALIDATED_BY", "m.hit", "test_hit")])
DIFF = UUID(int=500)
RUN = UUID(int=600)
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
EVERYTHING = tuple(Collection)


def n(number: int) -> ItemId:
    return ItemId(UUID(int=number))


@dataclass
class Truth:
    """Store and relation store over one graph; says what it was asked."""

    code: CodeGraph | None = CODE
    state: str = "ready"
    known: Sequence[MemoryLink] = ()
    behind: Mapping[str, ItemId] = field(default_factory=dict)  # node → item
    chunks: Mapping[str, ItemId] = field(default_factory=dict)  # symbol → chunk
    standing: Mapping[ItemId, Place] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    ends: list[tuple[str, str]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def places(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Place]:
        return {id_: self.standing[id_] for id_ in ids if id_ in self.standing}

    async def chunks_of(
        self, view: View, symbols: Sequence[tuple[str, str, str]], where: Filter
    ) -> list[ItemId | None]:
        return [self.chunks.get(symbol) for _, _, symbol in symbols]

    async def code_graph(self, view: View, repo: str, *, wait_s: float = 0.0) -> CodeGraph | None:
        self.asked.append("graph")
        self.waits.append(wait_s)
        return self.code

    def graph_state(self, view: View, repo: str) -> str:
        return self.state

    async def links(
        self, view: View, ends: Sequence[tuple[str, str]], limit: int
    ) -> list[MemoryLink]:
        self.asked.append("links")
        self.ends = list(ends)
        return [x for x in self.known if {("r", x.source), ("r", x.target)} & set(ends)]

    async def items_of(
        self, view: View, ends: Sequence[tuple[str, str]], where: Filter, limit: int
    ) -> dict[tuple[str, str], list[ItemId]]:
        return {end: [self.behind[end[1]]] for end in ends if end[1] in self.behind}


def place(symbol: str = "m.hit", collection: Collection = Collection.FILES) -> Place:
    return Place("r", collection, "a.py", symbol, "function", False)


CONTEXT = PackingOptions()


def context(where: Filter | None = None, options: PackingOptions | None = CONTEXT) -> SearchContext:
    query = SearchQuery("why does it fail", where or Filter(collections=EVERYTHING))
    return SearchContext(
        query,
        analyse(query),
        k=10,
        fusion="minmax",
        deadline=Deadline.after(60.0),
        options=options,
        view=View((Revision(1, "r", 1),), "", 0),
        strategy=Strategy(weights={"lexical": 1.0}),
        rankings={"lexical": [Candidate(n(1), 2.0)]},
    )


def deps(truth: Truth) -> Deps:
    return cast(Deps, SimpleNamespace(store=truth, relations=truth, settings=SearchSettings()))


def link(relation: str, source: str, target: str) -> MemoryLink:
    return MemoryLink("r", relation, source, target, 1.0, "text", WHEN)


async def test_what_calls_and_tests_a_hit_comes_in_and_says_why() -> None:
    truth = Truth(chunks={"m.caller": n(2), "test_hit": n(3)}, standing={n(1): place()})
    ctx = await relations(context(), deps(truth))
    assert {c.id for c in ctx.rankings["relations"]} == {n(2), n(3)}
    assert ctx.reasons == {n(2): ("calls m.hit",), n(3): ("tests m.hit",)}
    assert 0.0 < ctx.strategy.weights["relations"] < ctx.strategy.weights["lexical"]
    assert list(ctx.rankings["lexical"]) == [Candidate(n(1), 2.0)]


async def test_what_matched_is_there_for_its_words() -> None:
    truth = Truth(
        chunks={"m.caller": n(2), "m.hit": n(1)},
        standing={n(1): place(), n(2): place("m.caller")},
    )
    asked = replace(context(), rankings={"lexical": [Candidate(n(1), 2.0), Candidate(n(2), 1.5)]})
    ctx = await relations(asked, deps(truth))
    assert "relations" not in ctx.rankings
    assert ctx.reasons == {}


async def test_a_search_for_hits_asks_nothing() -> None:
    truth = Truth(standing={n(1): place()})
    asked = context(options=None)
    assert await relations(asked, deps(truth)) == asked
    assert truth.asked == []


async def test_runs_that_touched_a_hit_come_in_by_their_links() -> None:
    truth = Truth(
        known=[
            link("TOUCHES", f"diff/{DIFF}/a.py", "m.hit"),
            link("TOUCHES", "diff/x/b", "m.other"),
        ],
        behind={f"diff/{DIFF}/a.py": n(9)},
        standing={n(1): place()},
    )
    ctx = await relations(context(), deps(truth))
    assert [c.id for c in ctx.rankings["links"]] == [n(9)]
    assert ctx.reasons[n(9)] == ("touches m.hit",)
    assert ("r", "/a.py") in truth.ends


async def test_a_run_that_matches_leads_to_the_code_it_touched() -> None:
    truth = Truth(
        known=[link("TOUCHES", f"episode/{RUN}", "m.hit")],
        chunks={"m.hit": n(4), "m.caller": n(2)},
        standing={n(1): replace(place("", Collection.PLANS), episode_id=RUN)},
    )
    ctx = await relations(context(), deps(truth))
    assert [c.id for c in ctx.rankings["relations"]] == [n(4), n(2)]
    assert ctx.reasons == {n(4): ("touched by a run",), n(2): ("calls m.hit",)}


async def test_an_issue_that_the_query_names_leads_to_its_fix() -> None:
    truth = Truth(
        known=[link("FIXES", f"diff/{DIFF}/a.py", "issue/12")],
        behind={f"diff/{DIFF}/a.py": n(9)},
    )
    asked = replace(context(), rankings={}, anchors=Anchors(issues=("#12",)))
    ctx = await relations(asked, deps(truth))
    assert [c.id for c in ctx.rankings["links"]] == [n(9)]
    assert ctx.reasons[n(9)] == ("fixes issue 12",)


async def test_code_alone_asks_for_no_links_and_memories_alone_for_no_graph() -> None:
    truth = Truth(standing={n(1): place()})
    await relations(context(Filter(collections=(Collection.FILES,))), deps(truth))
    assert truth.asked == ["graph"]
    truth = Truth(standing={n(1): place()})
    await relations(context(Filter(collections=(Collection.MEMORIES,))), deps(truth))
    assert truth.asked == ["links"]


@pytest.mark.parametrize(
    ("state", "degraded"),
    [
        ("loading", (Degraded("relations", "graph_loading"),)),
        ("too_large", (Degraded("relations", "graph_too_large"),)),
        ("none", ()),
    ],
)
async def test_a_graph_that_is_not_there_is_named_and_links_still_serve(
    state: str, degraded: tuple[Degraded, ...]
) -> None:
    truth = Truth(
        code=None,
        state=state,
        known=[link("TOUCHES", f"diff/{DIFF}/a.py", "m.hit")],
        behind={f"diff/{DIFF}/a.py": n(9)},
        standing={n(1): place()},
    )
    ctx = await relations(context(), deps(truth))
    assert ctx.degraded == degraded
    assert set(ctx.rankings) == {"lexical", "links"}


async def test_it_waits_for_a_graph_no_longer_than_its_share() -> None:
    truth = Truth(code=None, state="loading", standing={n(1): place()})
    await relations(replace(context(), deadline=Deadline.after(0.5)), deps(truth))
    assert truth.waits[0] <= 0.1


async def test_places_of_a_trace_weigh_more() -> None:
    truth = Truth(chunks={"m.caller": n(2)}, standing={n(1): place()})
    plain = await relations(context(), deps(truth))
    asked = replace(context(), strategy=Strategy(Kind.TRACE, {"lexical": 1.0}))
    traced = await relations(asked, deps(truth))
    assert traced.strategy.weights["relations"] > plain.strategy.weights["relations"]


async def test_nothing_found_leaves_nothing_behind() -> None:
    truth = Truth(standing={n(1): place("m.unknown")})
    asked = context()
    assert await relations(asked, deps(truth)) == asked
