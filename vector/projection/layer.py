"""The memory layer of the graph, computed from the rows as they are now: episodes, memories, the
diffs, issues and commits they name, and what they say of each other and of code.

Nothing here depends on what was projected before, so it serves an event's delta and a whole
comparison alike.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from plait.domain.graph import Label, Link, Node
from vector.connection.pool import Connection

# A note of an episode is a memory of its own; the turns of a run are text of their episode.
_EPISODES = """
SELECT id, outcome, agent_id, session_key, tags, started_at, valid_from, recorded_at FROM episode
 WHERE repo_id = %(repo)s
"""
_MEMORIES = """
SELECT entry_id, kind, type, source, agent_id, session_key, tags, importance::float8, pinned, version,
       created_at, recorded_at, superseded_at, valid_from, valid_to, path, left(content, 400)
  FROM (SELECT DISTINCT ON (entry_id) * FROM memories
         WHERE repo_id = %(repo)s AND entry_id IS NOT NULL {which}
         ORDER BY entry_id, version DESC) AS latest
 WHERE episode_id IS NULL OR kind = 'note'
"""
_NAMED = """
SELECT name, label, title, path, properties, recorded_at FROM memory_node WHERE repo_id = %(repo)s
"""
_LINKS = """
SELECT id, relation, source, target, resolver, confidence::float8, valid_from, valid_to,
       recorded_from, recorded_to FROM memory_edge WHERE repo_id = %(repo)s
"""
EPISODES = _EPISODES + " ORDER BY id"
EPISODES_OF = _EPISODES + " AND id = ANY(%(episodes)s) ORDER BY id"
MEMORIES = _MEMORIES.format(which="")
MEMORIES_OF = _MEMORIES.format(which="AND entry_id = ANY(%(entries)s)")
NAMED = _NAMED + " ORDER BY name"
NAMED_OF = _NAMED + " AND name = ANY(%(names)s) ORDER BY name"
NAMED_BY = _NAMED + " AND episode_id = ANY(%(episodes)s) ORDER BY name"
LINKS = _LINKS + " ORDER BY id"
LINKS_OF = f"""
SELECT * FROM (
  {_LINKS} AND episode_id = ANY(%(episodes)s) UNION
  {_LINKS} AND entry_id = ANY(%(entries)s) UNION
  {_LINKS} AND source = ANY(%(names)s) UNION
  {_LINKS} AND target = ANY(%(names)s)) AS links
 ORDER BY id
"""
NOTES = """
SELECT DISTINCT entry_id FROM memories
 WHERE repo_id = %(repo)s AND episode_id = ANY(%(episodes)s) AND kind = 'note' AND entry_id IS NOT NULL
"""
SHARED = ("issue/", "commit/")

# As the graph takes them for extra properties, and none of a node's own.
_PROPERTY = re.compile(r"[a-z][a-z0-9_]{0,63}")
_OWN = {*Node.__struct_fields__, "repo"}
_MAX_TEXT = 2_000


@dataclass(slots=True)
class Layer:
    """`properties`: by node id, besides a node's own fields."""

    repo: str
    nodes: dict[str, Node] = field(default_factory=dict)
    properties: dict[str, dict[str, Any]] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)

    def has(self, name: str) -> bool:
        return f"{self.repo}:{name}" in self.nodes

    def add(self, node: Node, properties: Mapping[str, Any]) -> None:
        """Empty values are left out: they say nothing."""
        self.nodes[node.id] = node
        self.properties[node.id] = {
            key: value for key, value in properties.items() if value not in (None, "", [])
        }


@dataclass(frozen=True, slots=True)
class Work:
    """What some events are about. `names`: what they remove from the graph, see `outbox.names`."""

    episodes: tuple[UUID, ...] = ()
    entries: tuple[UUID, ...] = ()
    names: tuple[str, ...] = ()


NOTHING = Work()
Read = Callable[[str, dict[str, Any]], Awaitable[list[tuple[Any, ...]]]]


async def named(read: Read, repo_id: int, repo: str, names: Iterable[str]) -> Layer:
    """The nodes of `names`, ids without `repo:`, that are there; no links."""
    episodes, entries, others = list[UUID](), list[UUID](), list[str]()
    for name in names:
        head, _, rest = name.partition("/")
        if head not in ("episode", "memory"):
            others.append(name)
        elif (id_ := _uuid(rest)) is not None:
            (episodes if head == "episode" else entries).append(id_)
    layer = Layer(repo)
    for statement, key, ids, add in (
        (EPISODES_OF, "episodes", episodes, _add_episode),
        (MEMORIES_OF, "entries", entries, _add_memory),
        (NAMED_OF, "names", others, _add_named),
    ):
        if ids:
            for row in await read(statement, {"repo": repo_id, key: ids}):
                add(layer, row)
    return layer


def _uuid(text: str) -> UUID | None:
    """As node ids write it, and no other way."""
    try:
        id_ = UUID(text)
    except ValueError:
        return None
    return id_ if str(id_) == text else None


async def everything(conn: Connection, repo_id: int, repo: str) -> Layer:
    """All of a repository, links to what is not there included."""
    layer, given = Layer(repo), {"repo": repo_id}
    for statement, add in (
        (EPISODES, _add_episode),
        (MEMORIES, _add_memory),
        (NAMED, _add_named),
    ):
        async for row in await conn.execute(statement, given):
            add(layer, row)
    async for row in await conn.execute(LINKS, given):
        layer.links.append(link(repo, row))
    return layer


