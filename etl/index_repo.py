"""`python -m etl.index_repo PATH`, the same as `plait index PATH`: index a repository.

Exit codes: 0 indexed (or nothing changed), 1 failed with a reason, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from plait.domain.display import guarded, to_json
from plait.domain.errors import BadSettings, PlaitError

if TYPE_CHECKING:
    from etl.pipeline import IndexRequest
    from etl.report import IndexReport, Progress
    from plait.ports import GraphStore
    from plait.settings import Settings

# Runs of other processes that are waited for: after a save they take a second, on a large tree half a minute.
TURN_S = 60.0

EXAMPLE = """\
examples:
  plait index .                          index the folder you are in, under its name
  plait index ~/src/django --repo dj     under another name
  plait index . --wait                   return when the vectors are there too
  plait index . --no-embed               text and graph only; vectors later, by running again
  plait index . --export graph.jsonl     write the graph as JSON lines; needs no store at all

It returns when text and call graph answer; the service makes the vectors in the background, and every
answer says how many there are. A second run reads only what changed. Ctrl-C is safe at any time: run again
to complete.
`python -m etl.index_repo` takes the same arguments.
"""


def parser(prog: str = "plait index") -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog=prog,
        description="Index a repository: text and call graph now, vectors in the background.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("path", type=_folder, metavar="PATH", help="the repository's folder")
    out.add_argument("--repo", default="", metavar="NAME", help="its name (default: the folder's)")
    out.add_argument("--no-embed", action="store_true", help="leave the vectors out")
    out.add_argument(
        "--wait",
        action="store_true",
        help="wait for the vectors too, and for an external graph server",
    )
    out.add_argument(
        "--move", action="store_true", help="the repository of this name lives at PATH now"
    )
    out.add_argument(
        "--export",
        metavar="FILE",
        help="write nodes and edges as JSON lines to FILE (- for standard output) and index nothing",
    )
    out.add_argument("--config", type=Path, metavar="FILE", help="settings file (YAML)")
    out.add_argument("--json", action="store_true", help="print the result as one JSON object")
    out.add_argument("--quiet", action="store_true", help="no progress, no summary")
    return out


def _folder(text: str) -> Path:
    """`Path("")` would be the working folder: `plait index "$UNSET"` must not index that."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; write `.` for the folder you are in")
    return Path(text)


def main(argv: Sequence[str] | None = None, prog: str = "plait index") -> int:
    """Run the command; return its exit code."""
    args = parser(prog).parse_args(argv)
    try:
        code = _run(args)
        sys.stdout.flush()
        return code
    except PlaitError as exc:
        _print_error(exc, as_json=args.json)
        return 1
    except BrokenPipeError:
        # The reader (`| head`) has enough. Python would complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as exc:  # a full disk or a lost folder under our own files
        print(f"error: {exc.strerror or exc}: {exc.filename or args.path}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\ninterrupted: what was published stays, the rest left no trace; "
            "run the same command again to complete",
            file=sys.stderr,
        )
        return 130
    except Exception as exc:
        return _fault(exc)


def _run(args: argparse.Namespace) -> int:
    from plait import settings as plait_settings

    settings = plait_settings.load(args.config)
    if not plait_settings.debug():
        # Drivers warn about retries; errors that matter are raised. Without a handler
        # Python prints their warnings.
        logging.getLogger().addHandler(logging.NullHandler())
    if args.export is not None:
        return _export(args, settings)
    _refuse_elsewhere(settings)
    if not args.wait and not args.move and settings.client.autostart:
        report = _handed_over(args, settings)
        if report is not None:
            _tell(args, report)
            return 0
    from etl.plan import make_plan, repository_name
    from plait.domain.scope import unqualify
    from vector.server.embedded import start_soon

    # A wrong path or name is answered before any server is started for it.
    root = args.path.expanduser().absolute()
    repository_name(root, args.repo)
    plan = make_plan(root, settings)
    # Both start while this process still loads what it needs.
    _start_service(settings)
    held = start_soon(settings)

    from etl.pipeline import IndexRequest

    # A run makes millions of values that live to its end: looking through them for cycles again and
    # again was a tenth of this process's CPU. Cycles are still collected, less often.
    gc.set_threshold(200_000, 50, 100)
    tenant = settings.scope.tenant
    request = IndexRequest(
        args.path,
        args.repo,
        embed=not args.no_embed,
        move=args.move,
        plan=plan,
        tenant=tenant,
        turn_s=TURN_S,
    )
    # Without a service nobody would make them afterwards.
    wait = args.wait or not settings.client.autostart
    report = asyncio.run(_index(request, settings, _progress(args), wait))
    report = replace(report, repo=unqualify(tenant, report.repo))
    _start_service(settings)  # one that was running may have left meanwhile
    for lease in held:
        lease.close()
    _tell(args, report)
    return 0


