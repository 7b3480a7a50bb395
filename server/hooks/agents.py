"""The agents that have hooks: how each takes a text into its session, and whose tokens it counts.

Their inputs are alike enough for one reader (`server/hooks/payload.py`). An event that an agent has no way
to take a text from gets no answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Event(StrEnum):
    """What `plait hook` is called for."""

    SESSION_START = "session-start"
    AFTER_EDIT = "after-edit"
    BEFORE_SEARCH = "before-search"
    SESSION_END = "session-end"


@dataclass(frozen=True, slots=True)
class Agent:
    """`takes`: the agent's own events that take a text into the session, the usual one of each of ours
    first. `flat`: it takes `additional_context`, not `hookSpecificOutput`. `transcripts`: the format of
    its transcripts; "": none that can be imported."""

    name: str
    tokenizer: str
    takes: Mapping[Event, tuple[str, ...]]
    flat: bool = False
    transcripts: str = ""

    def answer(self, event: Event, native: str, text: str) -> str:
        """`text` as JSON for this agent's `native` event ("": the usual one); "" where it takes none."""
        known = self.takes.get(event, ())
        if not text or not known or native not in ("", *known):
            return ""
        if self.flat:
            return json.dumps({"additional_context": text})
        output = {"hookEventName": native or known[0], "additionalContext": text}
        return json.dumps({"hookSpecificOutput": output})


_CLAUDE = {
    Event.SESSION_START: ("SessionStart",),
    Event.AFTER_EDIT: ("PostToolUse",),
    Event.BEFORE_SEARCH: ("PreToolUse", "PostToolUse"),
}
# Before a tool, Gemini CLI and Cursor take decisions alone: what a search finds is told after it.
_GEMINI = {
    Event.SESSION_START: ("SessionStart",),
    Event.AFTER_EDIT: ("AfterTool",),
    Event.BEFORE_SEARCH: ("AfterTool",),
}
_CURSOR = {
    Event.SESSION_START: ("sessionStart",),
    Event.AFTER_EDIT: ("postToolUse",),
    Event.BEFORE_SEARCH: ("postToolUse",),
}

AGENTS: Mapping[str, Agent] = {
    agent.name: agent
    for agent in (
        Agent("claude-code", "claude", _CLAUDE, transcripts="claude-code"),
        Agent("codex", "codex", _CLAUDE),
        Agent("gemini-cli", "gemini", _GEMINI),
        Agent("cursor", "", _CURSOR, flat=True),
    )
}
_ALIASES = {"claude": "claude-code", "codex-cli": "codex", "gemini": "gemini-cli"}


def agent_of(name: str) -> Agent | None:
    return AGENTS.get(_ALIASES.get(name, name))
