"""The console script `plait`: finds the subcommand and hands over. Nothing heavy is imported here."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from plait.domain.display import guarded

# name → (module with `main(argv, prog)`, what it does)
COMMANDS: dict[str, tuple[str, str]] = {
    "index": ("etl.index_repo", "index a repository, or bring its index up to date"),
    "watch": ("server.commands.watch", "follow a folder: index what is saved in it"),
    "search": ("server.commands.search", "find code and memories"),
    "recall": ("server.commands.recall", "a context for a prompt, within a token budget"),
    "feedback": ("server.commands.feedback", "report what became of a recall"),
    "graph": ("server.commands.graph", "query the call graph: callers, callees, impact …"),
    "mcp": ("server.commands.mcp", "the tools for agents, over stdio or HTTP"),
    "ingest": ("server.commands.ingest", "store what an agent did: episodes as JSON"),
    "savings": ("server.commands.savings", "what Plait costs in tokens, and what it may save"),
    "memory": ("server.commands.memory", "store and find what agents and people know"),
    "compact": ("server.commands.compact", "thin out an agent's memories, or undo it"),
    "forget": ("server.commands.forget", "remove memories and episodes for good"),
    "verify": ("server.commands.verify", "compare the graph with the truth"),
    "rebuild": ("server.commands.rebuild", "make the graph again from the truth"),
    "hook": ("server.commands.hook", "what agents' hooks call"),
    "repos": ("server.commands.repos", "list what is indexed, or delete it"),
    "keys": ("server.commands.keys", "API keys: who may call over TCP, and what they may do"),
    "install": ("server.commands.install", "wire the coding agents of this machine to Plait"),
    "uninstall": ("server.commands.uninstall", "take back what install wrote"),
    "completion": ("server.commands.completion", "print a completion script for your shell"),
    "status": ("server.commands.status", "show what runs, and what is indexed"),
    "stop": ("server.commands.stop", "end the background service"),
    "serve": ("server.commands.serve", "serve gRPC in the foreground, for others too"),
    "doctor": ("server.commands.doctor", "show what runs where, and what is wrong"),
    "version": ("server.commands.version", "print the version"),
}

HELP = """\
usage: plait COMMAND …

Long-horizon memory for coding agents: vectors and a code graph.

{commands}

examples:
  plait index .
  plait search "where are retries configured"
  plait recall "make the download retry" --budget 2000
  plait graph callers mypkg.module.function
  plait memory store "Retries live in app/http.py" --agent fixer

See `plait COMMAND --help`. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 nothing found,
130 interrupted. Errors go to standard error with their reason; docs/errors.md has every fix.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `plait`; return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except KeyboardInterrupt:  # while the command was still being loaded
        return 130
    except BrokenPipeError:  # the reader (`| head`) has enough
        return 0
    finally:
        if argv is None:
            _say_all()
            # All is said: while Python takes itself apart, Ctrl-C would only draw a traceback.
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def script() -> NoReturn:
    """The console script: `main` as a process, which ends where that returns. Taking the interpreter and
    gRPC apart would cost as much as a tenth of a second."""
    guarded()
    gc.set_threshold(50_000, 20, 50)  # imports make thousands of objects and no garbage
    code = 1
    try:
        code = main()
    except SystemExit as exc:  # argparse's
        code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _run(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage(), end="")
        return 0 if arguments else 2
    name, rest = arguments[0], arguments[1:]
    if name in ("--version", "-V"):
        name = "version"
    if name not in COMMANDS:
        print(f"error: no command {name!r}; {_nearest(name)}", file=sys.stderr)
        return 2
    if broken := [word for word in rest if not _is_utf8(word)]:
        print(f"error: {broken[0][:60]!a} is not valid UTF-8; write it anew", file=sys.stderr)
        return 2
    code: int = import_module(COMMANDS[name][0]).main(rest, prog=f"plait {name}")
    return code


def _say_all() -> None:
    """Write out what is left to say, if anybody still reads: at its end Python would complain."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_utf8(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:  # bytes of the command line that Python could not decode
        return False
    return True


def usage() -> str:
    lines = "\n".join(f"  {name:<10} {about}" for name, (_, about) in COMMANDS.items())
    return HELP.format(commands=lines)


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    if close := get_close_matches(name, COMMANDS, n=1):
        return f"did you mean `plait {close[0]}`?"
    return f"the commands are {', '.join(COMMANDS)}"


if __name__ == "__main__":
    script()
