"""From every file's facts to its part of the graph: nodes, and edges bound across the repository.

A pure function of all facts: the order of the files does not matter and equal input gives equal
bytes, so an incremental run that resolves again gives what a clean run gives.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from posixpath import basename
from typing import cast

from etl.facts import Definition, FileFacts, SymbolKind
from etl.languages.registry import language
from etl.resolve.table import CLASSES, Binder, Bound, Table
from plait.domain.graph import Edge, Label, Node, Relation

_BY_ID = attrgetter("id")
_BY_ENDS = attrgetter("relation", "source", "target")


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A file without symbols: text that is searched, not parsed."""

    path: str
    language: str
    lines: int


@dataclass(frozen=True, slots=True)
class FilePart:
    """One file's part of the graph, sorted: equal parts encode to equal bytes.

    `unresolved` counts the uses that could not be bound, by reason. The edge `repo CONTAINS file` and
    the edges `code VALIDATED_BY test` are in the part of the file, or of the test, they end in.
    """

    path: str
    nodes: list[Node]
    edges: list[Edge]
    unresolved: Mapping[str, int] = field(default_factory=dict)


def repo_node(repo: str) -> Node:
    """The repository's node; it belongs to no file."""
    return Node(f"{repo}:", Label.REPO.value, repo, repo, "", 0, 0, "", "repo")


def file_id(repo: str, path: str) -> str:
    return f"{repo}:/{path}"


def resolve(
    repo: str, files: Sequence[FileFacts], others: Sequence[OtherFile] = ()
) -> Iterator[FilePart]:
    """Each file's part of the graph, by path: code files first, then `others`."""
    with _collector_off():
        table = Table(repo, files)
        binders = _binders(table)
        for index, facts in enumerate(table.files):
            unresolved: Counter[str] = Counter()
            binder = binders.get(language(facts.language).family)
            bound = binder.bind(index, unresolved) if binder else iter(())
            yield _code_part(table, index, bound, unresolved)
    for other in sorted(others, key=attrgetter("path")):
        yield _other_part(repo, other)


@contextmanager
def _collector_off() -> Iterator[None]:
    """No cyclic garbage collection until the last part is taken: the tables live that long and are
    large, and looking for cycles in them costs half as much again as resolving."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _binders(table: Table) -> dict[str, Binder]:
    """The binder of each family that has files."""
    lines = [language(id_) for id_ in sorted({facts.language for facts in table.files})]
    modules = {line.family: line.resolver for line in lines if line.is_code}
    return {
        family: cast(Binder, import_module(module).binder(table))
        for family, module in sorted(modules.items())
    }


def _other_part(repo: str, other: OtherFile) -> FilePart:
    node = _file_node(repo, other.path, other.language, other.lines)
    return FilePart(other.path, [node], [Edge(Relation.CONTAINS.value, f"{repo}:", node.id)])


def _file_node(repo: str, path: str, language: str, lines: int) -> Node:
    label = Label.FILE.value
    return Node(file_id(repo, path), label, basename(path), path, path, 1, lines, language, "file")


def _code_part(
    table: Table, index: int, bound: Iterable[Bound], unresolved: Counter[str]
) -> FilePart:
    facts = table.files[index]
    nodes = _code_nodes(table, index)
    edges = _contains(table, index)
    edges += _aggregate(table, index, bound)
    edges += _validated_by(table, edges)
    nodes.sort(key=_BY_ID)
    edges.sort(key=_BY_ENDS)
    return FilePart(facts.path, nodes, edges, dict(sorted(unresolved.items())))


def _code_nodes(table: Table, index: int) -> list[Node]:
    facts = table.files[index]
    path, language = facts.path, facts.language
    lines = facts.definitions[0].end_line if facts.definitions else 0
    nodes = [_file_node(table.repo, path, language, lines)]
    for definition, id_, name in zip(
        facts.definitions, table.ids[index], table.names[index], strict=True
    ):
        nodes.append(
            Node(
                id_,
                _label(definition),
                definition.name,
                name,
                path,
                definition.start_line,
                definition.end_line,
                language,
                definition.kind.value,
            )
        )
    return nodes


def _label(definition: Definition) -> str:
    if definition.is_test and definition.kind not in CLASSES:
        return "Test"
    if definition.kind in CLASSES:
        return "Class"
    return "Module" if definition.kind is SymbolKind.MODULE else "Function"


def _contains(table: Table, index: int) -> list[Edge]:
    facts, ids = table.files[index], table.ids[index]
    file = file_id(table.repo, facts.path)
    edges = [Edge("CONTAINS", f"{table.repo}:", file)]
    for number, definition in enumerate(facts.definitions):
        edges.append(Edge("CONTAINS", ids[definition.parent] if number else file, ids[number]))
    return edges


def _aggregate(table: Table, index: int, bound: Iterable[Bound]) -> list[Edge]:
    """One edge a (relation, source, target): lines ascending, with repeats, the surest rule's name."""
    lines: dict[tuple[str, int, str], list[int]] = {}
    best: dict[tuple[str, int, str], tuple[float, str]] = {}
    for relation, source, target, line, resolver, confidence in bound:
        key = (relation, source, target)
        rule = (confidence, resolver)
        known = best.get(key)
        if known is None:
            best[key] = rule
            lines[key] = [line] if line else []
            continue
        if rule > known:
            best[key] = rule
        if line:
            lines[key].append(line)
    ids = table.ids[index]
    edges = []
    for key, (confidence, resolver) in best.items():
        relation, source, target = key
        sites = tuple(sorted(lines[key]))
        edges.append(Edge(relation, ids[source], target, sites, resolver, confidence))
    return edges


def _validated_by(table: Table, edges: Sequence[Edge]) -> list[Edge]:
    """`code VALIDATED_BY test` for each call from a test to something that is not part of a test."""
    found = []
    for edge in edges:
        if edge.relation != "CALLS" or not table.is_test(edge.source):
            continue
        if not table.in_test_file(edge.target):
            found.append(
                Edge(
                    Relation.VALIDATED_BY.value,
                    edge.target,
                    edge.source,
                    edge.lines,
                    edge.resolver,
                    edge.confidence,
                )
            )
    return found
