"""`plait doctor`: what runs where, versions, sizes, and what is wrong. Starts nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from server.commands import frame
from server.commands.frame import FAILED, OK

if TYPE_CHECKING:
    from plait.settings import Settings

EXAMPLES = """\
  plait doctor                          this PLAIT_HOME: servers, versions, sizes, problems
  plait doctor --json
  plait doctor --server 127.0.0.1:50051 only: does the server there answer? (for health checks)

Exit code 1: something is wrong.
"""
# A health check is asked every few seconds: no answer in this time is no answer.
ANSWER_S = 5.0


def main(argv: Sequence[str] | None = None, prog: str = "plait doctor") -> int:
    out = frame.parser(prog, "Show what runs where, and what is wrong.", EXAMPLES, server=False)
    out.add_argument(
        "--server", metavar="HOST:PORT", help="only ask whether the server there answers"
    )
    args = out.parse_args(argv)
    if args.server:
        return frame.run_async(args, lambda: _answers(args))
    return frame.run(args, lambda: _look(args))


async def _answers(args: argparse.Namespace) -> int:
    from plait.client.aio import AsyncPlaitClient

    async with AsyncPlaitClient(args.server, settings=frame.load(args)) as client:
        found = await client.list_repositories(timeout_s=ANSWER_S)
    if not args.json:
        print(f"{args.server} answers; {len(found)} repositories are indexed")
    else:
        print(f'{{"answers": true, "repositories": {len(found)}}}')
    return OK


def _look(args: argparse.Namespace) -> int:
    from plait import settings
    from server.doctor import as_json, inspect, render

    loaded = settings.load(args.config)
    report = inspect(loaded)
    print(as_json(report) if args.json else f"{render(report)}\n{_server(loaded)}")
    if not report.healthy:
        print("something is wrong, see above", file=sys.stderr)
    return OK if report.healthy else FAILED


def _server(settings: Settings) -> str:
    """A line about the service of this home."""
    from plait.client import discovery

    known = discovery.read(settings.home)
    if known is None or not discovery.is_claimed(settings.home):
        return "\nNo service runs; the next command starts it."
    return f"\nThe service runs as process {known.pid} at {known.where}; see `plait status`."
