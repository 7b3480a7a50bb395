"""What differs between the Cypher servers, in one place. Everything else here is one Cypher.

Both speak Cypher 5 over Bolt 5. ArcadeDB 26.10 calls itself "Neo4j/5.26.0 compatible (ArcadeDB …)"
and answers `dbms.components()` as Neo4j, so the handshake's agent is what tells them apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from plait.domain.errors import BadSettings

OLDEST_NEO4J = (5, 13)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One server's habits.

    `stops_on_disconnect`: a query ends when its connection does (Neo4j). Where it does not
    (ArcadeDB runs on until its `command.timeout`), the reader terminates it by name.
    `broken_aggregate_predicates`: an aggregate under IS NULL, IN, STARTS WITH or NOT inside one
    projection yields wrong rows; the guard refuses such queries.
    """

    name: str
    version: str
    stops_on_disconnect: bool
    broken_aggregate_predicates: bool

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"


def of_agent(agent: str) -> Dialect:
    """The dialect of a server that greeted with `agent`, as in "Neo4j/5.26.30".

    Raises: BadSettings, for a server that is neither, or too old.
    """
    if arcade := re.search(r"ArcadeDB (\d[\w.]*)", agent):
        return Dialect("ArcadeDB", arcade[1], False, True)
    if neo := re.match(r"Neo4j/(\d[\w.]*)", agent):
        numbers = tuple(int(n) for n in re.findall(r"\d+", neo[1])[:2])
        if numbers < OLDEST_NEO4J:
            raise BadSettings(
                f"the graph server is Neo4j {neo[1]}; Plait needs 5.13 or later",
                key="graph.uri",
                version=neo[1],
            )
        return Dialect("Neo4j", neo[1], True, False)
    raise BadSettings(
        f"the graph server calls itself {agent!r}; set `graph.uri` to a Neo4j 5 or later",
        key="graph.uri",
        agent=agent,
    )
