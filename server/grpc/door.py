"""Where a call is let in: who calls, whether they may, and whether their whole request has come.

Of a call whose request has not arrived only a stream of its connection is taken, and no place among the
calls that are answered. So every method is served as a stream, and its one message is waited for here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

from plait.domain.access import OWNER, Caller
from plait.domain.deadline import Deadline
from plait.domain.errors import (
    QuotaExceeded,
    RequestMalformed,
    RequestTooSlow,
    TooManyConnections,
    Unauthenticated,
    VerbNotAllowed,
)
from plait.settings import ServerSettings
from server.access import current
from server.access.callers import Callers
from server.access.concurrency import Arrivals, Places, Rates
from server.access.connections import Connection, Connections
from server.grpc.deadlines import Patience
from server.grpc.verbs import VERBS

AUTHORIZATION = "authorization"


@dataclass(frozen=True, slots=True)
class Visit:
    """One call that was let in."""

    caller: Caller
    connection: Connection


class Door:
    """Of one server. `callers` None: nobody comes over TCP."""

    def __init__(
        self,
        settings: ServerSettings,
        connections: Connections,
        callers: Callers | None,
        patience: Patience,
    ) -> None:
        self._patience = patience
        self._settings = settings
        self._connections = connections
        self._callers = callers
        most = settings.max_concurrent
        # What comes over TCP can't take the places of the home's socket.
        self._local = Places(most, most)
        self._remote = Places(most, settings.max_concurrent_per_key)
        self._arrivals = Arrivals(settings)
        self._rates = Rates()

    async def enter(self, method: str, context: Any, deadline: Deadline) -> Visit:
        """Recognise who calls, by what came before the request itself.

        Raises: Unauthenticated, VerbNotAllowed, QuotaExceeded, TooManyConnections; as `Patience.answer`,
            when a key can't be looked up by `deadline`.
        """
        connection = self._connections.find(context.peer())
        if connection is None:  # not through a door of ours
            raise Unauthenticated("nobody knows who calls; connect to this server's own address")
        caller = await self._caller(connection, method, context, deadline)
        current.answer(caller)
        verb = VERBS.get(method)
        if verb is None or not caller.may(verb):
            raise VerbNotAllowed(
                f"this key may not call {method.rpartition('/')[2]}: it needs the verb "
                f"{verb or 'of a later version'}; who made the key can make one that has it",
                verb=verb or "",
                method=method.rpartition("/")[2],
            )
        self._rates.count(caller)
        return Visit(caller, connection)

    def peer(self, context: Any) -> str:
        """Where a call comes from: `socket`, or `tcp ADDRESS`."""
        connection = self._connections.find(context.peer())
        if connection is None:
            return "unknown"
        return "socket" if connection.local else f"tcp {connection.peer}"

    async def _caller(
        self, connection: Connection, method: str, context: Any, deadline: Deadline
    ) -> Caller:
        if connection.local:
            return OWNER
        try:
            assert self._callers is not None
            looked_up = self._callers.caller(_bearer(context))
            caller = await self._patience.answer(method, deadline, looked_up)
        except Unauthenticated as exc:
            connection.refused()
            if key := exc.metadata.get("key"):  # one that has ended: for the logs
                current.answer(replace(current.NO_ID, id=key))
            raise
        if not self._connections.recognise(connection, caller.id):
            raise TooManyConnections(
                f"this key has {self._settings.max_connections_per_peer} connections already; close some, "
                "or raise `server.max_connections_per_peer`",
                limit=self._settings.max_connections_per_peer,
            )
        return caller

    async def request(self, visit: Visit, requests: AsyncIterator[Any]) -> Any:
        """The one message of a call, once all of it is there.

        Raises: RequestTooSlow, RequestMalformed, QuotaExceeded.
        """
        limit_s = self._settings.arrive_s
        turn = self._arrivals.turn(visit.caller, visit.connection.name)
        try:
            async with turn, asyncio.timeout(limit_s):
                request = await anext(requests)
        except TimeoutError:
            raise RequestTooSlow(
                f"the whole request did not arrive within {limit_s:g} s (`server.arrive_s`)",
                limit_s=f"{limit_s:g}",
            ) from None
        except StopAsyncIteration:
            raise RequestMalformed("the call ended without a request; send one message") from None
        most = visit.caller.quota.max_request_bytes
        if most and hasattr(request, "ByteSize") and request.ByteSize() > most:
            raise QuotaExceeded(
                f"the request has {request.ByteSize():,} bytes, and this key may send {most:,}; send less "
                "at once",
                limit=most,
            )
        return request

    async def requests(self, visit: Visit, messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """The messages of a stream, each of them by the rules of `request`; the next one may be waited for
        as long as a stream may be idle."""
        idle_s = self._settings.stream_idle_s
        while True:
            try:
                async with asyncio.timeout(idle_s):
                    message = await anext(messages)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise RequestTooSlow(
                    f"no message came for {idle_s:g} s (`server.stream_idle_s`); begin another stream",
                    limit_s=f"{idle_s:g}",
                ) from None
            yield message

    def place(self, visit: Visit, context: Any) -> None:
        """Take a place among the calls that are answered, until the answer is read. Who does not read theirs
        loses the connection. Raises: TooManyCalls."""
        places = self._local if visit.connection.local else self._remote
        free = places.take(visit.caller)
        context.add_done_callback(lambda _: free())

    def answered(self, visit: Visit, context: Any) -> Callable[[], None]:
        """From now on the caller has `answer_s` to read what is sent; gives what ends that."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._settings.answer_s, visit.connection.close)
        context.add_done_callback(lambda _: timer.cancel())
        return timer.cancel


def _bearer(context: Any) -> str:
    """The secret of a call's metadata. Raises: Unauthenticated."""
    values = [value for key, value in context.invocation_metadata() or () if key == AUTHORIZATION]
    scheme, _, secret = str(values[0]).partition(" ") if len(values) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not secret:
        raise Unauthenticated(
            "over TCP every call needs `authorization: Bearer TOKEN` in its metadata, once: the token of "
            "this server (PLAIT_HOME/server/token) or an API key (`plait keys add`); clients send what "
            "`client.token` (PLAIT_CLIENT__TOKEN) says"
        )
    return secret.strip()
