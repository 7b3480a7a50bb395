"""`plait memory`: store, read, query, delete, learn."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from plait.domain.display import to_json
from plait.domain.errors import InvalidInput
from server.commands import frame
from server.commands.frame import NOTHING_FOUND, OK

if TYPE_CHECKING:
    from plait.client import AsyncPlaitClient
    from plait.domain.memory import MemoryFilter

EXAMPLES = """\
  plait memory store "Retries live in app/http.py" --agent fixer --tag http
  plait memory store - --repo app --type procedural < how-to-release.md
  plait memory list --agent fixer --tag http
  plait memory query "how are releases made" -k 3
  plait memory list --recorded-as-of "last Tuesday" --json
  plait memory get 0198c5f2-… --as-of "end of last month"
  plait memory delete 0198c5f2-…
  plait memory learn --user "always use tabs" --assistant "Will do." --agent fixer

See `plait memory ACTION --help`. A deleted memory keeps its history; `plait forget` removes it.
Exit code 3: nothing found.
"""
TYPES = ("episodic", "semantic", "procedural")
SOURCES = ("agent", "user", "system")
KINDS = ("memory", "turn", "note", "summary")

Work = Callable[[argparse.Namespace, "AsyncPlaitClient"], Awaitable[int]]


def main(argv: Sequence[str] | None = None, prog: str = "plait memory") -> int:
    args = _parser(prog).parse_args(argv)
    return frame.run_async(args, lambda: _connected(args))


async def _connected(args: argparse.Namespace) -> int:
    from server.local import connected

    work: Work = args.work
    async with connected(frame.load(args)) as client:
        return await work(args, client)


def _parser(prog: str) -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog=prog,
        description="Store and find what agents and people know.",
        epilog=f"examples:\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = out.add_subparsers(dest="action", required=True, metavar="ACTION")
    _store_parser(actions, prog)
    _get_parser(actions, prog)
    _list_parser(actions, prog)
    _query_parser(actions, prog)
    _delete_parser(actions, prog)
    _learn_parser(actions, prog)
    return out


def _action(actions: Any, prog: str, name: str, about: str, work: Work) -> argparse.ArgumentParser:
    base = frame.parser(f"{prog} {name}", about, "  see `plait memory --help`", add_help=False)
    out: argparse.ArgumentParser = actions.add_parser(
        name, parents=[base], help=about.lower().rstrip("."), description=about
    )
    out.set_defaults(work=work)
    return out


def _store_parser(actions: Any, prog: str) -> None:
    out = _action(actions, prog, "store", "Store a memory.", _store)
    out.add_argument("text", metavar="TEXT", help="what to remember, or - for standard input")
    frame.add_one_repo(out)
    _whose(out)
    out.add_argument("--type", choices=TYPES, default="semantic")
    out.add_argument("--source", choices=SOURCES, default="agent")
    out.add_argument("--tag", action="append", default=[], help="a label (repeatable)")
    out.add_argument("--importance", type=float, default=0.5, metavar="X", help="0 to 1")
    out.add_argument("--path", default="", help="the file it is about")
    out.add_argument("--symbol", default="", help="the function or class it is about")
    out.add_argument("--pin", action="store_true", help="compaction leaves it alone")
    out.add_argument("--meta", metavar="JSON", help="an object with what else is known")
    out.add_argument("--valid-from", type=frame.time, metavar="TIME", help="since when it is true")
    out.add_argument("--valid-to", type=frame.time, metavar="TIME", help="until when, exclusive")
    out.add_argument("--supersedes", metavar="ID", help="the memory whose place it takes")
    out.add_argument("--request-id", default="", metavar="ID", help="makes a repeat harmless")


def _get_parser(actions: Any, prog: str) -> None:
    out = _action(actions, prog, "get", "Show one memory.", _get)
    out.add_argument("id", metavar="ID")
    frame.add_one_repo(out)
    frame.add_as_of(out)


def _list_parser(actions: Any, prog: str) -> None:
    out = _action(actions, prog, "list", "List memories, newest first.", _list)
    out.add_argument(
        "-n", type=frame.positive, default=100, metavar="N", help="most memories (default 100)"
    )
    out.add_argument("--history", action="store_true", help="closed versions too")
    _filters(out)


def _query_parser(actions: Any, prog: str) -> None:
    out = _action(actions, prog, "query", "Find memories by words and by meaning.", _query)
    out.add_argument("text", nargs="+", metavar="TEXT", help="plain language or identifiers")
    out.add_argument("-k", type=int, default=0, metavar="N", help="most matches (default 10)")
    out.add_argument("--min-score", type=float, default=0.0, metavar="S", help="0 to 1")
    _filters(out)


def _delete_parser(actions: Any, prog: str) -> None:
    out = _action(actions, prog, "delete", "Close memories; their history stays.", _delete)
    out.add_argument("id", nargs="+", metavar="ID")
    frame.add_one_repo(out)


def _learn_parser(actions: Any, prog: str) -> None:
    out = _action(
        actions, prog, "learn", "Store what is worth it of one turn of a conversation.", _learn
    )
    out.add_argument("--user", default="", metavar="TEXT", help="the user's message")
    out.add_argument("--assistant", default="", metavar="TEXT", help="what the assistant answered")
    out.add_argument(
        "--tool", action="append", default=[], metavar="NAME=TEXT", help="a tool's output"
    )
    out.add_argument(
        "--failed", action="append", default=[], metavar="NAME=TEXT", help="a failed tool's output"
    )
    frame.add_one_repo(out)
    _whose(out)
    out.add_argument("--request-id", default="", metavar="ID", help="makes a repeat harmless")


def _whose(out: argparse.ArgumentParser) -> None:
    out.add_argument("--agent", default="", metavar="ID", help="whose it is")
    out.add_argument("--session", default="", metavar="KEY", help="the conversation it is from")


def _filters(out: argparse.ArgumentParser) -> None:
    frame.add_repo(out)
    frame.add_as_of(out)
    _whose(out)
    out.add_argument("--tag", action="append", default=[], help="one of these tags (repeatable)")
    out.add_argument("--all-tags", action="append", default=[], help="all of these (repeatable)")
    out.add_argument("--type", action="append", default=[], choices=TYPES)
    out.add_argument("--source", action="append", default=[], choices=SOURCES)
    out.add_argument("--kind", action="append", default=[], choices=KINDS)
    out.add_argument("--importance-min", type=float, default=0.0, metavar="X", help="0 to 1")
    out.add_argument("--since", type=frame.time, metavar="TIME", help="created not before")
    out.add_argument("--until", type=frame.time, metavar="TIME", help="created before")


# -- work ----------------------------------------------------------------------------------------------


async def _store(args: argparse.Namespace, client: AsyncPlaitClient) -> int:
    from plait.client import new_memory
    from plait.domain.memory import MemorySource, MemoryType
    from plait.wire import memories

    entry = new_memory(
        _stdin() if args.text == "-" else args.text,
        repo=await frame.one_repository(args, client),
        agent_id=args.agent,
        session_key=args.session,
        type=MemoryType(args.type),
        source=MemorySource(args.source),
        tags=args.tag,
        importance=args.importance,
        custom=_object(args.meta),
        path=args.path,
        symbol=args.symbol,
        pinned=args.pin,
        valid_from=args.valid_from,
        valid_to=args.valid_to,
    )
    supersedes = _id(memories.id_of, args.supersedes) if args.supersedes else None
    stored = await client.store(entry, supersedes=supersedes, request_id=args.request_id)
    if args.json:
        _print(
            {
                "memory": _entry(stored.entry),
                "repeated": stored.repeated,
                "duplicate": stored.duplicate,
                "similar": [str(id_) for id_ in stored.similar],
                "request_id": stored.request_id,
                "masked": stored.masked,
            }
        )
        return OK
    how = "Stored before" if stored.repeated else "Known already" if stored.duplicate else "Stored"
    print(f"{how} {stored.entry.id}")
    _tell_masked(stored.masked)
    for id_ in stored.similar:
        print(f"note: much like {id_}", file=sys.stderr)
    return OK


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as exc:
        raise InvalidInput(
            f"standard input is not UTF-8 (byte {exc.start + 1:,}); convert it", field="text"
        ) from None


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"--meta is no JSON: {exc}", field="meta") from exc
    if not isinstance(value, dict):
        raise InvalidInput("--meta is no JSON object; write {…}", field="meta")
    return value


def _id(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError:
        raise InvalidInput(
            f"{text[:60]!r} is no memory's id; `plait memory list` shows them", field="id"
        ) from None


async def _get(args: argparse.Namespace, client: AsyncPlaitClient) -> int:
    from server.commands.output import show

    entry = await client.get(
        args.id,
        await frame.one_repository(args, client),
        valid_as_of=args.as_of,
        recorded_as_of=args.recorded_as_of,
    )
    if args.json:
        _print({"memory": _entry(entry)})
    else:
        out = show.console()
        show.memories([entry], out, whole=True)
    return OK


async def _list(args: argparse.Namespace, client: AsyncPlaitClient) -> int:
    from server.commands.output import show

    where = await _filter(args, client)
    found: list[Any] = []
    after, left = "", args.n
    while True:
        page = await client.list(
            where,
            limit=min(left, 1000),
            after=after,
            include_superseded=args.history,
            valid_as_of=args.as_of,
            recorded_as_of=args.recorded_as_of,
        )
        found += page.entries
        after, left = page.next, left - len(page.entries)
        if not after or left <= 0:
            break
    if args.json:
        _print(
            {
                "memories": [_entry(entry) for entry in found],
                "more": bool(after),
                "as_of": show.as_of(page.as_of),
            }
        )
    else:
        show.memories(found, show.console())
        _notes(show.as_of_notes(page.as_of) + (["there are more; -n raises the cap"] * bool(after)))
        if not found:
            print("no memories found", file=sys.stderr)
    return OK if found else NOTHING_FOUND


async def _query(args: argparse.Namespace, client: AsyncPlaitClient) -> int:
    from server.commands.output import show

    answer = await client.query(
        " ".join(args.text),
        await _filter(args, client),
        top_k=args.k,
        min_score=args.min_score,
        valid_as_of=args.as_of,
        recorded_as_of=args.recorded_as_of,
    )
    degraded = [{"part": d.part, "cause": d.cause} for d in answer.degraded]
    if args.json:
        matches = [
            {"score": m.score, "arms": dict(m.arms), "memory": _entry(m.entry)}
            for m in answer.matches
        ]
        _print(
            {
                "matches": matches,
                "degraded": degraded,
                "as_of": show.as_of(answer.as_of),
                "took_ms": answer.took_ms,
            }
        )
    else:
        show.matches(answer.matches, show.console())
        _notes(show.as_of_notes(answer.as_of))
        _notes([_left_out(d.part, d.cause) for d in answer.degraded])
        if not answer.matches:
            print("no memories found", file=sys.stderr)
    return OK if answer.matches else NOTHING_FOUND


def _left_out(part: str, cause: str) -> str:
    if (part, cause) == ("semantic", "coverage"):
        return "some memories have no vector yet and were ranked by their words alone"
    return f"{part} was left out: {cause}"


async def _filter(args: argparse.Namespace, client: AsyncPlaitClient) -> MemoryFilter:
    from plait.domain.memory import MemoryFilter, MemorySource, MemoryType

    repos = await frame.repositories(args, client)
    return MemoryFilter(
        repos=repos.names,
        all_repos=repos.everywhere,
        agent_id=args.agent,
        session_key=args.session,
        tags_any=tuple(args.tag),
        tags_all=tuple(args.all_tags),
        sources=tuple(MemorySource(name) for name in args.source),
        types=tuple(MemoryType(name) for name in args.type),
        kinds=tuple(args.kind),
        importance_min=args.importance_min,
        created_after=args.since,
        created_before=args.until,
    )


async def _delete(args: argparse.Namespace, client: AsyncPlaitClient) -> int:
    repo = await frame.one_repository(args, client)
    before = []
    for id_ in args.id:
        closed = await client.delete(id_, repo)
        if not closed:
            before.append(id_)
        if not args.json:
            label = "Closed" if closed else "Closed before:"
            print(f"{label} {id_}; its history stays", file=sys.stderr)
    if args.json:
        _print({"deleted": args.id, "closed_before": before})
    return OK


async def _learn(args: argparse.Namespace, client: AsyncPlaitClient) -> int:
    from plait.domain.answers.memories import Tool
    from server.commands.output import show

    tools = [Tool(*_named(text)) for text in args.tool]
    tools += [Tool(*_named(text), failed=True) for text in args.failed]
    learned = await client.learn(
        repo=await frame.one_repository(args, client),
        agent_id=args.agent,
        session_key=args.session,
        user_message=args.user,
        assistant_reasoning=args.assistant,
        tool_outcomes=tools,
        request_id=args.request_id,
    )
    if args.json:
        _print(
            {
                "memories": [_entry(entry) for entry in learned.entries],
                "skipped_cause": learned.skipped_cause,
                "repeated": learned.repeated,
                "request_id": learned.request_id,
                "masked": learned.masked,
            }
        )
        return OK
    show.memories(learned.entries, show.console())
    _tell_masked(learned.masked)
    if learned.skipped_cause:
        _notes([f"nothing was stored: {learned.skipped_cause}"])
    return OK


def _tell_masked(count: int) -> None:
    if count:
        what = "credential was" if count == 1 else "credentials were"
        _notes([f"{count} {what} masked before it was stored; see docs/secrets.md"])


def _named(text: str) -> tuple[str, str]:
    name, equals, output = text.partition("=")
    if not equals or not name:
        raise InvalidInput(f"{text[:60]!r} is not NAME=TEXT", field="tool")
    return name, output


def _entry(entry: Any) -> dict[str, Any]:
    from server.commands.output import show

    return show.entry_json(entry)


def _notes(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def _print(body: dict[str, Any]) -> None:
    print(to_json(body))
