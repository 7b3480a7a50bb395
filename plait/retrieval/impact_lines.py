"""An impact as lines of a context: each says one thing, the most important first, so that a packer may
stop at any of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plait.domain.recall import Impact, ImpactNode, PastEvent

# How many of each kind come before the others get their turn.
FIRST_TESTS, FIRST_EVENTS, FIRST_CALLERS = 5, 3, 4
MAX_NAMED = 6  # touched symbols on the first line
MAX_LINE = 240


def impact_lines(impact: Impact) -> Sequence[str]:
    """What is touched; then tests to run, past failures and fixes, and callers in turn, some of each
    before more of any. Texts of others are quoted, each line is one."""
    if not impact:
        return []
    lines = [*_touched(impact.touched)]
    tests = [_test(test) for test in impact.tests]
    events = [_event(event) for event in impact.history]
    callers = [_caller(caller) for caller in impact.callers]
    for some, first in (
        (tests, FIRST_TESTS),
        (events, FIRST_EVENTS),
        (callers, FIRST_CALLERS),
    ):
        lines += some[:first]
    lines += tests[FIRST_TESTS:] + events[FIRST_EVENTS:] + callers[FIRST_CALLERS:]
    return [_one_line(line) for line in lines]


def _touched(nodes: Sequence[ImpactNode]) -> Iterator[str]:
    if not nodes:
        return
    is_trace = any(node.distance for node in nodes)
    named = [f"`{node.name}` ({_place(node)})" for node in nodes[:MAX_NAMED]]
    more = f" and {len(nodes) - MAX_NAMED} more" if len(nodes) > MAX_NAMED else ""
    lead = "Raised in" if is_trace else "Changes"
    joint = ", called by " if is_trace else ", "
    # A long chain is several lines: none is cut in the middle of a name.
    line = lead + " "
    for n, name in enumerate(named):
        part = name if n == 0 else joint + name
        if n and len(line) + len(part) > MAX_LINE - 20:
            yield line
            line, part = ("Called by " if is_trace else "Changes ") + name, ""
        line += part
    yield line + more


def _test(node: ImpactNode) -> str:
    away = "directly" if node.distance <= 1 else f"{node.distance} calls away"
    why = "passed by a fix of it" if node.via == "test-run" else away
    if node.via == "words":
        why = "names what changed"
    elif node.distance == 0:
        why = "itself changed or failing"
    return f"Run `{node.name}` ({why}, {node.confidence:.2f})"


def _caller(node: ImpactNode) -> str:
    how = {
        "CALLS": "calls it", "INHERITS": "inherits from it", "OVERRIDES": "shares its contract",
        "IMPORTS": "imports it",
    }.get(node.via, "uses it")  # fmt: skip
    far = f", {node.distance} steps away" if node.distance > 1 else ""
    return f"Reaches `{node.name}` ({_place(node)}): {how}{far}"


def _event(event: PastEvent) -> str:
    when = f" {event.at:%Y-%m-%d}" if event.at is not None else ""
    quoted = event.title.replace('"', "'")
    proof = f"; proved by `{event.tests[0]}`" if event.kind == "fix" and event.tests else ""
    return f'Past {event.kind}{when}: "{quoted}"{proof}'


def _place(node: ImpactNode) -> str:
    return f"{node.path}:{node.line}" if node.line else node.path


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_LINE else flat[: MAX_LINE - 2] + " …"
