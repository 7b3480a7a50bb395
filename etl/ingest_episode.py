"""`python -m etl.ingest_episode FILE…`: store episodes, straight into the truth store, then the graph.

`plait ingest FILE…` takes the same arguments and prints the same, but sends them to a server. A repeat
is harmless: an episode is known by its request id, or by its content where it has none; what an importer
made of a file, by the bytes it was made from.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from etl.ingest.sink import NotStored as NotStored
from etl.ingest.sink import Sink as Sink
from etl.ingest.sink import Stored as Stored
from plait.domain.display import guarded
from plait.domain.errors import PlaitError
from plait.domain.outage import Patience, ride_out

if TYPE_CHECKING:
    from etl.ingest.importers.draft import Options
    from etl.ingest.inputs import ImportResult, Input
    from etl.ingest.report import Report
    from etl.progress_bar import BarProgress

EXAMPLES = """\
examples:
  plait ingest run.json                    one episode (docs/episodes.md has the format)
  plait ingest runs.jsonl --repo django    one episode a line; `repo` where a line names none
  plait ingest ~/.claude/projects/-src-app --repo app     all sessions of a folder
  plait ingest report.xml --repo app       JUnit XML
  git format-patch --stdout v1.. | plait ingest - --repo app
  plait ingest fix.traj --dry-run          show what would be stored
  my-agent --report | plait ingest -       from standard input
  python -m etl.ingest_episode run.json    without a server in between

What is read: Plait's JSON and JSON Lines, JUnit XML, unified diffs, git format-patch and mbox, Claude
Code sessions, SWE-agent trajectories; recognised by their content, or given by --format. A repeat
stores nothing twice, and of a session that has grown only what is new.

