"""Indexed repositories and the runs that index them, as callers see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from plait.domain.answers.search import RepositoryRevision


@dataclass(frozen=True, slots=True)
class Repository:
    name: str
    root: str
    revision: RepositoryRevision
    files: int
    published_at: datetime | None


@dataclass(frozen=True, slots=True)
class IndexJob:
    """`state`: queued, running, published, succeeded, failed or cancelled; the last three are final.
    `counts` empty: the run has not ended. `error_reason` empty: it did not fail. `report`: all that
    `plait index --json` prints, as JSON, of a job that was asked for alone and is published."""

    id: str
    repository: str
    path: str
    state: str
    stage: str
    done: int
    total: int
    unit: str
    elapsed_s: float  # 0: it has not begun
    counts: Mapping[str, int] = field(default_factory=dict)
    languages: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    revision: RepositoryRevision | None = None
    error_reason: str = ""
    error_message: str = ""
    error_metadata: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    ended_at: datetime | None = None
    report: str = ""

    @property
    def final(self) -> bool:
        return self.state in ("succeeded", "failed", "cancelled")
