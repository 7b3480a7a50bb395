"""Prepared episodes to rows, column by column."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from plait.domain.values import Collection, Episode, Evidence, ItemId
from plait.ports import Segment
from plait.ports.episodes import IndexedText, NumberedEpisode, PreparedEpisode
from plait.text.storable import clean, is_storable
from plait.text.tokenize import tokens
from vector.anchors.anchored import Anchor
from vector.connection.bulk import array_literal
from vector.index import segments

Row = tuple[Any, ...]

EPISODE_COLUMNS = (
    ("id", "uuid"), ("repo_id", "int4"), ("started_at", "timestamptz"),
    ("recorded_at", "timestamptz"), ("valid_from", "timestamptz"), ("agent_id", "text"),
    ("session_key", "text"), ("tags", "text[]"), ("outcome", "jsonb"),
)  # fmt: skip
ITEM_COLUMNS = (
    ("id", "uuid"), ("repo_id", "int4"), ("collection", "text"), ("kind", "text"),
    ("content_hash", "bytea"), ("path", "text"), ("symbol", "text"), ("name", "text"),
    ("agent_id", "text"), ("session_key", "text"), ("source", "text"), ("type", "text"),
    ("episode_id", "uuid"), ("tags", "text[]"), ("meta", "jsonb"), ("content", "text"),
    ("tokens", "int4"), ("is_question", "bool"), ("announces_step", "bool"), ("ts", "timestamptz"), ("recorded_at", "timestamptz"),
    ("valid_from", "timestamptz"), ("entry_id", "uuid"), ("created_at", "timestamptz"),
    ("context", "text"), ("anchor_hash", "bytea"), ("anchors", "jsonb"),
)  # fmt: skip
HUNK_COLUMNS = (
    ("repo_id", "int4"), ("episode_id", "uuid"), ("item_id", "uuid"), ("ordinal", "int4"),
    ("path", "text"), ("old_start", "int4"), ("old_lines", "int4"), ("new_start", "int4"),
    ("new_lines", "int4"), ("heading", "text"), ("body", "text"),
)  # fmt: skip
RESULT_COLUMNS = (
    ("repo_id", "int4"), ("episode_id", "uuid"), ("item_id", "uuid"), ("ordinal", "int4"),
    ("reported", "text"), ("name", "text"), ("status", "text"), ("took_ms", "float8"),
    ("ran_at", "timestamptz"),
)  # fmt: skip
EVIDENCE_COLUMNS = (
    ("id", "uuid"), ("repo_id", "int4"), ("episode_id", "uuid"), ("name", "text"),
    ("media_type", "text"), ("size_bytes", "int8"), ("sha256", "bytea"), ("body", "bytea"),
)  # fmt: skip
NODE_COLUMNS = (
    ("repo_id", "int4"), ("name", "text"), ("label", "text"), ("title", "text"), ("path", "text"),
    ("episode_id", "uuid"), ("recorded_at", "timestamptz"),
)  # fmt: skip
EDGE_COLUMNS = (
    ("repo_id", "int4"), ("episode_id", "uuid"), ("relation", "text"), ("source", "text"),
    ("target", "text"), ("path", "text"), ("resolver", "text"), ("confidence", "float4"),
    ("valid_from", "timestamptz"), ("recorded_from", "timestamptz"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EpisodeRows:
    """The rows of one prepared episode, but for the repository's number and the recorded time. Made by `of`,
    in a thread where texts are long."""

    made: PreparedEpisode
    tags: str
    item_parts: list[Row]
    hunk_parts: list[Row]
    evidence_parts: list[Row]

    @classmethod
    def of(cls, made: PreparedEpisode) -> EpisodeRows:
        episode = made.episode
        tags = array_literal(clean(tag) for tag in episode.tags)
        agent, session = clean(episode.agent_id), clean(episode.session_key)
        items: list[Row] = [
            (
                i.kind, i.hash, i.path, i.symbol, i.symbol.rpartition(".")[2], agent, session, i.source,
                "episodic", made.id, tags, json_text(i.meta), i.content, i.tokens,
                i.is_question, i.announces_step,
            )
            for i in made.items
        ]  # fmt: skip
        hunks: list[Row] = [
            (
                h.item, h.ordinal, h.path, h.hunk.old_start, h.hunk.old_lines, h.hunk.new_start,
                h.hunk.new_lines, clean(h.hunk.heading), clean("\n".join(h.hunk.lines)),
            )
            for h in made.hunks
        ]  # fmt: skip
        evidence = [_evidence(*pair) for pair in zip(made.evidence, episode.evidence, strict=True)]
        return cls(made, tags, items, hunks, evidence)

    def began(self, at: datetime) -> datetime:
        """When the run began, as far as is known; an agent's clock may be ahead of ours."""
        started = self.made.episode.started_at
        return at if started is None or started > at else started

    def episode(self, repo_id: int, at: datetime) -> Row:
        e = self.made.episode
        return (
            self.made.id, repo_id, e.started_at, at, self.began(at), e.agent_id, e.session_key,
            self.tags, _outcome(e),
        )  # fmt: skip

    def anchors(self) -> list[Anchor]:
        """What its items are anchored in, but for files that its own diffs change: the index may be from
        before or after that, so how they read now tells nothing. Their hunks do."""
        changed = set(self.made.changed)
        if changed:
            changed.add("")  # a symbol alone may be in any of them
        return [(item.path, item.symbol) for item in self.made.items if item.path not in changed]

    def items(
        self,
        repo_id: int,
        at: datetime,
        anchors: Mapping[Anchor, bytes],
        named: Mapping[ItemId, str],
    ) -> Iterator[Row]:
        """`named`: by item the column `anchors`."""
        began, mine = self.began(at), set(self.anchors())
        for item, part in zip(self.made.items, self.item_parts, strict=True):
            entry = (item.id, at) if item.collection is Collection.MEMORIES else (None, None)
            anchor = (item.path, item.symbol)
            hash_ = anchors.get(anchor) if anchor in mine else None
            yield (
                item.id, repo_id, item.collection.value, *part, began, at, began, *entry,
                self.made.context, hash_, named.get(item.id),
            )  # fmt: skip

    def hunks(self, repo_id: int) -> list[Row]:
        return [(repo_id, self.made.id, *part) for part in self.hunk_parts]

    def results(self, repo_id: int, at: datetime) -> list[Row]:
        began = self.began(at)
        return [
            (
                repo_id,
                self.made.id,
                r.item,
                r.ordinal,
                r.reported,
                r.name,
                r.status,
                r.took_ms,
                began,
            )
            for r in self.made.results
        ]

    def evidence(self, repo_id: int) -> list[Row]:
        return [(id_, repo_id, self.made.id, *part) for id_, *part in self.evidence_parts]

    def nodes(self, repo_id: int, at: datetime) -> list[Row]:
        """A Diff is this episode's own; an Issue and a Commit are everybody's."""
        return [
            (
                repo_id, n.name, n.label, n.title, n.path,
                self.made.id if n.label == "Diff" else None, at,
            )
            for n in self.made.nodes
        ]  # fmt: skip

    def edges(self, repo_id: int, at: datetime) -> list[Row]:
        began = self.began(at)
        return [
            (
                repo_id, self.made.id, e.relation, e.source, e.target, e.path, e.resolver,
                e.confidence, began, at,
            )
            for e in self.made.edges
        ]  # fmt: skip


