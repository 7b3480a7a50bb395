"""What the graph has to hold of a repository, from the truth alone: one snapshot, read once."""

from __future__ import annotations

from plait.domain.errors import RepositoryNotIndexed
from plait.domain.graph import (
    Edge,
    Label,
    Node,
    decode_edges,
    decode_nodes,
    stored_edge,
    stored_link,
    stored_node,
)
from plait.ports import GraphContents
from vector.connection.pool import Connection, Database
from vector.index.visible import held
from vector.projection import layer

# The parts of the revision that the graph shows.
PARTS = f"""
SELECT nodes, edges FROM file_graph
 WHERE repo_id = %(repo)s AND {held("file_graph", "%(number)s")}
 ORDER BY path
"""


def root_node(repo: str) -> Node:
    return Node(f"{repo}:", Label.REPO, repo, "", "", 0, 0, "", "repo")


async def of_repository(db: Database, repo: str) -> GraphContents:
    """Raises: RepositoryNotIndexed, for a name that nothing was ever stored under."""
    async with db.connection() as conn, conn.transaction():
        # One snapshot for all that is read.
        await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cursor = await conn.execute(
            "SELECT id, graph_number FROM repository WHERE name = %s", (repo,)
        )
        row = await cursor.fetchone()
        if row is None:
            raise RepositoryNotIndexed(repo)
        repo_id, number = row
        nodes: dict[str, bytes] = {}
        edges: dict[tuple[str, str, str, int], bytes] = {}
        if number:
            nodes, edges = await _code(conn, repo_id, repo, number)
        known = await layer.everything(conn, repo_id, repo)
    for id_, node in known.nodes.items():
        nodes[id_] = stored_node(node, repo, known.properties[id_])
    edges = {key: digest for key, digest in edges.items() if key[1] in nodes and key[2] in nodes}
    for link in known.links:
        if link.source in nodes and link.target in nodes:
            edges[link.relation, link.source, link.target, link.id] = stored_link(link)
    return GraphContents(nodes, edges)


async def _code(
    conn: Connection, repo_id: int, repo: str, number: int
) -> tuple[dict[str, bytes], dict[tuple[str, str, str, int], bytes]]:
    """Of two parts that hold the same node or edge the first counts, as in the deltas."""
    root = root_node(repo)
    nodes = {root.id: stored_node(root, repo, {})}
    edges: dict[tuple[str, str, str, int], bytes] = {}
    cursor = await conn.execute(PARTS, {"repo": repo_id, "number": number})
    async for node_blob, edge_blob in cursor:
        for node in decode_nodes(node_blob):
            if node.id not in nodes:
                nodes[node.id] = stored_node(node, repo, {})
        for edge in decode_edges(edge_blob):
            key = _key(edge)
            if key not in edges:
                edges[key] = stored_edge(edge)
    return nodes, edges


def _key(edge: Edge) -> tuple[str, str, str, int]:
    return edge.relation, edge.source, edge.target, 0
