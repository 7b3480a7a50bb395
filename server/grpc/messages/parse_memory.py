"""Requests about memories and upkeep → domain values, with the field at fault named; see `parse`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from plait.domain.errors import EpisodeInvalid, InvalidInput, MemoryInvalid
from plait.domain.memory import MemoryFilter, MemoryId, MemoryWrite
from plait.domain.retention import Budget, Selector
from plait.memory import entry as entries
from plait.memory import episode as episodes
from plait.memory.turn import ToolOutcome, Turn
from plait.v1 import admin_service_pb2
from plait.v1 import memory_service_pb2 as pb
from plait.wire import memories, upkeep
from plait.wire.status import BUDGET_OF
from server.grpc.messages import parse, scope

MAX_BATCH = 500
MAX_TOP_K = 200
DEFAULT_TOP_K = 10
MAX_QUERY_BYTES = 8192
MAX_IDS = 1000
MAX_UNDO_S = 365 * 86_400.0
# An answer repeats what was stored, with what the store set: room for that inside a message.
MAX_BATCH_SHARE = 0.75


def repository(tenant: str, name: str, at: str) -> str:
    """A repository that something is written to or read from, qualified; it need not be indexed.

    Raises: InvalidInput.
    """
    if not name:
        scope.check_named((), False, at)
    try:
        episodes.check_repo(name)
    except EpisodeInvalid as exc:
        raise parse.bad(at, exc.message.removeprefix("/repo: ")) from exc
    return scope.name_in(tenant, name, at)


def write(tenant: str, request: pb.StoreMemoryRequest, at: str = "") -> MemoryWrite:
    """A checked write, its repository qualified. Raises: MemoryInvalid, InvalidInput."""
    if not request.HasField("memory"):
        raise parse.bad(f"{at}memory", "is missing; it is required")
    message = request.memory
    parse.choice(message.type, f"{at}memory.type", memories.TYPE_OF)
    parse.choice(message.source, f"{at}memory.source", memories.SOURCE_OF)
    parse.shallow(message.meta, f"{at}memory.meta")
    for name in ("valid_from", "valid_to"):
        if message.HasField(name):
            parse.time(getattr(message, name), f"{at}memory.{name}")
    if len(message.embedding) % 4:
        raise parse.bad(
            f"{at}memory.embedding",
            f"is {len(message.embedding)} bytes, no multiple of 4; send float32, little endian",
        )
    sent = pb.Memory()
    sent.CopyFrom(message)
    for name in _SET_BY_SERVER:
        sent.ClearField(name)  # type: ignore[arg-type]
    sent.repository = repository(tenant, message.repository, f"{at}memory.repository")
    superseded = id_(request.supersedes, f"{at}supersedes") if request.supersedes else None
    try:
        return entries.check(memories.memory_of(sent), request.request_id, superseded)
    except MemoryInvalid as exc:
        name = "meta" if exc.field == "custom" else exc.field
        exc.field = at + (name if name == "request_id" else f"memory.{name}")
        raise


_SET_BY_SERVER = (
    *("id", "kind", "tokens", "supersede_time", "create_time", "update_time", "version"),
    "superseded_by",
)


def id_(text: str, at: str) -> MemoryId:
    """Raises: InvalidInput."""
    try:
        if len(text) > 64:
            raise ValueError(text)
        return memories.id_of(text)
    except ValueError as exc:
        raise parse.bad(at, f"{text[:60]!r} is no UUID; send an id as the server gave it") from exc


def filter_(tenant: str, message: pb.MemoryFilter, at: str = "filter") -> MemoryFilter:
    """Its repositories qualified. Raises: InvalidInput, ScopeMissing."""
    names = parse.repositories(message.repositories, f"{at}.repositories")
    scope.check_named(names, message.all_repositories, f"{at}.repositories")
    for name in ("tags_any", "tags_all", "kinds"):
        parse.texts(getattr(message, name), f"{at}.{name}")
    parse.text(message.agent_id, f"{at}.agent_id", parse.MAX_NAME_BYTES)
    parse.text(message.session_key, f"{at}.session_key", parse.MAX_NAME_BYTES)
    _choices(message.sources, f"{at}.sources", memories.SOURCE_OF)
    _choices(message.types, f"{at}.types", memories.TYPE_OF)
    share(message.importance_min, f"{at}.importance_min")
    for name in ("created_after", "created_before"):
        if message.HasField(name):  # type: ignore[arg-type]
            parse.time(getattr(message, name), f"{at}.{name}")
    where = memories.filter_of(message)
    after, before = where.created_after, where.created_before
    if after and before and before <= after:
        raise parse.bad(f"{at}.created_before", "is not after created_after; swap them")
    return _scoped(tenant, where, names, at)


def _scoped(tenant: str, where: MemoryFilter, names: tuple[str, ...], at: str) -> MemoryFilter:
    return replace(where, tenant=tenant, repos=scope.names_in(tenant, names, f"{at}.repositories"))


def _choices(numbers: Any, at: str, table: Mapping[int, Any]) -> None:
    if len(numbers) > parse.MAX_LIST:
        raise parse.bad(at, f"has {len(numbers)} entries, more than {parse.MAX_LIST}")
    for i, number in enumerate(numbers):
        if number == 0:
            raise parse.bad(f"{at}[{i}]", "is left unset; name one, or leave the entry out")
        parse.choice(number, f"{at}[{i}]", table)


def share(value: float, at: str) -> float:
    """A number from 0 to 1. Raises: InvalidInput."""
    if not 0.0 <= value <= 1.0:
        raise parse.bad(at, f"is {value}; it must be 0 to 1")
    return value


def vector(data: bytes, at: str) -> npt.NDArray[np.float32] | None:
    """Shape `(n,)`, of unit length; the store compares `n` with the index's. Raises: InvalidInput."""
    if not data:
        return None
    if len(data) % 4 or len(data) > 4 * entries.MAX_DIM:
        raise parse.bad(
            at, f"is {len(data)} bytes; send 1 to {entries.MAX_DIM} float32, little endian"
        )
    values = np.frombuffer(data, "<f4").astype(np.float64)
    length = float(np.linalg.norm(values))
    if not math.isfinite(length) or length == 0.0:
        raise parse.bad(at, "is zero, or holds what is no finite number; leave it out")
    return (values / length).astype(np.float32)


