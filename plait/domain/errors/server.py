"""Settings, servers as processes, and the addresses they listen on."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.errors.families import Forbidden, InvalidInput, Precondition, Unavailable


class BadSettings(InvalidInput):
    reason = "BAD_SETTINGS"


class ServerAlreadyRunning(Precondition):
    reason = "SERVER_ALREADY_RUNNING"


class PortTaken(Precondition):
    reason = "PORT_TAKEN"


class FileLeftAlone(Precondition):
    """A file of an agent that `plait install` or `uninstall` can't edit safely."""

    reason = "FILE_LEFT_ALONE"


class McpAddressRefused(InvalidInput):
    """`plait mcp --http` is not to listen there, or not without an explicit option."""

    reason = "MCP_ADDRESS_REFUSED"


class TokenUnsafe(Precondition):
    """The token file of `plait serve` or `plait mcp --http` is readable for others, or broken."""

    reason = "TOKEN_UNSAFE"


class ServerNotAnswering(Unavailable):
    """A server of this PLAIT_HOME runs and doesn't answer."""

    reason = "SERVER_NOT_ANSWERING"


class ServiceNotStarted(Unavailable):
    """The background service of a PLAIT_HOME could not be started or stopped. If it reported a cause, the
    `reason` is that of its own error."""

    reason: str = "SERVICE_NOT_STARTED"  # type: ignore[misc]  # of the instance, see `because`

    @classmethod
    def because(cls, reason: str, message: str, values: Mapping[str, str]) -> ServiceNotStarted:
        """With the reason, text and values of the error that ended its start."""
        error = cls(message, **values)
        error.reason = reason
        return error


class TlsMissing(Precondition):
    """The server is not to listen beyond this machine without TLS."""

    reason = "TLS_MISSING"


class TlsUnusable(Precondition):
    """A certificate or key can't be used, or other accounts can read the key."""

    reason = "TLS_UNUSABLE"


class ServerNotOurs(Forbidden):
    """Another account's process listens where our server should."""

    reason = "SERVER_NOT_OURS"
