"""A file's part of the graph: its nodes, and the edges that what was bound in it makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from posixpath import basename

from etl.facts import Definition, FileFacts, SymbolKind
from etl.resolve.ids import Ids
from etl.resolve.table import CLASSES, Bound
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


def other_part(repo: str, other: OtherFile) -> FilePart:
    node = _file_node(repo, other.path, other.language, other.lines)
    return FilePart(other.path, [node], [Edge(Relation.CONTAINS.value, f"{repo}:", node.id)])


def _file_node(repo: str, path: str, language: str, lines: int) -> Node:
    label = Label.FILE.value
    return Node(file_id(repo, path), label, basename(path), path, path, 1, lines, language, "file")


def code_part(
    ids: Ids,
    facts: FileFacts,
    bound: Iterable[Bound],
    unresolved: Counter[str],
    is_test_file: Callable[[str], bool],
) -> FilePart:
    """The part of a code file; `is_test_file` tells of a path whether it is a test-suite's."""
    own = ids.ids(facts.path)
    nodes = _code_nodes(ids, facts)
    edges = _contains(ids, facts)
    edges += _aggregate(own, bound)
    edges += _validated_by(ids, facts, edges, is_test_file)
    nodes.sort(key=_BY_ID)
    edges.sort(key=_BY_ENDS)
    return FilePart(facts.path, nodes, edges, dict(sorted(unresolved.items())))


def _code_nodes(ids: Ids, facts: FileFacts) -> list[Node]:
    path, language = facts.path, facts.language
    lines = facts.definitions[0].end_line if facts.definitions else 0
    nodes = [_file_node(ids.repo, path, language, lines)]
    for definition, id_, name in zip(
        facts.definitions, ids.ids(path), ids.names(path), strict=True
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


def _contains(ids: Ids, facts: FileFacts) -> list[Edge]:
    own = ids.ids(facts.path)
    file = file_id(ids.repo, facts.path)
    edges = [Edge("CONTAINS", f"{ids.repo}:", file)]
    for number, definition in enumerate(facts.definitions):
        edges.append(Edge("CONTAINS", own[definition.parent] if number else file, own[number]))
    return edges


def _aggregate(ids: Sequence[str], bound: Iterable[Bound]) -> list[Edge]:
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
    edges = []
    for key, (confidence, resolver) in best.items():
        relation, source, target = key
        sites = tuple(sorted(lines[key]))
        edges.append(Edge(relation, ids[source], target, sites, resolver, confidence))
    return edges


def _validated_by(
    ids: Ids, facts: FileFacts, edges: Sequence[Edge], is_test_file: Callable[[str], bool]
) -> list[Edge]:
    """`code VALIDATED_BY test` for each call from a test to something that is not part of a test."""
    tests = {
        id_
        for id_, definition in zip(ids.ids(facts.path), facts.definitions, strict=True)
        if definition.is_test
    }
    found = []
    for edge in edges if tests else ():
        if edge.relation != "CALLS" or edge.source not in tests:
            continue
        path = ids.path_of(edge.target)
        if path and not is_test_file(path):
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
