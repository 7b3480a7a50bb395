"""`plait watch [PATH]`: follow a folder, and have the service index what is saved in it."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from plait.domain.display import to_json
from plait.domain.errors import PlaitError
from server.commands import frame
from server.commands.frame import FAILED, Usage

if TYPE_CHECKING:
    from etl.source.changes import Waiting
    from plait.client import AsyncPlaitClient
    from plait.domain.answers.indexing import IndexJob

EXAMPLES = """\
  plait watch                    follow the folder you are in, until Ctrl-C
  plait watch ~/src/django --repo dj
  plait watch . --json           a line of JSON for each revision
  plait watch . --poll           look at every file every two seconds: for network folders

It first brings the index up to date, then prints a line for each revision that a change gives. It ends with
code 1 when the folder is removed, or another one takes its place.
"""
TRIES = 5  # of a change whose run fails; then it waits for the next change


def main(argv: Sequence[str] | None = None, prog: str = "plait watch") -> int:
    out = frame.parser(prog, "Follow a folder: index what is saved in it.", EXAMPLES)
    out.add_argument("path", nargs="?", default=".", metavar="PATH", help="the repository's folder")
    out.add_argument("--repo", default="", metavar="NAME", help="its name (default: the folder's)")
    out.add_argument("--no-embed", action="store_true", help="leave the vectors out")
    out.add_argument("--poll", action="store_true", help="look at the files, ask no kernel")
    frame.add_tenant(out)
    args = out.parse_args(argv)
    return frame.run_async(args, lambda: _watch(args))


def _root(path: str) -> Path:
    """Raises: Usage."""
    root = Path(os.path.realpath(path))
    if not path or not root.is_dir():
        raise Usage(f"{path!r} is no folder; give the folder that holds the repository")
    return root


async def _watch(args: argparse.Namespace) -> int:
    from server.local import connected

    root = _root(args.path)
    async with connected(frame.load(args)) as client:
        return await _follow(args, root, client)


class _RunFailed(Exception):
    """What the service said of a run that failed."""


async def _follow(args: argparse.Namespace, root: Path, client: AsyncPlaitClient) -> int:
    """Index what changes, one run at a time; what changes during a run is in the next one."""
    from etl.source.changes import Waiting, is_there

    waiting = Waiting()
    looking = asyncio.create_task(_look(args, root, waiting))
    asyncio.get_running_loop().add_signal_handler(signal.SIGCONT, waiting.resumed)
    # It begins to watch in its first step, so nothing that changes from here on is missed.
    await asyncio.sleep(0)
    try:
        failed = revision = 0
        while is_there(root):
            try:
                revision = await _index(args, root, client, waiting.take(), revision)
                failed = 0
            except (_RunFailed, PlaitError) as exc:
                failed += 1
                if not is_there(root):
                    break
                again = failed < TRIES
                if not again and isinstance(exc, PlaitError):
                    raise  # the service can't be asked
                what = "trying again" if again else "waiting for the next change"
                print(f"not indexed: {exc}; {what}", file=sys.stderr)
                if again:
                    waiting.add(None)  # whether the run got through to the store, nobody knows
                    await asyncio.sleep(failed)
                    continue
                waiting.add(None)
                waiting.came.clear()
            came = asyncio.create_task(waiting.came.wait())
            await asyncio.wait({came, looking}, return_when=asyncio.FIRST_COMPLETED)
            came.cancel()
            if looking.done():
                looking.result()  # raises what ended it
                break
    finally:
        looking.cancel()
    print(f"{root} is gone; nothing more to follow", file=sys.stderr)
    return FAILED


async def _look(args: argparse.Namespace, root: Path, waiting: Waiting) -> None:
    """Note what changes until the folder is gone."""
    from etl.source.changes import changes

    def polling(why: str) -> None:
        print(
            f"the kernel does not tell what changes in {root} ({why}); looking at its files every two seconds "
            "instead. Where that is a limit of Linux, raising fs.inotify.max_user_watches or "
            "fs.inotify.max_user_instances mends it",
            file=sys.stderr,
        )

    async for told in changes(root, polling, poll=args.poll):
        waiting.add(told)


async def _index(
    args: argparse.Namespace,
    root: Path,
    client: AsyncPlaitClient,
    changed: set[str] | None,
    before: int,
) -> int:
    """Have the service index a change, and tell of the revision that it gave, if it is not `before`."""
    start = time.monotonic()
    job = await client.start_index(
        str(root),
        repository=args.repo,
        embed=not args.no_embed,
        changed="all" if changed is None else changed,
    )
    stream = client.watch_index_job(job.id)
    async for state in stream:
        job = state
        if job.state == "published" or job.final:
            break
    if job.state in ("failed", "cancelled"):
        raise _RunFailed(f"{job.error_message or f'the run was {job.state}'} [{job.error_reason}]")
    number = job.revision.revision if job.revision else 0
    if number != before:
        _tell(args, job, number, time.monotonic() - start, changed)
    return number


def _tell(
    args: argparse.Namespace,
    job: IndexJob,
    number: int,
    took_s: float,
    changed: set[str] | None,
) -> None:
    if args.json:
        row = {
            "repository": job.repository,
            "revision": number,
            "seconds": round(took_s, 3),
            "paths": None if changed is None else sorted(changed),
            "counts": dict(job.counts),
        }
        print(to_json(row), flush=True)
        return
    what = "every file" if changed is None else ", ".join(sorted(changed)[:3])
    if changed is not None and len(changed) > 3:
        what += f" and {len(changed) - 3:,} more"
    print(f"{job.repository} revision {number}: {what}, {took_s:.2f} s", flush=True)
