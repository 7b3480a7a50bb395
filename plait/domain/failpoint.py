"""Failpoints: named places at which a test makes the process die, fail or stand still.

`hit(NAME)` stands at the place. It costs one look at an empty mapping unless a point is armed, and a
point is armed by `PLAIT_FAILPOINTS` in the environment alone (`plait.settings.failpoints`): no file,
request or argument reaches it. docs/faults.md lists what each point proves.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from plait.domain.errors import BadSettings, StoreUnavailable

logger = logging.getLogger(__name__)

# Every point and its location. A name that is missing here can be neither armed nor hit.
POINTS: Mapping[str, str] = {
    "append.before_commit": "episode written, its transaction not yet committed",
    "append.after_commit": "episode committed, nothing answered",
    "memory.before_commit": "memories written, their transaction not yet committed",
    "memory.after_commit": "memories committed, nothing answered",
    "answer.lost": "a write is done, its answer is about to be sent",
    "outbox.after_claim": "an event is marked as claimed, nothing of it is in the graph",
    "graph.before_batch": "a batch's graph transaction is about to start",
    "graph.in_batch": "a batch is written to the graph, its transaction not yet committed",
    "graph.after_batch": "a batch is committed in the graph",
    "project.before_done": "the graph holds the event whole, the outbox does not know",
    "feedback.before_commit": "a report is written, its transaction not yet committed",
    "vectors.before_commit": "vectors are written, their transaction not yet committed",
    "publish.before_commit": "an index run is about to commit its revision",
    "undo.before_commit": "a compaction is undone, its transaction not yet committed",
    "compact.before_commit": "a compaction is written, its transaction not yet committed",
    "forget.in_the_middle": "some of what is to be forgotten is removed, nothing committed",
}
MAX_SLEEP_MS = 60_000

_ONE = re.compile(r"([a-z_.]+)=(kill|exit|error|sleep:\d{1,6})(?:@(\d{1,9})(\+)?)?")


class Action(StrEnum):
    KILL = "kill"  # SIGKILL to this process: no handler, no `finally`, no flush
    EXIT = "exit"  # `os._exit(70)`
    ERROR = "error"  # raise StoreUnavailable, as a lost connection does
    SLEEP = "sleep"  # block the thread that is there


@dataclass(frozen=True, slots=True)
class Failpoint:
    """What happens at `name`, at its hit number `at` (from 1) and, with `onwards`, at each later one."""

    name: str
    action: Action
    at: int = 1
    onwards: bool = False
    sleep_ms: int = 0

    def __str__(self) -> str:
        what = f"{self.action}:{self.sleep_ms}" if self.action is Action.SLEEP else self.action
        return f"{self.name}={what}@{self.at}{'+' if self.onwards else ''}"


_armed: dict[str, Failpoint] = {}
_hits: dict[str, int] = {}
_counting = threading.Lock()


def hit(name: str) -> None:
    """Do what is armed at `name`, if anything is. Raises: StoreUnavailable, where `error` is armed."""
    if _armed:
        _hit(name)


def arm(points: tuple[Failpoint, ...]) -> None:
    """Arm exactly `points`, and count their hits from zero; `()` disarms."""
    with _counting:
        _armed.clear()
        _hits.clear()
        _armed.update({point.name: point for point in points})
    if points:
        logger.warning("failpoints are armed", extra={"points": ",".join(map(str, points))})


def parse(text: str) -> tuple[Failpoint, ...]:
    """`name=action[@n[+]]`, by commas; action: kill, exit, error or sleep:MS; n: which hit, 1 at first.

    Raises: BadSettings, for what is none of these, an unknown name, or a name that comes twice.
    """
    found = tuple(_parse_one(part.strip()) for part in text.split(",") if part.strip())
    if len({point.name for point in found}) != len(found):
        raise BadSettings(
            "PLAIT_FAILPOINTS names a point twice; arm each one once", text=text[:200]
        )
    return found


def _parse_one(part: str) -> Failpoint:
    match = _ONE.fullmatch(part)
    if match is None or match[1] not in POINTS:
        raise BadSettings(
            f"PLAIT_FAILPOINTS holds {part[:80]!r}; write NAME=kill, exit, error or sleep:MS, with @N for "
            f"the Nth hit or @N+ from it on; names: {', '.join(POINTS)}",
            part=part[:80],
        )
    action, _, ms = match[2].partition(":")
    if int(match[3] or 1) < 1 or int(ms or 0) > MAX_SLEEP_MS:
        raise BadSettings(
            f"PLAIT_FAILPOINTS holds {part[:80]!r}; hits count from 1, and a sleep is {MAX_SLEEP_MS} ms "
            "at most",
            part=part[:80],
        )
    return Failpoint(
        name=match[1],
        action=Action(action),
        at=int(match[3] or 1),
        onwards=match[4] is not None,
        sleep_ms=int(ms or 0),
    )


def _hit(name: str) -> None:
    point = _armed.get(name)
    if point is None:
        return
    with _counting:
        count = _hits[name] = _hits.get(name, 0) + 1
    if count < point.at or (count > point.at and not point.onwards):
        return
    logger.warning("failpoint", extra={"point": name, "action": point.action.value, "hit": count})
    match point.action:
        case Action.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case Action.EXIT:
            os._exit(70)
        case Action.SLEEP:
            time.sleep(point.sleep_ms / 1e3)
        case Action.ERROR:
            raise StoreUnavailable(
                f"failpoint {name}: PLAIT_FAILPOINTS asked for this; unset it for normal work",
                point=name,
            )
