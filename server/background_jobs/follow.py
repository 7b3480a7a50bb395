"""Repositories in use are kept level: after a call about one its folder is watched for a while, and what is saved
there is indexed, one run at a time. `plait watch` does the same for as long as it runs."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from etl.pipeline import IndexRequest
from etl.source.changes import Waiting, changes, holds_more, is_there
from plait.domain.access import OWNER
from plait.domain.errors import (
    PathNotAllowed,
    PlaitError,
    RepositoryBusy,
    RepositoryNameTaken,
    RepositoryNotIndexed,
)
from plait.domain.scope import qualify
from plait.domain.values import Revision
from plait.settings import ServerSettings
from server.access import roots
from server.background_jobs.index_jobs import Jobs, JobState

logger = logging.getLogger(__name__)

MOST = 4  # followed at a time; the least recently used one gives way
# Files and folders of one, with what is not indexed: beginning to watch so many holds all calls up for 0.3 s.
MOST_ENTRIES = 30_000
LOOK_S = 5.0  # between two looks at whether there still is something to follow
AGAIN_S = 60.0  # until a repository that could not be followed is tried again, if it is used then
TRIES = 5  # of a change whose run fails
BUSY_S = 1.0  # until a repository is looked at again that a command is indexing
LONGEST_PAUSE_S = 30.0  # after a run as long a pause as it took, up to this

Key = tuple[str, str]  # a tenant, and a repository by its name there


class Repositories(Protocol):
    """What this needs of a `RepositoryStore`."""

    async def list(self, tenant: str | None = None) -> Sequence[Revision]: ...


@dataclass(slots=True)
class _Followed:
    used_at: float
    waiting: Waiting = field(default_factory=Waiting)
    task: asyncio.Task[None] | None = None


class Follower:
    """`idle_s`: for how long after a call; 0: nothing is followed."""

    def __init__(
        self,
        settings: ServerSettings,
        idle_s: float,
        repositories: Repositories,
        jobs: Jobs,
        *,
        look_s: float = LOOK_S,
    ) -> None:
        self._settings = settings
        self._idle_s = idle_s
        self._repositories = repositories
        self._jobs = jobs
        self._look_s = look_s
        self._followed: OrderedDict[Key, _Followed] = OrderedDict()
        self._not_before: dict[Key, float] = {}
        self._replaced: dict[Key, int] = {}  # the revision whose folder is another one now
        self._told: dict[Key, str] = {}

    @property
    def watched(self) -> tuple[Key, ...]:
        """What is followed now, the most recently used last."""
        return tuple(self._followed)

    def used(self, tenant: str, names: Collection[str]) -> None:
        """A call about these repositories, which exist, was answered: follow them from now on."""
        if not self._idle_s:
            return
        now = time.monotonic()
        for key in ((tenant, name) for name in names):
            one = self._followed.get(key)
            if one is not None:
                one.used_at = now
                self._followed.move_to_end(key)
            elif now >= self._not_before.get(key, 0.0):
                one = self._followed[key] = _Followed(now)
                one.task = asyncio.create_task(self._run(key, one), name=f"follow {key[1]}")
                while len(self._followed) > MOST:
                    self._drop(next(iter(self._followed)))

    def edited(self, tenant: str, name: str, paths: Collection[str]) -> None:
        """These files of a repository were just saved: index them now, if it is followed."""
        one = self._followed.get((tenant, name))
        if one is not None and paths:
            one.waiting.add(paths)

    def resumed(self) -> None:
        """This process was stopped and goes on."""
        for one in self._followed.values():
            one.waiting.resumed()

    def drop(self, tenant: str, name: str) -> None:
        """Follow a repository no longer, for it was removed."""
        self._drop((tenant, name))

    def rest(self) -> None:
        """Follow nothing until the next call."""
        for key in list(self._followed):
            self._drop(key)

    async def close(self) -> None:
        """End all of it; a run that was begun is its job's."""
        tasks = [one.task for one in self._followed.values() if one.task is not None]
        self.rest()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _drop(self, key: Key) -> None:
        one = self._followed.pop(key, None)
        if one is not None and one.task is not None:
            one.task.cancel()

    async def _run(self, key: Key, one: _Followed) -> None:
        """Follow one, and say once why it ends, if not because nobody uses it."""
        try:
            why = await self._follow(key, one)
        except (RepositoryNotIndexed, RepositoryNameTaken):
            why = "it is not indexed there any more"
        except (PlaitError, OSError, RuntimeError) as exc:
            why = str(exc)
        except (
            Exception
        ):  # nothing depends on this: the next call, or `plait index`, brings it level
            logger.exception("a repository is not followed", extra={"repo": key[1]})
            why = "internal error"
        if self._followed.get(key) is one:
            del self._followed[key]
        if why:
            self._not_before[key] = time.monotonic() + AGAIN_S
            self._tell(key, "a repository is not followed", why)

    def _tell(self, key: Key, event: str, why: str) -> None:
        if self._told.get(key) != why:
            self._told[key] = why
            logger.warning(event, extra={"repo": key[1], "error": why})

    async def _follow(self, key: Key, one: _Followed) -> str:
        """Until nobody uses it: "", or until it can't be followed: why."""
        known = await self._row(key)
        if known is None or not await asyncio.to_thread(self._may, known.root):
            # Nothing to say: it is of another machine, or the owner of this one has set it so.
            self._not_before[key] = time.monotonic() + AGAIN_S
            return ""
        if self._replaced.get(key) == known.number:
            return _REPLACED
        root = Path(known.root)
        folder = await asyncio.to_thread(_Folder, root)
        try:
            await self._keep_level(key, one, root, folder)
            if await asyncio.to_thread(folder.is_same):
                return ""
        finally:
            folder.close()
        if not is_there(root):
            return (
                f"{root} is gone; `plait index PATH --repo {key[1]} --move` tells where it is now"
            )
        if (now := await self._row(key)) is not None:
            self._replaced[key] = now.number
        return _REPLACED

    async def _keep_level(self, key: Key, one: _Followed, root: Path, folder: _Folder) -> None:
        """Index what changes, until nobody uses it or it is another folder. Raises: PlaitError, OSError."""
        large = await asyncio.to_thread(holds_more, root, MOST_ENTRIES)
        looking = asyncio.create_task(self._look(key, root, one.waiting, large=large))
        # It begins to watch in its first step; the first run brings in what changed until then.
        await asyncio.sleep(0)
        one.waiting.add(None)
        try:
            while time.monotonic() - one.used_at < self._idle_s:
                if looking.done():
                    looking.result()  # raises what ended it
                if not await asyncio.to_thread(folder.is_same):
                    return
                if one.waiting.came.is_set():
                    pause_s = await self._index(key, root, one.waiting)
                    await asyncio.sleep(min(pause_s, LONGEST_PAUSE_S))
                    continue
                with suppress(TimeoutError):
                    await asyncio.wait_for(one.waiting.came.wait(), self._look_s)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _row(self, key: Key) -> Revision | None:
        """The repository as it is indexed, if it is."""
        tenant, name = key
        rows = await self._repositories.list(tenant)
        return next((one for one in rows if one.repo == qualify(tenant, name) and one.number), None)

    def _may(self, root: str) -> bool:
        """Whether `root` is a folder, none behind a link, that calls may have indexed."""
        path = Path(root)
        try:
            return bool(root) and roots.check(path, OWNER, self._settings) == path and path.is_dir()
        except PathNotAllowed:
            return False

    async def _look(self, key: Key, root: Path, waiting: Waiting, *, large: bool) -> None:
        """Note what changes; of a folder that can't be watched, what hooks tell is all that is known."""
        if large:
            self._tell(
                key,
                "what is saved in a folder is not seen",
                f"{root} holds more than {MOST_ENTRIES:,} files and folders; `plait watch` follows it",
            )
            return

        def polling(why: str) -> None:
            self._tell(
                key,
                "files are looked at every two seconds",
                f"the kernel does not tell what changes in {root} ({why}); where that is a limit of Linux, "
                "raising fs.inotify.max_user_watches or fs.inotify.max_user_instances mends it",
            )

        async for told in changes(root, polling):
            waiting.add(told)

    async def _index(self, key: Key, root: Path, waiting: Waiting) -> float:
        """One run over all that waits; for how many seconds to let others. Raises: PlaitError, when it fails
        `TRIES` times."""
        tenant, name = key
        start = time.monotonic()
        for tried in range(1, TRIES + 1):
            told = waiting.take()
            touched = None if told is None else frozenset(told)
            request = IndexRequest(
                root, name, embed=False, tenant=tenant, touched=touched, keep=touched is not None, again=True
            )  # fmt: skip
            try:
                await self._published(request)
                break
            except (RepositoryNotIndexed, RepositoryNameTaken):
                raise
            except RepositoryBusy:
                # A command is at it, and may have read a file before it was saved: look when it has ended.
                waiting.add(None)
                return BUSY_S
            except PlaitError:
                if tried == TRIES:
                    raise
                waiting.add(None)  # whether the run got through to the store, nobody knows
                await asyncio.sleep(tried)
        return time.monotonic() - start

    async def _published(self, request: IndexRequest) -> None:
        """Raises: PlaitError, why it was not."""
        begun = self._jobs.start(request)
        async for job in self._jobs.watch(begun.id):
            if job.state is JobState.PUBLISHED:
                return
            if job.state is JobState.CANCELLED:
                raise PlaitError("the run was cancelled")
            if job.error is not None:
                raise job.error


_REPLACED = (
    "another folder, or another `.git`, has taken the place of the one that was indexed; `plait index` brings its "
    "changes in, and what it publishes is followed again"
)


class _Folder:
    """A folder as it is now. It and its `.git` are held open, so whatever takes their place is another one."""

    def __init__(self, root: Path) -> None:
        """Raises: OSError."""
        self._held: list[tuple[Path, int]] = []
        for path in (root, root / ".git"):
            if path == root or path.is_dir():
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
                self._held.append((path, os.open(path, flags)))

    def is_same(self) -> bool:
        try:
            return all(os.path.samestat(os.fstat(fd), path.stat()) for path, fd in self._held)
        except OSError:
            return False

    def close(self) -> None:
        for _, fd in self._held:
            os.close(fd)
