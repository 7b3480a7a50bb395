"""The caller's options of a search or a recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal
from uuid import UUID

if TYPE_CHECKING:  # every client loads this module, and few of them a recall's values
    from plait.domain.recall import RecallFormat

When = datetime | str | None  # an instant, words for one (`last Tuesday`), or now


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """`mode`: "full" also asks language models. `fusion` None: the server's setting. `stages_off`: names of
    stages to leave out. `explain`: the scores and ranks of each hit, stage by stage. `why_not`: ids of items;
    the answer says at which stage each was dropped."""

    mode: Literal["fast", "full"] = "fast"
    fusion: Literal["minmax", "rrf"] | None = None
    stages_off: Sequence[str] = ()
    explain: bool = False
    why_not: Sequence[UUID | str] = ()
    valid_as_of: When = None  # what held then
    recorded_as_of: When = None  # what was known then


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions(SearchOptions):
    """How a recall is answered and packed into a budget of tokens."""

    format: RecallFormat | str = "markdown"
    budget_tokens: int = 0  # hard; 0: a tenth of `window_tokens`, else the server's setting
    window_tokens: int = 0  # of the model's context; 0: not given
    prefer_source: bool = False  # rather the source of a few than the locations of many
    tokenizer: str = ""  # the model that will read the context; "": o200k counts
    max_items: int = 0  # 0: the server's setting
    min_score: float | None = None  # 0 to 1; None: the server's setting
    session_key: str = ""  # what this session was shown is not shown again for `cooldown_s`
    cooldown_s: float | None = None  # None: the server's setting; 0: show again
    receipt: bool = True  # stored, so that feedback and replay can name this recall
    with_content: bool = False  # the whole text of each item beside what the context shows


SEARCH_DEFAULTS = SearchOptions()
RECALL_DEFAULTS = RecallOptions()
