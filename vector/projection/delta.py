"""What an event changes in the graph, computed from the parts of files at two revisions.

Nodes and edges are compared over all changed files together, not file by file: a symbol that moves
from one file to another keeps its id and is updated in place, with the edges that unchanged files have
to it. The order of everything is fixed by paths and ids, so the same event gives the same delta.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plait.domain.errors import InvalidInput
from plait.domain.graph import Edge, Link, Node, Relation, decode_edges, decode_nodes
from plait.ports import GraphDelta
from vector.connection.pool import Connection
from vector.projection import layer
from vector.projection.expected import root_node
from vector.projection.layer import Work

EdgeKey = tuple[str, str, str]

# Parts of changed files: `before` are those the graph shows and must lose, the others it must gain.
PARTS = """
SELECT rev_from <= %(base)s AS before, path, nodes, edges FROM file_graph
 WHERE repo_id = %(repo)s
   AND ((rev_from <= %(base)s AND rev_to > %(base)s AND rev_to <= %(target)s)
     OR (rev_from > %(base)s AND rev_from <= %(target)s AND (rev_to IS NULL OR rev_to > %(target)s)))
 ORDER BY path
"""

# Links that end or begin at one of the names: they came with their own event, and went with the node
# if it was there before.
LINKS_AT = """
SELECT id, relation, source, target, resolver, confidence::float8, valid_from, valid_to,
       recorded_from, recorded_to FROM memory_edge
 WHERE repo_id = %(repo)s AND source IN (SELECT unnest(%(names)s::text[]))
UNION
SELECT id, relation, source, target, resolver, confidence::float8, valid_from, valid_to,
       recorded_from, recorded_to FROM memory_edge
 WHERE repo_id = %(repo)s AND target IN (SELECT unnest(%(names)s::text[]))
 ORDER BY 1
"""

PUBLISHED = """
SELECT coalesce((SELECT published_at FROM revision_log
                  WHERE repo_id = %(repo)s AND number = %(target)s), published_at)
  FROM repository WHERE id = %(repo)s
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
        root = root_node(repo)
        after.nodes = {root.id: root, **after.nodes}
    added = after.nodes.keys() - before.nodes.keys()
    cursor = await conn.execute(PUBLISHED, params)
    row = await cursor.fetchone()
    return GraphDelta(
        event_id=event_id,
        repo=repo,
        number=target,
        fresh=base == 0,
        drop_edges=[e for key, e in sorted(before.edges.items()) if after.edges.get(key) != e],
        drop_nodes=sorted(before.nodes.keys() - after.nodes.keys()),
        nodes=[n for id_, n in after.nodes.items() if before.nodes.get(id_) != n],
        edges=[e for key, e in after.edges.items() if before.edges.get(key) != e],
        links=await _links_at(conn, repo_id, repo, added),
        recorded_from=(layer.ms(row[0]) if row else None) or 0,
    )


async def _links_at(conn: Connection, repo_id: int, repo: str, ids: Iterable[str]) -> list[Link]:
    start = len(repo) + 1
    names = sorted(id_[start:] for id_ in ids)
    if not names:
        return []
    cursor = await conn.execute(LINKS_AT, {"repo": repo_id, "names": names})
    return [layer.link(repo, row) for row in await cursor.fetchall()]


async def of_layer(
    conn: Connection, event_id: int, repo_id: int, repo: str, work: Work
) -> GraphDelta:
    """Episodes, memories and removals as the rows have them now. What an event is about and is there
    no more leaves the graph."""
    now = await layer.about(conn, repo_id, repo, work)
    named = [f"episode/{id_}" for id_ in work.episodes] + [f"memory/{id_}" for id_ in work.entries]
    drop_links = []
    for name in work.names:
        if name.startswith("link/"):
            drop_links.append(_link_of(repo, name))
        else:
            named.append(name)
    removed = set(work.names)
    return GraphDelta(
        event_id=event_id,
        repo=repo,
        number=0,
        fresh=False,
        drop_edges=(),
        # A name that was removed and is there again is another node: the old one's edges go.
        drop_nodes=sorted(
            f"{repo}:{name}" for name in {*named} if name in removed or not now.has(name)
        ),
        nodes=[now.nodes[id_] for id_ in sorted(now.nodes)],
        edges=(),
        links=now.links,
        drop_links=drop_links,
        properties=now.properties,
    )


def _link_of(repo: str, name: str) -> Link:
    """`link/ID/RELATION/SOURCE`. Raises: InvalidInput."""
    _, id_, relation, source = (*name.split("/", 3), "", "", "")[:4]
    if not id_.isdecimal() or relation not in Relation.__members__ or not source:
        raise InvalidInput(f"{name[:200]!r} in a `forget` event names no link", name=name[:200])
    return Link(int(id_), relation, f"{repo}:{source}", "")


def of_removal(event_id: int, repo: str) -> GraphDelta:
    return GraphDelta(event_id, repo, 0, False, (), (), (), (), remove_repo=True)
