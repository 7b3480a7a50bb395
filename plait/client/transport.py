"""Channels and retries: what the two clients share of gRPC."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from plait import settings
from plait.client import discovery
from plait.client.calls.call import Call, metadata
from plait.client.errors import PlaitRpcError
from plait.domain.errors import BadSettings, ServerNotAnswering
from plait.settings import ClientSettings, Settings

MAX_ATTEMPTS = 4
FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 2.0
OPTIONS = (
    # A new channel to a new server of the same socket must not wait out the old one's pause before it connects.
    ("grpc.use_local_subchannel_pool", 1),
    # The server's limit (`server.max_message_bytes`) holds both ways; -1: none of the client's own.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A local address must not go through an HTTP proxy that the environment names.
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


_TCP = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_LOOPBACK = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|\[::1\]")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server address with the metadata of each call. `credentials` None: without TLS."""

    target: str
    metadata: tuple[tuple[str, str], ...] = ()
    credentials: grpc.ChannelCredentials | None = None


def endpoint(
    target: str, tenant: str = "", token: str = "", loaded: Settings | None = None
) -> Endpoint:
    """Of `target`, `host:port` or `unix:/path`; empty: as `default_target`.

    The listener of a Unix socket is checked first. Over TCP the call carries `token`, else `client.token`, else the token of
    this home's own server, where that is what listens there. Beyond this machine there is always TLS, on it
    where `client.tls_ca` is set.

    Raises: BadSettings, ServerNotOurs, TokenUnsafe; and as `default_target`.
    """
    target = target or default_target()
    if not target.startswith("unix:"):
        return _over_tcp(target, metadata(tenant), token, loaded)
    path = target.removeprefix("unix:").removeprefix("//")
    if not path.startswith("/"):
        raise _no_address(target)
    discovery.check_socket(path)
    return Endpoint(target, metadata(tenant))


def _over_tcp(
    target: str, sent: tuple[tuple[str, str], ...], token: str, loaded: Settings | None
) -> Endpoint:
    """Raises: BadSettings, TokenUnsafe."""
    found = _TCP.fullmatch(target)
    if not found or not 0 < int(found["port"]) <= 65535:
        raise _no_address(target)
    loaded = loaded or settings.load()
    secret = token or loaded.client.token.get_secret_value() or _own_token(loaded, found)
    if secret and not (secret.isascii() and secret.isprintable()):
        raise BadSettings(
            "`client.token` holds characters that no token has; of a token file it is the first line",
            key="client.token",
        )
    if secret:
        sent = (*sent, ("authorization", f"Bearer {secret}"))
    local = _LOOPBACK.fullmatch(found["host"]) and not loaded.client.tls_ca
    return Endpoint(target, sent, None if local else _tls(loaded.client))


def _no_address(target: str) -> BadSettings:
    return BadSettings(
        f"{target[:100]!r} is no server's address; write HOST:PORT, such as 127.0.0.1:50051, or "
        "unix:/path/to/plait.sock (`client.server`, PLAIT_SERVER, `--server`)",
        key="client.server",
    )


def _own_token(loaded: Settings, found: re.Match[str]) -> str:
    """The token of this home's server, only when that server listens at the address: another account's
    process on the port must not get it. "" else. Raises: TokenUnsafe."""
    if not _LOOPBACK.fullmatch(found["host"]):
        return ""
    known = discovery.read(loaded.home)
    if known is None or known.port != int(found["port"]) or not discovery.running(loaded.home):
        return ""
    from plait.supervisor import token_file

    return token_file.read(discovery.token_path(loaded.home)).current


def _tls(client: ClientSettings) -> grpc.ChannelCredentials:
    """Raises: BadSettings."""
    return grpc.ssl_channel_credentials(
        _pem(client.tls_ca, "client.tls_ca"),
        _pem(client.tls_key, "client.tls_key"),
        _pem(client.tls_certificate, "client.tls_certificate"),
    )


def _pem(name: str, setting: str) -> bytes | None:
    """Raises: BadSettings."""
    try:
        return Path(name).read_bytes() if name else None
    except OSError as exc:
        raise BadSettings(
            f"`{setting}`: {name} can't be read: {exc.strerror}", key=setting
        ) from exc


def default_target() -> str:
    """The server that PLAIT_SERVER names, else the service of this PLAIT_HOME, which is started in the
    background where none runs: that blocks for a second or two.

    Raises: BadSettings, ServiceNotStarted, HomeUnusable; ServerNotAnswering, where none runs and
        `client.autostart` is off.
    """
    loaded = settings.load()
    if loaded.client.server:
        return loaded.client.server
    if address := discovery.running(loaded.home):
        return address.target
    if not loaded.client.autostart:
        raise ServerNotAnswering(
            f"no server of {loaded.home} runs and `client.autostart` is off; run `plait serve`, or say "
            "where one is: PLAIT_SERVER=host:port",
            home=loaded.home,
        )
    from plait.client import service

    started = service.ensure(loaded)
    assert started is not None
    return started.target


def pauses_of(call: Call[Any], left_s: float) -> Iterator[float]:
    """Seconds to wait before each further try: exponential with full jitter, within the deadline."""
    if not call.retry:
        return
    longest = FIRST_WAIT_S
    for _ in range(MAX_ATTEMPTS - 1):
        wait_s = random.uniform(longest / 2, longest)  # noqa: S311  (jitter, not a secret)
        left_s -= wait_s
        if left_s <= 0:
            return
        yield wait_s
        longest = min(2 * longest, LONGEST_WAIT_S)


def more_telling(before: PlaitRpcError | None, now: PlaitRpcError) -> PlaitRpcError:
    """Which error of a retried call to raise: "time ran out" explains less than the cause of the retry."""
    timed_out = now.code is grpc.StatusCode.DEADLINE_EXCEEDED
    return before if before is not None and timed_out else now


def may_retry(error: PlaitRpcError) -> bool:
    """Only what never reached a server, or what a server called passing."""
    return error.code is grpc.StatusCode.UNAVAILABLE
