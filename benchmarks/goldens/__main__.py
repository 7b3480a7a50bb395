"""The command line of the goldens; the package says what they are."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

import platformdirs

import benchmarks.goldens
from benchmarks.goldens import cases, old_home, speed
from benchmarks.goldens.cases import Cases
from benchmarks.goldens.under_test import Checkout

PARTS = ("graphs", "ranking", "memory", "session")
SHOWN = 200  # lines of differences


def main() -> int:
    args = _parser().parse_args()
    if args.command == "home":
        old_home.write(Checkout.at(args.checkout), args.file)
        return 0
    if args.command == "speed":
        roots = [args.checkout, *([args.against] if args.against else [])]
        found = speed.measure([Checkout.at(root) for root in roots], args.cache, args.rounds)
        speed.report(found)
        return 0
    parts = args.only or PARTS
    made = _record(args, args.into if args.command == "compare" else args.folder, parts)
    if args.command == "record":
        if args.commit:
            cases.commit(made, parts)
        return 0
    return _compare(args.folder, parts, made)


def _parser() -> argparse.ArgumentParser:
    cache = Path(platformdirs.user_cache_dir("plait-benchmarks", appauthor=False))
    out = argparse.ArgumentParser(
        prog="python -m benchmarks.goldens",
        description=benchmarks.goldens.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = out.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="record what the code under test answers")
    record.add_argument("folder", type=Path, metavar="DIR", help="where the record goes")
    record.add_argument("--commit", action="store_true", help="write digests.json, too")
    compare = commands.add_parser("compare", help="record anew, and show what differs")
    compare.add_argument(
        "folder", type=Path, nargs="?", metavar="DIR", help="an earlier record (default: digests)"
    )
    compare.add_argument("--into", type=Path, metavar="DIR", help="keep the new record here")
    home = commands.add_parser("home", help="dump a filled database, for tests of old homes")
    home.add_argument("file", type=Path, metavar="FILE")
    home.add_argument("--checkout", type=Path, metavar="PATH", help="the code that fills it")
    timed = commands.add_parser("speed", help="how fast it is, beside another checkout by turns")
    timed.add_argument("--against", type=Path, metavar="PATH", help="the checkout to compare with")
    timed.add_argument("--rounds", type=int, default=5, metavar="N")
    for command in (record, compare):
        command.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", default=())
    for command in (record, compare, timed):
        command.add_argument("--checkout", type=Path, metavar="PATH", help="the code under test")
        command.add_argument("--cache", type=Path, default=cache, help="trees that were fetched")
    return out


def _record(
    args: argparse.Namespace, into: Path | None, parts: tuple[str, ...]
) -> dict[str, Cases]:
    checkout = Checkout.at(args.checkout)
    made: dict[str, Cases] = {}
    for part in parts:
        start = time.monotonic()
        module = importlib.import_module(f"benchmarks.goldens.{part}")
        found = module.record(checkout, args.cache)
        for name, recorded in found.items():
            made[f"{part}/{name}"] = recorded
            if into is not None:
                cases.write(into, f"{part}/{name}", recorded)
        count = sum(map(len, found.values()))
        print(f"{part}: {count} cases in {time.monotonic() - start:.0f} s", file=sys.stderr)
    return made


def _compare(folder: Path | None, parts: tuple[str, ...], made: dict[str, Cases]) -> int:
    known = cases.load(folder, parts) if folder else {}
    before = cases.digests(known) if folder else cases.committed(parts)
    if not before:
        raise SystemExit(f"nothing is recorded of {', '.join(parts)}")
    found = cases.changed(before, cases.digests(made))
    shown = 0
    for file, case, how in found:
        print(f"{file}: {case}: {how}")
        if folder and shown < SHOWN:
            old, new = known.get(file, {}).get(case, []), made.get(file, {}).get(case, [])
            for line in cases.difference(old, new):
                print(f"  {line[:300]}")
                shown += 1
    count = sum(map(len, before.values()))
    print(f"{len(found)} of {count} cases differ" if found else f"all {count} cases are equal")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
