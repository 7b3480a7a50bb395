"""A thread that reads ahead and hands over batches: large ones while the store is busy, small ones at
once while input is slow (an agent that reports line by line). Memory is bounded by items and bytes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from etl.ingest.inputs import ImportResult

MAX_ITEMS = 500  # artifacts of one batch
MAX_BYTES = 16 * 2**20
AHEAD_BYTES = 32 * 2**20  # read ahead of the store


class Feed:
    """`source` read by a thread of its own. An error of the source is raised by `batch`, in its place."""

    def __init__(self, source: Iterator[ImportResult]) -> None:
        self._source = source
        self._ready = threading.Condition()
        self._waiting: deque[tuple[ImportResult, int, int]] = deque()
        self._bytes = self._items = 0
        self._done = self._stopped = False
        self._error: BaseException | None = None
        # A daemon: it may wait for standard input, which never ends, when the command does.
        self._thread = threading.Thread(target=self._run, name="ingest", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for result in self._source:
                items, size = weight(result)
                with self._ready:
                    self._ready.wait_for(self._has_room)
                    if self._stopped:
                        return
                    self._waiting.append((result, items, size))
                    self._items += items
                    self._bytes += size
                    self._ready.notify_all()
        except BaseException as exc:
            self._error = exc
        finally:
            with self._ready:
                self._done = True
                self._ready.notify_all()

    def _has_room(self) -> bool:
        return self._stopped or (self._bytes < AHEAD_BYTES and self._items < 4 * MAX_ITEMS)

    def batch(self) -> list[ImportResult]:
        """All results read so far, at least one; empty at the end. Blocks."""
        with self._ready:
            self._ready.wait_for(lambda: self._waiting or self._done)
            if not self._waiting and self._error is not None:
                raise self._error
            out: list[ImportResult] = []
            items = size = 0
            while self._waiting:
                result, n, cost = self._waiting[0]
                if out and (items + n > MAX_ITEMS or size + cost > MAX_BYTES):
                    break
                self._waiting.popleft()
                out.append(result)
                items, size = items + n, size + cost
                self._items -= n
                self._bytes -= cost
            self._ready.notify_all()
            return out

    def stop(self) -> None:
        with self._ready:
            self._stopped = True
            self._ready.notify_all()


def weight(result: ImportResult) -> tuple[int, int]:
    """`(items, bytes)` of one result; at least one item."""
    episode = result.read.episode
    if episode is None:
        return 1, 100
    size = sum(len(a.content) for a in episode.artifacts) + sum(
        len(e.body) for e in episode.evidence
    )
    return max(1, len(episode.artifacts)), size
