"""The embedded graph server: one ArcadeDB a `PLAIT_HOME`, spoken to over Bolt, shared by all processes.

`ensure` is all that others use. What the keeper runs is in `graph/server/arcadechild.py`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import signal
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from plait.domain.errors import EmbeddedServerFailed
from plait.supervisor import process
from plait.supervisor.account import unprivileged
from plait.supervisor.files import secret
from plait.supervisor.home import let_pass, make_home
from plait.supervisor.lease import Lease, ServerSpec
from plait.supervisor.process import Identity

if TYPE_CHECKING:
    from graph.server.arcadechild import ArcadeChild
    from plait.settings import Settings

NAME = "the graph server (ArcadeDB)"
DATABASE = "plait"
WRITER = "root"
READER = "reader"


class GraphLease:
    """A hold on the embedded graph server; the server lives at least as long."""

    database = DATABASE

    def __init__(self, lease: Lease, folder: Path) -> None:
        self._lease = lease
        self._folder = folder

    @property
    def uri(self) -> str:
        where = self._lease.state.endpoint
        return f"bolt://{where['host']}:{where['bolt_port']}"

    @property
    def writer(self) -> tuple[str, str]:
        """User and password of the projector: never log it."""
        return WRITER, secret(self._folder / "writer-password")

    @property
    def reader(self) -> tuple[str, str]:
        """User and password for users' Cypher: may read records of this database, no more."""
        return READER, secret(self._folder / "reader-password")

    @property
    def version(self) -> str:
        return str(self._lease.state.endpoint["version"])

    @property
    def pid(self) -> int:
        child = self._lease.state.child
        return child.pid if child else 0

    def refresh(self) -> str:
        """The URI after the server or its keeper died (its port is new); waits until it answers.

        Raises: EmbeddedServerFailed, StoreFull, HomeUnusable.
        """
        self._lease.refresh()
        return self.uri

    def check_space(self) -> None:
        """Raises: StoreFull, when nothing is left of the server's disk."""
        self._lease.check_space()

    @property
    def server(self) -> Identity | None:
        """The server's process, as it was last seen."""
        return self._lease.state.child

    def kill(self, server: Identity) -> bool:
        """Kill the server, which its keeper restarts; False when it was replaced meanwhile."""
        if not process.alive(server):
            return False
        os.kill(server.pid, signal.SIGKILL)
        return True

    def close(self) -> None:
        """Leave; the last user's leaving stops the server. Doing it twice is fine."""
        self._lease.close()

    def __enter__(self) -> GraphLease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def ensure(settings: Settings) -> GraphLease:
    """A lease on the running graph server of `settings.home`, started if need be. Blocks: use a thread.

    Raises: EmbeddedServerFailed, StoreFull, HomeUnusable, BadSettings.
    """
    folder = settings.home / "graph"
    account = unprivileged(settings.embedded.run_as)
    make_home(settings.home)
    let_pass(settings.home, account)  # where it cannot pass all the same, Java runs as root
    spec = ServerSpec(
        name=NAME,
        folder=folder,
        entry="graph.server.embedded:child",
        config={
            "package": str(package()),
            "version": version(),
            "run_as": settings.embedded.run_as,
            "heap_mb": settings.graph.heap_mb,
        },
        linger_s=settings.embedded.linger_s,
        start_timeout_s=settings.embedded.start_timeout_s,
        folder_mode=0o711 if account else 0o700,
    )
    return GraphLease(Lease(spec), folder)


def has_data(home: Path) -> bool:
    """Whether the graph server of `home` was ever started: else its files hold nothing."""
    return (home / "graph" / "data" / "databases").is_dir()


def package() -> Path:
    """The folder of `arcadedb-embedded` (jars and a Java runtime), found without importing it.

    Raises: EmbeddedServerFailed, when it is not installed or brings no runtime for this platform.
    """
    spec = importlib.util.find_spec("arcadedb_embedded")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent
        if (folder / "jre" / "bin" / "java").is_file() and (folder / "jars").is_dir():
            return folder
    raise EmbeddedServerFailed(
        "the package arcadedb-embedded is missing or has no Java runtime for this platform; "
        "`pip install 'arcadedb-embedded>=26.10,<27'`, or set `graph.uri` to a Neo4j of your own"
    )


def version() -> str:
    """The installed ArcadeDB, as in "26.10.2.post1"; "" when unknown."""
    try:
        return importlib.metadata.version("arcadedb-embedded")
    except importlib.metadata.PackageNotFoundError:
        return ""


def child(folder: Path, config: dict[str, Any]) -> ArcadeChild:
    """What the keeper runs."""
    from graph.server.arcadechild import ArcadeChild

    return ArcadeChild(
        folder,
        package=Path(config["package"]),
        version=str(config["version"]),
        account=unprivileged(str(config["run_as"])),
        heap_mb=int(config["heap_mb"]),
    )
