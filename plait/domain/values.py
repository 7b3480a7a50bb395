"""The values that travel between rooms: code, chunks, hits, episodes. Frozen, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, NewType
from uuid import UUID

from plait.domain.memory import NOW, AsOf, MemorySource, MemoryType
from plait.domain.scope import DEFAULT_TENANT

ItemId = NewType("ItemId", UUID)
MAX_DIFF_HEAD = 12_000  # characters before the first hunk; a path may take 4,096 bytes, three times


class Collection(StrEnum):
    """The collections; each is a PostgreSQL table of the same name."""

    FILES = "files"
    DIFFS = "diffs"
    PLANS = "plans"
    REFLECTIONS = "reflections"
    TESTS = "tests"
    MEMORIES = "memories"  # notes and turns


@dataclass(frozen=True, slots=True)
class Revision:
    """What a repository's readers see. `number` grows by one a published index run."""

    repo_id: int
    repo: str
    number: int  # 0: nothing published yet
    root: str = ""
    files: int = 0
    chunks: int = 0
    embedded: int = 0  # chunks of this revision that have a vector
    graph_number: int = 0  # the revision the graph shows
    published_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a repository's text, as search returns it.

    `start_line`/`end_line` are 1-based and inclusive. `content_hash` is the 16-byte BLAKE2b digest of
    the text that is embedded; equal hashes share a vector.
    """

    id: ItemId
    path: str
    symbol: str  # qualified name inside the repository; "" for text outside any symbol
    kind: str  # function, method, class, module, doc, config, text …
    language: str
    start_line: int
    end_line: int
    content: str
    content_hash: bytes
    is_test: bool = False


def embedded_text(path: str, symbol: str, content: str, context: str = "") -> str:
    """What of a chunk is embedded, and hashed into `content_hash`: `path qualified.name`, newline, source.
    `context`: what its run came to, a line before the content of an item of an episode. A diff of `path`
    begins with its first hunk: its head says the path four times, and so outweighs what it changes."""
    if path and content.startswith("diff --git "):
        content = _without_head(path, content)
    if context:
        content = f"{context}\n{content}"
    return f"{path} {symbol}\n{content}" if symbol else f"{path}\n{content}"


def _without_head(path: str, diff: str) -> str:
    head, at, _ = diff.partition("\n@@ ")
    one = at and len(head) < MAX_DIFF_HEAD and head.count("diff --git ") == 1 and path in head
    return diff[len(head) + 1 :] if one else diff


@dataclass(frozen=True, slots=True)
class Filter:
    """What a search may return. Empty fields do not restrict. Globs use `*`, `**`, `?` on paths."""

    repos: tuple[str, ...] = ()
    collections: tuple[Collection, ...] = (Collection.FILES,)
    kinds: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    path_glob: str = ""
    tags_any: tuple[str, ...] = ()
    tags_all: tuple[str, ...] = ()
    since: datetime | None = None  # inclusive
    until: datetime | None = None  # exclusive
    agent_id: str = ""
    session_key: str = ""
    tenant: str = DEFAULT_TENANT  # the outermost wall; `repos` are qualified names inside it
    as_of: AsOf = NOW
    all_repos: bool = False  # "every repository of the tenant" out loud; doors refuse neither
    skip_unknown: bool = False  # a named repository that is not there has nothing, and is no error
    # What only agents' items have:
    sources: tuple[MemorySource, ...] = ()
    types: tuple[MemoryType, ...] = ()
    importance_min: float = 0.0
    created_after: datetime | None = None  # inclusive; of the entry, `since` is of what it is about
    created_before: datetime | None = None  # exclusive


class Candidate(NamedTuple):
    """One arm's opinion of one item: larger scores are better; scales differ between arms. A tuple, because a search
    makes hundreds: 0.2 µs each, a frozen dataclass takes 0.6."""

    id: ItemId
    score: float


@dataclass(frozen=True, slots=True)
class Item:
    """A stored item of any collection, as `fetch` returns it."""

    id: ItemId
    collection: Collection
    repo: str
    kind: str
    path: str
    symbol: str
    language: str
    start_line: int
    end_line: int
    content: str
    ts: datetime
    meta: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    is_test: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked item. `score` is in [0, 1] after fusion; `arms` has each arm's raw score."""

    item: Item
    score: float
    arms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Timing:
    stage: str
    took_ms: float


class ArtifactKind(StrEnum):
    """What an episode may carry; each goes to the collection `memory.episode` names."""

    PLAN = "plan"
    DIFF = "diff"
    REFLECTION = "reflection"
    TEST_RESULT = "test_result"
    NOTE = "note"
    TURN = "turn"  # one message or step of a conversation


@dataclass(frozen=True, slots=True)
class Artifact:
    kind: ArtifactKind
    content: str
    path: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The unchanged source of an episode: a transcript, a report. Stored, never ranked."""

    name: str
    media_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    status: str  # success | failure | partial | unknown
    summary: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    commit: str = ""
    branch: str = ""


@dataclass(frozen=True, slots=True)
class Episode:
    """One agent run. `request_id` makes a repeat harmless; `body_hash` distinguishes a repeat from a reuse."""

    request_id: str
    repo: str
    outcome: Outcome
    artifacts: Sequence[Artifact]
    agent_id: str = ""
    session_key: str = ""
    tags: tuple[str, ...] = ()
    started_at: datetime | None = None
    body_hash: bytes = b""
    evidence: tuple[Evidence, ...] = ()
    tenant: str = DEFAULT_TENANT  # `repo` is the qualified name inside the stores


@dataclass(frozen=True, slots=True)
class EpisodeReceipt:
    """The answer to AppendEpisode; a repeated request gets the same one."""

    episode_id: UUID
    item_ids: tuple[ItemId, ...]
    repeated: bool  # True: this request_id was stored before, nothing was written now
