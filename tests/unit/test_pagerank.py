"""Personalised PageRank: mass, bounds, determinism; and what relations make of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.values import Collection, ItemId
from plait.ports import MemoryLink, Place
from plait.retrieval.code_graph import pagerank, related
from plait.retrieval.code_graph.pagerank import Walk
from tests.unit.code_graphs import graph

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
CHAIN = graph([("CALLS", "a", "b"), ("CALLS", "b", "c"), ("CALLS", "c", "d"), ("CALLS", "x", "y")])
NAMES = st.sampled_from("abcdefgh")
EDGES = st.sets(st.tuples(st.sampled_from(["CALLS", "CONTAINS"]), NAMES, NAMES), min_size=1)


def test_nearer_is_more_and_what_is_apart_is_nothing() -> None:
    found = pagerank.near(CHAIN, {CHAIN.row["a"]: 1.0}, Walk(), 10)
    named = {CHAIN.ids[row]: mass for row, mass in found.items()}
    assert list(named) == ["a", "b", "c", "d"]
    assert "x" not in named


def test_one_step_counts_what_it_should() -> None:
    found = pagerank.near(CHAIN, {CHAIN.row["x"]: 2.0}, Walk(alpha=0.5, rounds=1), 10)
    assert found == pytest.approx({CHAIN.row["x"]: 0.5, CHAIN.row["y"]: 0.25})


@given(EDGES, st.lists(st.tuples(NAMES, st.floats(0.01, 1.0)), min_size=1), st.floats(0.1, 0.9))
def test_mass_is_neither_made_nor_negative(
    edges: set[tuple[str, str, str]], seeds: list[tuple[str, float]], alpha: float
) -> None:
    code = graph(sorted(edges))
    rows = {code.row[name]: weight for name, weight in seeds if name in code.row}
    found = pagerank.near(code, rows, Walk(alpha=alpha, epsilon=0.0), 100)
    assert all(mass > 0.0 for mass in found.values())
    assert sum(found.values()) <= 1.0 + 1e-9
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert found == pagerank.near(
        code, dict(reversed(rows.items())), Walk(alpha=alpha, epsilon=0.0), 100
    )


def test_long_enough_it_is_the_fixed_point() -> None:
    """p = α s + (1 − α) p W, solved directly."""
    code = graph(
        [("CALLS", "a", "b"), ("CALLS", "b", "c"), ("CALLS", "c", "a"), ("CALLS", "a", "c")]
    )
    n, alpha = len(code.ids), 0.3
    move = np.zeros((n, n))
    for row in range(n):
        for start, far in ((code.out_start, code.out_other), (code.in_start, code.in_other)):
            for other in far[int(start[row]) : int(start[row + 1])]:
                move[row, other] += 1.0
        move[row] /= move[row].sum()
    seed = np.eye(n)[code.row["b"]]
    exact = np.linalg.solve(np.eye(n) - (1 - alpha) * move.T, alpha * seed)
    walk = Walk(alpha=alpha, hubs=0.0, epsilon=0.0, rounds=80)
    found = pagerank.near(code, {code.row["b"]: 1.0}, walk, n)
    # What still waits is counted at α of itself, 0.7^80.
    assert [found[row] for row in range(n)] == pytest.approx(exact.tolist(), abs=1e-9)


def test_a_hub_is_reached_less_than_a_neighbour_of_few() -> None:
    code = graph(
        [("CALLS", "a", "hub"), ("CALLS", "a", "own")]
        + [("CALLS", f"u{n}", "hub") for n in range(50)]
    )
    found = pagerank.near(code, {code.row["a"]: 1.0}, Walk(), 100)
    assert found[code.row["own"]] > found[code.row["hub"]]
    flat = pagerank.near(code, {code.row["a"]: 1.0}, Walk(hubs=0.0, rounds=1), 100)
    assert flat[code.row["own"]] == pytest.approx(flat[code.row["hub"]])


def test_the_work_of_a_round_is_bounded() -> None:
    code = graph([("CALLS", f"u{n}", "hub") for n in range(500)] + [("CALLS", "a", "b")])
    seeds = {code.row["hub"]: 1.0, code.row["a"]: 0.01}
    found = pagerank.near(code, seeds, Walk(epsilon=0.0, most_edges=100), 1000)
    assert {code.ids[row] for row in found} == {"hub", "a", "b"}


def test_no_seeds_no_graph_nothing() -> None:
    assert pagerank.near(CHAIN, {}, Walk(), 5) == {}
    assert pagerank.near(replace(CHAIN, ids=[]), {0: 1.0}, Walk(), 5) == {}


def test_what_a_seed_says_of_itself_does_not_find_it() -> None:
    rows = {CHAIN.row["a"]: 1.0, CHAIN.row["x"]: 1.0}
    found = related.in_code(CHAIN, rows, Walk(rounds=1), 10)
    assert [(one.node[1], one.why) for one in found] == [("b", "called by a"), ("y", "called by x")]
    assert all(one.path == "a.py" for one in found)


@pytest.mark.parametrize(
    ("relation", "seed_first", "why"),
    [
        ("CALLS", "called by s", "calls s"),
        ("INHERITS", "a base of s", "inherits from s"),
        ("VALIDATED_BY", "tests s", "tested by s"),
        ("OVERRIDES", "overridden by s", "overrides s"),
        ("CONTAINS", "inside s", "holds s"),
    ],
)
def test_reasons_say_which_way_round(relation: str, seed_first: str, why: str) -> None:
    code = graph([(relation, "s", "t"), (relation, "u", "s")])
    seeds = {code.row["s"]: 1.0}
    assert related.direct(code, code.row["t"], seeds) == seed_first
    assert related.direct(code, code.row["u"], seeds) == why


def link(relation: str, source: str, target: str, confidence: float = 1.0) -> MemoryLink:
    return MemoryLink("r", relation, source, target, confidence, "text", WHEN)


def test_links_lead_to_items_and_to_code() -> None:
    links = [
        link("TOUCHES", "diff/1/a.py", "m.f"),
        link("MENTIONS", "memory/2", "m.f", 0.5),
        link("TOUCHES", "episode/3", "m.g"),
        link("SUPERSEDES", "memory/4", "memory/2"),
    ]
    items, code = related.by_links(links, {("r", "m.f"): 1.0, ("r", "episode/3"): 0.5})
    assert [(one.node[1], one.score, one.why) for one in items] == [
        ("diff/1/a.py", 1.0, "touches m.f"),
        ("memory/2", pytest.approx(0.4), "mentions m.f"),
    ]
    assert [(one.node[1], one.score, one.why) for one in code] == [("m.g", 0.5, "touched by a run")]


def place(
    collection: Collection, path: str = "", symbol: str = "", episode: UUID | None = None
) -> Place:
    return Place("r", collection, path, symbol, "k", False, episode_id=episode)


def test_items_are_known_to_the_graph_by_these_names() -> None:
    id_, run = ItemId(UUID(int=7)), UUID(int=8)
    code = place(Collection.FILES, "a.py", "a.f#2")
    assert related.node_of(id_, code) == ["a.f", "/a.py"]
    assert related.node_of(id_, place(Collection.FILES, "x.md")) == ["/x.md"]
    assert related.node_of(id_, place(Collection.DIFFS, "a.py", episode=run)) == [
        f"diff/{id_}/a.py",
        f"episode/{run}",
    ]
    assert related.node_of(id_, place(Collection.MEMORIES)) == [f"memory/{id_}"]
    assert related.node_of(id_, place(Collection.PLANS)) == []


def test_a_name_that_two_files_claim_is_the_file_s_own() -> None:
    code = graph([("CALLS", "m.f", "m.f@b.py")])
    code = replace(code, paths=["b.py" if "@" in id_ else "a.py" for id_ in code.ids])
    assert related.row_of(code, "b.py", "m.f#3") == code.row["m.f@b.py"]
    assert related.row_of(code, "a.py", "m.f") == code.row["m.f"]
    assert related.row_of(code, "c.py", "m.f") is None
    assert related.symbol_of(code, code.row["m.f@b.py"]) == "m.f"
