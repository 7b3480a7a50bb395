"""Compare the call graph with what really happened when a project's own tests ran.

    python benchmarks/call_trace.py /tmp/flask.json flask-3.1.0 -m pytest -q tests   # in its own venv
    python benchmarks/call_graph.py flask-3.1.0 /tmp/flask.json [more pairs] [--missed N] [--wrong N]

Recall: of the pairs (caller, callee) that happened inside the project, those the graph has, by whether
they start and end in tests; "code→test" are mostly functions that a test hands to the code. Calls that no
call expression makes (properties, operators, `with`, iteration, class bodies) are counted apart.
Precision: of the graph's call sites whose line ran a call to a function of the target's name, those
where the target is the one that ran ("by name"); and of those whose line ran any call at all, those
where the target ran ("by line"; too strict, as `a or b.c()` may stop before c).
"""

from __future__ import annotations

import argparse
import ast
import json
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Coroutine, Generator
from dataclasses import dataclass, field
from pathlib import Path

from etl.facts import FileFacts
from etl.languages import extractor
from etl.languages.names import is_test_path, module_name
from etl.resolve import FilePart, resolve

IMPLICIT = {"<module>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>"}
# Methods that operators, statements and builtins call.
SPECIAL = {
    name
    for type_ in (str, int, list, dict, set, float, type, Generator, AsyncGenerator, Coroutine)
    for name in dir(type_)
    if name.startswith("__")
} | {
    *("__enter__", "__exit__", "__aenter__", "__aexit__", "__getattr__", "__del__", "__set_name__"),
    *("__get__", "__set__", "__delete__", "__missing__", "__fspath__", "__deepcopy__", "__copy__"),
    *("__post_init__", "__bool__", "__index__", "__html__", "__subclasscheck__", "__prepare__"),
}
SPECIAL -= {"__init__", "__call__", "__new__"}
Place = tuple[str, int]  # file, line of `def`; line 0 is the module
Shown = tuple[tuple[Place, Place], int, str]  # pair, line, rule


@dataclass
class Truth:
    """What ran: pairs and sites, with places named by the line of `def`."""

    pairs: dict[tuple[Place, Place], set[int]] = field(default_factory=lambda: defaultdict(set))
    implicit: dict[tuple[Place, Place], set[int]] = field(default_factory=lambda: defaultdict(set))
    generators: set[Place] = field(default_factory=set)
    names: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))


class Source:
    """The definitions of a file, found by the standard library's parser."""

    def __init__(self, path: Path) -> None:
        self.by_code: dict[tuple[int, str], int] = {}
        self.spans: list[tuple[int, int, int]] = []  # first line, last line, line of def
        self.properties: set[int] = set()
        self.generators: set[int] = set()
        self.classes: set[tuple[int, str]] = set()
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
                self.by_code[first, node.name] = node.lineno
                self.spans.append((first, node.end_lineno or first, node.lineno))
                if isinstance(node, ast.ClassDef):
                    self.classes.add((first, node.name))
                elif any(_is_property(ast.unparse(each)) for each in node.decorator_list):
                    self.properties.add(node.lineno)
                elif isinstance(node, ast.FunctionDef) and _yields(node):
                    self.generators.add(node.lineno)

    def place(self, line: int, name: str) -> int:
        """The line of the `def` a code object belongs to; the one around a lambda; 0: the module."""
        known = self.by_code.get((line, name))
        if known is not None:
            return known
        around = [(last - first, at) for first, last, at in self.spans if first <= line <= last]
        return min(around)[1] if around and name != "<module>" else 0


def _is_property(decorator: str) -> bool:
    return decorator.endswith(("property", ".setter", ".deleter", ".getter"))


def _yields(function: ast.FunctionDef) -> bool:
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            todo.extend(ast.iter_child_nodes(node))
    return False


def read_truth(root: Path, trace: Path) -> Truth:
    """The trace's pairs, with code objects mapped to definitions."""
    sources: dict[str, Source] = {}

    def source(file: str) -> Source:
        if file not in sources:
            sources[file] = Source(root / file)
        return sources[file]

    truth = Truth()
    data = json.loads(trace.read_text(encoding="utf-8"))
    for file, line, name in data["sites"]:
        truth.names[file, line].add(name)
    for file, first, name, line, other, other_first, other_name in data["calls"]:
        if not ((root / file).is_file() and (root / other).is_file()):
            continue  # compiled from a string
        target = source(other)
        if other_name in IMPLICIT or (other_first, other_name) in target.classes:
            continue
        caller = (file, source(file).place(first, name))
        callee = (other, target.place(other_first, other_name))
        if callee[1] in target.generators:
            truth.generators.add(callee)  # seen when it is resumed, not where it is called
        elif other_name in SPECIAL or callee[1] in target.properties:
            truth.implicit[caller, callee].add(line)
        else:
            truth.pairs[caller, callee].add(line)
    return truth


def read_graph(root: Path) -> tuple[list[FileFacts], list[FilePart]]:
    """The graph of every Python file below `root`."""
    python = extractor("python")
    paths = sorted(p.relative_to(root).as_posix() for p in root.rglob("*.py"))
    packages = frozenset(p.rpartition("/")[0] for p in paths if p.endswith("__init__.py"))
    facts = [
        python.extract((root / p).read_bytes(), p, module_name(p, "python", packages))
        for p in paths
    ]
    return facts, list(resolve("r", facts))


