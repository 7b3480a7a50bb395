"""`plait search QUERY`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plait.domain.display import to_json
from server.commands import frame
from server.commands.frame import NOTHING_FOUND, OK
from server.commands.output import explained

if TYPE_CHECKING:
    from plait.domain.answers.search import Degradation, RepositoryRevision, SearchResult
    from plait.domain.memory import AsOf
    from plait.domain.values import Filter, Hit

EXAMPLES = """\
  plait search "where are retries configured"
  plait search Session.request --repo requests --kind method
  plait search "parse the header" --path 'src/**' --language python -k 20
  plait search "flaky test" --in reflections --in tests --json
  plait search "where is the port set" --all-repos --recorded-as-of "last Tuesday"
  plait search "retry policy" --explain --off semantic --why-not ITEM_ID

Exit code 3: nothing found.
"""
COLLECTIONS = ("files", "diffs", "plans", "reflections", "tests", "memories")


def main(argv: Sequence[str] | None = None, prog: str = "plait search") -> int:
    args = _parser(prog).parse_args(argv)
    return frame.run_async(args, lambda: _search(args))


def _parser(prog: str) -> argparse.ArgumentParser:
    out = frame.parser(prog, "Find code and memories.", EXAMPLES)
    out.add_argument("query", nargs="+", metavar="QUERY", help="plain language or identifiers")
    frame.add_repo(out)
    frame.add_as_of(out)
    out.add_argument(
        "-k", type=int, default=0, metavar="N", help="most hits (default 10, up to 200)"
    )
    out.add_argument(
        "--in",
        dest="collections",
        action="append",
        choices=COLLECTIONS,
        help="a collection (repeatable; default: files)",
    )
    out.add_argument(
        "--kind", action="append", default=[], help="function, class, doc … (repeatable)"
    )
    out.add_argument("--language", action="append", default=[], help="python, go … (repeatable)")
    out.add_argument(
        "--path", default="", metavar="GLOB", help="paths: * stays in a folder, ** does not"
    )
    out.add_argument("--tag", action="append", default=[], help="one of these tags (repeatable)")
    out.add_argument(
        "--since", type=frame.time, metavar="TIME", help="not before: '2026-03-01', 'yesterday'"
    )
    out.add_argument("--until", type=frame.time, metavar="TIME", help="before")
    out.add_argument(
        "--min-score", type=float, default=0.0, metavar="S", help="0 to 1, after fusion"
    )
    out.add_argument("--mode", choices=("fast", "full"), default="fast")
    out.add_argument("--fusion", choices=("minmax", "rrf"), help="how the arms are united")
    explained.add(out)
    out.add_argument("--timeout", type=float, metavar="S", help="seconds to wait (default 15)")
    return out


async def _search(args: argparse.Namespace) -> int:
    from plait.domain.options import SearchOptions
    from server.local import connected

    query = " ".join(args.query)
    async with connected(frame.load(args)) as client:
        where = _filter(args, await frame.repositories(args, client))
        answer = await client.search(
            query,
            where=where,
            k=args.k,
            min_score=args.min_score,
            options=SearchOptions(
                mode=args.mode,
                fusion=args.fusion,
                explain=args.explain,
                valid_as_of=args.as_of,
                recorded_as_of=args.recorded_as_of,
                stages_off=args.off,
                why_not=args.why_not,
            ),
            timeout_s=args.timeout,
        )
    if args.json:
        print(to_json(_as_json(query, answer)))
    else:
        _show(args, query, answer)
    return OK if answer.hits else NOTHING_FOUND


def _filter(args: argparse.Namespace, repos: frame.Repos) -> Filter:
    from plait.domain.values import Collection, Filter

    return Filter(
        repos=repos.names,
        all_repos=repos.everywhere,
        collections=tuple(Collection(name) for name in args.collections or ("files",)),
        kinds=tuple(args.kind),
        languages=tuple(args.language),
        path_glob=args.path,
        tags_any=tuple(args.tag),
        since=args.since,
        until=args.until,
    )


def _show(args: argparse.Namespace, query: str, answer: SearchResult) -> None:
    from server.commands.output import show

    out = show.console()
    ranks = answer.ranks if args.explain else None
    show.hits(answer.hits, query, ranks=ranks, out=out)
    if not answer.hits:
        print(_nothing(answer), file=sys.stderr)
    if args.explain:
        explained.show_timings(answer.timings, out)
    explained.show_fates(answer.why_not, out)
    for note in notes(answer.as_of, answer.degraded, answer.revisions):
        print(f"note: {note}", file=sys.stderr)


def _nothing(answer: SearchResult) -> str:
    if not answer.revisions:
        return "nothing is indexed yet; run `plait index PATH`"
    names = ", ".join(sorted(r.repository for r in answer.revisions))
    return f"nothing found in {names}; fewer filters or other words may help"


def notes(
    as_of: AsOf, degraded: Sequence[Degradation], revisions: Sequence[RepositoryRevision]
) -> list[str]:
    """What an answer is of, and what keeps it from being whole."""
    from server.commands.output import show

    lines = show.as_of_notes(as_of)
    for part in degraded:
        if part.cause == "message_size":
            lines.append("the last hits were too large to send; ask for fewer with -k")
            continue
        if part.cause == "no_model":
            lines.append(
                "--mode full called no model, since none is configured: the answer is that of `fast`; set "
                "`language.provider` and `language.model` (docs/models.md)"
            )
            continue
        if part.cause == "too_many_chunks":
            lines.append(
                "these are over a million chunks, too many for the static table: code without the model's vector is "
                "ranked by its words alone; name fewer repositories with --repo (docs/models.md)"
            )
            continue
        if part.cause not in ("coverage", "no_vectors"):
            lines.append(f"{part.part} was left out: {part.cause}")
            continue
        lines += [
            f"{r.embedded:,} of {r.total:,} chunks of {r.repository} have a vector; the rest is "
            "ranked by its words alone (`plait index --wait` returns when all have one)"
            for r in revisions
            if r.embedded < r.total
        ]
    return lines


def _as_json(query: str, answer: SearchResult) -> dict[str, Any]:
    from dataclasses import asdict

    from server.commands.output import show

    return {
        "query": query,
        "as_of": show.as_of(answer.as_of),
        "hits": [_hit(hit) | explained.as_json(hit.item.id, answer.ranks) for hit in answer.hits],
        "why_not": explained.fates(answer.why_not),
        "revisions": [asdict(r) for r in answer.revisions],
        "degraded": [asdict(d) for d in answer.degraded],
        "timings": {t.stage: t.took_ms for t in answer.timings},
        "took_ms": answer.took_ms,
    }


def _hit(hit: Hit) -> dict[str, Any]:
    item = hit.item
    return {
        "score": hit.score,
        "arms": dict(hit.arms),
        "id": str(item.id),
        "collection": str(item.collection),
        "repo": item.repo,
        "kind": item.kind,
        "path": item.path,
        "symbol": item.symbol,
        "language": item.language,
        "start_line": item.start_line,
        "end_line": item.end_line,
        "is_test": item.is_test,
        "content": item.content,
        "meta": dict(item.meta),
        "tags": list(item.tags),
        "time": item.ts.isoformat(),
    }
