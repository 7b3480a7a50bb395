"""`plait repos`: what is indexed; `plait repos delete NAME`."""

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
    from plait.domain.answers.indexing import Repository

EXAMPLES = """\
  plait repos                       what is indexed, and how far its vectors and graph are
  plait repos --json
  plait repos delete django --yes   remove an index, episodes and memories too

graph: the server behind `plait graph --cypher`; one that waits catches up with the next Cypher, all else
answers without it. Exit code 3: nothing is indexed.
"""


def main(argv: Sequence[str] | None = None, prog: str = "plait repos") -> int:
    out = frame.parser(prog, "List what is indexed, or delete it.", EXAMPLES)
    out.add_argument("action", nargs="?", choices=("list", "delete"), default="list")
    out.add_argument("name", nargs="?", metavar="NAME", help="the repository to delete")
    frame.add_tenant(out)
    out.add_argument("--yes", "-y", action="store_true", help="delete without asking")
    args = out.parse_args(argv)
    if (args.action == "delete") != (args.name is not None):
        out.error("`delete` takes one NAME, `list` none")
    return frame.run_async(args, lambda: _repos(args))


async def _repos(args: argparse.Namespace) -> int:
    from server.local import connected

    question = f"Delete the index, the episodes and the memories of {args.name}?"
    if args.action == "delete" and not frame.agreed(question, yes=args.yes):
        return FAILED
    async with connected(frame.load(args)) as client:
        if args.action == "delete":
            return await _delete(args, client)
        found = await client.list_repositories()
    if args.json:
        print(to_json({"repositories": [as_json(r) for r in found]}))
    elif found:
        show(found)
    else:
        print("nothing is indexed yet; run `plait index PATH`", file=sys.stderr)
    return OK if found else NOTHING_FOUND


async def _delete(args: argparse.Namespace, client: AsyncPlaitClient) -> int:
    await client.delete_repository(args.name)
    if args.json:
        print(json.dumps({"deleted": args.name}))
    else:
        print(f"Deleted {args.name}: its index, episodes and memories", file=sys.stderr)
    return OK


def show(found: Sequence[Repository]) -> None:
    from server.commands.output import show as shown

    columns = ("name", "revision", "files", "chunks", "vectors", "graph", "root")
    cells = [
        (
            r.name,
            r.revision.revision,
            f"{r.files:,}",
            f"{r.revision.total:,}",
            f"{100 * r.revision.embedded // max(1, r.revision.total)} %",
            "current" if r.revision.graph_revision == r.revision.revision else "waits",
            r.root,
        )
        for r in found
    ]
    shown.rows(columns, cells, shown.console())


def as_json(r: Repository) -> dict[str, Any]:
    published = r.published_at.isoformat() if r.published_at else None
    return {**asdict(r), "revision": asdict(r.revision), "published_at": published}
