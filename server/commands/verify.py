"""`plait verify`: do both stores agree; `plait rebuild`: make the graph again."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from plait.domain.display import to_json
from server.commands import frame
from server.commands.frame import FAILED, NOTHING_FOUND, OK

if TYPE_CHECKING:
    from plait.client import AsyncPlaitClient
    from plait.domain.answers.upkeep import Comparison

EXAMPLES = """\
  plait verify                     the repository you are in, or the only one
  plait verify --all-repos --json
  plait verify --retry             queue what was given up again first

Every node and edge of the graph is compared with PostgreSQL.
Exit codes: 0 both agree, 1 they differ, 3 nothing to compare.
"""
REBUILD_EXAMPLES = """\
  plait rebuild --repo django
  plait rebuild --all-repos --no-wait

The graph is thrown away and made again from PostgreSQL; readers wait for it, nothing is lost.
"""


def main(argv: Sequence[str] | None = None, prog: str = "plait verify") -> int:
    out = frame.parser(prog, "Compare the graph with the truth.", EXAMPLES)
    frame.add_repo(out)
    out.add_argument("--retry", action="store_true", help="queue what was given up again first")
    args = out.parse_args(argv)
    return frame.run_async(args, lambda: _run(args, rebuild=False))


def rebuild_main(argv: Sequence[str] | None = None, prog: str = "plait rebuild") -> int:
    out = frame.parser(prog, "Make the graph again from the truth.", REBUILD_EXAMPLES)
    frame.add_repo(out)
    out.add_argument("--no-wait", action="store_true", help="queue it and end; don't compare")
    args = out.parse_args(argv)
    return frame.run_async(args, lambda: _run(args, rebuild=True))


async def _run(args: argparse.Namespace, *, rebuild: bool) -> int:
    from server.local import connected

    async with connected(frame.load(args)) as client:
        repos = await frame.repositories(args, client)
        if not rebuild and args.retry:
            await _retry(client, repos)
        if rebuild:
            waiting = await client.rebuild(repos.names, all_repositories=repos.everywhere)
            if args.no_wait:
                _say(args, f"{waiting} projections wait")
                if args.json:
                    print(json.dumps({"waiting": waiting}))
                return OK
            _say(args, "projecting …")
        found = await _verify(args, client, repos)
    if args.json:
        print(to_json({"repositories": [_as_json(one) for one in found]}))
    if not found:
        _say(args, "nothing is stored yet")
        return NOTHING_FOUND
    return OK if all(one.consistent for one in found) else FAILED


async def _retry(client: AsyncPlaitClient, repos: frame.Repos) -> None:
    revived = await client.retry_dead_letters(repos.names, all_repositories=repos.everywhere)
    if revived:
        print(f"{revived} changes wait again", file=sys.stderr)


async def _verify(
    args: argparse.Namespace, client: AsyncPlaitClient, repos: frame.Repos
) -> list[Comparison]:
    """One repository a call, so that each is told as soon as it is known."""
    found: list[Comparison] = []
    if repos.everywhere:
        found += await client.verify(all_repositories=True)
        for one in found:
            _show(args, one)
    for name in repos.names:
        (one,) = await client.verify([name])
        _show(args, one)
        found.append(one)
    return found


def _show(args: argparse.Namespace, one: Comparison) -> None:
    if args.json:
        return
    from server.commands.output.show import clean, counted

    state = "agrees" if one.consistent else "DIFFERS" if one.checked else "kept changing"
    print(
        f"{clean(one.revision.repository)}: {state}  {counted(one.nodes, 'node')}, "
        f"{counted(one.edges, 'edge')}, "
        f"{one.took_ms:,.0f} ms"
    )
    for difference in one.differences:
        counts = ", ".join(f"{name} {count:,}" for name, count in difference.counts.items())
        print(f"  {difference.kind} {difference.total:,}: {counts}")
        for example in difference.examples:
            print(f"    {clean(example)}")
    if one.waiting:
        print(f"  {one.waiting:,} changes wait to be projected")
    if one.dead_letters:
        print(
            f"  {one.dead_letters:,} changes were given up; `plait verify --retry` queues them again"
        )
    if not one.consistent:
        print(
            f"note: `plait rebuild --repo {clean(one.revision.repository)}` mends it",
            file=sys.stderr,
        )


def _say(args: argparse.Namespace, text: str) -> None:
    if not args.json:
        print(text, file=sys.stderr)


def _as_json(one: Comparison) -> dict[str, Any]:
    return {**asdict(one), "repository": one.revision.repository}
