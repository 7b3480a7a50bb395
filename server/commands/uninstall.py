"""`plait uninstall`: take out of the agents' files what `plait install` put there."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from server.commands import frame, install
from server.install.agents import AGENTS

EXAMPLES = """\
  plait uninstall                 from all your agents' files
  plait uninstall --dry-run       show each file's difference, write nothing
  plait uninstall --agent cursor  from one agent's; what others share stays
  plait uninstall --project       from this project's files

What you changed in those files stays. Exit code 1: a file was left alone.
"""


def main(argv: Sequence[str] | None = None, prog: str = "plait uninstall") -> int:
    args = parser(prog).parse_args(argv)
    return frame.run(args, lambda: _uninstall(args))


def parser(prog: str = "plait uninstall") -> argparse.ArgumentParser:
    out = frame.parser(prog, "Take back what `plait install` wrote.", EXAMPLES)
    install.add_options(out)
    return out


def _uninstall(args: argparse.Namespace) -> int:
    from server.install import machine
    from server.install.plan import NOTHING

    agents = install.chosen(args, AGENTS)
    return install.carry_out(args, agents, NOTHING, machine.this_machine(), "plait")
