"""The primary store: the symbols that a diff changes, and past events on code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from plait.domain.recall import PastEvent
from plait.domain.values import ItemId
from plait.ports.search import View


@dataclass(frozen=True, slots=True)
class Changed:
    """A symbol that hunks of a diff change, by the index. `symbol` "": lines of the file outside any."""

    repo: str
    path: str
    symbol: str
    line: int  # its first; of the file 1
    is_test: bool = False
    sure: float = 1.0  # below 1: the hunk was not located, so its whole file counts as changed


@dataclass(frozen=True, slots=True)
class ChangedCode:
    """`symbols` in the order of the diff. `unknown`: paths that the index does not have, new files among
    them. `cut`: the diff is longer than what is read of it."""

    symbols: tuple[Changed, ...] = ()
    unknown: tuple[str, ...] = ()
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """The episode behind an item. `diffs`: paths it changed; `fixed`: nodes that its diffs are known to fix
    or tests that prove them."""

    episode_id: UUID
    status: str  # success, failure, partial, unknown
    summary: str
    at: datetime | None
    diffs: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()


class ImpactStore(Protocol):
    """Reads of one view: its tenant, revisions and times."""

    async def changed(self, view: View, diff: str) -> ChangedCode:
        """The symbols that the hunks of `diff` change. A hunk is located by its text before or after the change, so
        the diff may be applied already; a hunk that cannot be located changes only its file. At most 50 files and
        400 hunks are read."""
        ...

    async def history(
        self, view: View, repo: str, ends: Sequence[str], tests: Sequence[str], limit: int
    ) -> list[PastEvent]:
        """What happened to `ends` (node ids without `repo:`; a file is `/path`) and to `tests` (ids of tests):
        diffs that touched them, what those fixed or caused, runs that failed, earlier failures of the
        tests. The newest first, at most `limit`."""
        ...

    async def runs_behind(self, view: View, ids: Sequence[ItemId]) -> Mapping[ItemId, Run]:
        """The episodes that items come from; items of none are left out."""
        ...
