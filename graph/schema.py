"""The graph's labels, constraints and indexes, as numbered and checksummed migrations.

No common label: unique ids per label made nodes 15 % cheaper to write on ArcadeDB than one `Entity`
index over every type, and edges find their ends by the ids the server gave at creation, which
costs no index at all. So `labels(n)` is what the design says, and `MATCH (f:Function {id: …})` is a
seek on both servers. See docs/schema-graph.md.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from graph.bolt import Bolt
from plait.domain.errors import SchemaMismatch
from plait.domain.graph import Label

# Which labels a node carries. On ArcadeDB labels and relationship types share one namespace, and
# several labels make a type of their own ("Function~Test") under both.
LABELS: dict[str, str] = {str(label): f"`{label}`" for label in Label} | {
    Label.TEST: f"`{Label.FUNCTION}`:`{Label.TEST}`"
}
# One unique index each; a Test is found under Function.
INDEXED = tuple(label for label in Label if label is not Label.TEST)
# What an index run owns; the rest belongs to episodes and memories, and outlives a re-index.
CODE = (Label.FUNCTION, Label.CLASS, Label.MODULE, Label.FILE, Label.REPO)
# In the first migration; labels that came later have their own.
_FIRST = (
    Label.REPO,
    Label.MODULE,
    Label.FILE,
    Label.CLASS,
    Label.FUNCTION,
    Label.ISSUE,
    Label.COMMIT,
    Label.EPISODE,
)


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    title: str
    statements: tuple[str, ...]

    @property
    def checksum(self) -> str:
        return hashlib.sha256("\n".join(self.statements).encode()).hexdigest()[:32]


def _unique(label: str, key: str) -> str:
    name = f"plait_{label.lower()}_{key}"
    return f"CREATE CONSTRAINT {name} IF NOT EXISTS FOR (n:{label}) REQUIRE n.{key} IS UNIQUE"


def _index(label: str, key: str) -> str:
    return f"CREATE INDEX plait_{label.lower()}_{key} IF NOT EXISTS FOR (n:{label}) ON (n.{key})"


# Append; never edit one that was released: its checksum is compared.
MIGRATIONS = (
    Migration(
        1,
        "unique ids, names",
        (
            _unique("PlaitMigration", "version"),
            _unique("PlaitProgress", "id"),
            *(_unique(label, "id") for label in _FIRST),
            # Templates take a bare name; 0.1 s of writing for Django, against a scan a question.
            *(_index(label, "name") for label in (Label.CLASS, Label.FUNCTION)),
        ),
    ),
    Migration(
        2,
        "diffs and memories",
        tuple(_unique(label, "id") for label in (Label.DIFF, Label.MEMORY)),
    ),
)

_APPLIED = "MATCH (m:PlaitMigration) RETURN m.version, m.checksum"
_RECORD = """
MERGE (m:PlaitMigration {version: $version})
ON CREATE SET m.checksum = $checksum, m.title = $title, m.applied_at = $now
"""


async def migrate(bolt: Bolt) -> None:
    """Apply what is missing. Two processes at once are fine: each statement may be repeated.

    Raises: SchemaMismatch, when the graph was made by a newer or a different Plait.
    """
    applied = {int(version): str(checksum) for version, checksum in await bolt.read(_APPLIED)}
    known = {m.version: m for m in MIGRATIONS}
    for version, checksum in sorted(applied.items()):
        if version not in known or known[version].checksum != checksum:
            raise SchemaMismatch(
                f"the graph's migration {version} is not the one this Plait knows; "
                "upgrade Plait, or give it a graph database of its own (`graph.database`)",
                version=version,
            )
    for migration in MIGRATIONS:
        if migration.version in applied:
            continue
        for statement in migration.statements:
            await bolt.define(statement)
        record = {
            "version": migration.version,
            "checksum": migration.checksum,
            "title": migration.title,
            "now": int(time.time() * 1000),
        }
        await bolt.write((_RECORD, record))
