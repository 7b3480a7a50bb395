"""`plait completion`: a completion script, made from the parsers of the commands themselves."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

from server.commands import frame

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """\
  plait completion bash > ~/.local/share/bash-completion/completions/plait
  plait completion zsh > ~/.zfunc/_plait     once, in ~/.zshrc: fpath+=~/.zfunc; autoload -U compinit; compinit
  plait completion fish > ~/.config/fish/completions/plait.fish

Make the folder first (`mkdir -p`), then open a new shell; do it again after an update of Plait.
"""


class _Found(BaseException):
    """Carries a command's parser out of the command, before anything is parsed."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def main(argv: Sequence[str] | None = None, prog: str = "plait completion") -> int:
    out = argparse.ArgumentParser(
        prog=prog,
        description="Print a script that completes commands, options and their values.",
        epilog=f"examples:\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
    out.add_argument("--debug", action="store_true", help="show tracebacks (or PLAIT_DEBUG=1)")
    args = out.parse_args(argv)
    args.json = False
    return frame.run(args, lambda: _print(args.shell))


def _print(shell: str) -> int:
    import shtab

    print(shtab.complete(whole_parser(), shell=shell))
    return frame.OK


def whole_parser() -> argparse.ArgumentParser:
    """One parser that holds all commands, with files where an option takes a path."""
    from server.cli import COMMANDS

    out = argparse.ArgumentParser(
        prog="plait", description="Long-horizon memory for coding agents."
    )
    out.add_argument("--version", "-V", action="store_true", help="print the version")
    commands = out.add_subparsers(metavar="COMMAND")
    for name, (module, about) in COMMANDS.items():
        found = command_parser(import_module(module).main, f"plait {name}")
        _complete_paths(found)
        commands.add_parser(name, help=about, description=about, parents=[found], add_help=False)
    return out


def command_parser(main: Callable[..., int], prog: str) -> argparse.ArgumentParser:
    """The parser that a command's `main` makes: caught where it would begin to parse.

    Commands make their parsers as late as they can, so that one starts without loading the others.
    """

    def caught(self: argparse.ArgumentParser, *_args: Any, **_named: Any) -> NoReturn:
        raise _Found(self)

    patched = {
        name: getattr(argparse.ArgumentParser, name) for name in ("parse_args", "parse_known_args")
    }
    for name in patched:
        setattr(argparse.ArgumentParser, name, caught)
    try:
        # A command that makes no parser says its help, which nobody needs here.
        with redirect_stdout(StringIO()), suppress(SystemExit):
            main(["--help"], prog=prog)
    except _Found as found:
        return found.parser
    finally:
        for name, method in patched.items():
            setattr(argparse.ArgumentParser, name, method)
    return argparse.ArgumentParser(prog=prog)


def _complete_paths(parser: argparse.ArgumentParser) -> None:
    import shtab

    for action in parser._actions:
        if action.type is Path or action.metavar in ("FILE", "PATH"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        if isinstance(action, argparse._SubParsersAction):
            for inner in set(action.choices.values()):
                _complete_paths(inner)
