"""What a keeper asks of the server it keeps."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from plait.domain.errors import PlaitError
from plait.supervisor.account import Account
from plait.supervisor.process import Step


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of the server: what to run, with which whole environment, where, as whom."""

    args: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    account: Account | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause of a failed start, from its log. `permanent`: a retry cannot help. `passing`: it ends by
    itself, and a later start works."""

    error: PlaitError
    permanent: bool
    passing: bool = False


class StartAgain(Exception):
    """The server runs but will never be ready, for a cause that another start may not meet: a port
    that another process took."""


class ChildServer(Protocol):
    """A server that one keeper runs. Called from one thread only."""

    @property
    def name(self) -> str:
        """For messages, as in "PostgreSQL"."""
        ...

    @property
    def log(self) -> Path:
        """Where the keeper sends the server's output."""
        ...

    @property
    def stop_steps(self) -> Sequence[Step]: ...

    @property
    def death_signal(self) -> signal.Signals:
        """Sent by the kernel when the keeper dies."""
        ...

    def prepare(self) -> None:
        """Make ready what every start needs; cheap when all is there. Raises: PlaitError."""
        ...

    def launch(self, mark: str) -> Launch:
        """The next start, with fresh ports. One argument holds `mark`, which proves the process ours."""
        ...

    def ready(self, pid: int) -> bool:
        """Whether a real query was answered by process `pid`.

        Raises: PlaitError, when it never will; StartAgain.
        """
        ...

    def endpoint(self) -> Mapping[str, Any]:
        """Where the ready server listens, and its versions. No passwords."""
        ...

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        """A known cause in the log of a start that failed."""
        ...

    def clean(self) -> None:
        """Remove what only a running server needs. Never raises."""
        ...
