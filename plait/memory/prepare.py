"""Prepares episodes for a store: the slow part of storing one, and all rules about its items."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from plait.domain.memory import EXTERNAL_ROLES
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, ItemId, embedded_text
from plait.memory.episode_links import episode_links, symbols
from plait.memory.item_context import context
from plait.ports.episodes import (
    EpisodeEdge,
    EpisodeLinks,
    EpisodeNode,
    IndexedText,
    NumberedEpisode,
    PreparedEpisode,
    PreparedHunk,
    PreparedItem,
    PreparedResult,
)
from plait.text.mentions import Mentions, mentions
from plait.text.storable import clean
from plait.text.test_names import parse_name
from plait.text.token_count import count
from plait.text.turn_kinds import announces_next_step, is_question

COLLECTION = {
    ArtifactKind.PLAN: Collection.PLANS,
    ArtifactKind.DIFF: Collection.DIFFS,
    ArtifactKind.REFLECTION: Collection.REFLECTIONS,
    ArtifactKind.TEST_RESULT: Collection.TESTS,
    ArtifactKind.NOTE: Collection.MEMORIES,
    ArtifactKind.TURN: Collection.MEMORIES,
}
# Whose texts are read for the code that they name; so much of each, since a turn may paste files.
_SPOKEN = (ArtifactKind.PLAN, ArtifactKind.REFLECTION, ArtifactKind.NOTE, ArtifactKind.TURN)
MAX_SPOKEN = 8_000  # characters
_SOURCES = {"user": "user", "human": "user", "system": "system"}  # by a turn's `meta.role`


def indexed_texts(numbered: NumberedEpisode) -> list[IndexedText]:
    """The texts of its items, in their order."""
    about = _context(numbered.episode)
    return [
        IndexedText(
            id_,
            COLLECTION[artifact.kind],
            embedded_text(
                clean(artifact.path), clean(_symbol(artifact)), clean(artifact.content), about
            ),
        )
        for id_, artifact in zip(numbered.items, numbered.episode.artifacts, strict=True)
    ]


def prepare(numbered: NumberedEpisode) -> PreparedEpisode:
    """`numbered` as a store writes it."""
    episode, items = numbered.episode, numbered.items
    links = episode_links(episode, numbered.id, items)
    about = _context(episode)
    return PreparedEpisode(
        episode,
        numbered.id,
        about,
        tuple(
            _item(id_, artifact, about)
            for id_, artifact in zip(items, episode.artifacts, strict=True)
        ),
        tuple(_hunks(links, items)),
        tuple(_results(links, items)),
        numbered.evidence,
        tuple(_node(node) for node in links.nodes),
        tuple(_edge(edge) for edge in links.edges),
        frozenset(
            path
            for diff in links.diffs.values()
            for file in diff.files
            for path in (file.old, file.new)
        ),
    )


def content_hash(text: str) -> bytes:
    """Of an indexed text; equal ones share a vector."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def _context(episode: Episode) -> str:
    return clean(context(episode.outcome.summary))


def _item(id_: ItemId, artifact: Artifact, about: str) -> PreparedItem:
    collection = COLLECTION[artifact.kind]
    path, symbol = clean(artifact.path), clean(_symbol(artifact))
    content, source = clean(artifact.content), _source(artifact)
    is_memory = collection is Collection.MEMORIES
    return PreparedItem(
        id_,
        collection,
        artifact.kind.value,
        content_hash(embedded_text(path, symbol, content, about)),
        path,
        symbol,
        source,
        artifact.meta,
        content,
        count(content) if is_memory else 0,
        is_memory and is_question(content),
        is_memory and source == "agent" and announces_next_step(content),
        _mentions(artifact),
    )


def _mentions(artifact: Artifact) -> Mentions | None:
    """The code that people and agents mention. A tool's output is skipped, since it may name any code;
    diffs and results have their own readers."""
    role = artifact.meta.get("role")
    if artifact.kind not in _SPOKEN or (isinstance(role, str) and role.lower() in EXTERNAL_ROLES):
        return None
    found = mentions(artifact.content[:MAX_SPOKEN])
    return found if found.paths or found.names else None


def _source(artifact: Artifact) -> str:
    role = artifact.meta.get("role")
    return _SOURCES.get(role, "agent") if isinstance(role, str) else "agent"


def _hunks(links: EpisodeLinks, items: Sequence[ItemId]) -> Iterator[PreparedHunk]:
    for at, diff in links.diffs.items():
        hunks = [(file.path, hunk) for file in diff.files for hunk in file.hunks]
        for n, (path, hunk) in enumerate(hunks):
            yield PreparedHunk(items[at], n, clean(path), hunk)


def _results(links: EpisodeLinks, items: Sequence[ItemId]) -> list[PreparedResult]:
    found: list[PreparedResult] = []
    for at, runs in links.runs.items():
        for run in runs:
            name = clean(parse_name(run.reported).name)
            reported = clean(run.reported)
            found.append(
                PreparedResult(items[at], len(found), reported, name, run.status, run.took_ms)
            )
    return found


def _node(node: EpisodeNode) -> EpisodeNode:
    return EpisodeNode(clean(node.name), node.label, clean(node.title), clean(node.path))


def _edge(edge: EpisodeEdge) -> EpisodeEdge:
    return EpisodeEdge(
        edge.relation,
        clean(edge.source),
        clean(edge.target),
        clean(edge.path),
        edge.resolver,
        edge.confidence,
    )


def _symbol(artifact: Artifact) -> str:
    found = symbols(artifact)
    return found[0] if len(found) == 1 else ""
