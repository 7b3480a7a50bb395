"""Who is connected: how many, from where, and whether they said who they are.

A connection over TCP that does not make itself known (one call with a valid token or key) within a few
seconds, or sends much before it did, is closed. Where all places are taken, the oldest unknown connection
gives up its place: who is known keeps theirs, and who has a token gets in during a flood.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from plait.settings import ServerSettings

logger = logging.getLogger(__name__)

MAX_UNKNOWN_BYTES = 2**20
MAX_REFUSALS = 16
REFUSED_S = 0.5


@dataclass(slots=True, eq=False)
class Connection:
    """`name`: of the connection to gRPC, by which a call finds this. `peer`: an address without its port,
    `""` over the home's socket. `known`: the id of the caller who made it known."""

    name: str
    peer: str
    close: Callable[[], None]
    known: str = ""
    received: int = 0  # bytes, while unknown
    refusals: int = 0
    local: bool = field(init=False)

    def __post_init__(self) -> None:
        self.local = not self.peer

    def took(self, size: int) -> bool:
        """Count bytes that came; False, when they are too many from somebody unknown."""
        if self.known or self.local:
            return True
        self.received += size
        return self.received <= MAX_UNKNOWN_BYTES

    def refused(self) -> None:
        """Count a call that opened nothing: a connection that goes on guessing is closed."""
        self.refusals += 1
        if self.refusals == MAX_REFUSALS and not self.known:
            # Once it has read why.
            asyncio.get_running_loop().call_later(REFUSED_S, self.close)


class Connections:
    """Those of one server, over the home's socket and over TCP."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._by_name: dict[str, Connection] = {}  # in the order in which they came

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._by_name.values())

    def find(self, peer: str) -> Connection | None:
        """By what gRPC says of a call's peer. None: not one that came in by a door of ours."""
        return self._by_name.get(peer.removeprefix("unix:"))

    def admit(self, connection: Connection) -> bool:
        """Whether there is a place for `connection`, which then has it until `leave`."""
        if not connection.local and not self._has_place(connection.peer):
            logger.warning("connection refused: too many", extra={"peer": connection.peer})
            return False
        self._by_name[connection.name] = connection
        return True

    def leave(self, connection: Connection) -> None:
        self._by_name.pop(connection.name, None)

    def recognise(self, connection: Connection, caller_id: str) -> bool:
        """`caller_id` showed a valid secret on `connection`; False, where they have too many already."""
        if connection.known == caller_id or connection.local:
            return True
        others = sum(other.known == caller_id for other in self)
        if others >= self._settings.max_connections_per_peer:
            return False
        connection.known = connection.known or caller_id
        return True

    def _has_place(self, peer: str) -> bool:
        """A place for one more connection of `peer`, if need be an unknown one's."""
        remote = [one for one in self if not one.local]
        same = [one for one in remote if one.peer == peer]
        if len(same) >= self._settings.max_connections_per_peer:
            return _give_up(same)
        return len(remote) < self._settings.max_connections or _give_up(remote)


def _give_up(connections: list[Connection]) -> bool:
    """Close the oldest that nobody made known; False when all are known."""
    for connection in connections:
        if not connection.known:
            connection.close()
            return True
    return False
