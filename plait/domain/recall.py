"""Requests, results and feedback of a recall. Frozen values, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType
from uuid import UUID

from plait.domain.scope import DEFAULT_TENANT
from plait.domain.values import Item, ItemId, Outcome

RecallId = NewType("RecallId", UUID)


class Tier(StrEnum):
    """How much of an item a context shows; a packer steps down rather than cut a text mid-way."""

    FULL = "full"
    OUTLINE = "outline"  # signature and first sentence of the doc; of a text its first paragraph
    LINE = "line"  # one line that names it


@dataclass(frozen=True, slots=True)
class StageRank:
    """Where an item stood after one stage: its rank, from 1, and its score then."""

    stage: str
    rank: int
    score: float


class Freshness(StrEnum):
    """The state in the current index of the code that a memory is anchored in, or names in its text."""

    FRESH = "fresh"  # the anchor is there and reads as when the memory was recorded
    DRIFTED = "drifted"  # it is there and has changed since, or one of several has, or is gone
    ORPHANED = "orphaned"  # it is gone, or all of them are
    UNVERIFIABLE = "unverifiable"  # no anchor, or no record of how it read


class AnchorState(StrEnum):
    """How a place in code reads now, against when a memory named it."""

    SAME = "same"  # but for layout and comments
    CHANGED = "changed"
    MOVED = "moved"  # the same, elsewhere
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class NamedAnchor:
    """A place that a memory's text names: a file, or a definition in it. `to`: the path where it is now,
    when that is another."""

    path: str
    symbol: str  # "": the file
    state: AnchorState
    to: str = ""


class Trust(StrEnum):
    """Where an item's claim comes from, the surest first."""

    REPOSITORY = "repository"  # the code itself
    TEST_PASSED = "test-passed"  # a run that its tests proved
    AGENT_CLAIMED = "agent-claimed"  # stated by an agent or a user
    EXTERNAL = "external"  # web pages, tool output, other people's text: quoted data


class RecallFormat(StrEnum):
    MARKDOWN = "markdown"  # `## Relevant Memories` and one bullet an item
    STRUCTURED = "structured"  # items only, the context stays empty
    REPO_MAP = "repo-map"  # files and signatures, indented


@dataclass(frozen=True, slots=True)
class PackingOptions:
    """How a recall is packed. 0, -1 and "" mean "as the settings say"."""

    format: RecallFormat = RecallFormat.MARKDOWN
    budget_tokens: int = 0  # hard; 0: settings, or a tenth of `window_tokens`
    window_tokens: int = 0  # the caller's context window; 0: unknown
    tokenizer: str = ""  # a model's name, whose tokenizer counts; "": o200k
    session_key: str = ""  # what this session was shown is not shown again for `cooldown_s`
    cooldown_s: float = -1.0  # 0: show again
    min_score: float = -1.0  # below it an item is no help
    receipt: bool = True  # keep a receipt, so that feedback and replay can name this recall
    prefer_source: bool = False  # rather the source of a few than the places of many


@dataclass(frozen=True, slots=True)
class RecalledItem:
    """One item of a context. `text`: what the context shows of it, `tokens`: what that takes."""

    item: Item
    score: float  # 0 to 1
    tier: Tier
    text: str
    tokens: int
    reasons: tuple[str, ...]  # why it is here, plain words, the strongest first
    trust: Trust
    freshness: Freshness
    also: tuple[ItemId, ...] = ()  # neighbours that were joined into this piece
    arms: Mapping[str, float] = field(default_factory=dict)
    anchors: tuple[NamedAnchor, ...] = ()  # what its text names in code


@dataclass(frozen=True, slots=True)
class Dropped:
    """Why an item is not in an answer: the stage that dropped it, the rule, and by how much.

    `score` and `bar`: what it had and what it would have needed, on that stage's own scale; NaN where
    the rule is no number."""

    stage: str
    cause: str  # budget, duplicate, threshold, cooldown, filter, items, not-found, …
    score: float = float("nan")
    bar: float = float("nan")
    rank: int = 0  # from 1, before it was dropped; 0: had none


