"""Which tests to run for a changed function: predicted from the code graph, compared with those that run it.

    python benchmarks/test_trace.py /tmp/flask.json flask-3.1.0 -q tests    # in flask's own environment
    python -m benchmarks.tests_to_run flask-3.1.0 /tmp/flask.json [more pairs] [--without CALLS …]

One question a function outside tests that at least one test ran; the answer are the tests whose run executed
it. Rows: `graph` is `plait.retrieval.code_graph.blast` (VALIDATED_BY, and CALLS, INHERITS, OVERRIDES backwards), by hops;
`names` ranks the tests' texts by the words of the function's qualified name; `shipped` is both, as
`plait.retrieval.code_graph.tests_to_run.together` joins them, then without each relation; `bm25` ranks by all words of
the function. Rankings are cut at `--most`, the graph alone is not. Precision and recall of all that is
predicted; P@n: of the first n (fewer, if the truth has fewer), the share that ran it. "narrow": functions that
at most a tenth of the tests run, where a choice saves something.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from unittest import mock

from benchmarks.call_graph import Source, read_graph
from plait.domain.graph import Label, Node, encode_edges, encode_nodes
from plait.domain.values import embedded_text
from plait.ports import CodeGraph
from plait.retrieval.code_graph import blast, tests_to_run
from plait.retrieval.code_graph.test_ids import runnable
from plait.text.tokenize import tokens
from vector.search import codegraph

NARROW = 0.1
REPO = "r"
Predict = Callable[[int], list[str]]


@dataclass(frozen=True)
class Project:
    """`truth`: node → tests that ran it. `texts`: node → path, name and source."""

    name: str
    graph: CodeGraph
    truth: dict[int, set[str]]
    tests: set[str]
    texts: dict[int, str]


def load(root: Path, trace: Path) -> Project:
    _, parts = read_graph(root)
    names = codegraph.Names()
    graph = codegraph.build(
        REPO,
        1,
        [
            codegraph.part(REPO, p.path, encode_nodes(p.nodes), encode_edges(p.edges), names)
            for p in sorted(parts, key=lambda p: p.path)
        ],
        names,
    )
    functions = [n for p in parts for n in p.nodes if n.label in (Label.FUNCTION, Label.TEST)]
    at = {(n.path, n.start_line): graph.row[n.id[len(REPO) + 1 :]] for n in functions}
    sources: dict[str, Source] = {}
    truth: dict[int, set[str]] = defaultdict(set)
    ran = json.loads(trace.read_text(encoding="utf-8"))
    tests = set(ran)
    for test, frames in ran.items():
        for path, first, name in frames:
            if path not in sources:
                sources[path] = Source(root / path)
            row = at.get((path, sources[path].place(first, name)))
            if row is not None:
                truth[row].add(test)
    in_tests = {path for path in graph.paths if path.startswith(("tests/", "examples/", "docs/"))}
    asked = {row: found for row, found in truth.items() if graph.paths[row] not in in_tests}
    return Project(root.name, graph, asked, tests, dict(_texts(root, graph, functions)))


def _texts(root: Path, graph: CodeGraph, functions: Sequence[Node]) -> Iterator[tuple[int, str]]:
    lines: dict[str, list[str]] = {}
    for node in functions:
        if node.path not in lines:
            lines[node.path] = (root / node.path).read_text("utf-8", "replace").splitlines()
        body = "\n".join(lines[node.path][node.start_line - 1 : node.end_line])
        yield (
            graph.row[node.id[len(REPO) + 1 :]],
            embedded_text(node.path, node.qualified_name, body),
        )


def by_graph(project: Project, hops: int = blast.HOPS) -> Predict:
    graph = project.graph

    def predict(row: int) -> list[str]:
        found = blast.tests(graph, blast.reach(graph, {row: 1.0}, hops))
        return [runnable(graph.paths[t.row], graph.ids[t.row]) for t in found]

    return predict


class Words:
    """BM25 (k1 1.2, b 0.75) over the texts of the tests."""

    def __init__(self, project: Project) -> None:
        graph = project.graph
        self.rows = [row for row in project.texts if graph.is_test[row]]
        self.counts = [Counter(tokens(project.texts[row])) for row in self.rows]
        self.sizes = [sum(c.values()) for c in self.counts]
        self.mean = sum(self.sizes) / max(1, len(self.sizes))
        self.postings: dict[str, list[int]] = defaultdict(list)
        for n, c in enumerate(self.counts):
            for term in c:
                self.postings[term].append(n)

    def rank(self, text: str, most: int) -> list[tuple[int, float]]:
        """The best rows of the graph, with their scores."""
        scores: dict[int, float] = defaultdict(float)
        for term in set(tokens(text)):
            held = self.postings.get(term, [])
            idf = log(1 + (len(self.rows) - len(held) + 0.5) / (len(held) + 0.5))
            for n in held:
                tf = self.counts[n][term]
                norm = 1.2 * (0.25 + 0.75 * self.sizes[n] / self.mean)
                scores[n] += idf * tf * 2.2 / (tf + norm)
        best = sorted(scores, key=lambda n: (-scores[n], n))[:most]
        return [(self.rows[n], scores[n]) for n in best]


def by_words(project: Project, words: Words, most: int, *, whole: bool) -> Predict:
    """By all words of the function, or by those of its qualified name alone."""
    graph = project.graph

    def predict(row: int) -> list[str]:
        text = project.texts[row] if whole else graph.ids[row]
        return [runnable(graph.paths[r], graph.ids[r]) for r, _ in words.rank(text, most)]

    return predict


def shipped(project: Project, words: Words, most: int) -> Predict:
    graph = project.graph

    def predict(row: int) -> list[str]:
        near = tests_to_run.reached(graph, blast.reach(graph, {row: 1.0}))
        ranked = words.rank(graph.ids[row], tests_to_run.BY_WORDS)
        like = [
            tests_to_run.alike(
                REPO, graph.paths[r], graph.ids[r], int(graph.lines[r]), score / ranked[0][1]
            )
            for r, score in ranked
        ]
        return [test.name for test in tests_to_run.together(graph, near, like)[:most]]

    return predict


def measure(project: Project, predict: Predict, *, narrow: bool) -> dict[str, float]:
    sums: defaultdict[str, float] = defaultdict(float)
    asked = 0
    for row, truth in sorted(project.truth.items()):
        if narrow and len(truth) > NARROW * len(project.tests):
            continue
        asked += 1
        # What was not run (skipped, or failed) can be neither right nor wrong.
        found = [test for test in dict.fromkeys(predict(row)) if test in project.tests]
        right = [test in truth for test in found]
        sums["answered"] += bool(found)
        sums["size"] += len(found)
        sums["precision"] += sum(right) / len(right) if right else 0.0
        sums["recall"] += sum(right) / len(truth)
        for n in (1, 5, 10):
            sums[f"P@{n}"] += sum(right[:n]) / min(n, len(truth))
    answered = max(1, sums["answered"])
    means = {key: value / max(1, asked) for key, value in sums.items()}
    means["precision"] = sums["precision"] / answered
    means["asked"] = asked
    return means


COLUMNS = ("answered", "size", "precision", "recall", "P@1", "P@5", "P@10")


def show(name: str, found: dict[str, float]) -> None:
    if not found["asked"]:
        print(f"{name:34}     0  no such function")
        return
    said = "  ".join(
        f"{found[c]:9.1f}" if c == "size" else f"{100 * found[c]:9.1f}" for c in COLUMNS
    )
    print(f"{name:34} {int(found['asked']):5}  {said}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pairs", nargs="+", type=Path, help="ROOT TRACE.json …")
    parser.add_argument("--without", nargs="*", default=[], help="relations to leave out in turn")
    parser.add_argument("--most", type=int, default=20)
    given = parser.parse_args()
    print(f"{'':34} asked  " + "  ".join(f"{c:>9}" for c in COLUMNS))
    for root, trace in zip(given.pairs[::2], given.pairs[1::2], strict=True):
        project = load(root.resolve(), trace)
        for narrow in (False, True):
            rows(project, given.most, given.without, narrow=narrow)


def rows(project: Project, most: int, without: Sequence[str], *, narrow: bool) -> None:
    kind = f"{project.name} {'narrow' if narrow else 'all'}"
    words = Words(project)

    def row(name: str, predict: Predict) -> None:
        show(f"{kind} {name}", measure(project, predict, narrow=narrow))

    row("bm25", by_words(project, words, most, whole=True))
    row("names", by_words(project, words, most, whole=False))
    for hops in (1, 2, 3):
        row(f"graph, {hops} hops", by_graph(project, hops))
    row("shipped", shipped(project, words, most))
    for relation in without:
        weights = blast.WEIGHTS
        left = replace(
            weights,
            back={name: w for name, w in weights.back.items() if name != relation},
            forth={name: w for name, w in weights.forth.items() if name != relation},
        )
        with mock.patch.object(blast, "WEIGHTS", left):
            row(f"shipped without {relation}", shipped(project, words, most))


if __name__ == "__main__":
    main()
