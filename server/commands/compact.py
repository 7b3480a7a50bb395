"""`plait compact`: thin out an agent's memories, see what that would do, or undo it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plait.domain.display import to_json
from server.commands import frame
from server.commands.frame import NOTHING_FOUND, OK

if TYPE_CHECKING:
    from plait.domain.answers.upkeep import Compacted

EXAMPLES = """\
  plait compact --repo app --agent fixer --dry-run   what would be done, and why
  plait compact --repo app --agent fixer
  plait compact --repo app --no-agent                memories stored for no agent
  plait compact --repo app --agent fixer --runs      the turns and notes of its runs
  plait compact --undo 0198c5f2-…                    bring back what it closed

Duplicates are closed. Over the budget, the least used and least linked memories are summarised. Recent
successes and failures stay, and what tests validated. Nothing is removed: searches still find closed
memories, and the compaction can be undone for a week (`memory.undo_s`). Exit code 3: there was nothing
to do.
"""
DAY_S = 86_400.0


def main(argv: Sequence[str] | None = None, prog: str = "plait compact") -> int:
    out = frame.parser(prog, "Thin out an agent's memories.", EXAMPLES)
    frame.add_one_repo(out)
    whose = out.add_mutually_exclusive_group()
    whose.add_argument(
        "--agent", default="", metavar="ID", help="the agent whose memories to compact"
    )
    whose.add_argument("--no-agent", action="store_true", help="the memories of no agent")
    out.add_argument("--runs", action="store_true", help="the turns and notes of its runs")
    out.add_argument(
        "--dry-run", action="store_true", help="show what would be done, and why; change nothing"
    )
    out.add_argument("--undo", metavar="ID", help="undo the compaction of this id")
    out.add_argument("--undo-days", type=float, metavar="N", help="how long it can be undone")
    args = out.parse_args(argv)
    if args.undo and (args.dry_run or args.agent or args.no_agent or args.runs):
        out.error("--undo takes the compaction's id alone")
    if not args.undo and not args.agent and not args.no_agent:
        out.error("say whose memories: --agent ID, or --no-agent")
    return frame.run_async(args, lambda: _compact(args))


async def _compact(args: argparse.Namespace) -> int:
    from plait.domain.retention import Budget
    from server.local import connected

    async with connected(frame.load(args)) as client:
        if args.undo:
            restored = await client.undo_compaction(args.undo)
            _say(args, {"restored": restored}, f"Brought back {restored:,} memories")
            return OK
        done = await client.compact(
            await frame.one_repository(args, client),
            None if args.no_agent else args.agent,
            dry_run=args.dry_run,
            budget=Budget.RUNS if args.runs else Budget.STORED,
            undo_s=None if args.undo_days is None else args.undo_days * DAY_S,
        )
    if args.json:
        print(to_json(_as_json(done)))
    else:
        _show(done)
    return OK if done.closed else NOTHING_FOUND


def _show(done: Compacted) -> None:
    from server.commands.output import show

    rows = [
        (str(step.action), str(step.entry_id), step.tokens, step.reason, str(step.into or ""))
        for step in done.steps
    ]
    if rows:
        show.rows(("action", "memory", "tokens", "why", "into"), rows, show.console())
    if done.steps_left_out:
        print(f"note: {done.steps_left_out:,} more steps", file=sys.stderr)
    verb = "Would close" if done.dry_run else "Closed"
    print(
        f"{verb} {done.closed:,} of {done.examined:,} memories, {len(done.summaries):,} summaries; "
        f"{done.tokens_before:,} → {done.tokens_after:,} of {done.budget_tokens:,} tokens",
        file=sys.stderr,
    )
    for note in done.notes:
        print(f"note: {show.clean(note)}", file=sys.stderr)
    if done.id and done.undo_until:
        print(f"Undo until {show.local(done.undo_until)}: plait compact --undo {done.id}")


def _say(args: argparse.Namespace, body: dict[str, Any], text: str) -> None:
    print(json.dumps(body) if args.json else text)


def _as_json(done: Compacted) -> dict[str, Any]:
    from server.commands.output import show

    return {
        "id": done.id,
        "dry_run": done.dry_run,
        "examined": done.examined,
        "closed": done.closed,
        "tokens_before": done.tokens_before,
        "tokens_after": done.tokens_after,
        "budget_tokens": done.budget_tokens,
        "steps": [
            {
                "action": str(step.action),
                "memory_id": str(step.entry_id),
                "reason": step.reason,
                "into": str(step.into) if step.into else None,
                "tokens": step.tokens,
            }
            for step in done.steps
        ],
        "steps_left_out": done.steps_left_out,
        "summaries": [show.entry_json(entry) for entry in done.summaries],
        "notes": list(done.notes),
        "undo_until": done.undo_until.isoformat() if done.undo_until else None,
    }