def segments_of(
    episodes: Iterable[NumberedEpisode],
    texts_of: Callable[[NumberedEpisode], Sequence[IndexedText]],
) -> dict[tuple[str, Collection], Segment]:
    """The text index of `episodes`: one segment a (repository, collection), so that what searches
    read stays little."""
    texts: dict[tuple[str, Collection], tuple[list[ItemId], list[list[str]]]] = {}
    for one in episodes:
        for text in texts_of(one):
            ids, documents = texts.setdefault((one.episode.repo, text.collection), ([], []))
            ids.append(text.id)
            documents.append(tokens(text.text))
    return {place: segments.build(ids, documents) for place, (ids, documents) in texts.items()}


def _outcome(episode: Episode) -> str:
    outcome = episode.outcome
    return json_text(
        {
            "status": outcome.status,
            "summary": outcome.summary,
            "metrics": dict(outcome.metrics),
            "commit": outcome.commit,
            "branch": outcome.branch,
        }
    )


def _evidence(id_: UUID, evidence: Evidence) -> Row:
    """In the order of `EVIDENCE_COLUMNS`, without those that come later."""
    body = bytes(evidence.body)
    # Level 3 of a transcript is 15 % larger than level 6 at a third of its time.
    return (
        id_, clean(evidence.name), clean(evidence.media_type), len(body),
        hashlib.sha256(body).digest(), zlib.compress(body, 3),
    )  # fmt: skip


def json_text(value: Mapping[str, Any]) -> str:
    """`value` as JSON that jsonb takes: it refuses in strings what text refuses."""
    if not value:
        return "{}"
    text = json.dumps(value, ensure_ascii=False)
    if "\\u0000" not in text and is_storable(text):
        return text
    return json.dumps(_clean_json(value), ensure_ascii=False)


def _clean_json(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(k)): _clean_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_clean_json(v) for v in value]
    return value
