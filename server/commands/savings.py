"""`plait savings`: what Plait's answers cost in tokens, and what was searched and read without it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from plait.domain.display import to_json
from server.commands import frame
from server.commands.frame import NOTHING_FOUND, OK

if TYPE_CHECKING:
    from plait.domain.savings import Comparison, Paid, Savings, SessionSavings, Side, Totals

EXAMPLES = """\
  plait savings                          the repository you are in, or the only one
  plait savings --session run-17 --json
  plait savings --all-repos --since "last month"

Tokens are counted from ingested transcripts and from receipts of recalls; docs/savings.md explains how.
Exit code 3: there is nothing to count yet.
"""
SESSIONS = 20
MOST = 1_000  # in one answer of a server
INGEST = (
    "nothing to count yet: run `plait ingest` on a session's transcript (Claude Code's are in "
    "~/.claude/projects), or let the session-end hook do it (`plait install`)"
)
NOT_SEEN = (
    "Not in it: Plait's tool list and its lines in instruction files, which every call is sent too; "
    "transcripts do not have them."
)
OLD = "imported before transcripts were counted; `plait forget` and `plait ingest` them again to count"


def main(argv: Sequence[str] | None = None, prog: str = "plait savings") -> int:
    args = _parser(prog).parse_args(argv)
    return frame.run_async(args, lambda: _savings(args))


def _parser(prog: str) -> argparse.ArgumentParser:
    about = "Say what Plait's answers cost in tokens, and what was searched and read without it."
    out = frame.parser(prog, about, EXAMPLES)
    frame.add_repo(out)
    out.add_argument("--session", default="", metavar="KEY", help="only this session")
    out.add_argument("--since", type=frame.time, metavar="TIME", help="sessions begun since then")
    out.add_argument(
        "-n",
        type=frame.positive,
        default=SESSIONS,
        metavar="N",
        help=f"sessions to list, the newest (default {SESSIONS}); totals are of all",
    )
    return out


async def _savings(args: argparse.Namespace) -> int:
    from server.local import connected

    async with connected(frame.load(args)) as client:
        repos = await frame.repositories(args, client)
        report = await client.savings(
            repos.names,
            all_repositories=repos.everywhere,
            session_key=args.session,
            since=args.since,
            limit=min(args.n, MOST),
        )
    if args.json:
        print(to_json(as_json(report)))
    if report.total.sessions == 0:
        print(INGEST, file=sys.stderr)
        return NOTHING_FOUND
    if not args.json:
        _show(report)
    known = report.total.not_counted < report.total.sessions or report.total.plait.answers
    return OK if known else NOTHING_FOUND


# -- for people -------------------------------------------------------------------------------------


def _show(report: Savings) -> None:
    from server.commands.output import show

    columns = (
        *("repository", "began", "agent", "session", "calls", "plait", "plait again"),
        *("searched and read", "again", "files edited", "outcome", "counted by"),
    )
    out = show.console()
    # On a terminal's one line a name that all rows share takes room from the numbers.
    shared = int(out.is_terminal and len({one.repo for one in report.sessions}) == 1)
    show.rows(columns[shared:], [_cells(one)[shared:] for one in report.sessions], out)
    print()
    for line in notes(report):
        print(show.clean(line))


def _cells(one: SessionSavings) -> tuple[str, ...]:
    unknown = "not known"
    return (
        one.repo,
        f"{one.began.astimezone():%Y-%m-%d %H:%M}" if one.began else "",
        one.agent_id,
        one.session_key,
        f"{one.calls:,}" if one.counted else unknown,
        f"{one.plait.tokens:,}" if one.counted or one.with_plait else unknown,
        f"{one.plait.again:,}" if one.again_known else unknown,
        f"{one.explored.tokens:,}" if one.counted else unknown,
        f"{one.explored.again:,}" if one.counted else unknown,
        f"{one.edited_files:,}" if one.basis != "receipts" else unknown,
        one.status if one.status != "unknown" else "",
        one.basis.replace("_", " "),
    )


def notes(report: Savings) -> Iterator[str]:
    """What the sums mean, a sentence a line."""
    yield from _notes_on_total(report.total)
    for one in report.comparisons:
        yield _compared(one)
    if len(report.sessions) < report.total.sessions:
        yield f"{len(report.sessions):,} of {report.total.sessions:,} sessions are listed; -n N lists more."
    if report.cut:
        yield "There are more sessions than are summed up: the oldest are left out. --since T bounds it."


def _notes_on_total(total: Totals) -> Iterator[str]:
    from server.commands.output import show

    sessions = show.counted(total.sessions, "session")
    if total.plait.answers:
        answers = show.counted(total.plait.answers, "answer")
        yield f"{sessions}: Plait's {answers} cost {_paid(total.plait)}."
        yield NOT_SEEN
    else:
        yield f"{sessions}: Plait gave no answer in any."
    yield f"Searched and read without Plait: {_paid(total.explored)}."
    if total.sent:
        yield (
            f"By the agents' own usage {show.counted(total.sent_sessions, 'session')} sent "
            f"{total.sent:,} tokens: Plait's were {_share(total.sent_plait, total.sent)}, "
            f"searching and reading {_share(total.sent_explored, total.sent)}."
        )
    if total.receipts_only:
        yield (
            f"Of {show.counted(total.receipts_only, 'session')} only receipts are known: not what was "
            "paid again, nor what was searched and read."
        )
    if total.not_counted:
        yield f"{show.counted(total.not_counted, 'session')} not counted: {OLD}."


def _paid(paid: Paid) -> str:
    return f"{paid.tokens:,} tokens, paid again {paid.again:,}: {paid.total:,} in all"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def _compared(one: Comparison) -> str:
    if one.saved is None:
        return (
            f"{one.repo}: not enough sessions to compare, {one.with_plait.sessions} with Plait and "
            f"{one.without.sessions} without; {one.min_sessions} of each are needed."
        )
    return (
        f"{one.repo}: median of {_side(one.with_plait)} with Plait, whose answers cost "
        f"{one.with_plait.plait:,.0f}; of {_side(one.without)} without. {_estimate(one.saved)}"
    )


def _side(side: Side) -> str:
    by_file = f" ({side.explored_per_file:,.0f} an edited file)" if side.editing else ""
    return f"{side.explored:,.0f} tokens searched and read{by_file} in {side.sessions:,} sessions"


def _estimate(saved: float) -> str:
    tasks = "an estimate, since their tasks differ"
    if round(saved) == 0:
        return f"Plait neither saves nor costs tokens here: {tasks}."
    if saved < 0:
        return f"Plait costs about {-saved:,.0f} tokens a session more than it saves: {tasks}."
    return f"Plait saves about {saved:,.0f} tokens a session: {tasks}."


# -- for programs -----------------------------------------------------------------------------------


def as_json(report: Savings) -> dict[str, Any]:
    return {
        "sessions": [_session(one) for one in report.sessions],
        "total": _total(report.total),
        "comparisons": [_comparison(one) for one in report.comparisons],
        "cut": report.cut,
    }


def _tokens(paid: Paid) -> dict[str, int]:
    return {
        "answers": paid.answers,
        "tokens": paid.tokens,
        "again": paid.again,
        "total": paid.total,
    }


def _session(one: SessionSavings) -> dict[str, Any]:
    return {
        "repo": one.repo,
        "session": one.session_key,
        "agent": one.agent_id,
        "began": one.began.isoformat() if one.began else None,
        "ended": one.ended.isoformat() if one.ended else None,
        "status": one.status,
        "basis": one.basis.value,
        "factor": one.factor,
        "calls": one.calls,
        "plait": _tokens(one.plait),
        "again_known": one.again_known,
        "searched": _tokens(one.searched),
        "read": _tokens(one.read),
        "edited_files": one.edited_files,
        "sent": one.sent or None,
    }


def _total(total: Totals) -> dict[str, Any]:
    return {
        "sessions": total.sessions,
        "not_counted": total.not_counted,
        "receipts_only": total.receipts_only,
        "plait": _tokens(total.plait),
        "searched": _tokens(total.searched),
        "read": _tokens(total.read),
        "edited_files": total.edited_files,
        "sent": {
            "sessions": total.sent_sessions,
            "tokens": total.sent,
            "plait": total.sent_plait,
            "searched_and_read": total.sent_explored,
        },
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "repo": one.repo,
        "with_plait": asdict(one.with_plait),
        "without": asdict(one.without),
        "min_sessions": one.min_sessions,
        "saved_per_session": one.saved,
        "estimate": True,
    }
