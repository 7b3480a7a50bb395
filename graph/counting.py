"""How much is in the graph, by label and relation."""

from __future__ import annotations

from graph.bolt import Bolt
from plait.domain.graph import Label, Relation

# ArcadeDB and Neo4j both keep totals; with a repository both read every node of the label.
_NODES = "MATCH (n:`{label}`) RETURN count(n)"
_NODES_OF = "MATCH (n:`{label}`) WHERE n.repo = $repo RETURN count(n)"
_EDGES = "MATCH ()-[r:`{relation}`]->() RETURN count(r)"
_EDGES_OF = "MATCH (n)-[r:`{relation}`]->() WHERE n.repo = $repo RETURN count(r)"


async def counts(bolt: Bolt, repo: str) -> dict[str, int]:
    """Nodes by label and edges by relation; a test counts under Function and Test. Zeros left out."""
    out: dict[str, int] = {}
    for label in Label:
        text = (_NODES_OF if repo else _NODES).format(label=label)
        out[label] = int((await bolt.read(text, repo=repo))[0][0])
    for relation in Relation:
        text = (_EDGES_OF if repo else _EDGES).format(relation=relation)
        out[relation] = int((await bolt.read(text, repo=repo))[0][0])
    return {str(name): count for name, count in out.items() if count}
