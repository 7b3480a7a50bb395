"""The context of a run that precedes each of its items when they are indexed and embedded.

"$ python --version" does not show its purpose; the result of the run does. It is the outcome's summary, not
the user's first message, since a turn can be forgotten and must then be nowhere else (docs/retention.md).
"""

from __future__ import annotations

# A model reads 256 tokens of a text: a quarter of them.
MAX_CONTEXT = 200  # characters


def context(summary: str) -> str:
    """The beginning of `summary` in one line, cut between words."""
    line = " ".join(summary[: 4 * MAX_CONTEXT].split())
    if len(line) <= MAX_CONTEXT:
        return line
    head, _, _ = line[: MAX_CONTEXT + 1].rpartition(" ")
    return head or line[:MAX_CONTEXT]