async def about(conn: Connection, repo_id: int, repo: str, work: Work) -> Layer:
    """What `work` is about and is there: nodes, all links that they say or end at, and the issues and
    commits at the other ends of those. (What else is there came with its own event.)"""
    layer = Layer(repo)
    episodes, entries = list(work.episodes), set(work.entries)
    given: dict[str, Any] = {"repo": repo_id, "episodes": episodes}
    if episodes:
        await _each(conn, EPISODES_OF, given, layer, _add_episode)
        await _each(conn, NAMED_BY, given, layer, _add_named)
        cursor = await conn.execute(NOTES, given)
        entries |= {entry for (entry,) in await cursor.fetchall()}
    given["entries"] = sorted(entries)
    if entries:
        await _each(conn, MEMORIES_OF, given, layer, _add_memory)
    if again := [name for name in work.names if not name.startswith("link/")]:
        await _each(conn, NAMED_OF, {**given, "names": again}, layer, _add_named)
    start = len(repo) + 1
    given["names"] = sorted(id_[start:] for id_ in layer.nodes)
    if episodes or entries or layer.nodes:
        cursor = await conn.execute(LINKS_OF, given)
        layer.links = [link(repo, row) for row in await cursor.fetchall()]
    ends = {end[start:] for one in layer.links for end in (one.source, one.target)}
    if shared := sorted(n for n in ends if n.startswith(SHARED) and not layer.has(n)):
        await _each(conn, NAMED_OF, {**given, "names": shared}, layer, _add_named)
    return layer


async def _each(
    conn: Connection, statement: str, given: Mapping[str, Any], layer: Layer, add: Any
) -> None:
    cursor = await conn.execute(statement, given)
    for row in await cursor.fetchall():
        add(layer, row)


def _add_episode(layer: Layer, row: Sequence[Any]) -> None:
    id_, outcome, agent_id, session_key, tags, started_at, valid_from, recorded_at = row
    summary = str(outcome.get("summary") or "").strip()
    first = summary.splitlines()[0][:80] if summary else str(id_)
    name = f"episode/{id_}"
    status = str(outcome.get("status") or "unknown")
    node = Node(f"{layer.repo}:{name}", Label.EPISODE, first, name, "", 0, 0, "", status)
    layer.add(
        node,
        {
            "status": status,
            "summary": summary[:_MAX_TEXT],
            "commit": str(outcome.get("commit") or ""),
            "branch": str(outcome.get("branch") or ""),
            "agent_id": agent_id,
            "session_key": session_key,
            "tags": list(tags),
            "started_at": ms(started_at),
            "valid_from": ms(valid_from),
            "recorded_at": ms(recorded_at),
        },
    )


def _add_memory(layer: Layer, row: Sequence[Any]) -> None:
    (
        id_, kind, type_, source, agent_id, session_key, tags, importance, pinned, version,
        created_at, recorded_at, superseded_at, valid_from, valid_to, path, content,
    ) = row  # fmt: skip
    name = f"memory/{id_}"
    title = " ".join(content.split())[:80] or str(id_)
    node = Node(f"{layer.repo}:{name}", Label.MEMORY, title, name, path, 0, 0, "", kind)
    last = superseded_at or recorded_at
    layer.add(
        node,
        {
            "type": type_,
            "source": source,
            "agent_id": agent_id,
            "session_key": session_key,
            "tags": list(tags),
            "importance": round(importance, 6),
            "pinned": True if pinned else None,
            "version": version,
            "created_at": ms(created_at or recorded_at),
            "recorded_at": ms(recorded_at),
            "superseded_at": ms(superseded_at),
            "valid_from": ms(valid_from),
            "valid_to": ms(valid_to),
            # Which of two states is the later one: the writer lets no older one overwrite it.
            "state": int(last.timestamp() * 1e6),
        },
    )


def _add_named(layer: Layer, row: Sequence[Any]) -> None:
    name, label, title, path, properties, recorded_at = row
    short = title.strip()[:200] or name.partition("/")[2] or name
    node = Node(f"{layer.repo}:{name}", label, short, name, path, 0, 0, "", label.lower())
    layer.add(node, {**dict(_extra(properties)), "recorded_at": ms(recorded_at)})


def _extra(properties: Any) -> Iterable[tuple[str, Any]]:
    """What of a JSON object a graph server can hold: scalars and lists of texts."""
    if not isinstance(properties, dict):
        return
    for key, value in properties.items():
        if not _PROPERTY.fullmatch(key) or key in _OWN:
            continue
        if isinstance(value, str):
            yield key, value[:_MAX_TEXT]
        elif isinstance(value, (bool, float)) or (
            isinstance(value, int) and -(2**63) <= value < 2**63
        ):
            yield key, value
        elif isinstance(value, list) and all(isinstance(one, str) for one in value):
            yield key, [one[:_MAX_TEXT] for one in value[:100]]


def link(repo: str, row: Sequence[Any]) -> Link:
    """A row of `_LINKS`."""
    id_, relation, source, target, resolver, confidence, *times = row
    return Link(
        id_,
        relation,
        f"{repo}:{source}",
        f"{repo}:{target}",
        resolver,
        round(confidence, 6),
        ms(times[0]),
        ms(times[1]),
        ms(times[2]) or 0,
        ms(times[3]),
    )


def ms(at: datetime | None) -> int | None:
    """Milliseconds since 1970, downwards, as PostgreSQL's microseconds are cut."""
    return None if at is None else int(at.timestamp() * 1e6 + 0.5) // 1000
