"""`plait version`: the package, the schema that it writes, and the schema of what is stored. Starts nothing."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import plait
from server.commands import frame

if TYPE_CHECKING:
    from vector.connection.schema import Schema

EXAMPLES = """\
  plait version          the package, the schema that it writes, that of what is stored here
  plait version --json

The first command of a newer version brings the store's schema up to its own; an older version refuses a
newer store (SCHEMA_MISMATCH).
"""


def main(argv: Sequence[str], prog: str = "plait version") -> int:
    out = frame.parser(
        prog, "Print the versions of Plait and of its schema.", EXAMPLES, server=False
    )
    args = out.parse_args(argv)
    return frame.run(args, lambda: _version(args))


def _version(args: argparse.Namespace) -> int:
    from vector.connection import schema

    ours = schema.shipped()
    found = schema.stored(frame.load(args))
    if args.json:
        print(json.dumps(_as_json(ours, found)))
        return frame.OK
    print(f"plait {plait.__version__}")
    print(f"schema {ours.number}")
    print(f"stored here: {_difference(ours, found)}")
    return frame.OK


def _difference(ours: Schema, found: Schema | None) -> str:
    if found is None:
        return "nothing"
    if found.note:
        return found.note
    if found.number < ours.number:
        return f"schema {found.number}; the next command brings it up to {ours.number}"
    if found.number > ours.number:
        return f"schema {found.number}, of a newer Plait: upgrade this one"
    return f"schema {found.number}"


def _as_json(ours: Schema, found: Schema | None) -> dict[str, Any]:
    return {
        "plait": plait.__version__,
        "python": platform.python_version(),
        "schema": ours.number,
        "stored_schema": found.number if found is not None and not found.note else None,
        "stored_note": found.note if found is not None else "",
    }
