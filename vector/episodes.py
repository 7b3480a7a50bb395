"""EpisodeStore: one agent run, its items, its answer and its event in one transaction."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from plait.domain import failpoint
from plait.domain.errors import PlaitError, RequestIdReused
from plait.domain.graph import Relation
from plait.domain.ids import new_item_ids
from plait.domain.values import (
    Artifact,
    ArtifactKind,
    Collection,
    Episode,
    EpisodeReceipt,
    ItemId,
    embedded_text,
)
from plait.ports import Segment
from plait.retrieval.text import tokens
from vector import locks, segments
from vector.clock import tick
from vector.pool import Connection, Database, copy_rows
from vector.repositories import drop_segments, ensure_row

logger = logging.getLogger(__name__)

COLLECTION = {
    ArtifactKind.PLAN: Collection.PLANS,
    ArtifactKind.DIFF: Collection.DIFFS,
    ArtifactKind.REFLECTION: Collection.REFLECTIONS,
    ArtifactKind.TEST_RESULT: Collection.TESTS,
    ArtifactKind.NOTE: Collection.MEMORIES,
    ArtifactKind.TURN: Collection.MEMORIES,
}
MAX_LINKS = 1_000

_CHANGED_FILE = re.compile(r"^\+\+\+ (?:b/)?([^\t\r\n]+)", re.MULTILINE)

_ITEM_COLUMNS = (
    ("id", "uuid"), ("repo_id", "int4"), ("collection", "text"), ("kind", "text"),
    ("content_hash", "bytea"), ("path", "text"), ("symbol", "text"), ("name", "text"),
    ("agent_id", "text"), ("session_key", "text"), ("source", "text"), ("type", "text"),
    ("episode_id", "uuid"), ("tags", "text[]"), ("meta", "jsonb"), ("content", "text"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Prepared:
    """All that is computed before the transaction, so that it is short."""

    id: UUID
    items: tuple[ItemId, ...]
    rows: list[tuple[Any, ...]]
    segments: dict[Collection, Segment]
    links: list[tuple[str, str, str]]


class Episodes:
    _db: Database

    async def append(self, episode: Episode) -> EpisodeReceipt:
        ready = _prepare(episode)
        receipt, repo_id = await self._db.retry(lambda _: self._append(episode, ready))
        if not receipt.repeated:
            await self._merge(repo_id, list(ready.segments))
        return receipt

    async def _append(self, episode: Episode, ready: _Prepared) -> tuple[EpisodeReceipt, int]:
        async with self._db.transaction() as conn:
            repo_id = await ensure_row(conn, episode.repo)
            # Two calls with one request id: the second waits here until the first has ended.
            cursor = await conn.execute(
                "INSERT INTO request (request_id, repo_id, body_hash, episode_id, item_ids)"
                " VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING true",
                (episode.request_id, repo_id, episode.body_hash, ready.id, list(ready.items)),
            )
            if await cursor.fetchone() is None:
                return await _answer_again(conn, episode, ready), repo_id
            await _write(conn, episode, ready, repo_id)
            failpoint.hit("append.before_commit")
        failpoint.hit("append.after_commit")
        return EpisodeReceipt(ready.id, ready.items, repeated=False), repo_id

    async def _merge(self, repo_id: int, collections: Sequence[Collection]) -> None:
        """Keep segments few. What fails here is logged: the episode is stored, a later one tries again."""
        try:
            async with self._db.transaction() as conn:
                cursor = await conn.execute(
                    "SELECT pg_try_advisory_xact_lock(%s, %s)", (locks.MERGING, repo_id)
                )
                row = await cursor.fetchone()
                if not row or not row[0]:
                    return
                for collection in collections:
                    await segments.merge_small(conn, repo_id, collection.value)
                await drop_segments(
                    conn,
                    "repo_id = %(repo)s AND replaced_at < now() - interval '10 minutes'",
                    {"repo": repo_id},
                )
        except PlaitError as exc:
            logger.warning(
                "merging segments failed", extra={"reason": exc.reason, "error": str(exc)}
            )


def _prepare(episode: Episode) -> _Prepared:
    episode_id, *items = new_item_ids(1 + len(episode.artifacts))
    rows = [
        _item_row(id_, episode_id, episode, artifact)
        for id_, artifact in zip(items, episode.artifacts, strict=True)
    ]
    texts: dict[Collection, tuple[list[ItemId], list[list[str]]]] = {}
    for id_, artifact in zip(items, episode.artifacts, strict=True):
        ids, documents = texts.setdefault(COLLECTION[artifact.kind], ([], []))
        ids.append(id_)
        documents.append(tokens(embedded_text(artifact.path, _symbol(artifact), artifact.content)))
    return _Prepared(
        episode_id,
        tuple(items),
        rows,
        {c: segments.build(ids, documents) for c, (ids, documents) in texts.items()},
        list(dict.fromkeys(_links(episode)))[:MAX_LINKS],
    )


def _item_row(
    id_: ItemId, episode_id: UUID, episode: Episode, artifact: Artifact
) -> tuple[Any, ...]:
    """In the order of `_ITEM_COLUMNS`, but `repo_id`, which is put in at 1 later."""
    content, symbol, path = _clean(artifact.content), _symbol(artifact), _clean(artifact.path)
    digest = hashlib.blake2b(
        embedded_text(path, symbol, content).encode("utf-8", "replace"), digest_size=16
    ).digest()
    return (
        id_, COLLECTION[artifact.kind].value, artifact.kind.value, digest, path, symbol,
        symbol.rpartition(".")[2], episode.agent_id, episode.session_key, "agent", "episodic",
        episode_id, list(episode.tags), Jsonb(_clean_json(dict(artifact.meta))), content,
    )  # fmt: skip


async def _write(conn: Connection, episode: Episode, ready: _Prepared, repo_id: int) -> None:
    outcome = episode.outcome
    body = {
        "status": outcome.status,
        "summary": outcome.summary,
        "metrics": dict(outcome.metrics),
        "commit": outcome.commit,
        "branch": outcome.branch,
    }
    await conn.execute(
        "INSERT INTO episode (id, repo_id, started_at, agent_id, session_key, tags, outcome)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s)",
        (
            ready.id, repo_id, episode.started_at, episode.agent_id, episode.session_key,
            list(episode.tags), Jsonb(_clean_json(body)),
        ),
    )  # fmt: skip
    at = await tick(conn, repo_id)
    await copy_rows(conn, "item", _ITEM_COLUMNS, [(r[0], repo_id, *r[1:]) for r in ready.rows])
    for collection, segment in ready.segments.items():
        await segments.insert(conn, repo_id, collection.value, segment, rev_from=0)
    relations, targets, paths = zip(*ready.links, strict=True) if ready.links else ((), (), ())
    await conn.execute(
        "INSERT INTO memory_edge"
        " (repo_id, episode_id, recorded_from, source, relation, target, path)"
        " SELECT %s, %s, %s, %s, * FROM unnest(%s::text[], %s::text[], %s::text[])",
        (
            repo_id,
            ready.id,
            at,
            f"episode/{ready.id}",
            list(relations),
            list(targets),
            list(paths),
        ),
    )
    await conn.execute(
        "INSERT INTO outbox (repo_id, kind, episode_id) VALUES (%s, 'episode', %s)",
        (repo_id, ready.id),
    )


async def _answer_again(conn: Connection, episode: Episode, ready: _Prepared) -> EpisodeReceipt:
    cursor = await conn.execute(
        "SELECT body_hash, episode_id, item_ids FROM request WHERE request_id = %s",
        (episode.request_id,),
    )
    row = await cursor.fetchone()
    assert row is not None  # a row was in the way just now, and only a deleted repository takes it
    body_hash, episode_id, item_ids = row
    if bytes(body_hash) != episode.body_hash:
        raise RequestIdReused(episode.request_id)
    # Our own id: an earlier try of this very call was committed and its answer lost on the way.
    return EpisodeReceipt(
        episode_id, tuple(ItemId(i) for i in item_ids), repeated=episode_id != ready.id
    )


def _links(episode: Episode) -> Iterator[tuple[str, str, str]]:
    """`(relation, target, path)`: files and symbols that the artifacts name. A diff touches them,
    everything else mentions them."""
    for artifact in episode.artifacts:
        is_diff = artifact.kind is ArtifactKind.DIFF
        relation = Relation.TOUCHES.value if is_diff else Relation.MENTIONS.value
        path = _clean(artifact.path).removeprefix("./").lstrip("/")
        if path:
            yield relation, f"/{path}", path
        if is_diff:
            for changed in _CHANGED_FILE.findall(artifact.content):
                if changed != "/dev/null":
                    yield relation, "/" + _clean(changed), _clean(changed)
        for symbol in _symbols(artifact):
            yield relation, symbol, path


def _symbols(artifact: Artifact) -> list[str]:
    """`meta.symbol` and `meta.symbols`: qualified names inside the repository."""
    one, many = artifact.meta.get("symbol"), artifact.meta.get("symbols")
    found = [one, *(many if isinstance(many, list | tuple) else ())]
    return [_clean(s) for s in found if isinstance(s, str) and s and not s.startswith("/")]


def _symbol(artifact: Artifact) -> str:
    symbols = _symbols(artifact)
    return symbols[0] if len(symbols) == 1 else ""


def _clean(text: str) -> str:
    """PostgreSQL's text has no NUL and no lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _clean_json(value: Any) -> Any:
    """The same for every string in a JSON value; jsonb refuses what text refuses."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, dict):
        return {_clean(str(k)): _clean_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_clean_json(v) for v in value]
    return value
