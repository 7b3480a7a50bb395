"""Answers to searches of code, kept as long as their code's version stays the same.

A search of code depends on its request, on the settings of this process, and on the code that its repositories have
published: nothing in it depends on the time or on what agents wrote. So an equal request is given the bytes of the
earlier answer, once the store has said that the code has the same version.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass

# What an entry takes besides its bytes: two objects, a place in a table.
ENTRY_BYTES = 400


@dataclass(frozen=True, slots=True)
class Answer:
    """`version`: of the code that the answer was read from; `message`: a serialised SearchResponse."""

    version: str
    message: bytes


class Answers:
    """The most recently used answers, `most_bytes` of them with their requests; 0 keeps none."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[tuple[str, bytes], Answer] = OrderedDict()
        self.bytes = 0
        self.used_at = 0.0  # `time.monotonic()` of the last answer that was kept or given

    def get(self, key: tuple[str, bytes]) -> Answer | None:
        """The answer to `key` (a tenant and its request); whether it still holds is the caller's to ask."""
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
            self.used_at = time.monotonic()
        return found

    def put(self, key: tuple[str, bytes], answer: Answer) -> None:
        """Keep `answer`; one that is larger than a quarter of all would push out too many others."""
        self.drop(key)
        size = _size(key, answer)
        if size > self._most_bytes // 4:
            return
        self._held[key] = answer
        self.bytes += size
        self.used_at = time.monotonic()
        while self.bytes > self._most_bytes:
            self.bytes -= _size(*self._held.popitem(last=False))

    def drop(self, key: tuple[str, bytes]) -> None:
        """Keep the answer to `key` no longer."""
        if (old := self._held.pop(key, None)) is not None:
            self.bytes -= _size(key, old)

    def clear(self) -> None:
        """Keep none."""
        self._held.clear()
        self.bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether any is kept, for what closes things while nobody calls."""
        return bool(self._held)

    async def close(self) -> None:
        self.clear()


def _size(key: tuple[str, bytes], answer: Answer) -> int:
    return len(key[0]) + len(key[1]) + len(answer.version) + len(answer.message) + ENTRY_BYTES