Exit codes: 0 all stored (or stored before), 1 at least one was not, 2 wrong usage, 3 nothing found
that can be imported, 130 interrupted.
"""
LONG_INPUT = 2 * 2**20  # bytes from which a progress bar is worth it


OpenSink = Callable[[argparse.Namespace], AbstractAsyncContextManager[Sink]]


def parser(prog: str) -> argparse.ArgumentParser:
    from etl.ingest.importers.registry import FORMATS

    out = argparse.ArgumentParser(
        prog=prog,
        description="Store what agents did: episodes, test reports, patches, transcripts.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument(
        "files", nargs="+", metavar="FILE", help="files, folders, or - for standard input"
    )
    out.add_argument(
        "--format",
        choices=FORMATS,
        default="",
        help="of all files (default: recognised by content)",
    )
    out.add_argument("--repo", default="", metavar="NAME", help="where the input names none")
    out.add_argument(
        "--agent", default="", metavar="ID", help="the agent (default: as in the input)"
    )
    out.add_argument("--session", default="", metavar="KEY", help="groups the episodes of one task")
    out.add_argument(
        "--root", default="", metavar="DIR", help="the repository's folder in the input's paths"
    )
    out.add_argument(
        "--dry-run", action="store_true", help="show what would be stored; store nothing"
    )
    out.add_argument("--config", type=Path, metavar="FILE", help="settings file (YAML)")
    out.add_argument("--json", action="store_true", help="one JSON object an episode")
    out.add_argument("--quiet", action="store_true", help="print faults only")
    out.add_argument("--debug", action="store_true", help="show tracebacks (or PLAIT_DEBUG=1)")
    return out


def main(argv: Sequence[str] | None = None, prog: str = "python -m etl.ingest_episode") -> int:
    """Run the command against the stores themselves; return its exit code."""
    out = parser(prog)
    out.add_argument(
        "--tenant", default="", metavar="NAME", help="the tenant (default: scope.tenant)"
    )
    args = out.parse_args(argv)
    from etl.ingest.direct import direct

    try:
        code = asyncio.run(ingest(args, direct))
        sys.stdout.flush()
        return code
    except PlaitError as exc:
        print(f"error: {exc.message} [{exc.reason}]", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader (`| head`) has enough. Python would complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("interrupted: what was printed is stored; run it again for the rest", file=sys.stderr)
        return 130


async def ingest(args: argparse.Namespace, open_sink: OpenSink) -> int:
    """Read, check and store in batches; what is faulty is reported and the next one tried.

    Raises: what `open_sink` and the sink raise.
    """
    from etl.ingest.feed import Feed
    from etl.ingest.report import Report

    report = Report(as_json=args.json, quiet=args.quiet)
    progress = _Progress(args)
    skipped: Counter[str] = Counter()
    feed = Feed(_results(args, progress, skipped))
    try:
        if args.dry_run:
            await _show(feed.batch, report)
        else:
            with ride_out(_outage(args, progress)) as outage:
                await _store_all(args, feed.batch, report, open_sink, outage)
    finally:
        feed.stop()
        progress.finish()
    report.end(dry=args.dry_run, skipped=skipped)
    return 1 if report.failed else 0 if report.read else 3


Batches = Callable[[], "list[ImportResult]"]


async def _show(batches: Batches, report: Report) -> None:
    while batch := await asyncio.to_thread(batches):
        for result in _episodes(batch, report):
            report.would_store(result)


def _outage(args: argparse.Namespace, progress: _Progress) -> Patience:
    """How long this run waits for a store that is away."""
    from plait import settings as plait_settings

    settings = plait_settings.load(args.config)
    return Patience(settings.index.outage_s, progress.waiting)


async def _store_all(
    args: argparse.Namespace,
    batches: Batches,
    report: Report,
    open_sink: OpenSink,
    outage: Patience,
) -> None:
    # Nothing is started before there is something to store.
    while batch := await asyncio.to_thread(batches):
        if first := _episodes(batch, report):
            break
    else:
        return
    async with open_sink(args) as sink:
        await _store(sink, first, report, outage)
        while batch := await asyncio.to_thread(batches):
            if found := _episodes(batch, report):
                await _store(sink, found, report, outage)
        if report.repos and not (report.as_json or report.quiet):
            report.retention_notes(await sink.usage())


def _episodes(batch: Sequence[ImportResult], report: Report) -> list[ImportResult]:
    """Those that can be stored; the others are reported."""
    out = []
    for result in batch:
        if result.read.episode is not None:
            out.append(result)
        elif result.read.error is not None:
            report.error(result, result.read.error)
        elif result.read.note:
            report.note(result)
    return out


async def _store(
    sink: Sink, batch: Sequence[ImportResult], report: Report, outage: Patience
) -> None:
    episodes = [result.read.episode for result in batch if result.read.episode is not None]
    # Each has a request id: what was stored before the outage is found, and not stored twice.
    answers = await outage.through(lambda: sink.append_many(episodes))
    for result, answer in zip(batch, answers, strict=True):
        if isinstance(answer, Stored):
            report.store(result, answer.episode_id, answer.items, answer.repeated, differs=False)
        elif result.format != "episode" and answer.error.reason == "REQUEST_ID_REUSED":
            # The same bytes, read by other options, another name or an earlier version of an importer:
            # what is stored of them stays as it is, and nothing is stored twice.
            report.store(result, "", 0, True, differs=True)
        else:
            report.error(result, answer.error)


def _results(
    args: argparse.Namespace, progress: _Progress, skipped: Counter[str]
) -> Iterator[ImportResult]:
    """The importers' results for all files, in order."""
    from etl.ingest import inputs
    from etl.ingest.inputs import ImportResult

    options = _options(args)
    found: list[Input | ImportResult] = list(inputs.inputs(args.files, skipped))
    progress.start(sum(one.size for one in found if not isinstance(one, ImportResult)))
    for one in found:
        if isinstance(one, ImportResult):
            yield one
        else:
            yield from inputs.read(one, args.format, options, progress.advance, skipped)


def _options(args: argparse.Namespace) -> Options:
    from etl.ingest.importers.draft import Options
    from plait import settings
    from plait.secrets import rules

    known = rules.load(settings.load(args.config).secrets.rules)
    return Options(args.repo, args.agent, args.session, args.root, known)


class _Progress:
    """A bar over the bytes read, on a terminal, where there are many. Called by the reading thread."""

    def __init__(self, args: argparse.Namespace) -> None:
        # rich prints what goes to standard output above the bar, on standard error.
        shown = sys.stderr.isatty() and sys.stdout.isatty()
        self._enabled = shown and not (args.json or args.quiet)
        self._quiet = args.quiet
        self._rest = 0
        self._bar: BarProgress | None = None

    def start(self, total: int) -> None:
        if self._enabled and total >= LONG_INPUT:
            from etl.progress_bar import BarProgress

            self._bar = BarProgress()
            self._bar.start("ingest", total // 1024)

    def advance(self, n: int) -> None:
        if self._bar is not None:
            whole, self._rest = divmod(self._rest + n, 1024)
            self._bar.advance(whole)

    def waiting(self, store: str, waited_s: float) -> None:
        if self._bar is not None:
            self._bar.waiting(store, waited_s)
        elif not self._quiet:
            from etl.report import waiting_line

            print(waiting_line(store, waited_s), file=sys.stderr, flush=True)

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.finish()


if __name__ == "__main__":
    guarded()
    sys.exit(main())
