"""`plait status`: what of this PLAIT_HOME runs, and what is indexed. Starts nothing."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from plait.domain.display import to_json
from server.commands import frame
from server.commands.frame import FAILED, NOTHING_FOUND, OK

if TYPE_CHECKING:
    from plait.client.discovery import ServerAddress
    from plait.domain.answers.indexing import Repository
    from plait.domain.answers.status import MemoryUsage
    from plait.domain.retention import Budget
    from plait.settings import Settings
    from server.process.running import Member

Memory = Mapping[tuple[str, str, "Budget"], "MemoryUsage"]
ANSWER_S = 3.0  # an idle service answers in milliseconds
# A machine that is busy with indexing takes its time; what asks this says how long it waits itself.
READY_S = 50.0
EXAMPLES = """\
  plait status          the service, its servers, their memory, the repositories
  plait status --json
  plait status --ready  only: does the service of this home answer that it can serve? (for health checks)

Exit code 3: nothing runs. The next command starts the service; `plait stop` ends it.
"""


def main(argv: Sequence[str] | None = None, prog: str = "plait status") -> int:
    out = frame.parser(prog, "Show what runs, and what is indexed.", EXAMPLES, server=False)
    out.add_argument(
        "--ready",
        action="store_true",
        help="only check whether the service can serve; exit code 1: it can't, or does not answer",
    )
    args = out.parse_args(argv)
    if args.ready:
        return frame.run(args, lambda: _ready(args))
    return frame.run_async(args, lambda: _status(args))


def _ready(args: argparse.Namespace) -> int:
    """One question that no store is asked for: the server looks after them every few seconds by itself."""
    from plait.client import discovery

    address = discovery.running(frame.load(args).home)
    ready = False
    if address is not None:
        from plait.client import PlaitClient

        with PlaitClient(address.target) as client:
            ready = client.healthy(timeout_s=READY_S)
    if args.json:
        print(to_json({"ready": ready}))
    elif not ready:
        print(
            "no service runs" if address is None else "the service reports that it can't serve",
            file=sys.stderr,
        )
    return OK if ready else FAILED


async def _status(args: argparse.Namespace) -> int:
    from plait.client import discovery
    from server.process import running

    settings = frame.load(args)
    members = running.take(settings.home)
    address = discovery.running(settings.home)
    found, memory, silent = await _stored(settings, address) if address else ((), {}, "")
    if args.json:
        print(to_json(_as_json(settings, address, members, found, memory)))
    else:
        _show(settings, address, members)
        _show_repositories(found)
        _show_memory(memory)
    if silent:
        print(silent, file=sys.stderr)
        return FAILED
    return OK if members else NOTHING_FOUND


async def _stored(
    settings: Settings, address: ServerAddress
) -> tuple[tuple[Repository, ...], Memory, str]:
    """What is indexed and what agents keep, or why the service does not say it."""
    from plait.client import AsyncPlaitClient
    from plait.domain.errors import PlaitError

    async with AsyncPlaitClient(address.target, tenant=settings.scope.tenant) as client:
        try:
            async with asyncio.timeout(ANSWER_S):
                memory = (await client.stats()).memory_usage
                return await client.list_repositories(), memory, ""
        except TimeoutError:
            state = (
                f"does not answer within {ANSWER_S:g} s; `plait doctor` shows what it may wait for"
            )
        except PlaitError as exc:
            state = f"can't tell what is indexed: {exc.message} [{exc.reason}]"
    return (), {}, f"the service, process {address.pid}, {state}"


def _show(settings: Settings, address: ServerAddress | None, members: Sequence[Member]) -> None:
    from server.doctor import duration, size

    if not members:
        print(
            f"nothing runs for {settings.home}; the next command starts the service",
            file=sys.stderr,
        )
        return
    for member in members:
        workers = f" with {member.workers} more that answer calls" if member.workers else ""
        print(
            f"{member.role:<11} {size(member.memory_bytes):>7}  up {duration(member.up_s)}, "
            f"process {member.pids[0]}{workers}"
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


def _show_memory(memory: Memory) -> None:
    if not memory:
        return
    from etl.ingest.memory_usage import NAMES
    from server.commands.output import show

    print()
    columns = (
        "repository",
        "agent",
        "budget of",
        "memories",
        "tokens",
        "budget",
        "closed, still found",
    )
    cells = [
        (
            repo,
            agent or "-",
            NAMES[budget],
            f"{known.memories:,}",
            f"{known.tokens:,}",
            f"{known.budget_tokens:,}" if known.budget_tokens else "none",
            f"{known.closed:,}",
        )
        for (repo, agent, budget), known in sorted(memory.items())
    ]
    show.rows(columns, cells, show.console())


def _as_json(
    settings: Settings,
    address: ServerAddress | None,
    members: Sequence[Member],
    found: Sequence[Repository],
    memory: Memory,
) -> dict[str, Any]:
    from server.commands import repos

    return {
        "home": str(settings.home),
        "service": asdict(address) if address else None,
        "processes": [asdict(member) for member in members],
        "memory_bytes": sum(member.memory_bytes for member in members),
        "repositories": [repos.as_json(one) for one in found],
        "memory": [
            {"repository": repo, "agent_id": agent, "budget": budget.value, **asdict(known)}
            for (repo, agent, budget), known in sorted(memory.items())
        ],
    }
