"""Log lines on standard error: time, level, event, and its fields as key=value."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

_STANDARD = set(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime"}


class Fields(logging.Formatter):
    """`2026-11-22T09:30:00 INFO server.grpc.boundary rpc method=… took_ms=…`; values JSON where needed."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")
        self._second, self._text = -1, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802  (logging's name)
        second = int(record.created)
        if second != self._second:  # many lines a second
            self._second = second
            self._text = time.strftime(self.default_time_format, self.converter(second))
        return f"{self._text},{int(record.msecs):03d}"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's name)
        fields = {k: v for k, v in record.__dict__.items() if k not in _STANDARD}
        text = super().formatMessage(record)
        return " ".join([text, *(f"{key}={_value(value)}" for key, value in fields.items())])


def _value(value: Any) -> str:
    text = str(value)
    # Quoted, so that text from outside can't make a line of its own.
    return text if text.isascii() and text.isprintable() and " " not in text else json.dumps(text)


def to_stderr(*, verbose: bool) -> None:
    """INFO and above of Plait's own rooms, WARNING of all others; DEBUG of our own when `verbose`."""
    # What no line of ours shows, and each record would look up: 10 µs of a call's one line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Fields())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for room in ("plait", "vector", "graph", "etl", "server"):
        logging.getLogger(room).setLevel(logging.DEBUG if verbose else logging.INFO)
