"""The end of a session: its transcript is stored by a process that outlives the hook.

The path of the transcript comes from the client's JSON. It is read if it is a plain file of this account, and
not a link, of a sane size; nothing more is believed of it. What is in it is the importers' business, which
take transcripts as hostile input, and know what was stored before.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from server.hooks.agents import Agent, agent_of
from server.hooks.payload import Payload

if TYPE_CHECKING:
    from plait.settings import Settings

MAX_BYTES = 512 * 2**20
MAX_S = 600.0  # an import that takes longer is ended


def begin_ingest(agent: Agent, payload: Payload, settings: Settings) -> bool:
    """Start the process that stores the session's transcript; whether there is something to store."""
    path = payload.path(payload.transcript)
    if not agent.transcripts or not payload.folder or path is None or not importable(path):
        return False
    if not _is_used(settings):
        return False
    import subprocess

    command = [sys.executable, "-P", "-m", "server.hooks.session_end"]
    subprocess.Popen(
        [*command, agent.name, payload.folder, str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # the client ends its hooks' whole process group
        close_fds=True,
    )
    return True


def importable(path: Path) -> bool:
    """Whether `path` is a plain file of this account, of at most `MAX_BYTES`, and no link."""
    try:
        about = path.lstat()
    except (OSError, ValueError):
        return False
    own = about.st_uid == os.geteuid()
    return stat.S_ISREG(about.st_mode) and own and 0 < about.st_size <= MAX_BYTES


def _is_used(settings: Settings) -> bool:
    """Whether anything was ever stored: a hook does not set up a home."""
    return bool(settings.postgres.dsn.get_secret_value()) or (settings.home / "postgres").is_dir()


def main(argv: Sequence[str]) -> int:
    """Store the transcript `argv[2]` of agent `argv[0]`, whose session was in folder `argv[1]`, if that is
    in an indexed repository. Quiet: nobody reads what it says."""
    import asyncio

    agent = agent_of(argv[0])
    if agent is None or not importable(Path(argv[2])):
        return 1
    return asyncio.run(asyncio.wait_for(_ingest(agent, Path(argv[1]), argv[2]), MAX_S))


async def _ingest(agent: Agent, folder: Path, transcript: str) -> int:
    from etl import ingest_episode
    from plait import settings
    from plait.client import folders
    from server.commands.ingest import over_grpc, parser
    from server.local import connected

    async with connected(settings.load()) as client:
        found = folders.locate(folder, await client.list_repositories())
    if found.repository is None:
        return 3
    words = [transcript, "--format", agent.transcripts, "--quiet"]
    words += ["--repo", found.repository.name, "--root", str(found.root)]
    return await ingest_episode.ingest(parser().parse_args(words), over_grpc)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
