"""`python -m benchmarks.soak`: run cycles of faults; 0 nothing found, 1 violations, 2 it could not run."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
from dataclasses import asdict

from benchmarks.soak.faults import FAULTS
from benchmarks.soak.run import PARTS, soak
from benchmarks.soak.service import SoakFailed


def main() -> int:
    out = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    out.add_argument("--cycles", type=int, default=50)
    out.add_argument(
        "--minutes",
        type=float,
        default=0.0,
        help="begin no cycle after so many (default: no limit)",
    )
    out.add_argument("--seed", type=int, default=None, help="repeats a plan (default: a new one)")
    out.add_argument("--writers", type=int, default=4)
    out.add_argument("--json", action="store_true", help="the report as JSON on standard output")
    out.add_argument(
        "--without",
        action="append",
        default=[],
        choices=PARTS,
        help="leave a part of the service out (the report says so)",
    )
    out.add_argument(
        "--only", action="append", default=[], choices=FAULTS, help="only this fault (repeatable)"
    )
    args = out.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # ends in order
    seed = random.SystemRandom().getrandbits(32) if args.seed is None else args.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    try:
        parts = [part for part in PARTS if part not in args.without]
        report = asyncio.run(
            soak(
                args.cycles,
                seed=seed,
                minutes=args.minutes,
                writers=args.writers,
                parts=parts,
                only=args.only,
                say=_say,
            )
        )
    except SoakFailed as exc:
        print(f"error: the soak can't go on: {exc}", file=sys.stderr)
        return 2
    if report.violations:
        print(report.log, file=sys.stderr)
    print(json.dumps(asdict(report), indent=2) if args.json else report)
    return 1 if report.violations else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
