"""Index runs that a session needs: begun in the background, looked at when an answer wants to say how far."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from plait.client.folders import distinct_name
from plait.domain.errors import PlaitError
from server.mcp.answer import Refused

if TYPE_CHECKING:
    from plait.client.folders import Here
    from plait.domain.answers.indexing import IndexJob
    from server.mcp.service import Service

# A run that found nothing new is not repeated sooner than this, though files look newer: edits come in
# bursts, and each run reads the times and hashes of all files.
QUIET_S = 10.0
# How long the first answer about a new folder waits for its text: most repositories are there by then.
WAIT_S = 5.0
LOOK_S = 0.2
# Entries looked at for a source file, in a folder that git does not know.
MAX_ENTRIES = 3000
_STAGES = {"": "waiting for its turn", "walk": "listing files", "embed": "vectors"}
_TEXT_IS_THERE = ("published", "succeeded")


@dataclass(slots=True)
class _Run:
    name: str
    job: IndexJob
    began: datetime
    clock: float


class Indexer:
    def __init__(
        self, service: Service, *, wait_s: float = WAIT_S, quiet_s: float = QUIET_S
    ) -> None:
        self._service = service
        self._wait_s, self._quiet_s = wait_s, quiet_s
        self._runs: dict[Path, _Run] = {}
        self._turn = asyncio.Lock()

    async def begin(self, here: Here) -> None:
        """Bring the index of `here` up to date, unless that is under way or was done just now.

        Raises: Refused, for what must not be indexed; PlaitError.
        """
        async with self._turn:
            run = await self._look(here.root)
            if run is not None and run.job.state not in _TEXT_IS_THERE and not run.job.final:
                return
            if (
                run is not None
                and time.monotonic() - run.clock < self._quiet_s
                and not _is_taken(run)
            ):
                return
            name = here.name
            if here.repository is None:
                await _refuse_unfit(here)
                if run is not None and _is_taken(run):
                    name = distinct_name(here.root)
            path = here.repository.root if here.repository else str(here.root)
            began, clock = datetime.now(UTC), time.monotonic()
            job = await self._service.ask(lambda c: c.start_index(path, repository=name))
            self._runs[here.root] = _Run(name, job, began, clock)

    async def until_text(self, here: Here, wait_s: float | None = None) -> bool:
        """Whether the text of a folder that is indexed for the first time is there, within `wait_s`.

        Raises: Refused, when the run failed.
        """
        end = time.monotonic() + (self._wait_s if wait_s is None else wait_s)
        await self.begin(here)
        while True:
            run = await self._look(here.root)
            if run is None or _is_taken(run):  # its server ended; another folder has the name
                await self.begin(here)
            elif run.job.state in _TEXT_IS_THERE:
                return True
            elif run.job.final:
                raise Refused(_why(here.root, run.job))
            if time.monotonic() > end:
                return False
            await asyncio.sleep(LOOK_S)

    async def progress(self, root: Path) -> str:
        """How far the run of `root` is, in few words; "" when none is under way."""
        run = await self._look(root)
        if run is None or run.job.final:
            return ""
        job = run.job
        stage = _STAGES.get(job.stage, job.stage)
        if not job.total:
            return f"indexing: {stage}"
        return f"indexing: {stage} {job.done:,} of {job.total:,} {job.unit}".rstrip()

    def checked_at(self, root: Path) -> datetime | None:
        """When the last run of `root` that published what it found began."""
        run = self._runs.get(root)
        return run.began if run is not None and run.job.state in _TEXT_IS_THERE else None

    async def _look(self, root: Path) -> _Run | None:
        """The last run of `root` as it stands now; None when there is none, or its server has ended."""
        run = self._runs.get(root)
        if run is None or run.job.final:
            return run
        try:
            run.job = await self._service.ask(lambda c: c.get_index_job(run.job.id))
        except PlaitError as exc:
            if exc.reason != "INDEX_JOB_UNKNOWN":
                raise
            self._runs.pop(root, None)
            return None
        return run


CHOOSE = "Go on without Plait here, or name an indexed repository with `repo`."


async def _refuse_unfit(here: Here) -> None:
    if here.unfit:
        raise Refused(f"{here.root} is not indexed: {here.unfit}. {CHOOSE}")
    if not await asyncio.to_thread(has_sources, here.root):
        raise Refused(f"{here.root} has no source files. {CHOOSE}")


def _is_taken(run: _Run) -> bool:
    return run.job.state == "failed" and run.job.error_reason == "REPOSITORY_NAME_TAKEN"


def _why(root: Path, job: IndexJob) -> str:
    return f"{root} could not be indexed: {job.error_message} [{job.error_reason}] {CHOOSE}"


def has_sources(root: Path) -> bool:
    """Whether a source file is near the top of `root`. A git work tree is taken to have some."""
    from etl.languages import is_code, language_of

    if (root / ".git").exists():
        return True
    left, folders = MAX_ENTRIES, deque([str(root)])
    while folders and left > 0:
        try:
            with os.scandir(folders.popleft()) as entries:
                for entry in entries:
                    left -= 1
                    if entry.name.startswith(".") or left < 0:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif is_code(language_of(entry.name)):
                        return True
        except OSError:
            continue
    return False
