"""The links of an episode to code, issues and commits: nodes and edges, before any store is asked.

Names are node ids without the repository: `episode/<id>`, `diff/<item>/<path>`, `issue/12`,
`commit/<sha>`, `/path` of a file, a symbol's qualified name. Which functions a hunk touches and which
Test a result means is settled later, against an index (`plait.text.hunk_functions`, `testnames`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from uuid import UUID

from plait.domain.graph import Label, Relation
from plait.domain.values import Artifact, ArtifactKind, Episode
from plait.ports.episodes import EpisodeEdge, EpisodeLinks, EpisodeNode
from plait.text.diff import Diff, parse_diff, touched
from plait.text.issue_references import Reference, references
from plait.text.test_results import TestRun, results

MAX_EDGES = 2_000  # of one episode
MAX_DIFF_NODES = 500  # of one episode

# How sure a sentence "fixes #1" makes us, by where it stands; elsewhere it only mentions.
_CLAIMS: Mapping[ArtifactKind, float] = {
    ArtifactKind.DIFF: 0.95, ArtifactKind.REFLECTION: 0.9, ArtifactKind.NOTE: 0.8,
    ArtifactKind.PLAN: 0.7,
}  # fmt: skip
_SUMMARY = 0.95
_HAS_NAMES = re.compile(r"^(?:\+\+\+ |diff --|rename to )", re.MULTILINE)


def episode_links(episode: Episode, episode_id: UUID, items: Sequence[UUID]) -> EpisodeLinks:
    """`items` are the ids of the artifacts, in their order."""
    return _Reader(episode, episode_id, items).read()


def read_diff(artifact: Artifact) -> Diff:
    """The diff of an artifact; hunks without a file's name are those of `artifact.path`."""
    text, path = artifact.content, clean_path(artifact.path)
    if path and not _HAS_NAMES.search(text) and not re.search(r"[\t\r\n\"]", path):
        text = f"--- a/{path}\n+++ b/{path}\n{text}"
    return touched(parse_diff(text))


def clean_path(path: str) -> str:
    """Relative to the repository's root."""
    return path.removeprefix("./").lstrip("/")


def symbols(artifact: Artifact) -> list[str]:
    """`meta.symbol` and `meta.symbols`: qualified names inside the repository."""
    if not artifact.meta:
        return []
    one, many = artifact.meta.get("symbol"), artifact.meta.get("symbols")
    found = [one, *(many if isinstance(many, list | tuple) else ())]
    return [s for s in found if isinstance(s, str) and s and not s.startswith("/")]


class _Reader:
    def __init__(self, episode: Episode, episode_id: UUID, items: Sequence[UUID]) -> None:
        self.episode = episode
        self.me = f"episode/{episode_id}"
        self.items = items
        self.nodes: dict[str, EpisodeNode] = {}
        self.edges: dict[tuple[str, str, str], EpisodeEdge] = {}
        self.diffs: dict[int, Diff] = {}
        self.runs: dict[int, Sequence[TestRun]] = {}
        self.diff_nodes: dict[int, list[str]] = {}

    def read(self) -> EpisodeLinks:
        for at, artifact in enumerate(self.episode.artifacts):
            self._code(artifact)
            if artifact.kind is ArtifactKind.DIFF:
                self._diff(at, artifact)
            elif artifact.kind is ArtifactKind.NOTE:  # a memory of its own in the graph
                self._edge(Relation.CONTAINS, self.me, f"memory/{self.items[at]}")
            elif artifact.kind is ArtifactKind.TEST_RESULT:
                self.runs[at] = results(artifact.content, artifact.meta)
        self._commit()
        self._text()
        return EpisodeLinks(
            tuple(self.nodes.values()), tuple(self.edges.values()), self.diffs, self.runs
        )

    def _code(self, artifact: Artifact) -> None:
        """Files and symbols that an artifact names. A diff touches them, all else mentions them."""
        relation = Relation.MENTIONS
        if artifact.kind is ArtifactKind.DIFF:
            relation = Relation.TOUCHES
        path = clean_path(artifact.path)
        if path:
            self._edge(relation, self.me, f"/{path}", path)
        for symbol in symbols(artifact):
            self._edge(relation, self.me, symbol, path)

    def _diff(self, at: int, artifact: Artifact) -> None:
        diff = self.diffs[at] = read_diff(artifact)
        for file in diff.files:
            self._edge(Relation.TOUCHES, self.me, f"/{file.path}", file.path)
            if len(self.nodes) >= MAX_DIFF_NODES:
                continue
            name = f"diff/{self.items[at]}/{file.path}"
            self._node(EpisodeNode(name, Label.DIFF, file.status, file.path))
            self.diff_nodes.setdefault(at, []).append(name)
            self._edge(Relation.CONTAINS, self.me, name, file.path)
            for path in dict.fromkeys((file.path, file.old)):
                if path:
                    self._edge(Relation.TOUCHES, name, f"/{path}", path, "diff")

    def _commit(self) -> None:
        if self.episode.outcome.commit:
            commit = f"commit/{self.episode.outcome.commit.lower()}"
            self._node(EpisodeNode(commit, Label.COMMIT, self.episode.outcome.branch))
            self._edge(Relation.CONTAINS, self.me, commit, resolver="outcome")

    def _text(self) -> None:
        """Issues and commits that texts name."""
        everywhere = [name for names in self.diff_nodes.values() for name in names]
        self._refer(references(self.episode.outcome.summary), _SUMMARY, everywhere)
        for at, artifact in enumerate(self.episode.artifacts):
            if artifact.kind is ArtifactKind.DIFF:
                text, subjects = self.diffs[at].prose, self.diff_nodes.get(at, [])
            else:
                text, subjects = artifact.content, everywhere
            self._refer(references(text), _CLAIMS.get(artifact.kind, 0.0), subjects)

    def _refer(self, found: Sequence[Reference], confidence: float, subjects: list[str]) -> None:
        """`subjects`: the Diff nodes that a claim of this text is about; the episode, if none."""
        fixed = [r for r in found if r.is_issue and r.fixes]
        about = fixed or [r for r in found if r.is_issue and not r.causes]
        for one in found:
            label = Label.ISSUE if one.is_issue else Label.COMMIT
            self._node(EpisodeNode(one.name, label, one.name.partition("/")[2]))
            if one.fixes and confidence and self.episode.outcome.status != "failure":
                for subject in subjects or [self.me]:
                    self._edge(Relation.FIXES, subject, one.name, "", "text", confidence)
                continue
            self._edge(Relation.MENTIONS, self.me, one.name, resolver="text")
            # "caused by X": of the one issue that the text is about, or of none.
            if one.causes and confidence and len(about) == 1 and about[0].name != one.name:
                self._edge(Relation.CAUSES, one.name, about[0].name, "", "text", confidence)

    def _node(self, node: EpisodeNode) -> None:
        self.nodes.setdefault(node.name, node)

    def _edge(
        self, relation: str, source: str, target: str, path: str = "", resolver: str = "",
        confidence: float = 1.0,
    ) -> None:  # fmt: skip
        """One a (relation, source, target), the surest."""
        key = (str(relation), source, target)
        known = self.edges.get(key)
        if known is None and len(self.edges) >= MAX_EDGES:
            return
        if known is None or known.confidence < confidence:
            self.edges[key] = EpisodeEdge(key[0], source, target, path, resolver, confidence)
