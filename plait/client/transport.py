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
from plait.settings import ServerSettings

DEFAULT_TARGET = "127.0.0.1:50051"
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
    """The running `plait serve` of this PLAIT_HOME; `DEFAULT_TARGET` where there is none.

    Raises: BadSettings.
    """
    address = discovery.running(settings.load().home)
    return address.target if address else DEFAULT_TARGET


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
