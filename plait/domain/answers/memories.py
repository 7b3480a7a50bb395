"""What calls about episodes and memories answer."""

from __future__ import annotations

from dataclasses import dataclass

from plait.domain.answers.search import Degradation
from plait.domain.memory import NOW, AsOf, MemoryEntry, MemoryId, MemoryMatch


@dataclass(frozen=True, slots=True)
class AppendedEpisode:
    """`repeated`: the request id was stored before, and this is the first answer again."""

    episode_id: str
    item_ids: tuple[str, ...]
    repeated: bool
    request_id: str
    masked: int = 0  # credentials that were covered in it


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """`repeated`: the request was stored before. `duplicate`: `entry` had this very text already.
    `similar`: near-duplicates, linked and left as they are."""

    entry: MemoryEntry
    repeated: bool
    duplicate: bool
    similar: tuple[MemoryId, ...]
    request_id: str
    masked: int = 0  # credentials that were covered in it


@dataclass(frozen=True, slots=True)
class Memories:
    """One page, newest first. `next` asks for the next one; empty: this was the last."""

    entries: tuple[MemoryEntry, ...]
    next: str = ""
    as_of: AsOf = NOW


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """Matches best first. `degraded` empty: by words and by meaning."""

    matches: tuple[MemoryMatch, ...]
    degraded: tuple[Degradation, ...]
    as_of: AsOf
    took_ms: float


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool's output in a turn. `command`: its input."""

    tool: str
    content: str = ""
    failed: bool = False
    command: str = ""


@dataclass(frozen=True, slots=True)
class Learned:
    """`skipped_cause`: why nothing was stored; "" otherwise."""

    entries: tuple[MemoryEntry, ...]
    skipped_cause: str
    repeated: bool
    request_id: str
    masked: int = 0  # credentials that were covered in the turn