@dataclass(frozen=True, slots=True)
class Omission:
    """A candidate that did not get into the context."""

    id: ItemId
    score: float
    why: Dropped


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Who counted. `exact` False: the model's tokenizer is not public, the count is o200k's, and `margin`
    (a share) of the budget was reserved for the difference."""

    tokenizer: str
    exact: bool
    margin: float = 0.0


@dataclass(frozen=True, slots=True)
class ImpactNode:
    """A symbol or test that a change or a failure reaches. `distance`: calls away, 0 is the thing itself."""

    id: str
    name: str
    path: str
    line: int
    distance: int
    via: str = ""  # the relation or rule that reached it
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class PastEvent:
    """An earlier failure, fix or change on the same symbols."""

    kind: str  # failure, fix, change, issue
    title: str
    at: datetime | None
    item_id: ItemId | None = None
    node: str = ""  # id in the graph
    symbols: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Impact:
    """What a diff or a stack trace reaches. Each list best first and bounded; `truncated` if one was cut."""

    touched: tuple[ImpactNode, ...] = ()
    callers: tuple[ImpactNode, ...] = ()
    tests: tuple[ImpactNode, ...] = ()
    history: tuple[PastEvent, ...] = ()
    truncated: bool = False

    def __bool__(self) -> bool:
        return bool(self.touched or self.callers or self.tests or self.history)


@dataclass(frozen=True, slots=True)
class Block:
    """The packed context. `silence`: why nothing is in it, "" if something is."""

    context: str
    items: tuple[RecalledItem, ...]
    omitted: tuple[Omission, ...]
    tokens: int  # of `context`, never over `budget`
    budget: int
    counted: TokenCount
    silence: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The stored result of a recall, so that feedback can be attributed and the result replayed.

    `request`: the request as JSON (see `plait.retrieval.receipt`). `shown`: the session's items that its
    cool-down left out then. `digest`: 16-byte BLAKE2b of the context and the item ids."""

    id: RecallId
    tenant: str
    repos: tuple[str, ...]  # qualified
    session_key: str
    agent_id: str
    request: Mapping[str, Any]
    revisions: Mapping[str, int]  # by qualified repository
    at: datetime  # valid and recorded time the answer is of
    items: tuple[tuple[ItemId, float], ...]  # with their scores, best first
    shown: tuple[ItemId, ...] = ()
    tokens: int = 0
    digest: bytes = b""
    complete: bool = True  # False: a part was degraded, or something written meanwhile
    repo_ids: tuple[int, ...] = ()  # of `repos`, as the stores number them


class Verdict(StrEnum):
    HELPED = "helped"
    HARMED = "harmed"
    UNUSED = "unused"


@dataclass(frozen=True, slots=True)
class ItemVerdict:
    item_id: ItemId
    verdict: Verdict
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Feedback:
    """What became of a recall. `proof`: names of the tests or the CI job behind `outcome`."""

    request_id: str
    body_hash: bytes
    recall_id: RecallId
    verdicts: Sequence[ItemVerdict] = ()
    outcome: Outcome | None = None
    proof: tuple[str, ...] = ()
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class FeedbackReceipt:
    accepted: int
    unknown: tuple[ItemId, ...] = ()  # were not part of the recall
    attributed: int = 0  # items that the outcome alone was attributed to
    links: int = 0  # VALIDATED_BY links written
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """Feedback on one item so far: decayed sums of attributed weight, never negative."""

    helped: float = 0.0
    harmed: float = 0.0


@dataclass(frozen=True, slots=True)
class Share:
    """One report on one item. `named`: by a verdict on it, else its part of the outcome."""

    item_id: ItemId
    helped: float = 0.0
    harmed: float = 0.0
    named: bool = False
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Attribution:
    shares: tuple[Share, ...]
    accepted: int  # verdicts
    unknown: tuple[ItemId, ...]
    attributed: int  # items that the outcome alone was attributed to
