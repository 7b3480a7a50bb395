"""A deadline on the monotonic clock, handed down so that every layer knows what time is left."""

from __future__ import annotations

import time
from dataclasses import dataclass

from plait.domain.errors import DeadlineExceeded


@dataclass(frozen=True, slots=True)
class Deadline:
    """`at`: seconds of `time.monotonic()`. `limit_s`: what the caller was given, for messages."""

    at: float
    limit_s: float

    @classmethod
    def after(cls, limit_s: float) -> Deadline:
        return cls(time.monotonic() + limit_s, limit_s)

    @property
    def left_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    def check(self, what: str) -> None:
        """Raises: DeadlineExceeded, when no time is left for `what`."""
        if self.left_s <= 0.0:
            raise DeadlineExceeded(what, self.limit_s)
