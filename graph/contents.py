"""All of a repository in the graph, as digests: to be compared with what the truth expects."""

from __future__ import annotations

from typing import Any

from graph.bolt import Bolt
from graph.schema import INDEXED
from plait.domain.graph import edge_digest, node_digest
from plait.ports import GraphContents

# Pages keep an answer small, and each statement far below the 30 s at which ArcadeDB ends it.
_PAGE = 5_000
_IDS = "MATCH (n:`{label}`) WHERE n.repo = $repo RETURN elementId(n)"
_NODES = "UNWIND $ids AS i MATCH (n) WHERE elementId(n) = i RETURN labels(n), properties(n)"
_EDGES = """
UNWIND $ids AS i MATCH (n) WHERE elementId(n) = i
MATCH (n)-[e]->(m) RETURN type(e), n.id, m.id, properties(e)
"""
# When a code edge was written: not part of its content.
_WRITTEN = "recorded_from"


async def contents(bolt: Bolt, repo: str) -> GraphContents:
    """Raises: StoreUnavailable."""
    nodes: dict[str, bytes] = {}
    edges: dict[tuple[str, str, str, int], bytes] = {}
    for label in INDEXED:
        ids = [row[0] for row in await bolt.read(_IDS.format(label=label), repo=repo)]
        for start in range(0, len(ids), _PAGE):
            page = ids[start : start + _PAGE]
            for labels, properties in await bolt.read(_NODES, ids=page):
                _add(nodes, str(properties.get("id", "")), node_digest(labels, properties))
            for relation, source, target, properties in await bolt.read(_EDGES, ids=page):
                link = properties.get("link_id")
                digested = properties if link else {**properties, _WRITTEN: None}
                key = (str(relation), str(source), str(target), _number(link))
                _add(edges, key, edge_digest(digested))
    return GraphContents(nodes, edges)


def _add(found: dict[Any, bytes], key: Any, digest: bytes) -> None:
    """Add a digest; an element stored twice differs from one stored once."""
    found[key] = found[key] + digest if key in found else digest


def _number(link: Any) -> int:
    return link if isinstance(link, int) else 0
