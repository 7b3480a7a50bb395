"""What of a run stands before each of its items where they are indexed and embedded.

"$ python --version" says nothing of what it was asked for; what the run came to does. The outcome's summary, and not
the user's first words, since a turn can be forgotten and must then be nowhere else (docs/retention.md).
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
