"""Advice on an edit: what else must change, and which tests run the edited code. High confidence only.

`ImpactStore.changed` gives the functions that a diff edits; the diff shows what happens to their signatures. Callers
of a function whose parameters changed, or that is gone, must change; so must its overrides. The tests are those that
call an edited function, or that a past run validated. Uses one hop of the code graph, and only edges resolved with
certainty: edges beyond that are right in 60 to 83 of 100 (docs/experiments/tests-to-run.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plait.domain.graph import Relation
from plait.domain.recall import ImpactNode
from plait.domain.remarks import Remark, clean, key_of
from plait.ports import Changed, CodeGraph, View
from plait.retrieval.code_graph import blast
from plait.retrieval.code_graph import tests_to_run as ran
from plait.retrieval.code_graph.signatures import Change, change_of
from plait.retrieval.code_graph.test_ids import runnable
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Deps
from plait.text.diff import FileDiff, parse_diff
from plait.text.tokenize import tokens

WEIGHTS = DEFAULT.graph
MAX_CALLERS, MAX_OVERRIDES, MAX_TESTS = 8, 4, 6
WAIT_S = 0.15  # for a code graph that is still loading; the next edit finds it loaded


@dataclass(frozen=True, slots=True)
class Advice:
    """`remarks`: by descending confidence. `edited`: keys of the edited files and symbols."""

    remarks: tuple[Remark, ...] = ()
    edited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Touched:
    """An edited function and its row in the graph."""

    symbol: str
    path: str
    row: int
    change: Change

    @property
    def name(self) -> str:
        return last_name(self.symbol)


async def advise(deps: Deps, view: View, repo: str, diff: str) -> Advice:
    """Advice for `diff`, whose paths are relative to `repo`. No remarks while the graph is not loaded."""
    if deps.impact is None or deps.relations is None:
        return Advice()
    changed = (await deps.impact.changed(view, diff)).symbols
    files = {one.path for one in changed}
    edited = [key_of(repo, one.path, one.symbol) for one in changed if one.symbol]
    edited += [key_of(repo, path) for path in files]
    graph = await deps.relations.code_graph(view, repo, wait_s=WAIT_S)
    if graph is None:
        return Advice(edited=tuple(edited))
    touched = _touched(graph, parse_diff(diff).files, changed)
    remarks = [remark for one in touched for remark in _must_change(graph, one, touched)]
    weights = {one.symbol: 1.0 for one in touched if not graph.is_test[one.row]}
    proven = await ran.proven(view, deps, graph, repo, weights)
    remarks += _to_run(graph, touched, proven)
    return Advice(tuple(remarks), tuple(edited))


def last_name(symbol: str) -> str:
    """The last part of a qualified name, whatever separator its language uses."""
    own = symbol.partition("#")[0].partition("@")[0]
    return own.replace("::", ".").rpartition(".")[2].rpartition("/")[2]


def _touched(
    graph: CodeGraph, files: Sequence[FileDiff], changed: Iterable[Changed]
) -> list[_Touched]:
    """The functions that `changed` names with certainty, without the owners of other ones (the class of a method)."""
    hunks = {file.path: file.hunks for file in files}
    found: dict[int, _Touched] = {}
    for one in changed:
        if not one.symbol or one.sure < 1.0:
            continue
        row = blast.row_of(graph, one.path, one.symbol)
        if row is not None and row not in found:
            change = change_of(last_name(one.symbol), one.path, hunks.get(one.path, ()))
            found[row] = _Touched(one.symbol.partition("#")[0], one.path, row, change)
    owners = {blast.owner(graph, row) for row in found}
    return [one for row, one in found.items() if row not in owners]


# -- what must change ---------------------------------------------------------------------------------


def _must_change(graph: CodeGraph, one: _Touched, touched: Sequence[_Touched]) -> Iterable[Remark]:
    """The callers and the overrides of a function whose signature changed or that is gone."""
    if one.change is Change.NONE:
        return
    edited = {other.row for other in touched}
    did = "no longer defined" if one.change is Change.GONE else "changed its parameters"
    for relation, heading, most in (
        (Relation.CALLS.value, f"`{clean(one.name)}` {did}; these call it:", MAX_CALLERS),
        (Relation.OVERRIDES.value, f"These override `{clean(one.name)}`:", MAX_OVERRIDES),
    ):
        rows = [row for row in sources(graph, one.row, relation) if row not in edited]
        # Tests that call it are listed as tests to run.
        rows = [row for row in rows if blast.test_around(graph, row) is None]
        for row in rows[:most]:
            yield _place(graph, row, heading)
        if len(rows) > most:
            more = f"and {len(rows) - most} more"
            yield Remark(key_of(graph.repo, heading, more), heading, more)


def sources(graph: CodeGraph, row: int, relation: str) -> list[int]:
    """The rows with a certain edge of `relation` to `row`, by file and line."""
    found = {
        other
        for other, kind, weight in blast.edges_in(graph, row)
        if kind == relation and weight >= WEIGHTS.sure and other != row
    }
    return sorted(found, key=lambda r: (graph.paths[r], int(graph.lines[r]), r))


def _place(graph: CodeGraph, row: int, heading: str) -> Remark:
    path, symbol = graph.paths[row], graph.ids[row].partition("@")[0]
    text = clean(f"{path}:{int(graph.lines[row])} {symbol}")
    return Remark(key_of(graph.repo, path, symbol), heading, text)


# -- tests ------------------------------------------------------------------------------------------------


def _to_run(
    graph: CodeGraph, touched: Sequence[_Touched], proven: Sequence[ImpactNode]
) -> list[Remark]:
    """The tests that call an edited function, or that a change of it turned green; those that share most words with
    its name first."""
    tests: dict[int, float] = {}
    for one in touched:
        if graph.is_test[one.row]:
            continue  # an edited test is known to the one who edits it
        for other, relation, weight in blast.edges_out(graph, one.row):
            if relation == Relation.VALIDATED_BY.value and weight >= WEIGHTS.sure:
                tests[other] = max(tests.get(other, 0.0), weight)
    for node in proven:
        row = graph.row.get(node.id.partition(":")[2])
        if row is not None and graph.is_test[row] and node.confidence >= WEIGHTS.sure:
            tests[row] = 1.0
    words = {word for one in touched for word in tokens(one.name)}
    order = sorted(
        tests, key=lambda row: (-_shared_words(graph, row, words), -tests[row], graph.ids[row])
    )
    shown = order[:MAX_TESTS]
    of = f" ({len(shown)} of {len(order)})" if len(order) > len(shown) else ""
    heading = f"Tests that run it{of}:"
    return [
        Remark(
            key_of(graph.repo, graph.paths[row], graph.ids[row].partition("@")[0]),
            heading,
            clean(runnable(graph.paths[row], graph.ids[row])),
        )
        for row in shown
    ]


def _shared_words(graph: CodeGraph, row: int, words: set[str]) -> int:
    """How many of `words` are in the test's name and path."""
    return len(set(tokens(f"{graph.ids[row]} {graph.paths[row]}")) & words)
