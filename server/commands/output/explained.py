"""`--explain`, `--off` and `--why-not`, which search and recall share."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from rich.console import Console

    from plait.domain.recall import Dropped, StageRank
    from plait.domain.values import ItemId, Timing


def add(out: argparse.ArgumentParser) -> None:
    out.add_argument(
        "--explain", action="store_true", help="a score an arm, a rank and a time a stage"
    )
    out.add_argument(
        "--off", action="append", default=[], metavar="STAGE", help="leave a stage out (repeatable)"
    )
    out.add_argument(
        "--why-not",
        action="append",
        default=[],
        type=_id,
        metavar="ID",
        help="which stage dropped this item (repeatable)",
    )


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is no id of an item") from None


def show(
    id_: ItemId,
    arms: Mapping[str, float],
    ranks: Mapping[ItemId, Sequence[StageRank]],
    out: Console,
) -> None:
    """The score that each arm gave an item, and where each stage put it."""
    from rich.text import Text

    scores = "  ".join(f"{name} {score:.3f}" for name, score in sorted(arms.items()))
    out.print(Text(f"      {scores}", style="dim"))
    if steps := ranks.get(id_):
        line = " → ".join(f"{step.stage} #{step.rank} {step.score:.3f}" for step in steps)
        out.print(Text(f"      {line}", style="dim"))


def show_timings(timings: Sequence[Timing], out: Console) -> None:
    stages = "  ".join(f"{t.stage} {t.took_ms:.1f} ms" for t in timings)
    out.print(f"\n{stages}", style="dim")


def show_fates(fates_by_id: Mapping[ItemId, Dropped], out: Console) -> None:
    if not fates_by_id:
        return
    from plait.retrieval.explain import sentence

    for id_, why in fates_by_id.items():
        out.print(f"{id_}: {sentence(why)}")


def as_json(id_: ItemId, ranks: Mapping[ItemId, Sequence[StageRank]]) -> dict[str, Any]:
    steps = ranks.get(id_, ())
    return {"stages": [{"stage": s.stage, "rank": s.rank, "score": s.score} for s in steps]}


def fates(fates_by_id: Mapping[ItemId, Dropped]) -> dict[str, Any]:
    return {str(id_): fate(why) for id_, why in fates_by_id.items()}


def fate(why: Dropped) -> dict[str, Any]:
    """A rule without a number has null, since JSON has no NaN."""
    return {
        "stage": why.stage,
        "cause": why.cause,
        "score_then": None if isnan(why.score) else why.score,
        "bar": None if isnan(why.bar) else why.bar,
        "rank": why.rank,
    }
