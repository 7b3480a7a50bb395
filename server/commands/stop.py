"""`plait stop`: end the service of this PLAIT_HOME, and its servers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from server.commands import frame
from server.commands.frame import NOTHING_FOUND, OK

EXAMPLES = """\
  plait stop          calls in flight end first; the next command starts a new service

Exit code 3: none was running.
"""


def main(argv: Sequence[str] | None = None, prog: str = "plait stop") -> int:
    out = frame.parser(prog, "End the service of this PLAIT_HOME.", EXAMPLES, server=False)
    args = out.parse_args(argv)
    return frame.run(args, lambda: _stop(args))


def _stop(args: argparse.Namespace) -> int:
    from plait.client import service

    settings = frame.load(args)
    stopped = service.stop(settings)
    if args.json:
        print(json.dumps({"stopped": stopped}))
    else:
        print("stopped" if stopped else f"no service of {settings.home} runs", file=sys.stderr)
    return OK if stopped else NOTHING_FOUND
