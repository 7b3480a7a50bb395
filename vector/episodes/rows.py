"""Episodes to rows, before any transaction: what is slow about storing one is done here."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from plait.domain.ids import new_item_ids
from plait.domain.values import (
    Artifact,
    ArtifactKind,
    Collection,
    Episode,
    Evidence,
    ItemId,
    embedded_text,
)
from plait.memory.episode_links import Said, said, symbols
from plait.memory.item_context import context
from plait.ports import Segment
from plait.text.mentions import Mentions, mentions
from plait.text.test_names import parse_name
from plait.text.token_count import count
from plait.text.tokenize import tokens
from plait.text.turn_kinds import announces_next_step, is_question
from vector.anchors.anchored import Anchor
from vector.anchors.freshness import OUTSIDE
from vector.connection.bulk import array_literal
from vector.index import segments

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
class Numbered:
    """An episode with the ids it will have."""

    episode: Episode
    id: UUID
    items: tuple[ItemId, ...]
    evidence: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """One episode, all but the repository's number and the recorded time."""

    episode: Episode
    id: UUID
    said: Said
    context: str
    item_parts: list[Row]
    hunk_parts: list[Row]
    result_parts: list[Row]
    evidence_parts: list[Row]
    mentions: Mapping[ItemId, Mentions]  # of the items whose text may name code
    tags: str
    outcome: str

    def began(self, at: datetime) -> datetime:
        """When the run began, as far as is known; an agent's clock may be ahead of ours."""
        started = self.episode.started_at
        return at if started is None or started > at else started

    def episode_row(self, repo_id: int, at: datetime) -> Row:
        e = self.episode
        return (
            self.id, repo_id, e.started_at, at, self.began(at), e.agent_id, e.session_key,
            self.tags, self.outcome,
        )  # fmt: skip

    @property
    def changed(self) -> set[str]:
        """Files that its own diffs change: the index may be from before or after that, so how they read
        now tells nothing. Their hunks do."""
        return {
            path
            for d in self.said.diffs.values()
            for file in d.files
            for path in (file.old, file.new)
        }

    def anchors(self) -> list[Anchor]:
        """What its items are anchored in, but for files that its own diffs change."""
        changed = self.changed
        if changed:
            changed.add("")  # a symbol alone may be in any of them
        return [(part[4], part[5]) for part in self.item_parts if part[4] not in changed]

    def item_rows(
        self,
        repo_id: int,
        at: datetime,
        anchors: Mapping[Anchor, bytes],
        named: Mapping[ItemId, str],
    ) -> Iterator[Row]:
        """`named`: by item the column `anchors`."""
        began, mine = self.began(at), set(self.anchors())
        for part in self.item_parts:
            id_, collection, *rest = part
            entry = (id_, at) if collection == Collection.MEMORIES.value else (None, None)
            anchor = (part[4], part[5])
            hash_ = anchors.get(anchor) if anchor in mine else None
            yield (
                id_, repo_id, collection, *rest, began, at, began, *entry, self.context, hash_,
                named.get(id_),
            )  # fmt: skip

    def hunk_rows(self, repo_id: int) -> list[Row]:
        return [(repo_id, self.id, *part) for part in self.hunk_parts]

    def result_rows(self, repo_id: int, at: datetime) -> list[Row]:
        began = self.began(at)
        return [(repo_id, self.id, *part, began) for part in self.result_parts]

    def evidence_rows(self, repo_id: int) -> list[Row]:
        return [(id_, repo_id, self.id, *part) for id_, *part in self.evidence_parts]

    def node_rows(self, repo_id: int, at: datetime) -> list[Row]:
        """A Diff is this episode's own; an Issue and a Commit are everybody's."""
        return [
            (
                repo_id, clean(n.name), n.label, clean(n.title), clean(n.path),
                self.id if n.label == "Diff" else None, at,
            )
            for n in self.said.nodes
        ]  # fmt: skip

    def edge_rows(self, repo_id: int, at: datetime) -> list[Row]:
        began = self.began(at)
        return [
            (
                repo_id, self.id, e.relation, clean(e.source), clean(e.target), clean(e.path),
                e.resolver, e.confidence, began, at,
            )
            for e in self.said.edges
        ]  # fmt: skip


def number(episodes: Sequence[Episode]) -> list[Numbered]:
    """Ids ascend over all of `episodes`, in their order."""
    ids = iter(new_item_ids(sum(1 + len(e.artifacts) + len(e.evidence) for e in episodes)))
    return [
        Numbered(
            episode,
            next(ids),
            tuple(next(ids) for _ in episode.artifacts),
            tuple(next(ids) for _ in episode.evidence),
        )
        for episode in episodes
    ]


def segments_of(episodes: Iterable[Numbered]) -> dict[tuple[str, Collection], Segment]:
    """The text index of `episodes`: one segment a (repository, collection), so that what searches
    read stays little."""
    texts: dict[tuple[str, Collection], tuple[list[ItemId], list[list[str]]]] = {}
    for one in episodes:
        about = clean(context(one.episode.outcome.summary))
        for id_, artifact in zip(one.items, one.episode.artifacts, strict=True):
            place = (one.episode.repo, COLLECTION[artifact.kind])
            ids, documents = texts.setdefault(place, ([], []))
            ids.append(id_)
            documents.append(tokens(_text(artifact, about)))
    return {place: segments.build(ids, documents) for place, (ids, documents) in texts.items()}


