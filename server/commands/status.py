"""`plait status`: what of this PLAIT_HOME runs, and what is indexed. Starts nothing."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from plait.domain.display import to_json
from server.commands import frame
from server.commands.frame import FAILED, NOTHING_FOUND, OK

if TYPE_CHECKING:
    from plait.client.discovery import ServerAddress
    from plait.client.values import Repository
    from plait.settings import Settings
    from server.census import Member

ANSWER_S = 3.0  # an idle service answers in milliseconds
EXAMPLES = """\
  plait status          the service, its servers, their memory, the repositories
  plait status --json

Exit code 3: nothing runs. The next command starts the service; `plait stop` ends it.
"""


def main(argv: Sequence[str] | None = None, prog: str = "plait status") -> int:
    out = frame.parser(prog, "Show what runs, and what is indexed.", EXAMPLES, server=False)
    args = out.parse_args(argv)
    return frame.run_async(args, lambda: _status(args))


async def _status(args: argparse.Namespace) -> int:
    from plait.client import discovery
    from server import census

    settings = frame.load(args)
    members = census.take(settings.home)
    address = discovery.running(settings.home)
    found, silent = await _repositories(settings, address) if address else ((), "")
    if args.json:
        print(to_json(_as_json(settings, address, members, found)))
    else:
        _show(settings, address, members)
        _show_repositories(found)
    if silent:
        print(silent, file=sys.stderr)
        return FAILED
    return OK if members else NOTHING_FOUND


async def _repositories(
    settings: Settings, address: ServerAddress
) -> tuple[tuple[Repository, ...], str]:
    """What is indexed, or why the service does not say it."""
    from plait.client.aio import AsyncPlaitClient
    from plait.domain.errors import PlaitError

    async with AsyncPlaitClient(address.target, tenant=settings.scope.tenant) as client:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await client.list_repositories(), ""
        except (PlaitError, TimeoutError):
            return (), f"the service, process {address.pid}, does not answer; `plait stop` ends it"


def _show(settings: Settings, address: ServerAddress | None, members: Sequence[Member]) -> None:
    from server.doctor import duration, size

    if not members:
        print(
            f"nothing runs for {settings.home}; the next command starts the service",
            file=sys.stderr,
        )
        return
    for member in members:
        print(
            f"{member.role:<11} {size(member.memory_bytes):>7}  up {duration(member.up_s)}, "
            f"process {member.pids[0]}"
        )
    print(f"{'together':<11} {size(sum(m.memory_bytes for m in members)):>7}")
    if address is not None and address.background and settings.server.idle_s:
        print(f"It leaves after {duration(settings.server.idle_s)} without a call.")


def _show_repositories(found: Sequence[Repository]) -> None:
    if not found:
        return
    from server.commands import repos

    print()
    repos.show(found)


def _as_json(
    settings: Settings,
    address: ServerAddress | None,
    members: Sequence[Member],
    found: Sequence[Repository],
) -> dict[str, Any]:
    from server.commands import repos

    return {
        "home": str(settings.home),
        "service": asdict(address) if address else None,
        "processes": [asdict(member) for member in members],
        "memory_bytes": sum(member.memory_bytes for member in members),
        "repositories": [repos.as_json(one) for one in found],
    }
