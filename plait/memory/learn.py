"""Learn: take one turn of a conversation in, keep what is worth it, and nothing twice."""

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
class _Asked:
    request_id: str
    body_hash: bytes


async def learn(store: MemoryStore, scope: Scope, turn: Turn, request_id: str = "") -> TurnReceipt:
    """What the turn led to, and in `note` why to nothing. Exactly once a request id; without one, once
    a turn of equal words in the scope, for as long as something it led to is alive.

    Raises: MemoryInvalid, RequestIdReused.
    """
    check_turn(turn)
    asked = _asked(scope, turn, request_id)
    known = await store.turn(scope.tenant, asked.request_id, asked.body_hash)
    if known is not None:
        return known
    repo = scope.repository
    entries, note = memories(repo, scope.agent_id, scope.session_key, turn)
    entries = [check(entry).entry for entry in entries]
    if entries:
        said = list(dict.fromkeys(p for e in entries for p in paragraphs(e.content)))
        said = said[:MAX_LOOKED_UP]
        where = Scope(scope.tenant, scope.repo, scope.agent_id)
        there = await store.recalled(where, said)
        repeated = {part for part, is_there in zip(said, there, strict=True) if is_there}
        entries = [check(e).entry for e in without_paragraphs(entries, repeated)]
        note = note if entries else RECALLED
    return await store.store_turn(
        scope.tenant, repo, asked.request_id, asked.body_hash, entries, note
    )


def _asked(scope: Scope, turn: Turn, request_id: str) -> _Asked:
    place = canonical([scope.repository, scope.agent_id, scope.session_key])
    body_hash = hashlib.blake2b(place + body_of(turn), digest_size=32).digest()
    return _Asked(check_request_id(request_id, body_hash), body_hash)