def compare(root: Path, trace: Path, missed: int, wrong: int) -> tuple[Counter[str], Counter[str]]:
    """Counts of one project: (recall counts, precision counts by rule)."""
    truth = read_truth(root, trace)
    _, parts = read_graph(root)
    places: dict[str, Place] = {}
    labels: dict[str, str] = {}
    for part in parts:
        for node in part.nodes:
            module = node.label in ("Module", "File")
            places[node.id] = (node.path, 0 if module else node.start_line)
            labels[node.id] = node.label
    names = {node.id: node.name for part in parts for node in part.nodes}
    rules: dict[tuple[Place, Place], str] = {}
    sites: list[tuple[str, Place, Place, int, str]] = []
    for part in parts:
        for edge in part.edges:
            if edge.relation == "CALLS":
                pair = (places[edge.source], places[edge.target])
                rules[pair] = edge.resolver
                if labels[edge.target] != "Class":
                    for line in edge.lines:
                        sites.append((edge.resolver, *pair, line, names[edge.target]))
    recall = _recall(truth, rules, missed, root)
    precision = _precision(truth, sites, wrong, root)
    return recall, precision


def _recall(
    truth: Truth, rules: dict[tuple[Place, Place], str], missed: int, root: Path
) -> Counter[str]:
    counts: Counter[str] = Counter()
    lost: list[Shown] = []
    for pair, lines in sorted(truth.pairs.items()):
        where = "test" if is_test_path(pair[0][0], "python") else "code"
        if is_test_path(pair[1][0], "python"):
            where += "→test"
        counts[f"{where} pairs"] += 1
        if pair in rules:
            counts[f"{where} found"] += 1
        elif where in ("code", "test"):
            lost.append((pair, min(lines), ""))
    counts["implicit pairs"] = len(truth.implicit)
    counts["implicit found"] = sum(pair in rules for pair in truth.implicit)
    _show("missed", lost, missed, root)
    return counts


def _precision(
    truth: Truth, sites: list[tuple[str, Place, Place, int, str]], wrong: int, root: Path
) -> Counter[str]:
    counts: Counter[str] = Counter()
    bad: list[Shown] = []
    for rule, caller, callee, line, name in sites:
        ran = truth.names.get((caller[0], line))
        if ran is None or callee in truth.generators:
            continue
        counts[f"{rule} lines"] += 1
        pair = (caller, callee)
        right = line in truth.pairs.get(pair, ()) or line in truth.implicit.get(pair, ())
        if right:
            counts[f"{rule} right"] += 1
        if right or name in ran:
            counts[f"{rule} named"] += 1
            if not right:
                bad.append(((caller, callee), line, rule))
        elif rule in ("unique", "callback"):
            bad.append(((caller, callee), line, rule))
    _show("wrong", bad, wrong, root)
    return counts


def _show(title: str, found: list[Shown], limit: int, root: Path) -> None:
    step = max(1, len(found) // limit) if limit else 1
    for (caller, callee), line, rule in found[::step][:limit]:
        text = (root / caller[0]).read_text(encoding="utf-8", errors="replace").split("\n")
        place = f"{caller[0]}:{line} → {callee[0]}:{callee[1]}"
        print(title, rule, place, "|", "".join(text[line - 1 : line]).strip()[:90])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs", nargs="+", help="ROOT TRACE [ROOT TRACE …]")
    parser.add_argument(
        "--missed", type=int, default=0, help="show that many missed pairs a project"
    )
    parser.add_argument("--wrong", type=int, default=0, help="show that many wrong sites a project")
    given = parser.parse_args()
    total: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    for root, trace in zip(given.pairs[::2], given.pairs[1::2], strict=True):
        recall, precision = compare(Path(root), Path(trace), given.missed, given.wrong)
        total += recall
        rules += precision
        print(f"{Path(root).name:20}", _line(recall), _rule("all", _sum(precision)))
    print(f"{'total':20}", _line(total), _rule("all", _sum(rules)))
    for rule in sorted({key.split()[0] for key in rules}):
        counts = Counter({k.split()[1]: v for k, v in rules.items() if k.split()[0] == rule})
        print(f"  {rule:12}", _rule(rule, counts))


def _sum(rules: Counter[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for key, value in rules.items():
        counts[key.split()[1]] += value
    return counts


def _line(counts: Counter[str]) -> str:
    found = []
    for where in ("code", "test", "code→test", "test→test", "implicit"):
        pairs, have = counts[f"{where} pairs"], counts[f"{where} found"]
        found.append(f"{where} {have}/{pairs} {have / pairs if pairs else 0:.3f}")
    return "  ".join(found)


def _rule(rule: str, counts: Counter[str]) -> str:
    lines, named, right = counts["lines"], counts["named"], counts["right"]
    by_name = right / named if named else 0
    by_line = right / lines if lines else 0
    return f"sites {lines:6} precision by name {by_name:.3f} by line {by_line:.3f}"


if __name__ == "__main__":
    main()
