"""What one index run knows, from the walk to the report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from etl.facts import FileFacts
from etl.kept import KeptRepository
from etl.parsing.pool import Job
from etl.source.walk import Walk
from plait.ports import IndexStore, Outbox, RepositoryStore, StoredFile, VectorQueue
from plait.secrets.rules import Rules

FEW_FILES = 50  # that one warm worker parses sooner than new ones start
MOST_REMEMBERED = (
    10_000  # contents that timed out, and files that could not be read, of one repository
)


class Truth(Protocol):
    """What indexing needs of the truth store."""

    @property
    def index(self) -> IndexStore: ...
    @property
    def repositories(self) -> RepositoryStore: ...
    @property
    def vectors(self) -> VectorQueue: ...
    @property
    def outbox(self) -> Outbox: ...


@dataclass(slots=True)
class Run:
    """The counts of one run as they grow. Values leave it as `IndexReport`."""

    walk: Walk
    jobs: dict[str, Job]
    rules: Rules  # of secrets
    phases: dict[str, float] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unparsed: list[tuple[str, str]] = field(default_factory=list)
    hashes: dict[str, bytes] = field(default_factory=dict)
    facts: dict[str, FileFacts] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    symbols: int = 0
    rows: dict[str, StoredFile] = field(default_factory=dict)  # of what was read
    parsed: int = 0
    restored: int = 0  # files whose content was stored already
    removed: int = 0
    syntax_errors: int = 0
    masked: list[tuple[str, int]] = field(default_factory=list)
    chunks_written: int = 0
    nodes: int = 0
    timed_out: dict[str, float] = field(default_factory=dict)
    edges: Counter[str] = field(default_factory=Counter)
    unresolved: Counter[str] = field(default_factory=Counter)
    kept: KeptRepository | None = None  # what this run may take up, and leaves for the next
    touched: frozenset[str] | None = None  # see `IndexRequest`; None unless `kept` holds the base

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - start