def prepare(numbered: Numbered) -> Prepared:
    """What of `numbered` goes into rows."""
    episode, items = numbered.episode, numbered.items
    heard = said(episode, numbered.id, items)
    tags = array_literal(clean(tag) for tag in episode.tags)
    agent, session = clean(episode.agent_id), clean(episode.session_key)
    about = clean(context(episode.outcome.summary))
    rows = []
    for id_, artifact in zip(items, episode.artifacts, strict=True):
        collection = COLLECTION[artifact.kind]
        path, symbol, content = (
            clean(artifact.path),
            clean(_symbol(artifact)),
            clean(artifact.content),
        )
        source = _source(artifact)
        rows.append(
            (
                id_, collection.value, artifact.kind.value,
                digest(embedded_text(path, symbol, content, about)), path, symbol,
                symbol.rpartition(".")[2], agent, session, source, "episodic",
                numbered.id, tags, json_text(artifact.meta), content,
                *_turn(collection, source, content),
            )
        )  # fmt: skip
    return Prepared(
        episode, numbered.id, heard, about, rows, _hunks(heard, items), _results(heard, items),
        [_evidence(*pair) for pair in zip(numbered.evidence, episode.evidence, strict=True)],
        dict(_mentions(numbered)), tags, _outcome(episode),
    )  # fmt: skip


def _text(artifact: Artifact, about: str) -> str:
    """What of an artifact is searched, and embedded."""
    return embedded_text(
        clean(artifact.path), clean(_symbol(artifact)), clean(artifact.content), about
    )


def _mentions(numbered: Numbered) -> Iterator[tuple[ItemId, Mentions]]:
    """What people and agents say of code. What a tool printed says nothing of it, and may name all of it;
    diffs and results have readers of their own."""
    for id_, artifact in zip(numbered.items, numbered.episode.artifacts, strict=True):
        role = artifact.meta.get("role")
        if artifact.kind in _SPOKEN and not (isinstance(role, str) and role.lower() in OUTSIDE):
            found = mentions(artifact.content[:MAX_SPOKEN])
            if found.paths or found.names:
                yield id_, found


def _turn(collection: Collection, source: str, content: str) -> tuple[int, bool, bool]:
    """Tokens of a memory, and whether it asks or announces; of other items nobody wants to know."""
    if collection is not Collection.MEMORIES:
        return 0, False, False
    announces = source == "agent" and announces_next_step(content)
    return count(content), is_question(content), announces


def _source(artifact: Artifact) -> str:
    role = artifact.meta.get("role")
    return _SOURCES.get(role, "agent") if isinstance(role, str) else "agent"


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


def _hunks(heard: Said, items: Sequence[ItemId]) -> list[Row]:
    """In the order of `HUNK_COLUMNS`, from `item_id` on."""
    rows: list[Row] = []
    for at, diff in heard.diffs.items():
        hunks = [(file.path, hunk) for file in diff.files for hunk in file.hunks]
        rows += [
            (
                items[at], n, clean(path), hunk.old_start, hunk.old_lines, hunk.new_start,
                hunk.new_lines, clean(hunk.heading), clean("\n".join(hunk.lines)),
            )
            for n, (path, hunk) in enumerate(hunks)
        ]  # fmt: skip
    return rows


def _results(heard: Said, items: Sequence[ItemId]) -> list[Row]:
    """In the order of `RESULT_COLUMNS`, from `item_id` on; numbered over the episode."""
    rows: list[Row] = []
    for at, runs in heard.runs.items():
        for run in runs:
            name = clean(parse_name(run.reported).name)
            rows.append((items[at], len(rows), clean(run.reported), name, run.status, run.took_ms))
    return rows


def _evidence(id_: UUID, evidence: Evidence) -> Row:
    """In the order of `EVIDENCE_COLUMNS`, without those that come later."""
    body = bytes(evidence.body)
    # Level 3 of a transcript is 15 % larger than level 6 at a third of its time.
    return (
        id_, clean(evidence.name), clean(evidence.media_type), len(body),
        hashlib.sha256(body).digest(), zlib.compress(body, 3),
    )  # fmt: skip


def _symbol(artifact: Artifact) -> str:
    found = symbols(artifact)
    return found[0] if len(found) == 1 else ""


def digest(text: str) -> bytes:
    """The `content_hash` of a text; equal ones share a vector."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def clean(text: str) -> str:
    """PostgreSQL's text has no NUL and no lone surrogates."""
    if text.isascii() and "\0" not in text:
        return text
    if _UNSTORABLE.search(text) is None:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def json_text(value: Mapping[str, Any]) -> str:
    """`value` as JSON that jsonb takes: it refuses in strings what text refuses."""
    if not value:
        return "{}"
    text = json.dumps(value, ensure_ascii=False)
    if "\\u0000" not in text and _UNSTORABLE.search(text) is None:
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
