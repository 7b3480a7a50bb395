"""What a query names in code: paths, symbols, stack frames, hunks of a diff, error texts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plait.ports import Spot


class AnchorKind(StrEnum):
    PATH = "path"
    SYMBOL = "symbol"
    FRAME = "frame"  # of a stack trace; the innermost comes first
    HUNK = "hunk"  # of a diff, lines of the old file
    TEST = "test"  # a test's name, as a runner prints it


@dataclass(frozen=True, slots=True)
class Anchor:
    """`weight`: 0 to 1, how sure the text means this place."""

    kind: AnchorKind
    spot: Spot
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Anchors:
    """`errors`: exception names and messages, as the text has them. `issues`: references as `#12`.
    `prose`: the text without traces and hunks, "" if nothing is left."""

    places: tuple[Anchor, ...] = ()
    errors: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()
    is_diff: bool = False
    is_trace: bool = False
    prose: str = ""
