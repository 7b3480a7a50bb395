"""What look-ups cost while a transcript is read: how often a model call was sent each of them.

Counts are o200k_base tokens: of the call as written (its input's JSON) and of its full result, not only of
the part that an artifact stores. Both are paid when they enter the context (the input when the model
writes it, the result with the first call that is sent it) and again at each later call, until the context
is summarised. What no call is sent costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from plait.domain import savings
from plait.domain.savings import MAX_COUNT, Looked
from plait.text import token_count

MAX_WAITING = 1_000  # look-ups without a result yet
MAX_RESULTS = 20_000  # results whose clearing can be recorded
MAX_WINDOWS = 1_000  # contexts of one transcript: subagents have their own
# The lines of one message stand near each other; a message seen before these counts as a new call.
RECENT = 16
# A step's growth by usage is not that of its texts beyond these: reminders, pictures, tool lists.
GROWTH = (0.5, 3.0)
_OPENAI = ("prompt_tokens",)
_ANTHROPIC = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(slots=True)
class Counts:
    """Of the episode that is being read; integers that only grow."""

    values: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, n: int) -> None:
        self.values[name] = min(MAX_COUNT, self.values.get(name, 0) + n)

    def take(self) -> dict[str, float]:
        """The episode's metrics; counting goes on from nothing."""
        found, self.values = self.values, {}
        return {
            savings.VERSION_METRIC: float(savings.VERSION),
            savings.CALLS: 0.0,
            **{name: float(n) for name, n in found.items() if n},
        }


class Window:
    """One context of a model, from its beginning or from where the transcript has it."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._live: dict[Looked, int] = {}  # sent again at the next call
        self._fresh: dict[Looked, int] = {}  # sent for the first time at the next call
        self._pushed: dict[Looked, int] = {}  # how many of these a program pushed
        self._waiting: dict[str, Looked] = {}  # by the call's id
        self._results: dict[str, tuple[Looked, int]] = {}  # the same, of what can be cleared
        self._calls: deque[str] = deque(maxlen=RECENT)
        self._summarised = False  # since the last call
        self._sent: int | None = None  # by usage, at the last call
        self._grown = 0  # counted tokens since then
        self._measurable = False

    def call(self, id_: str = "", usage: object = None) -> None:
        """A model call, once for the several lines that a transcript may have of it."""
        if id_ and id_ in self._calls:
            return
        self._calls.append(id_)
        self._summarised = False
        self._counts.add(savings.CALLS, 1)
        for kind in Looked:
            fresh = self._fresh.pop(kind, 0)
            self._counts.add(savings.metric(kind, "answers"), self._pushed.pop(kind, 0))
            self._counts.add(savings.metric(kind, "again"), self._live.get(kind, 0))
            self._counts.add(savings.metric(kind, "tokens"), fresh)
            self._live[kind] = self._live.get(kind, 0) + fresh
        self._measure(sent_tokens(usage))

    def _measure(self, sent: int | None) -> None:
        if sent is not None:
            self._counts.add(savings.SENT, sent)
            self._counts.add(savings.SENT_CALLS, 1)
        if sent is not None and self._sent is not None and self._measurable and self._grown:
            grown = sent - self._sent
            if GROWTH[0] * self._grown <= grown <= GROWTH[1] * self._grown:
                self._counts.add(savings.GROWN, grown)
                self._counts.add(savings.GROWN_COUNTED, self._grown)
        self._sent, self._grown, self._measurable = sent, 0, True

    def wrote(self, text: str) -> None:
        """The model wrote a message."""
        self._grow(text)

    def tool_called(self, id_: str, written: str, kind: Looked | None) -> None:
        """The model called a tool; `written` is its input."""
        if kind is None:
            self._grow(written)
            return
        n = token_count.count(written)
        self._grown += n
        self._counts.add(savings.metric(kind, "answers"), 1)
        self._counts.add(savings.metric(kind, "tokens"), n)
        self._live[kind] = self._live.get(kind, 0) + n
        if id_ and len(self._waiting) < MAX_WAITING:
            self._waiting[id_] = kind

    def tool_returned(self, id_: str, text: str) -> None:
        """A tool's result entered the context."""
        kind = self._waiting.pop(id_, None)
        if kind is None:
            self._grow(text)
            return
        n = self._enter(kind, text)
        if len(self._results) < MAX_RESULTS:
            self._results[id_] = (kind, n)

    def pushed(self, text: str, kind: Looked) -> None:
        """A program put an answer of this kind into the context, without being asked."""
        self._pushed[kind] = self._pushed.get(kind, 0) + 1
        self._enter(kind, text)

    def text_added(self, text: str) -> None:
        """Any other text entered the context."""
        self._grow(text)

    def _enter(self, kind: Looked, text: str) -> int:
        n = token_count.count(text)
        self._grown += n
        self._fresh[kind] = self._fresh.get(kind, 0) + n
        return n

    def _grow(self, text: str) -> None:
        if self._sent is not None and self._measurable:
            self._grown += token_count.count(text)

    def unmeasured(self) -> None:
        """Something entered that has no text in the transcript: a thought, a picture."""
        self._measurable = False

    def summarised(self) -> None:
        """A summary replaced the context. A second report before the next call changes nothing."""
        if not self._summarised:
            self._live.clear()
            self._fresh.clear()
            self._pushed.clear()
            self._results.clear()
        self._summarised = True
        self._sent, self._measurable = None, False

    def cleared(self, ids: Collection[object]) -> None:
        """Results of these calls were taken out of the context."""
        self._measurable = False
        for id_ in ids:
            kind, n = self._results.pop(id_, (None, 0)) if isinstance(id_, str) else (None, 0)
            if kind is None:
                continue
            sent = min(n, self._live.get(kind, 0))
            self._live[kind] = self._live.get(kind, 0) - sent
            self._fresh[kind] = max(0, self._fresh.get(kind, 0) - (n - sent))


class Payments:
    """The windows of one transcript, and what their look-ups cost since the last `take`."""

    def __init__(self) -> None:
        self._counts = Counts()
        self._windows: dict[str, Window] = {}

    def window(self, name: str = "", *, anew: bool = False) -> Window:
        """The context called `name`, "" the main one; `anew`: one that begins here."""
        if name not in self._windows and len(self._windows) >= MAX_WINDOWS:
            name, anew = "rest", False
        if anew or name not in self._windows:
            self._windows[name] = Window(self._counts)
        return self._windows[name]

    def take(self) -> dict[str, float]:
        return self._counts.take()


def sent_tokens(usage: object) -> int | None:
    """What a call was sent by its `usage`, cached or not; None where that is missing or impossible.
    OpenAI's form has it in one number, Anthropic's in three."""
    if not isinstance(usage, Mapping):
        return None
    total = 0
    for name in _OPENAI if "prompt_tokens" in usage else _ANTHROPIC:
        n = usage.get(name, 0)
        n = 0 if n is None else n
        if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n < 10**9:
            return None
        total += n
    return total or None
