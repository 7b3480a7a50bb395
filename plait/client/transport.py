"""Channels and retries: what the two clients share of gRPC."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import grpc

from plait import settings
from plait.client import discovery
from plait.client.calls import Call
from plait.client.errors import PlaitRpcError
from plait.domain.errors import ServerNotAnswering
from plait.settings import ServerSettings

MAX_ATTEMPTS = 4
FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 2.0
# Answers may be as large as the server's own limit allows.
MAX_MESSAGE_BYTES = ServerSettings().max_message_bytes

OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A local address must not go through an HTTP proxy that the environment names.
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


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


def waits(call: Call[Any], left_s: float) -> Iterator[float]:
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


def may_retry(error: PlaitRpcError) -> bool:
    """Only what never reached a server, or what a server called passing."""
    return error.code is grpc.StatusCode.UNAVAILABLE
