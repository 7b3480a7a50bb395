"""`plait graph TEMPLATE ARGUMENT…` and `plait graph --cypher QUERY`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plait.domain.answers.graph import GraphEdge
from plait.domain.display import to_json
from plait.domain.errors import GraphUpdating, InvalidInput, PlaitError
from plait.retrieval.code_graph.templates.catalogue import CATALOGUE, Kind, Template, find
from server.commands import frame
from server.commands.frame import NOTHING_FOUND, OK

if TYPE_CHECKING:
    from plait.client import AsyncPlaitClient
    from plait.domain.answers.graph import GraphAnswer

EXAMPLES = """\
  plait graph callers django.db.models.Model.save --repo django
  plait graph impact Session.request --param depth=2
  plait graph path cli.main db.connect
  plait graph outline src/app.py --json
  plait graph history Session.request --as-of "last Tuesday"
  plait graph --cypher 'MATCH (c:Class {{repo: $repo}}) RETURN c.name LIMIT 5' --param repo=django

templates:
{templates}

A symbol is an id, a qualified name, or the end of one (`Model.save`); a file is its path or the end of
it. Exit code 3: nothing found.
"""

# What is being caught up with is said after this, and again when it has changed.
FIRST_WORD_S, LATER_WORDS_S = 1.5, 5.0
NOBODY = "UNAVAILABLE"  # what gRPC says where nobody listens
MOST_LOST, LOST_S = 3, 1.0
TIMES = ("recorded_from",)  # columns of templates that hold milliseconds


def main(argv: Sequence[str] | None = None, prog: str = "plait graph") -> int:
    out = _parser(prog)
    args = out.parse_args(argv)
    if (args.cypher is None) == (args.template is None):
        out.error("say a TEMPLATE, or --cypher QUERY")
    if args.cypher is not None and args.arguments:
        out.error("--cypher takes its values as --param KEY=VALUE")
    return frame.run_async(args, lambda: _graph(args))


def _parser(prog: str) -> argparse.ArgumentParser:
    examples = EXAMPLES.format(templates="\n".join(_line(t) for t in CATALOGUE.values()))
    out = frame.parser(prog, "Ask the code graph.", examples)
    out.add_argument("template", nargs="?", metavar="TEMPLATE", help="a named query, see below")
    out.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="its parameters, in order")
    out.add_argument("--cypher", metavar="QUERY", help="one read-only statement")
    out.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a parameter by name; the value is JSON, or text where it is none (repeatable)",
    )
    frame.add_repo(out)
    frame.add_as_of(out)
    out.add_argument("--rows", type=int, default=0, metavar="N", help="most rows (default 1000)")
    out.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help="seconds to wait (default 30; with --cypher until the graph server has caught up)",
    )
    return out


def _line(template: Template) -> str:
    words = [template.name]
    words += [
        p.name.upper() if p.kind is not Kind.INT else f"[{p.name.upper()}]" for p in template.params
    ]
    return f"  {' '.join(words):<30} {template.title}"


async def _graph(args: argparse.Namespace) -> int:
    from server.local import connected

    given = _named(args.param)
    template = find(args.template) if args.template else None  # a wrong name starts no server
    if template is not None:
        given = _in_order(template, args.arguments) | given
    async with connected(frame.load(args)) as client:
        answer = await _ask(args, client, template, given)
    if args.json:
        print(to_json(_as_json(answer)))
    else:
        _show(answer, TIMES if template is not None else ())
    return OK if answer.rows else NOTHING_FOUND


async def _ask(
    args: argparse.Namespace,
    client: AsyncPlaitClient,
    template: Template | None,
    given: Mapping[str, Any],
) -> GraphAnswer:
    repos = await frame.repositories(args, client)
    where: dict[str, Any] = {
        "repositories": repos.names,
        "all_repositories": repos.everywhere,
        "max_rows": args.rows,
        "timeout_s": args.timeout,
        "valid_as_of": args.as_of,
        "recorded_as_of": args.recorded_as_of,
    }
    if template is None:
        return await _caught_up(
            args, client, lambda: client.graph_query(args.cypher, given, **where)
        )
    return await client.template(template.name, given, **where)


async def _caught_up(
    args: argparse.Namespace, client: AsyncPlaitClient, ask: Callable[[], Awaitable[GraphAnswer]]
) -> GraphAnswer:
    """The answer, once the graph server holds what was indexed: asked again as long as it catches up, unless
    --timeout says how long to wait."""
    telling = asyncio.create_task(_tell_waiting(client, quiet=args.json))
    lost = 0
    try:
        while True:
            try:
                return await ask()
            except PlaitError as exc:
                # A service that ends meanwhile is followed by another, which goes on where it was.
                if exc.reason == NOBODY and lost < MOST_LOST:
                    lost += 1
                    await asyncio.sleep(LOST_S)
                elif exc.reason != GraphUpdating.reason or args.timeout is not None:
                    raise
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell_waiting(client: AsyncPlaitClient, *, quiet: bool) -> None:
    """How much the graph server still lacks, on standard error, while it lasts."""
    wait_s, before = FIRST_WORD_S, 0
    while not quiet:
        await asyncio.sleep(wait_s)
        waiting = (await client.stats()).waiting_projections
        if waiting and waiting != before:
            print(
                f"the graph server starts with the first Cypher and catches up: {waiting:,} changes wait",
                file=sys.stderr,
                flush=True,
            )
        wait_s, before = LATER_WORDS_S, waiting


def _named(pairs: Sequence[str]) -> dict[str, Any]:
    """`KEY=VALUE` pairs. Raises: InvalidInput."""
    out = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise InvalidInput(f"--param {pair!r} is not KEY=VALUE", field="param")
        out[key] = _value(text)
    return out


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _in_order(template: Template, arguments: Sequence[str]) -> dict[str, Any]:
    """Arguments by the names of the template's parameters. Raises: InvalidInput, for too many."""
    names = [param.name for param in template.params]
    if len(arguments) > len(names):
        raise InvalidInput(
            f"the template {template.name!r} takes {' '.join(names).upper()}; "
            f"{arguments[len(names)]!r} is one too many",
            field="arguments",
        )
    return dict(zip(names, arguments, strict=False))


