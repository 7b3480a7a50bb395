"""What a keeper publishes about its server: `endpoint.json`, read by every user and by `plait doctor`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from plait.domain.errors import (
    BadSettings,
    EmbeddedServerFailed,
    HomeUnusable,
    PlaitError,
    SchemaMismatch,
    StoreFull,
)
from plait.supervisor.files import read_json, write_private
from plait.supervisor.process import Identity

FILE = "endpoint.json"
USERS_LOCK = "users.lock"
KEEPER_LOCK = "keeper.lock"
START_LOCK = "start.lock"
CHILD_FILE = "child.json"
KEEPER_LOG = "keeper.log"

# The failures that cross from a keeper to its users by their reason.
_ERRORS: dict[str, type[PlaitError]] = {
    kind.reason: kind
    for kind in (EmbeddedServerFailed, StoreFull, HomeUnusable, BadSettings, SchemaMismatch)
}


class Phase(StrEnum):
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class State:
    """`at`: `time.monotonic()` when published, the same clock for all processes of one boot.

    `since`: Unix time of the server's start. `endpoint` never holds a password.
    """

    phase: Phase
    at: float = field(default_factory=time.monotonic)
    since: float = 0.0
    keeper: Identity | None = None
    child: Identity | None = None
    endpoint: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    message: str = ""
    restarts: int = 0

    def error(self) -> PlaitError:
        """The published failure, to raise."""
        kind = _ERRORS.get(self.reason, EmbeddedServerFailed)
        return kind(self.message or "the embedded server failed; see `plait doctor`")


def publish(folder: Path, state: State) -> None:
    """Raises: OSError, as on a full disk."""
    write_private(folder / FILE, json.dumps(asdict(state), indent=1) + "\n")


def read(folder: Path) -> State | None:
    """The published state, or None when there is none that makes sense."""
    tree = read_json(folder / FILE)
    if tree is None:
        return None
    try:
        return State(
            phase=Phase(tree["phase"]),
            at=float(tree["at"]),
            since=float(tree["since"]),
            keeper=_identity(tree["keeper"]),
            child=_identity(tree["child"]),
            endpoint=dict(tree["endpoint"]),
            reason=str(tree["reason"]),
            message=str(tree["message"]),
            restarts=int(tree["restarts"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _identity(tree: Any) -> Identity | None:
    return None if tree is None else Identity(int(tree["pid"]), str(tree["started"]))
