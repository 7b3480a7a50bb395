"""Sessions of Claude Code as its files have them, made from the runs of `benchmarks/memory_runs.py`.

What a user and an agent say, and commands with what they printed, stand as messages, `tool_use` and
`tool_result` blocks, so that `plait ingest`'s own importer decides what is stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from benchmarks.memory_histories import Entry
from benchmarks.memory_runs import RUNS, runs


@dataclass(frozen=True, slots=True)
class SessionFile:
    name: str
    body: bytes
    ended: datetime


def session_files(n: int, steps: int) -> Iterator[SessionFile]:
    """`n` sessions with at most `steps` steps each; the same for one version of Python."""
    made = 0
    for history in runs(-(-n // RUNS)):
        for name, entries in groupby(history.entries, key=lambda entry: entry.session):
            if made == n:
                return
            made += 1
            kept = list(entries)[:steps]
            yield SessionFile(name, _body(name, kept), kept[-1].at)


def _body(name: str, entries: list[Entry]) -> bytes:
    lines: list[dict[str, Any]] = []
    for number, entry in enumerate(entries):
        last = number == len(entries) - 1
        for kind, message in _messages(entry, f"t{number}", last=last):
            lines.append(
                {
                    "type": kind, "message": {"role": kind, **message}, "cwd": "/home/ana/src/shop",
                    "sessionId": name, "isSidechain": False,
                    "timestamp": entry.at.isoformat().replace("+00:00", "Z"),
                }
            )  # fmt: skip
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def _messages(entry: Entry, call: str, *, last: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    if entry.speaker == "user":
        yield "user", {"content": entry.text}
    elif entry.speaker == "agent":
        said = [{"type": "text", "text": entry.text}]
        yield "assistant", {"content": said, "stop_reason": "end_turn" if last else "tool_use"}
    else:
        command, _, output = entry.text.removeprefix("$ ").partition("\n")
        given = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}
        yield "assistant", {"content": [given], "stop_reason": "tool_use"}
        result = {"type": "tool_result", "tool_use_id": call, "content": output}
        yield "user", {"content": [result]}