def _handed_over(args: argparse.Namespace, settings: Settings) -> IndexReport | None:
    """The report of the running service, which is quicker at it; None where it can't do this run."""
    from plait.client import discovery

    if settings.client.server or discovery.running(settings.home) is None:
        return None
    from etl.handed_over import hand_over

    root = args.path.expanduser().absolute()
    try:
        return hand_over(root, args.repo, settings, _progress(args), embed=not args.no_embed)
    except KeyboardInterrupt:
        print("\ninterrupted: the running service goes on with the run", file=sys.stderr)
        raise SystemExit(130) from None


def _tell(args: argparse.Namespace, report: IndexReport) -> None:
    from etl.report import render

    filling = not args.no_embed and report.embedded < report.chunks
    report = replace(report, filling=filling)
    if args.json:
        print(to_json(report.to_json()))
    elif not args.quiet:
        print(render(report))


async def _index(
    request: IndexRequest, settings: Settings, progress: Progress, wait: bool
) -> IndexReport:
    """Open what the run needs, run it, close it again. `wait`: for all that a service would do afterwards."""
    from contextlib import AsyncExitStack

    from etl.embed import check_model
    from etl.pipeline import index_repository
    from etl.truth import open as open_truth

    async with AsyncExitStack() as stack:
        truth = await open_truth(settings)
        stack.push_async_callback(truth.close)
        provider = None
        embed = request.embed and settings.embedding.embeds_code
        if embed and wait:
            import plait.models.embedding

            provider = await plait.models.embedding.open(settings.embedding)
            stack.push_async_callback(provider.close)
        elif embed:
            await check_model(truth.vectors, settings.embedding)
        opened: list[GraphStore] = []

        async def open_graph() -> GraphStore:
            if not opened:
                import graph

                opened.append(await graph.open(settings))
                stack.push_async_callback(opened[0].close)
            return opened[0]

        # The embedded one starts with the first Cypher.
        graph_too = open_graph if wait and settings.graph.uri else None
        return await index_repository(request, settings, truth, graph_too, provider, progress)


def _refuse_elsewhere(settings: Settings) -> None:
    """Raises: BadSettings, where commands ask another server, which would never see what is indexed here."""
    if settings.client.server and not settings.postgres.dsn.get_secret_value():
        raise BadSettings(
            f"commands ask {settings.client.server} (PLAIT_SERVER, `client.server`), and an index run writes "
            "into this machine's own stores, which that server does not read; run it on that machine, set "
            "`postgres.dsn` and `graph.uri` to its stores, or unset PLAIT_SERVER",
            key="client.server",
        )


def _start_service(settings: Settings) -> None:
    """Searches usually follow an index run: start the service for them, without waiting."""
    if settings.client.server or not settings.client.autostart:
        return
    from plait.client import service

    try:
        service.ensure(settings, wait=False)
    except (PlaitError, OSError) as exc:  # the next command meets the same error and reports it
        logging.getLogger(__name__).debug("service not started", extra={"error": str(exc)})


def _export(args: argparse.Namespace, settings: Settings) -> int:
    """Write the graph to a file, with no store and no server."""
    from etl.export import export_graph
    from etl.pipeline import graph_parts
    from etl.plan import repository_name

    root = args.path.expanduser().absolute()
    repo = repository_name(root, args.repo)
    counts = export_graph(args.export, graph_parts(root, repo, settings))
    if args.json and args.export != "-":
        print(json.dumps({"repo": repo, "file": args.export, **counts}))
    elif not args.quiet:
        to = "standard output" if args.export == "-" else args.export
        print(
            f"Exported {counts['nodes']:,} nodes and {counts['edges']:,} edges of {repo} to {to}",
            file=sys.stderr,
        )
    return 0


def _progress(args: argparse.Namespace) -> Progress:
    from etl.report import NoProgress, PlainProgress

    if args.quiet:
        return NoProgress()
    if args.json or not sys.stderr.isatty():
        return PlainProgress()
    from etl.progress_bar import BarProgress

    return BarProgress()


def _fault(exc: Exception) -> int:
    """Report a bug of Plait; the traceback only on request."""
    from plait import settings as plait_settings

    if plait_settings.debug():
        traceback.print_exc()
    print(
        f"error: {type(exc).__name__}: {exc}; this is a fault of Plait. Run it again with "
        "PLAIT_DEBUG=1 and report what it prints [INTERNAL]",
        file=sys.stderr,
    )
    return 1


def _print_error(exc: PlaitError, *, as_json: bool) -> None:
    if as_json:
        body = {"error": {"reason": exc.reason, "message": exc.message, "metadata": exc.metadata}}
        print(to_json(body))
    print(f"error: {exc.message} [{exc.reason}]", file=sys.stderr)


if __name__ == "__main__":
    guarded()
    sys.exit(main(prog="python -m etl.index_repo"))
