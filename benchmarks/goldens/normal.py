"""Answers as text that is the same each time: without the ids, times and durations that a run makes up."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

DIGITS = 6
# What a machine, a clock or chance decides, whatever the code does.
MASKED = frozenset(
    {"took_ms", "elapsed", "secret", "embedding", "link_id", "next_page_token", "segments", "table_files", "log_files", "uptime_s", "pid", "memory_mb"}
)  # fmt: skip
_ID = re.compile(
    r"\b(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32}|key-[0-9a-f]{16})\b"
)
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_MILLISECONDS = re.compile(r"\b1\d{12}\b")  # since 1970, as the graph has times
_AGO = re.compile(r"\bjust now\b|\b(?:\d+|an?) (?:seconds?|minutes?|min|s) ago\b")
_DURATION = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|min|MB|GB|KB|kB|MiB)\b")
_SEGMENTS = re.compile(r"\bsegments: \d+")  # they are merged in the background
HOUR = timedelta(hours=1)


class Normal:
    """One recorded session's names for what it met. `paths`: folders of this run, by what stands for them."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = sorted(paths.items(), key=lambda pair: -len(pair[1]))
        self._ids: dict[str, str] = {}
        self._began = datetime.now(UTC) - HOUR

    def lines(self, answer: Any) -> list[str]:
        """JSON, a line each; `answer` is a message, a list of them, or text."""
        if isinstance(answer, str):
            return self._text(answer).split("\n")
        return json.dumps(self._tree(answer), indent=1, ensure_ascii=False).split("\n")

    def printed(self, text: str) -> list[str]:
        """What a command printed: as JSON where it is, else as text without its durations and sizes."""
        if not text:
            return []
        try:
            return self.lines([json.loads(line) for line in text.splitlines()])
        except ValueError:
            text = _SEGMENTS.sub("segments: N", _DURATION.sub("TIME", self._text(text)))
            return text.split("\n")

    def _tree(self, value: Any, key: str = "") -> Any:
        if key in MASKED:
            return f"<{key}>"
        if isinstance(value, dict):
            return {self._text(k): self._tree(value[k], k) for k in sorted(value)}
        if isinstance(value, list):
            return [self._tree(element) for element in value]
        if isinstance(value, float):
            return round(value, DIGITS)
        if isinstance(value, int) and not isinstance(value, bool):
            text = self._text(str(value))
            return value if text == str(value) else text
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        for name, path in self._paths:
            text = text.replace(path, f"<{name}>")
        text = _ID.sub(lambda m: self._ids.setdefault(m[0], f"<id {len(self._ids) + 1}>"), text)
        text = _MILLISECONDS.sub(self._millisecond, text)
        return _AGO.sub("<ago>", _DAY.sub(self._day, _TIME.sub(self._time, text)))

    def _time(self, match: re.Match[str]) -> str:
        """A time of this run, or days after it; earlier ones stay."""
        try:
            then = datetime.fromisoformat(match[0])
        except ValueError:
            return match[0]
        then = then.replace(tzinfo=UTC) if then.tzinfo is None else then
        return self._since(then) or match[0]

    def _millisecond(self, match: re.Match[str]) -> str:
        return self._since(datetime.fromtimestamp(int(match[0]) / 1e3, UTC)) or match[0]

    def _day(self, match: re.Match[str]) -> str:
        try:
            day = date.fromisoformat(match[0])
        except ValueError:
            return match[0]
        return (
            match[0] if day < self._began.date() else _later((day - datetime.now(UTC).date()).days)
        )

    def _since(self, then: datetime) -> str:
        if then < self._began:
            return ""
        return _later(round((then - datetime.now(UTC)) / timedelta(days=1)))


def _later(days: int) -> str:
    return f"<now +{days} d>" if days > 0 else "<now>"
