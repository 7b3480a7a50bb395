"""What was sent and what was acknowledged: the writers' own memory, on disk before they go on."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class Kind(StrEnum):
    EPISODE = "episode"
    MEMORY = "memory"
    LEARN = "learn"  # a turn: several memories
    FEEDBACK = "feedback"
    INDEX = "index"  # its request id, too, is the harness's own, and so are those of
    COMPACT = "compact"
    UNDO = "undo"
    DELETE = "delete"  # its request id is the harness's own: closing has none


@dataclass(slots=True)
class Request:
    """One write. `texts`: the contents that it stores, each found nowhere else. `answer`: what the
    acknowledgement said, None until there was one. `group`: sent in one transaction."""

    id: str
    kind: Kind
    repo: str
    texts: tuple[str, ...]
    agent: str = ""
    shape: str = ""  # requests of one shape leave rows of the same numbers behind
    group: str = ""
    closes: str = ""  # entry that it closes
    duplicate_of: str = ""  # id of the request that stored the same text before, alive
    payload: Any = None  # what is sent, to be sent again
    answer: dict[str, Any] | None = None
    forgotten: bool = False

    @property
    def acked(self) -> bool:
        return self.answer is not None


@dataclass(slots=True)
class Counts:
    """What the soak says at its end."""

    sent: int = 0
    acked: int = 0
    failed: int = 0
    repeats: int = 0  # deliveries of a request that was known already
    reuses: int = 0  # deliveries of a known request id with another body, each refused
    errors: dict[str, int] = field(default_factory=dict)  # by reason, as writers saw them


class Ledger:
    """One soak's requests. Lines go to `path`: fsynced before `acked` returns, and when it says so."""

    def __init__(self, path: Path) -> None:
        self._by_repo: dict[str, list[Request]] = {}
        self.counts = Counts()
        self._file = path.open("a", encoding="utf-8")

    def sent(self, *requests: Request) -> None:
        """Before the call: what is to be recognised if no answer comes."""
        for request in requests:
            self._by_repo.setdefault(request.repo, []).append(request)
            self.counts.sent += 1
            body = {"id": request.id, "kind": request.kind, "texts": request.texts}
            self._file.write(json.dumps({"sent": body, "closes": request.closes}) + "\n")

    async def acked(self, *answers: tuple[Request, dict[str, Any]]) -> None:
        """After the answer, before anything else: on disk when this returns."""
        for request, answer in answers:
            if request.answer is None:
                self.counts.acked += 1
            request.answer = answer
            self._file.write(json.dumps({"acked": request.id, "answer": answer}) + "\n")
        await self._durable()

    def failed(self, reason: str) -> None:
        self.counts.failed += 1
        self.counts.errors[reason] = self.counts.errors.get(reason, 0) + 1

    def of(self, repo: str, *, agent: str = "") -> Iterator[Request]:
        """What was sent about a repository, by one agent or by all, in order."""
        for request in self._by_repo.get(repo, ()):
            if not agent or request.agent == agent:
                yield request

    def close(self) -> None:
        self._file.close()

    async def _durable(self) -> None:
        self._file.flush()
        await asyncio.to_thread(os.fsync, self._file.fileno())
