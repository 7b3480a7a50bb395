"""What every command shares: its options, how it fails, and the repository it means by default."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plait.domain.errors import PlaitError

if TYPE_CHECKING:
    from plait.client.aio import AsyncPlaitClient

OK = 0
FAILED = 1
USAGE = 2
NOTHING_FOUND = 3
INTERRUPTED = 130


def parser(prog: str, about: str, examples: str) -> argparse.ArgumentParser:
    """A parser with the options that every command has."""
    out = argparse.ArgumentParser(
        prog=prog,
        description=about,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("--config", type=Path, metavar="FILE", help="settings file (YAML)")
    out.add_argument("--json", action="store_true", help="print the result as JSON")
    out.add_argument("--debug", action="store_true", help="show tracebacks (or PLAIT_DEBUG=1)")
    return out


def run(args: argparse.Namespace, work: Callable[[], int]) -> int:
    """Run a command's work; whatever it raises becomes a line on standard error and an exit code."""
    try:
        code = work()
        sys.stdout.flush()
        return code
    except PlaitError as exc:
        _trace(args)
        if args.json:
            print(json.dumps(_as_json(exc), ensure_ascii=False))
        print(f"error: {exc.message} [{exc.reason}]", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has enough. Python would complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as exc:
        _trace(args)
        print(
            f"error: {type(exc).__name__}: {exc}; this is a fault of Plait. "
            "Run it again with --debug and report what it prints [INTERNAL]",
            file=sys.stderr,
        )
        return FAILED


def run_async(args: argparse.Namespace, work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """As `run`, in an event loop of its own."""
    return run(args, lambda: asyncio.run(work()))


def _trace(args: argparse.Namespace) -> None:
    from plait import settings  # pydantic costs 100 ms, which a help text need not pay

    if args.debug or settings.debug():
        traceback.print_exc()


def _as_json(exc: PlaitError) -> dict[str, Any]:
    error = {"reason": exc.reason, "message": exc.message, "metadata": exc.metadata}
    if fields := getattr(exc, "fields", None):
        error["fields"] = fields
    return {"error": error}


def add_repo(out: argparse.ArgumentParser) -> None:
    """`--repo` and `--all`, for commands that read."""
    group = out.add_mutually_exclusive_group()
    group.add_argument(
        "--repo",
        action="append",
        default=[],
        metavar="NAME",
        help="a repository (repeatable; default: the one you are in, else all)",
    )
    group.add_argument("--all", action="store_true", help="all repositories, wherever you are")


async def repositories(args: argparse.Namespace, client: AsyncPlaitClient) -> tuple[str, ...]:
    """What `--repo` and `--all` say; else the repository around the current folder; else all (empty)."""
    if args.repo or args.all:
        return tuple(args.repo)
    try:
        here = Path.cwd().resolve()
    except OSError:  # the folder was deleted under us
        return ()
    around = [
        (len(r.root), r.name)
        for r in await client.list_repositories()
        if r.root and here.is_relative_to(r.root)
    ]
    return (max(around)[1],) if around else ()
