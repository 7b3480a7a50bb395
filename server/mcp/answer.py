"""What a tool answers: the same once as text and once as JSON, both small.

Several agents (Claude Code, Codex, Copilot) give their model the JSON alone where there is one, others the text
alone. So each has to be whole, and neither may be the long one; what only programs want goes into `_meta`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp.types import CallToolResult, TextContent

from plait.domain.display import visible
from plait.domain.errors import PlaitError

MAX_LINE = 160
META = "dev.plait/answer"
_COMMANDS = {
    "`plait search`": "`search`",
    "`ListRepositories`": "`plait repos`",
    "`StartIndex`": "`plait index`",
}
# What an agent can do about what it can't mend itself.
_NEXT = {
    "UNKNOWN_SYMBOL": "",
    "AMBIGUOUS_SYMBOL": "",
    "DEADLINE_EXCEEDED": " Ask again, or for less.",
    "GRAPH_UPDATING": " Ask again in a few seconds.",
    "REPOSITORY_BUSY": " Ask again in a few seconds.",
}
_GO_ON = " Go on without Plait; `plait doctor` tells the user what is wrong."


class Refused(Exception):
    """A call that can't be answered as it is; its text says what to do next."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`lines`, one place each, and the same as `data`. `notes`: what was left out, how fresh it is.
    `meta`: for programs alone."""

    lines: Sequence[str]
    data: Mapping[str, Any]
    notes: Sequence[str] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    def result(self) -> CallToolResult:
        note = "; ".join(note for note in self.notes if note)
        text = "\n".join((*self.lines, f"({note})" if note else "")).strip("\n")
        return CallToolResult(
            content=[TextContent(type="text", text=visible(text))],
            structured_content=_seen({**self.data, **({"note": note} if note else {})}),
            _meta={META: dict(self.meta)} if self.meta else None,
        )


def refused(exc: Refused) -> CallToolResult:
    text = visible(str(exc))
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def failed(exc: PlaitError) -> CallToolResult:
    """What went wrong and what to do next, in the words of the tools."""
    text = exc.message
    for name, instead in _COMMANDS.items():
        text = text.replace(name, instead)
    hint = _NEXT.get(exc.reason, "" if getattr(exc, "fields", None) else _GO_ON)
    text = visible(f"{text.rstrip('.')}.{hint} [{exc.reason}]")
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _seen(value: Any) -> Any:
    """`value` with the texts in it as an agent may read them."""
    match value:
        case str():
            return visible(value)
        case Mapping():
            return {visible(str(key)): _seen(one) for key, one in value.items()}
        case list() | tuple():
            return [_seen(one) for one in value]
    return value


def one_line(text: str, most: int = MAX_LINE) -> str:
    """Text of a repository in one line, without characters that would steer a terminal."""
    text = re.sub(r"\s+", " ", text).strip()
    text = "".join(char if char.isprintable() else "�" for char in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def place(path: str, start: int = 0, end: int = 0) -> str:
    """`path:10-20`, `path:10`, `path`."""
    at = one_line(path, 400)
    if not start:
        return at
    return f"{at}:{start}-{end}" if end > start else f"{at}:{start}"


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
