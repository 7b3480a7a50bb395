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

  plait doctor --secrets                which stored files, memories and episodes hold a secret, and
                                        the commands that remove them (starts the store)

Exit code 1: something is wrong, or a secret is stored.
"""
# A health check is asked every few seconds: no answer in this time is no answer.
ANSWER_S = 5.0


def main(argv: Sequence[str] | None = None, prog: str = "plait doctor") -> int:
    out = frame.parser(prog, "Show what runs where, and what is wrong.", EXAMPLES, server=False)
    out.add_argument(
        "--server", metavar="HOST:PORT", help="only check whether the server there answers"
    )
    out.add_argument(
        "--secrets", action="store_true", help="examine all that is stored for secrets, show where"
    )
    out.add_argument(
        "--drop-replaced",
        action="store_true",
        help="with --secrets: first remove what files were before their last index run",
    )
    args = out.parse_args(argv)
    if args.drop_replaced and not args.secrets:
        out.error("--drop-replaced goes with --secrets")
    if args.secrets:
        return frame.run_async(args, lambda: _secrets(args))
    if args.server:
        return frame.run_async(args, lambda: _answers(args))
    return frame.run(args, lambda: _look(args))


async def _answers(args: argparse.Namespace) -> int:
    from plait.client import AsyncPlaitClient

    async with AsyncPlaitClient(args.server, settings=frame.load(args)) as client:
        found = await client.list_repositories(timeout_s=ANSWER_S)
    if not args.json:
        print(f"{args.server} answers; {len(found)} repositories are indexed")
    else:
        print(f'{{"answers": true, "repositories": {len(found)}}}')
    return OK


async def _secrets(args: argparse.Namespace) -> int:
    """Looks into the store itself, at every tenant's: only who may read its files can."""
    from etl.truth import open as open_truth
    from plait import settings
    from plait.domain.errors import BadSettings
    from plait.secrets import rules
    from server import exposed

    loaded = settings.load(args.config)
    if loaded.client.server and not loaded.postgres.dsn.get_secret_value():
        raise BadSettings(
            f"commands ask {loaded.client.server} (PLAIT_SERVER, `client.server`), whose store is not this "
            "machine's; run this on that machine, or set `postgres.dsn` to its store",
            key="client.server",
        )
    known = rules.load(loaded.secrets.rules)
    store = await open_truth(loaded)
    try:
        if args.drop_replaced:
            await store.exposed.drop_replaced()
        found = await exposed.examine(store.exposed.texts(), known)
    finally:
        await store.close()
    print(exposed.as_json(found) if args.json else exposed.render(found))
    return FAILED if found else OK


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
