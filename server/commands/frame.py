"""What every command shares: its options, how it fails, and the repository it means by default."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plait.domain.display import to_json
from plait.domain.errors import PlaitError, ScopeMissing
from server.commands.output import wording

if TYPE_CHECKING:
    from plait.client import AsyncPlaitClient
    from plait.settings import Settings

OK = 0
FAILED = 1
USAGE = 2
NOTHING_FOUND = 3
INTERRUPTED = 130


class Usage(Exception):
    """The command was called in a way that can't work; its text says how to call it."""


def parser(
    prog: str, about: str, examples: str, *, add_help: bool = True, server: bool = True
) -> argparse.ArgumentParser:
    """A parser with the options that every command has. `server`: it asks one, any one."""
    out = argparse.ArgumentParser(
        prog=prog,
        add_help=add_help,
        description=about,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("--config", type=Path, metavar="FILE", help="settings file (YAML)")
    if server:
        out.add_argument(
            "--server",
            default="",
            metavar="ADDRESS",
            help="the server to call, HOST:PORT or unix:/PATH (or PLAIT_SERVER; default: this home's)",
        )
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
            print(to_json(_as_json(exc)))
        print(f"error: {wording.message(exc)} [{exc.reason}]", file=sys.stderr)
        return FAILED
    except Usage as exc:
        print(f"error: {exc} [USAGE]", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has enough. Python would complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except PermissionError as exc:
        _trace(args)
        print(
            f"error: this account may not use {exc.filename}; run it as the account that it belongs to, or "
            "set PLAIT_HOME to a folder of your own [HOME_UNUSABLE]",
            file=sys.stderr,
        )
        return FAILED
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
    from plait import settings

    if args.debug or settings.debug():
        traceback.print_exc()


def _as_json(exc: PlaitError) -> dict[str, Any]:
    error = {"reason": exc.reason, "message": exc.message, "metadata": exc.metadata}
    if fields := getattr(exc, "fields", None):
        error["fields"] = fields
    return {"error": error}


@dataclass(frozen=True, slots=True)
class Repos:
    """What a command reads: repositories by name, or all of the tenant's."""

    names: tuple[str, ...] = ()
    everywhere: bool = False


def add_tenant(out: argparse.ArgumentParser) -> None:
    out.add_argument(
        "--tenant", default="", metavar="NAME", help="the tenant (default: scope.tenant)"
    )


def add_repo(out: argparse.ArgumentParser) -> None:
    """`--repo`, `--all-repos` and `--tenant`, for commands that read."""
    group = out.add_mutually_exclusive_group()
    group.add_argument(
        "--repo",
        action="append",
        default=[],
        metavar="NAME",
        help="a repository (repeatable; default: the one you are in, else the only one indexed)",
    )
    group.add_argument(
        "--all-repos", action="store_true", help="all repositories, wherever you are"
    )
    add_tenant(out)


def add_one_repo(out: argparse.ArgumentParser) -> None:
    """`--repo` and `--tenant`, for commands about one repository."""
    out.add_argument(
        "--repo",
        action="append",
        default=[],
        metavar="NAME",
        help="the repository (default: the one you are in, else the only one indexed)",
    )
    add_tenant(out)


def add_as_of(out: argparse.ArgumentParser) -> None:
    """`--as-of` and `--recorded-as-of`."""
    out.add_argument(
        "--as-of",
        metavar="TIME",
        help="what was true then: 'last Tuesday', 'two weeks ago', '2026-03-01', ISO 8601",
    )
    out.add_argument("--recorded-as-of", metavar="TIME", help="what was recorded by then")


def load(args: argparse.Namespace) -> Settings:
    """The settings, with what `--tenant` and `--server` say."""
    from plait import settings

    given: dict[str, Any] = {}
    if tenant := getattr(args, "tenant", ""):
        given["scope"] = {"tenant": tenant}
    if server := getattr(args, "server", ""):
        given["client"] = {"server": server}
    return settings.load(args.config, **given)


def time(text: str) -> datetime:
    """A bound in time as an argument: ISO 8601, or words as `--as-of` takes them, where a day or another
    period means its start; without an offset in this machine's zone."""
    from plait import settings
    from plait.text import time_expressions

    try:
        zone = time_expressions.zone_of(settings.time_zone())
        try:
            found = time_expressions.resolve(text, datetime.now(UTC), zone, bound=True)
        except PlaitError:
            found = datetime.fromisoformat(text)  # the forms that are no words, as 20260301
        return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
    except (PlaitError, ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text[:60]!r} names no one time; write it as {time_expressions.EXAMPLES}"
        ) from None


def positive(text: str) -> int:
    """A whole number from 1 as an argument."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


async def repositories(args: argparse.Namespace, client: AsyncPlaitClient) -> Repos:
    """What `--repo` and `--all-repos` say; else the repository that the current folder means; else the only
    one indexed. Where nothing is indexed, all of it is meant.

    Raises: FolderNotIndexed, in a git work tree inside an indexed repository; ScopeMissing, when there are
    several and none is around.
    """
    from plait.client.here import meant

    if args.repo or getattr(args, "all_repos", False):
        return Repos(tuple(args.repo), not args.repo)
    indexed = await client.list_repositories()
    if not indexed:
        return Repos(everywhere=True)
    if name := meant(indexed):
        return Repos((name,))
    names = ", ".join(repository.name for repository in indexed)
    raise ScopeMissing(
        f"several repositories are indexed and you are in none of them: {names}; say --repo NAME, or "
        "--all-repos",
        field="repo",
    )


async def one_repository(args: argparse.Namespace, client: AsyncPlaitClient) -> str:
    """As `repositories`, for what has one place. Raises: ScopeMissing."""
    repos = await repositories(args, client)
    if len(repos.names) != 1:
        raise ScopeMissing(
            "say whose it is with one --repo NAME; the repository need not be indexed", field="repo"
        )
    return repos.names[0]


def agreed(question: str, *, yes: bool) -> bool:
    """Whether the user wants it: `--yes`, or an answer on a terminal. Raises: Usage, where there is none."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Usage("no terminal to confirm on; give --yes to go on")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