def _show(answer: GraphAnswer, times: Sequence[str]) -> None:
    from server.commands.output import show

    if answer.rows:
        columns: Sequence[str] = answer.columns
        rows: Sequence[Sequence[Any]] = answer.rows
        if times:
            columns, rows = without_doubles(columns, rows)
        show.rows(columns, rows, show.console(), times)
    else:
        print("nothing found", file=sys.stderr)
    if answer.truncated:
        print(f"note: more than {len(answer.rows):,} rows; --rows raises the cap", file=sys.stderr)
    for part in answer.degraded:
        if part.part == "hops":
            hops = part.cause.rpartition("_")[2]
            print(
                f"note: paths without an upper bound were followed for {hops} hops", file=sys.stderr
            )
    for note in show.as_of_notes(answer.as_of):
        print(f"note: {note}", file=sys.stderr)
    for r in answer.revisions:
        if r.graph_revision != r.revision:
            print(
                f"note: the graph shows revision {r.graph_revision} of {r.repository}, "
                f"its text is at {r.revision}",
                file=sys.stderr,
            )


def without_doubles(
    columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> tuple[list[str], list[list[Any]]]:
    """A table for people: without columns that say what an edge beside them shows (`relation`), and
    without edges that show nothing but their own heading (`fixes: FIXES`). JSON keeps them."""
    by_column = [[row[i] for row in rows] for i in range(len(columns))]
    relations = [
        [value.relation if isinstance(value, GraphEdge) else None for value in values]
        for values in by_column
    ]
    edges = [shown for shown in relations if any(shown)]

    def repeats(i: int) -> bool:
        if any(relations[i]):
            return set(relations[i]) <= {None, columns[i].upper()}
        return by_column[i] in edges

    keep = [i for i in range(len(columns)) if not repeats(i)]
    return [columns[i] for i in keep], [[row[i] for i in keep] for row in rows]


def _as_json(answer: GraphAnswer) -> dict[str, Any]:
    from dataclasses import asdict

    from server.commands.output import show
    from server.commands.output.show import plain

    return {
        "columns": list(answer.columns),
        "rows": plain(answer.rows),
        "nodes": plain(list(answer.nodes)),
        "edges": plain(list(answer.edges)),
        "truncated": answer.truncated,
        "revisions": [asdict(r) for r in answer.revisions],
        "degraded": [asdict(d) for d in answer.degraded],
        "as_of": show.as_of(answer.as_of),
        "took_ms": answer.took_ms,
    }
