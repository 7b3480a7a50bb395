"""Who calls over TCP: the holder of the home's token, or of an API key."""

from __future__ import annotations

from typing import Protocol

from plait.domain.access import Caller
from plait.domain.errors import Unauthenticated
from plait.supervisor.token_file import TokenFile

# All verbs and any tenant: whoever reads the token file is the account that the server runs as.
TOKEN = Caller("token")


class KeyCallers(Protocol):
    """Callers by their API keys."""

    async def caller(self, secret: str) -> Caller:
        """Whose key `secret` is.

        Raises: Unauthenticated, for a secret that is no key, and for one that is expired or revoked.
        """
        ...


class Callers:
    """The home's token first, then API keys."""

    def __init__(self, token: TokenFile, keys: KeyCallers) -> None:
        self._token = token
        self._keys = keys

    async def caller(self, secret: str) -> Caller:
        """Raises: Unauthenticated."""
        if self._token.accept(secret):
            return TOKEN
        return await self._keys.caller(secret)


def unknown() -> Unauthenticated:
    """What anyone is told whose secret opens nothing, whatever the reason."""
    return Unauthenticated(
        "the token or API key of this call is not valid here; the token of this server is the "
        "first line of PLAIT_HOME/server/token, `plait keys add` makes a key, and `client.token` (PLAIT_CLIENT__TOKEN) "
        "holds what a client sends"
    )
