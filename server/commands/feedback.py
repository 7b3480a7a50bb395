"""`plait feedback RECALL_ID`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from server.commands import frame
from server.commands.frame import OK

if TYPE_CHECKING:
    from plait.domain.answers.recalls import FeedbackTaken

EXAMPLES = """\
  plait feedback RECALL_ID --helped ITEM_ID --harmed ITEM_ID
  plait feedback RECALL_ID --outcome success --proof tests/test_http.py::test_retries
  plait feedback RECALL_ID --outcome failure --proof ci/build-4711 --summary "two tests broke"

`plait recall --json` has the ids of its items. Safe to repeat.
"""
OUTCOMES = ("success", "failure", "partial", "unknown")


def main(argv: Sequence[str] | None = None, prog: str = "plait feedback") -> int:
    args = _parser(prog).parse_args(argv)
    return frame.run_async(args, lambda: _feedback(args))


def _parser(prog: str) -> argparse.ArgumentParser:
    out = frame.parser(prog, "Say what became of a recall.", EXAMPLES)
    out.add_argument(
        "recall_id", type=_id, metavar="RECALL_ID", help="the id that `plait recall` prints"
    )
    for name, about in (
        ("helped", "was of use"),
        ("harmed", "misled"),
        ("unused", "was read and made no difference"),
    ):
        out.add_argument(
            f"--{name}",
            action="append",
            default=[],
            type=_id,
            metavar="ID",
            help=f"an item that {about} (repeatable)",
        )
    out.add_argument("--outcome", choices=OUTCOMES, help="how the run ended")
    out.add_argument(
        "--proof",
        action="append",
        default=[],
        metavar="NAME",
        help="a test or CI job that the outcome rests on (repeatable)",
    )
    out.add_argument("--summary", default="", metavar="TEXT", help="what happened, in a sentence")
    out.add_argument("--commit", default="", metavar="HASH", help="the commit that came of it")
    out.add_argument("--request-id", default="", metavar="ID", help="names this report")
    frame.add_tenant(out)
    return out


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is no id; copy it whole") from None


async def _feedback(args: argparse.Namespace) -> int:
    from plait.domain.values import Outcome
    from server.local import connected

    if not (args.helped or args.harmed or args.unused or args.outcome):
        raise frame.Usage("give --helped, --harmed or --unused, or the --outcome")
    if args.outcome is None and (args.proof or args.summary or args.commit):
        raise frame.Usage("--proof, --summary and --commit belong to an --outcome")
    outcome = None
    if args.outcome is not None:
        outcome = Outcome(args.outcome, summary=args.summary, commit=args.commit)
    async with connected(frame.load(args)) as client:
        taken = await client.report_feedback(
            args.recall_id,
            helped=args.helped,
            harmed=args.harmed,
            unused=args.unused,
            outcome=outcome,
            proof=args.proof,
            request_id=args.request_id,
        )
    print(json.dumps(_as_json(taken)) if args.json else _summary(taken))
    return OK


def _summary(taken: FeedbackTaken) -> str:
    from server.commands.output import show

    parts = [show.counted(taken.accepted, "verdict")]
    if taken.attributed:
        parts.append(f"outcome attributed to {show.counted(taken.attributed, 'item')}")
    if taken.links:
        parts.append(show.counted(taken.links, "VALIDATED_BY link"))
    if taken.unknown:
        named = ", ".join(str(id_) for id_ in taken.unknown[:5])
        parts.append(f"{len(taken.unknown)} not part of the recall: {named}")
    return ("accepted before: " if taken.repeated else "accepted: ") + ", ".join(parts)


def _as_json(taken: FeedbackTaken) -> dict[str, Any]:
    return {
        "accepted": taken.accepted,
        "unknown": [str(id_) for id_ in taken.unknown],
        "attributed": taken.attributed,
        "links": taken.links,
        "repeated": taken.repeated,
        "request_id": taken.request_id,
    }
