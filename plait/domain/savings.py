"""What answers and look-ups cost a session in tokens: counts as they are stored, and the report on them.

A model call is sent its whole context again, so what enters a context is paid once when it enters and
once more at every later call that is sent it. docs/savings.md has the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

VERSION = 1  # of how importers count; other versions' counts are not added to these
MAX_COUNT = 10**13  # of one stored number, and of a session's sum: ten thousand fit 64 bits
MAX_SESSIONS = 10_000  # that are summed up at once


class Looked(StrEnum):
    """Whose text it is that a look-up brought into a context."""

    PLAIT = "plait"  # an answer of Plait's: MCP tool, command, hook
    SEARCH = "search"  # found without it: grep, glob, `rg`, `find`, `ls`
    READ = "read"  # read without it: the Read tool, `cat`, `sed -n`


# Of an episode's metrics (`Outcome.metrics`), where importers put the counts.
VERSION_METRIC = "context_version"
CALLS = "context_calls"
SENT, SENT_CALLS = "context_sent", "context_sent_calls"
GROWN, GROWN_COUNTED = "context_grown", "context_grown_counted"


def metric(kind: Looked, what: str) -> str:
    """`what`: answers, tokens or again."""
    return f"context_{kind}_{what}"


PAID = tuple(metric(kind, what) for kind in Looked for what in ("answers", "tokens", "again"))
METRICS = (CALLS, SENT, SENT_CALLS, GROWN, GROWN_COUNTED, *PAID)


class Basis(StrEnum):
    """How the tokens of a session are known."""

    USAGE = "usage"  # counted, and scaled to the usage that the agent's program recorded
    COUNTED = "counted"  # o200k_base tokens of the transcript's texts
    RECEIPTS = "receipts"  # no transcript: only what Plait answered is known
    NOT_COUNTED = "not_counted"  # its transcript was imported before importers counted


@dataclass(frozen=True, slots=True)
class Paid:
    """`tokens` entered the context in `answers` pieces and were paid once; `again`: at later calls."""

    answers: int = 0
    tokens: int = 0
    again: int = 0

    @property
    def total(self) -> int:
        return self.tokens + self.again

    def __add__(self, other: Paid) -> Paid:
        return Paid(
            self.answers + other.answers, self.tokens + other.tokens, self.again + other.again
        )


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """One session of one repository as the store sums it up.

    `episodes`: of its transcripts, `not_counted` of them by another version or with impossible numbers.
    `sent`: tokens of `sent_calls` model calls by the agent's own usage. `grown`, `grown_counted`: by how
    much the context grew where that is known from both, in usage's tokens and in counted ones.
    `receipts`: recalls under this session's key, or of no session that is known, `receipt_tokens` theirs.
    """

    repo: str
    session_key: str
    agent_id: str = ""
    began: datetime | None = None
    ended: datetime | None = None
    status: str = "unknown"
    episodes: int = 0
    not_counted: int = 0
    edited_files: int = 0
    calls: int = 0
    plait: Paid = Paid()
    searched: Paid = Paid()
    read: Paid = Paid()
    sent: int = 0
    sent_calls: int = 0
    grown: int = 0
    grown_counted: int = 0
    receipts: int = 0
    receipt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class SessionSavings:
    """One session as it is reported. `factor`: what counted tokens were multiplied by (1 but for
    `Basis.USAGE`). `again_known`: false where Plait's answers are known by receipts alone. `sent`: all
    tokens that its calls were sent, by the agent's own usage; 0 where some call has none."""

    repo: str
    session_key: str
    agent_id: str
    began: datetime | None
    ended: datetime | None
    status: str
    basis: Basis
    factor: float
    calls: int
    plait: Paid
    again_known: bool
    searched: Paid
    read: Paid
    edited_files: int
    sent: int

    @property
    def explored(self) -> Paid:
        """Searched and read without Plait."""
        return self.searched + self.read

    @property
    def counted(self) -> bool:
        return self.basis in (Basis.USAGE, Basis.COUNTED)

    @property
    def with_plait(self) -> bool:
        return self.plait.answers > 0


@dataclass(frozen=True, slots=True)
class Totals:
    """Over all requested sessions. `sent`, and Plait's and the look-ups' part of it: over the sessions
    whose usage has both."""

    sessions: int = 0
    not_counted: int = 0
    receipts_only: int = 0
    plait: Paid = Paid()
    searched: Paid = Paid()
    read: Paid = Paid()
    edited_files: int = 0
    sent: int = 0
    sent_sessions: int = 0
    sent_plait: int = 0
    sent_explored: int = 0

    @property
    def explored(self) -> Paid:
        return self.searched + self.read


@dataclass(frozen=True, slots=True)
class Side:
    """Counted sessions with Plait, or without. Medians of tokens, paid again included: what a session
    searched and read, that by edited file over the `editing` sessions that edited one, what Plait's
    answers cost, and both `together` (the median of sums, which no sum of medians is)."""

    sessions: int = 0
    editing: int = 0
    explored: float = 0.0
    explored_per_file: float = 0.0
    plait: float = 0.0
    together: float = 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sessions of one repository with Plait beside those without. `saved`: tokens a session, an
    estimate that may be negative; None where a side has fewer than `min_sessions`."""

    repo: str
    with_plait: Side
    without: Side
    saved: float | None = None
    min_sessions: int = 0


@dataclass(frozen=True, slots=True)
class Savings:
    """`sessions`: the newest ones, newest first; `total` and `comparisons` are of all that were
    requested. `cut`: there were more than the store sums up, and the oldest are left out of everything."""

    sessions: tuple[SessionSavings, ...]
    total: Totals
    comparisons: tuple[Comparison, ...]
    cut: bool = False