def selector(message: admin_service_pb2.ForgetSelector, at: str = "selector") -> Selector:
    """Raises: InvalidInput, also for an empty one."""
    if len(message.ids) > MAX_IDS:
        raise parse.bad(f"{at}.ids", f"has {len(message.ids)} ids, more than {MAX_IDS}; ask twice")
    for i, text in enumerate(message.ids):
        id_(text, f"{at}.ids[{i}]")
    parse.text(message.agent_id, f"{at}.agent_id", parse.MAX_NAME_BYTES)
    parse.choice(message.source, f"{at}.source", memories.SOURCE_OF)
    for name in ("recorded_from", "recorded_to"):
        if message.HasField(name):
            parse.time(getattr(message, name), f"{at}.{name}")
    out = upkeep.selector_of(message)
    if not out:
        raise parse.bad(at, "is empty; say what to forget by id, source, agent or time")
    if out.recorded_from and out.recorded_to and out.recorded_to <= out.recorded_from:
        raise parse.bad(f"{at}.recorded_to", "is not after recorded_from; swap them")
    return out


def budget(value: int) -> Budget:
    """Raises: InvalidInput."""
    if value == admin_service_pb2.MEMORY_BUDGET_UNSPECIFIED:
        return Budget.STORED
    if value not in BUDGET_OF:
        raise InvalidInput(f"budget {value} is none; use stored or runs", field="budget")
    return BUDGET_OF[value]


def undo_window(request: admin_service_pb2.CompactRequest, default_s: float) -> float:
    """Seconds. Raises: InvalidInput."""
    if not request.HasField("undo_window"):
        return default_s
    try:
        seconds = request.undo_window.ToTimedelta() / timedelta(seconds=1)
    except (OverflowError, ValueError):
        seconds = -1.0
    if not 0 <= seconds <= MAX_UNDO_S:
        raise InvalidInput(
            f"undo_window must be 0 to {MAX_UNDO_S / 86_400:.0f} days", field="undo_window"
        )
    return float(seconds)


def turn(request: pb.LearnRequest) -> Turn:
    """Checked where it is learned. Raises: InvalidInput."""
    parse.text(request.agent_id, "agent_id", parse.MAX_NAME_BYTES)
    parse.text(request.session_key, "session_key", parse.MAX_NAME_BYTES)
    return Turn(
        request.user_message,
        request.assistant_reasoning,
        tuple(
            ToolOutcome(one.tool, one.content, one.command, succeeded=not one.failed)
            for one in request.tool_outcomes
        ),
    )
