"""`plait forget`: remove memories and episodes for good, and prove it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from plait.domain.errors import InvalidInput
from server.commands import frame
from server.commands.frame import FAILED, NOTHING_FOUND, OK

if TYPE_CHECKING:
    from plait.domain.answers.upkeep import Forgotten
    from plait.domain.retention import Selector

EXAMPLES = """\
  plait forget 0198c5f2-… --repo app
  plait forget --agent fixer --repo app --dry-run
  plait forget --source user --since 2026-03-01 --until 2026-04-01 --repo app --yes

What you choose is removed from rows, history, text index, vectors, evidence, request records and the
graph, and cannot be brought back. Several options narrow each other. The answer counts what was removed, what a
search for it still finds (nothing), and how many files hold its bytes until `--reclaim` rewrites them.
`plait memory delete` only closes a memory.
Exit codes: 1 something is left, 2 off a terminal and without --yes, 3 nothing matched.
"""


def main(argv: Sequence[str] | None = None, prog: str = "plait forget") -> int:
    out = frame.parser(prog, "Remove memories and episodes for good.", EXAMPLES)
    out.add_argument("id", nargs="*", metavar="ID", help="a memory or an episode")
    frame.add_one_repo(out)
    out.add_argument("--source", choices=("agent", "user", "system"), help="all of this source")
    out.add_argument("--agent", default="", metavar="ID", help="all of this agent")
    out.add_argument("--since", type=frame.time, metavar="TIME", help="recorded not before")
    out.add_argument("--until", type=frame.time, metavar="TIME", help="recorded before")
    out.add_argument(
        "--dry-run", action="store_true", help="show what would be removed; remove nothing"
    )
    out.add_argument(
        "--reclaim", action="store_true", help="rewrite the tables too, so their files hold nothing"
    )
    out.add_argument("--yes", "-y", action="store_true", help="do it without asking")
    args = out.parse_args(argv)
    if not (args.id or args.source or args.agent or args.since or args.until):
        out.error("give what to forget: an ID, --source, --agent, --since or --until")
    return frame.run_async(args, lambda: _forget(args))


async def _forget(args: argparse.Namespace) -> int:
    from server.local import connected

    selector = _selector(args)
    async with connected(frame.load(args)) as client:
        repo = await frame.one_repository(args, client)
        if not args.dry_run and not args.yes:
            would = await client.forget(repo, selector, dry_run=True)
            what = f"{_what(would)} of {repo}"
            if not (would.memories or would.episodes):
                return _tell(args, would)
            if not frame.agreed(f"Forget {what} for good?", yes=False):
                return FAILED
        done = await client.forget(repo, selector, dry_run=args.dry_run, reclaim=args.reclaim)
        return _tell(args, done)


def _selector(args: argparse.Namespace) -> Selector:
    from plait.domain.retention import Selector

    try:
        ids = tuple(UUID(text) for text in args.id)
    except ValueError:
        raise InvalidInput(
            "an ID is no UUID; `plait memory list` and `plait ingest` show them", field="id"
        ) from None
    return Selector(
        ids=ids,
        source=args.source or "",
        agent_id=args.agent,
        recorded_from=args.since,
        recorded_to=args.until,
    )


def _tell(args: argparse.Namespace, done: Forgotten) -> int:
    unmatched = _unmatched(args, done)
    if args.json:
        print(json.dumps({**_as_json(done), "unmatched_ids": unmatched}))
    else:
        _show(done)
        for id_ in unmatched:
            print(f"note: {id_} matched nothing", file=sys.stderr)
    if any(done.left.values()):
        return FAILED
    return OK if done.memories or done.episodes else NOTHING_FOUND


def _unmatched(args: argparse.Namespace, done: Forgotten) -> list[str]:
    """Those of the IDs that named nothing. Unknown, so empty, where the answer's lists were cut."""
    found = {*done.memory_ids, *done.episode_ids}
    if done.memories + done.episodes > len(found):
        return []
    return [id_ for id_ in dict.fromkeys(args.id) if UUID(id_) not in found]


def _show(done: Forgotten) -> None:
    if not (done.memories or done.episodes):
        print("nothing matches", file=sys.stderr)
        return
    verb = "Would forget" if done.dry_run else "Forgot"
    print(f"{verb} {_what(done)}")
    for place, count in sorted(done.removed.items()):
        if count:
            print(f"  {place}: {count:,}")
    if done.dry_run:
        return
    for line in _remains(done):
        print(line, file=sys.stderr)
    if done.reclaimed:
        print(f"Rewritten: {', '.join(done.reclaimed)}", file=sys.stderr)


def _remains(done: Forgotten) -> Iterator[str]:
    """What is left in answers, then what is left in files."""
    if left := sum(done.left.values()):
        places = ", ".join(f"{place} {count:,}" for place, count in done.left.items() if count)
        yield f"Left: {left:,} ({places})"
    elif done.graph_done:
        yield "Nothing of it is left in any answer"
    else:
        yield "Nothing of it is left in PostgreSQL's answers"
    if not done.graph_done:
        yield "The graph is updated in the background; `plait verify` shows when it is done"
    if done.table_files is None or done.log_files is None:
        if not done.reclaimed:
            yield "The server's files were not looked at: they hold its bytes until `--reclaim`"
        return
    from server.commands.output import show

    tables = show.counted(done.table_files, "file")
    if done.table_files:
        holds = "holds" if done.table_files == 1 else "hold"
        until = ", after they were rewritten" if done.reclaimed else ", until `--reclaim`"
        yield f"{tables} of tables and indexes still {holds} its bytes{until}"
    else:
        yield "No file of a table or an index holds its bytes"
    if done.log_files:
        log = show.counted(done.log_files, "file")
        yield f"{log} of the write-ahead log still {'holds' if done.log_files == 1 else 'hold'} them, until PostgreSQL overwrites the log"


def _what(done: Forgotten) -> str:
    from server.commands.output import show

    memories = show.counted(done.memories, "memory", "memories")
    return f"{memories} and {show.counted(done.episodes, 'episode')}"


def _as_json(done: Forgotten) -> dict[str, Any]:
    return {
        "id": done.id,
        "dry_run": done.dry_run,
        "memories": done.memories,
        "episodes": done.episodes,
        "memory_ids": [str(id_) for id_ in done.memory_ids],
        "episode_ids": [str(id_) for id_ in done.episode_ids],
        "removed": dict(done.removed),
        "left": dict(done.left),
        "graph_done": done.graph_done,
        "reclaimed": list(done.reclaimed),
        "table_files": done.table_files,
        "log_files": done.log_files,
    }
