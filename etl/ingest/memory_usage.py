"""What retention keeps of an agent's memory, in words: for `ingest` and `status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plait.domain.answers.status import MemoryUsage
    from plait.domain.retention import Budget

# From this share of a budget on, a note warns of compaction.
NEARLY = 0.8
NAMES = {"stored": "stored memories", "runs": "turns and notes of runs"}
SETTING = {"stored": "memory.budget_tokens", "runs": "memory.run_budget_tokens"}


def notes(
    usage: Mapping[tuple[str, str, Budget], MemoryUsage], repos: frozenset[str]
) -> Iterator[str]:
    """A line for each budget of `repos` of which something was closed, or that is nearly full."""
    for (repo, agent, budget), known in sorted(usage.items()):
        if repo not in repos:
            continue
        whose = f"{repo}, {agent or 'no agent'}"
        if known.closed:
            yield (
                f"{whose}: compaction closed {known.closed:,} {NAMES[budget]}; they are found, below what "
                f"stands for them, until they are forgotten (`{SETTING[budget]}`)"
            )
        if known.budget_tokens and known.tokens >= NEARLY * known.budget_tokens:
            yield (
                f"{whose}: {NAMES[budget]} have {known.tokens:,} of {known.budget_tokens:,} tokens; when they "
                f"are nearly full the least used become summaries (`{SETTING[budget]}`)"
            )
