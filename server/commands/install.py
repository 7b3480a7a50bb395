"""`plait install`: wire the coding agents of this machine to Plait; `plait uninstall` takes it back."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plait.domain.display import to_json
from plait.domain.errors import FileLeftAlone
from server.commands import frame
from server.commands.frame import FAILED, NOTHING_FOUND, OK
from server.install.agents import AGENTS, NAMES, Agent, Hook, Scope

if TYPE_CHECKING:
    from server.install.machine import Machine
    from server.install.plan import Plan, Wanted

EXAMPLES = """\
  plait install                          every agent found here, for you in all projects
  plait install --dry-run                show each file's difference, write nothing
  plait install --agent codex --project  one agent, in this project's files
  plait install --no-hook before-search  all but that hook
  plait uninstall                        take it back

agents: {names}
docs/install.md lists what is written where. Exit code 1: a file was left alone; 3: no agent found.
"""


def main(argv: Sequence[str] | None = None, prog: str = "plait install") -> int:
    args = parser(prog).parse_args(argv)
    return frame.run(args, lambda: _install(args))


def parser(prog: str = "plait install") -> argparse.ArgumentParser:
    out = frame.parser(
        prog,
        "Wire the coding agents of this machine to Plait: MCP server, instructions, skill, hooks.",
        EXAMPLES.format(names=", ".join(NAMES)),
    )
    add_options(out)
    out.add_argument(
        "--no-instructions", action="store_true", help="no lines in CLAUDE.md, AGENTS.md …"
    )
    out.add_argument("--no-skill", action="store_true", help="no skill")
    out.add_argument("--no-hooks", action="store_true", help="no hooks")
    out.add_argument(
        "--no-hook",
        action="append",
        default=[],
        choices=[str(hook) for hook in Hook],
        metavar="NAME",
        help=f"not this hook (repeatable): {', '.join(Hook)}",
    )
    return out


def add_options(out: argparse.ArgumentParser) -> None:
    """What `install` and `uninstall` share."""
    out.add_argument(
        "--agent",
        action="append",
        default=[],
        choices=NAMES,
        metavar="NAME",
        help="this agent (repeatable; default: install those found here, uninstall all)",
    )
    group = out.add_mutually_exclusive_group()
    group.add_argument(
        "--user", action="store_true", help="in your own files, for all projects (the default)"
    )
    group.add_argument(
        "--project", action="store_true", help="in the files of the project around this folder"
    )
    out.add_argument("--dry-run", action="store_true", help="show the differences, write nothing")


def chosen(args: argparse.Namespace, default: Sequence[Agent]) -> list[Agent]:
    """The agents that `--agent` names, each once, in the order of the table; else `default`."""
    return [a for a in AGENTS if a.name in args.agent] if args.agent else list(default)


def carry_out(
    args: argparse.Namespace,
    agents: Sequence[Agent],
    wanted: Wanted,
    machine: Machine,
    command: str,
) -> int:
    """Plan, apply unless it is a dry run, and report."""
    from server.install import apply, plan

    scope = Scope.PROJECT if args.project else Scope.USER
    found = plan.make(agents, wanted, scope, machine, command)
    if not args.dry_run:
        found = apply.apply(found, scope, frame.load(args).home)
    if args.json:
        print(to_json(_as_json(found, scope, args.dry_run)))
    else:
        _show(found, dry_run=args.dry_run)
    for problem in found.problems:
        exc = FileLeftAlone(
            f"{problem.where}: {problem.text}", path=problem.path, line=problem.line
        )
        print(f"error: {_clean(exc.message)} [{exc.reason}]", file=sys.stderr)
    return FAILED if found.problems else OK


def _install(args: argparse.Namespace) -> int:
    from server.install import machine
    from server.install.plan import Wanted

    here = machine.this_machine()
    agents = chosen(args, here.found())
    if not agents:
        print(f"no agent found here; name one with --agent: {', '.join(NAMES)}", file=sys.stderr)
        return NOTHING_FOUND
    hooks = frozenset() if args.no_hooks else frozenset(Hook) - {Hook(n) for n in args.no_hook}
    wanted = Wanted(True, not args.no_instructions, not args.no_skill, hooks)
    return carry_out(args, agents, wanted, here, machine.command())


def _show(found: Plan, *, dry_run: bool) -> None:
    changed = [change for change in found.changes if change.action != "unchanged"]
    for change in changed:
        if dry_run:
            print(_clean(change.diff()) if sys.stdout.isatty() else change.diff(), end="")
        else:
            print(f"{change.action:<8} {change.path}  ({', '.join(change.agents)})")
    if not changed and not found.problems:
        print("nothing to change", file=sys.stderr)
    if not dry_run:
        for note in found.notes:
            print(f"note: {note}", file=sys.stderr)


def _clean(text: str) -> str:
    """The lines without characters that steer a terminal: a project's files and links are anybody's."""
    from server.commands.output import show

    return "\n".join(show.clean(line) for line in text.split("\n"))


def _as_json(found: Plan, scope: Scope, dry_run: bool) -> dict[str, Any]:
    return {
        "scope": str(scope),
        "dry_run": dry_run,
        "files": [
            {
                "path": str(c.path),
                "action": c.action,
                "agents": c.agents,
                "parts": c.parts,
                **({"diff": c.diff()} if dry_run else {}),
            }
            for c in found.changes
            if c.before is not None or c.after is not None
        ],
        "left_alone": [
            {"path": str(p.path), "line": p.line, "agents": p.agents, "message": p.text}
            for p in found.problems
        ],
        "notes": found.notes,
    }
