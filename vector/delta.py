"""What an event changes in the graph, computed from the parts of files at two revisions.

Nodes and edges are compared over all changed files together, not file by file: a symbol that moves
from one file to another keeps its id and is updated in place, with the edges that unchanged files have
to it. The order of everything is fixed by paths and ids, so the same event gives the same delta.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from plait.domain.graph import Edge, Label, Node, decode_edges, decode_nodes
from plait.ports import GraphDelta
from vector.pool import Connection

EdgeKey = tuple[str, str, str]

# Parts of changed files: `before` are those the graph shows and must lose, the others it must gain.
PARTS = """
SELECT rev_from <= %(base)s AS before, path, nodes, edges FROM file_graph
 WHERE repo_id = %(repo)s
   AND ((rev_from <= %(base)s AND rev_to > %(base)s AND rev_to <= %(target)s)
     OR (rev_from > %(base)s AND rev_from <= %(target)s AND (rev_to IS NULL OR rev_to > %(target)s)))
 ORDER BY path
"""

# Links of episodes that the graph holds already; the others come with their own event.
PROJECTED_LINKS = """
SELECT l.episode_id, l.relation, l.target FROM memory_edge l JOIN episode e ON e.id = l.episode_id
 WHERE l.repo_id = %(repo)s AND e.projected ORDER BY l.id
"""

EPISODE = """
SELECT outcome, agent_id, session_key, tags, started_at, recorded_at FROM episode WHERE id = %(episode)s
"""

LINKS = """
SELECT relation, target, path FROM memory_edge WHERE episode_id = %(episode)s ORDER BY id
"""

# Files that may define one of `symbols`, at the revision the graph shows.
DEFINING = """
SELECT DISTINCT path FROM files
 WHERE repo_id = %(repo)s AND name = ANY(%(names)s) AND name <> '' AND symbol = ANY(%(symbols)s)
   AND rev_from <= %(base)s AND (rev_to IS NULL OR rev_to > %(base)s)
"""

NODES_OF = """
SELECT nodes FROM file_graph
 WHERE repo_id = %(repo)s AND path = ANY(%(paths)s)
   AND rev_from <= %(base)s AND (rev_to IS NULL OR rev_to > %(base)s)
"""


@dataclass(slots=True)
class _Side:
    """The parts of one revision, by id and by key; the first of two equal ones counts."""

    nodes: dict[str, Node]
    edges: dict[EdgeKey, Edge]

    def add(self, nodes: Iterable[Node], edges: Iterable[Edge]) -> None:
        for node in nodes:
            self.nodes.setdefault(node.id, node)
        for edge in edges:
            self.edges.setdefault((edge.relation, edge.source, edge.target), edge)


async def of_index(
    conn: Connection, event_id: int, repo_id: int, repo: str, base: int, target: int
) -> GraphDelta:
    """From revision `base` (0: nothing) to `target`."""
    before, after = _Side({}, {}), _Side({}, {})
    params = {"repo": repo_id, "base": base, "target": target}
    cursor = await conn.execute(PARTS, params)
    async for was, _, nodes, edges in cursor:
        (before if was else after).add(decode_nodes(nodes), decode_edges(edges))
    if base == 0:
        root = Node(f"{repo}:", Label.REPO, repo, "", "", 0, 0, "", "repo")
        after.nodes = {root.id: root, **after.nodes}
    added = after.nodes.keys() - before.nodes.keys()
    cursor = await conn.execute(PROJECTED_LINKS, params)
    links = [
        Edge(relation, episode_node_id(repo, episode), f"{repo}:{name}")
        for episode, relation, name in await cursor.fetchall()
        if f"{repo}:{name}" in added
    ]
    return GraphDelta(
        event_id=event_id,
        repo=repo,
        number=target,
        fresh=base == 0,
        drop_edges=[e for key, e in sorted(before.edges.items()) if after.edges.get(key) != e],
        drop_nodes=sorted(before.nodes.keys() - after.nodes.keys()),
        nodes=[n for id_, n in after.nodes.items() if before.nodes.get(id_) != n],
        edges=[e for key, e in after.edges.items() if before.edges.get(key) != e] + links,
    )


async def of_episode(
    conn: Connection, event_id: int, repo_id: int, repo: str, episode: UUID, base: int
) -> GraphDelta:
    """The Episode node, and its edges to what the graph holds at revision `base`."""
    params = {"episode": episode, "repo": repo_id, "base": base}
    cursor = await conn.execute(EPISODE, params)
    row = await cursor.fetchone()
    if row is None:  # deleted with its repository since: the removal waits behind this event
        return GraphDelta(event_id, repo, 0, False, (), (), (), ())
    outcome, *rest = row
    id_ = episode_node_id(repo, episode)
    summary = str(outcome.get("summary") or "").strip()
    name = summary.splitlines()[0][:80] if summary else str(episode)
    node = Node(
        id_, Label.EPISODE, name, f"episode/{episode}", "", 0, 0, "", str(outcome["status"])
    )
    cursor = await conn.execute(LINKS, params)
    links = await cursor.fetchall()
    existing = await _existing(conn, repo, links, params)
    return GraphDelta(
        event_id=event_id,
        repo=repo,
        number=0,
        fresh=False,
        drop_edges=(),
        drop_nodes=(),
        nodes=[node],
        edges=[
            Edge(relation, id_, f"{repo}:{target}")
            for relation, target, _ in links
            if f"{repo}:{target}" in existing
        ],
        properties={id_: _properties(outcome, *rest)},
    )


def of_removal(event_id: int, repo: str) -> GraphDelta:
    return GraphDelta(event_id, repo, 0, False, (), (), (), (), remove_repo=True)


def episode_node_id(repo: str, episode: UUID) -> str:
    return f"{repo}:episode/{episode}"


async def _existing(
    conn: Connection, repo: str, links: Sequence[tuple[Any, ...]], params: Mapping[str, Any]
) -> set[str]:
    """Ids of the nodes in the files that `links` may point into."""
    targets = [target for _, target, _ in links]
    symbols = [t for t in targets if not t.startswith("/")]
    paths = {t[1:] for t in targets if t.startswith("/")} | {path for _, _, path in links if path}
    if symbols:
        names = sorted({s.rpartition(".")[2] for s in symbols})
        cursor = await conn.execute(DEFINING, {**params, "symbols": symbols, "names": names})
        paths |= {path for (path,) in await cursor.fetchall()}
    cursor = await conn.execute(NODES_OF, {**params, "paths": sorted(paths)})
    return {node.id for (blob,) in await cursor.fetchall() for node in decode_nodes(blob)}


def _properties(
    outcome: Mapping[str, Any],
    agent_id: str,
    session_key: str,
    tags: Sequence[str],
    started_at: Any,
    recorded_at: Any,
) -> dict[str, Any]:
    """What the Episode node carries besides a node's own fields; graph servers hold no maps."""
    found = {
        "status": outcome.get("status", ""),
        "summary": outcome.get("summary", ""),
        "commit": outcome.get("commit", ""),
        "branch": outcome.get("branch", ""),
        "agent_id": agent_id,
        "session_key": session_key,
        "tags": list(tags),
        "started_at": started_at.isoformat() if started_at else "",
        "recorded_at": recorded_at.isoformat(),
    }
    return {key: value for key, value in found.items() if value}
