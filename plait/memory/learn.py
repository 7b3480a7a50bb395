"""Learn: read one turn of a conversation and store what is worth it, nothing twice."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from plait.domain.memory import TurnReceipt
from plait.domain.scope import Scope
from plait.memory.entry import canonical, check, check_request_id
from plait.memory.recalled import paragraphs
from plait.memory.turn import (
    RECALLED,
    ToolOutcome,
    Turn,
    body_of,
    check_turn,
    memories,
    without_paragraphs,
)
from plait.ports import MemoryStore

__all__ = ["ToolOutcome", "Turn", "learn"]

# Paragraphs looked up a turn; of a longer one the rest is stored as it is.
MAX_LOOKED_UP = 500


@dataclass(frozen=True, slots=True)
class _RequestKey:
    request_id: str
    body_hash: bytes


async def learn(store: MemoryStore, scope: Scope, turn: Turn, request_id: str = "") -> TurnReceipt:
    """The memories made of the turn; `note` explains an empty result. Runs once per request id; without
    one, once per turn of equal text in the scope, as long as a memory made of it is alive.

    Raises: MemoryInvalid, RequestIdReused.
    """
    check_turn(turn)
    key = _request_key(scope, turn, request_id)
    known = await store.turn(scope.tenant, key.request_id, key.body_hash)
    if known is not None:
        return known
    repo = scope.repository
    entries, note = memories(repo, scope.agent_id, scope.session_key, turn)
    entries = [check(entry).entry for entry in entries]
    if entries:
        parts = list(dict.fromkeys(p for e in entries for p in paragraphs(e.content)))
        parts = parts[:MAX_LOOKED_UP]
        where = Scope(scope.tenant, scope.repo, scope.agent_id)
        there = await store.recalled(where, parts)
        repeated = {part for part, is_there in zip(parts, there, strict=True) if is_there}
        entries = [check(e).entry for e in without_paragraphs(entries, repeated)]
        note = note if entries else RECALLED
    return await store.store_turn(scope.tenant, repo, key.request_id, key.body_hash, entries, note)


def _request_key(scope: Scope, turn: Turn, request_id: str) -> _RequestKey:
    place = canonical([scope.repository, scope.agent_id, scope.session_key])
    body_hash = hashlib.blake2b(place + body_of(turn), digest_size=32).digest()
    return _RequestKey(check_request_id(request_id, body_hash), body_hash)
