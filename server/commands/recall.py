"""`plait recall QUERY`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plait.domain.display import to_json, visible
from server.commands import frame
from server.commands.frame import NOTHING_FOUND, OK
from server.commands.output import explained
from server.commands.search import COLLECTIONS, notes

if TYPE_CHECKING:
    from plait.client import AsyncPlaitClient
    from plait.domain.answers.recalls import RecallResult
    from plait.domain.recall import Impact, RecalledItem
    from plait.domain.values import Collection, Filter

EXAMPLES = """\
  plait recall "make the download retry with a backoff"
  plait recall "why does test_login flake" --budget 2000 --source --model gpt-4o
  plait recall "fix this" --session run-17 --trace traceback.txt
  git diff | plait recall "what does this break" --diff -
  plait recall "where is the port set" --format repo-map
  plait recall "retries" --why-not 0f8fad5b-d9cb-469f-a165-70867728950e
  plait recall --replay 7c9e6679-7425-40de-944b-e07fc1f90ae7

The block for the prompt goes to standard output, everything about it to standard error.
`plait feedback` takes the recall's id. Exit code 3: nothing helps.
"""
FORMATS = ("markdown", "structured", "repo-map")


def main(argv: Sequence[str] | None = None, prog: str = "plait recall") -> int:
    args = _parser(prog).parse_args(argv)
    return frame.run_async(args, lambda: _recall(args))


def _parser(prog: str) -> argparse.ArgumentParser:
    out = frame.parser(prog, "Recall the few things worth an agent's tokens.", EXAMPLES)
    out.add_argument("query", nargs="*", metavar="QUERY", help="what the agent is about to do")
    frame.add_repo(out)
    frame.add_as_of(out)
    out.add_argument(
        "--budget", type=int, default=0, metavar="N", help="most tokens (default 1000)"
    )
    out.add_argument(
        "--window", type=int, default=0, metavar="N", help="context window; a tenth is the budget"
    )
    out.add_argument(
        "--source",
        action="store_true",
        help="prefer the source of a few items to the locations of many",
    )
    out.add_argument(
        "--model", default="", metavar="NAME", help="whose tokenizer counts (default: o200k)"
    )
    out.add_argument("--format", choices=FORMATS, default="markdown")
    out.add_argument(
        "-n", type=int, default=0, metavar="N", help="most items (default 60, up to 200)"
    )
    attached = out.add_mutually_exclusive_group()
    attached.add_argument("--diff", metavar="FILE", help="a patch this is about; -: standard input")
    attached.add_argument("--trace", metavar="FILE", help="a stack trace; -: standard input")
    attached.add_argument("--issue", metavar="FILE", help="an issue's text; -: standard input")
    _add_session(out)
    _add_narrowing(out)
    out.add_argument("--mode", choices=("fast", "full"), default="fast")
    out.add_argument("--fusion", choices=("minmax", "rrf"), help="how the arms are united")
    out.add_argument("--replay", metavar="ID", help="answer an earlier recall again")
    explained.add(out)
    out.add_argument("--timeout", type=float, metavar="S", help="seconds to wait (default 15)")
    return out


def _add_session(out: argparse.ArgumentParser) -> None:
    out.add_argument(
        "--session",
        default="",
        metavar="KEY",
        help="the session: it is not shown the same item again for a while",
    )
    out.add_argument(
        "--cooldown", type=float, metavar="S", help="for how many seconds (default 1800; 0: show)"
    )
    out.add_argument("--no-receipt", action="store_true", help="no id for feedback and replay")


def _add_narrowing(out: argparse.ArgumentParser) -> None:
    out.add_argument(
        "--in",
        dest="collections",
        action="append",
        choices=COLLECTIONS,
        help="a collection (repeatable; default: all)",
    )
    out.add_argument(
        "--path", default="", metavar="GLOB", help="paths: * stays in a folder, ** does not"
    )
    out.add_argument("--language", action="append", default=[], help="python, go … (repeatable)")
    out.add_argument("--tag", action="append", default=[], help="one of these tags (repeatable)")
    out.add_argument("--agent", default="", metavar="ID", help="only what this agent wrote")
    out.add_argument("--since", type=frame.time, metavar="TIME", help="not before")
    out.add_argument("--until", type=frame.time, metavar="TIME", help="before")
    out.add_argument("--min-score", type=float, metavar="S", help="0 to 1; below it is no help")


async def _recall(args: argparse.Namespace) -> int:
    from server.local import connected

    query, source = " ".join(args.query), args.diff or args.trace or args.issue
    if args.replay and (query or source):
        raise frame.Usage("--replay repeats the stored query; leave the QUERY out")
    if not (args.replay or query or source):
        raise frame.Usage(
            "give a QUERY: what the agent is about to do; or --diff, --trace or --issue"
        )
    attached = _read(source)
    async with connected(frame.load(args)) as client:
        same: bool | None = None
        if args.replay:
            replayed = await client.replay(
                args.replay, explain=args.explain, why_not=args.why_not, timeout_s=args.timeout
            )
            answer, same = replayed.recall, replayed.same
        else:
            answer = await _answer(args, client, query, attached)
    if args.json:
        print(to_json(_as_json(query, answer, same)))
    else:
        _show(args, answer, same)
    return OK if answer else NOTHING_FOUND


async def _answer(
    args: argparse.Namespace, client: AsyncPlaitClient, query: str, attached: str
) -> RecallResult:
    from plait.domain.options import RecallOptions

    return await client.recall(
        query,
        where=_filter(args, await frame.repositories(args, client)),
        collections=_collections(args),
        attached=attached,
        options=RecallOptions(
            format=args.format,
            budget_tokens=args.budget,
            window_tokens=args.window,
            prefer_source=args.source,
            tokenizer=args.model,
            max_items=args.n,
            min_score=args.min_score,
            session_key=args.session,
            cooldown_s=args.cooldown,
            receipt=not args.no_receipt,
            mode=args.mode,
            fusion=args.fusion,
            stages_off=args.off,
            explain=args.explain,
            why_not=args.why_not,
            valid_as_of=args.as_of,
            recorded_as_of=args.recorded_as_of,
        ),
        timeout_s=args.timeout,
    )


def _collections(args: argparse.Namespace) -> tuple[Collection, ...]:
    from plait.domain.values import Collection

    return tuple(Collection(name) for name in args.collections or ())


def _filter(args: argparse.Namespace, repos: frame.Repos) -> Filter:
    from plait.domain.values import Filter

    return Filter(
        repos=repos.names,
        all_repos=repos.everywhere,
        languages=tuple(args.language),
        path_glob=args.path,
        tags_any=tuple(args.tag),
        agent_id=args.agent,
        since=args.since,
        until=args.until,
    )


def _read(name: str | None) -> str:
    """What is attached, whatever its bytes. Raises: Usage."""
    if not name:
        return ""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as exc:
        raise frame.Usage(f"cannot read {name}: {exc.strerror}") from exc
    if not data.strip():
        raise frame.Usage(f"{'standard input' if name == '-' else name} is empty")
    return data.decode("utf-8", "replace")


# -- for people ----------------------------------------------------------------------------------------


def _show(args: argparse.Namespace, answer: RecallResult, same: bool | None) -> None:
    from server.commands.output import show

    out = show.console()
    if answer.context:
        print(visible(answer.context).rstrip("\n"))  # exactly what was counted, wherever it goes
    else:
        _show_impact(answer.impact)
        for number, item in enumerate(answer.items, 1):
            print(_item_line(number, item))
    if args.explain:
        for number, item in enumerate(answer.items, 1):
            out.print(f"\n{_item_line(number, item)}", style="bold")
            explained.show(item.item.id, item.arms, answer.ranks, out)
        explained.show_timings(answer.timings, out)
    explained.show_fates(answer.why_not, out)
    print(_summary(answer), file=sys.stderr)
    if same is not None:
        print("the same as then" if same else "not the same as then", file=sys.stderr)
    for note in notes(answer.as_of, answer.degraded, answer.revisions):
        print(f"note: {note}", file=sys.stderr)


def _item_line(number: int, item: RecalledItem) -> str:
    from server.commands.output import show

    one = item.item
    place = f"{one.path}:{one.start_line}" if one.start_line else one.path or str(one.collection)
    line = f"{number:>2}. {item.score:.2f} {one.id} {place} {one.symbol}".rstrip()
    about = f"{item.tier}, {item.tokens} tokens, {item.freshness}, {item.trust}"
    return show.clean(f"{line}  ({about}) {'; '.join(item.reasons)}".rstrip())


def _show_impact(impact: Impact) -> None:
    from server.commands.output import show

    named = (("touched", impact.touched), ("calls it", impact.callers), ("test", impact.tests))
    for title, nodes in named:
        for node in nodes:
            print(show.clean(f"{title}: {node.path}:{node.line} {node.name}"))
    for event in impact.history:
        print(show.clean(f"{event.kind}: {event.title}"))


def _summary(answer: RecallResult) -> str:
    """One line on what it took, and the id that feedback names."""
    from server.commands.output import show

    if not answer:
        return answer.silence or "nothing helps"
    parts = [f"{answer.tokens:,} of {answer.budget:,} tokens"]
    if not answer.counted.exact:
        share = f"{answer.counted.margin:.0%}"
        parts[0] += f" ({answer.counted.tokenizer}; {share} kept back)"
    parts.append(show.counted(len(answer.items), "item"))
    if answer.omitted:
        causes: dict[str, int] = {}
        for omitted in answer.omitted:
            causes[omitted.why.cause] = causes.get(omitted.why.cause, 0) + 1
        causes_shown = ", ".join(f"{cause} {count}" for cause, count in causes.items())
        parts.append(f"{len(answer.omitted)} left out ({causes_shown})")
    if answer.recall_id:
        parts.append(f"recall {answer.recall_id}")
    return ", ".join(parts)


# -- for programs --------------------------------------------------------------------------------------


def _as_json(query: str, answer: RecallResult, same: bool | None) -> dict[str, Any]:
    from dataclasses import asdict

    from server.commands.output import show

    out: dict[str, Any] = {
        "query": query,
        "recall_id": str(answer.recall_id) if answer.recall_id else None,
        "context": answer.context,
        "silence": answer.silence,
        "kind": answer.kind,
        "tokens": answer.tokens,
        "budget": answer.budget,
        "counted": asdict(answer.counted),
        "items": [
            _item(item) | explained.as_json(item.item.id, answer.ranks) for item in answer.items
        ],
        "omitted": [
            {"id": str(o.id), "score": o.score} | explained.fate(o.why) for o in answer.omitted
        ],
        "impact": _impact(answer.impact),
        "why_not": explained.fates(answer.why_not),
        "as_of": show.as_of(answer.as_of),
        "revisions": [asdict(r) for r in answer.revisions],
        "degraded": [asdict(d) for d in answer.degraded],
        "timings": {t.stage: t.took_ms for t in answer.timings},
        "took_ms": answer.took_ms,
    }
    return out if same is None else {**out, "same": same}


def _item(item: RecalledItem) -> dict[str, Any]:
    from dataclasses import asdict

    one = item.item
    return {
        "id": str(one.id),
        "score": item.score,
        "tier": str(item.tier),
        "tokens": item.tokens,
        "text": item.text,
        "reasons": list(item.reasons),
        "freshness": str(item.freshness),
        "anchors": [asdict(anchor) for anchor in item.anchors],
        "trust": str(item.trust),
        "also": [str(id_) for id_ in item.also],
        "collection": str(one.collection),
        "repo": one.repo,
        "kind": one.kind,
        "path": one.path,
        "symbol": one.symbol,
        "start_line": one.start_line,
        "end_line": one.end_line,
        "time": one.ts.isoformat(),
        "arms": dict(item.arms),
    }


def _impact(impact: Impact) -> dict[str, Any] | None:
    from dataclasses import asdict

    if not impact:
        return None
    out = asdict(impact)
    for event in out["history"]:
        event["at"] = event["at"].isoformat() if event["at"] else None
        event["item_id"] = str(event["item_id"]) if event["item_id"] else None
    return out
