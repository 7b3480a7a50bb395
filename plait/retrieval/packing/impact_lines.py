"""An impact as lines of a context: each says one thing, the most important first, so that a packer may
stop at any of them. Names and titles come from code and from runs: hostile until they are quoted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plait.domain.recall import Impact, ImpactNode, PastEvent
from plait.retrieval.packing.wording import code, one_line, spot

# How many of each kind come before the others get their turn.
FIRST_TESTS, FIRST_EVENTS, FIRST_CALLERS = 5, 3, 4
MOST_TESTS, MOST_EVENTS, MOST_CALLERS = 15, 8, 10  # all of them are in the impact itself
MAX_NAMED = 6  # touched symbols that are named
NAMES_A_LINE = 3
MAX_PLACE, MAX_TITLE = 120, 180

_HOW = {
    "CALLS": "calls it",
    "INHERITS": "inherits from it",
    "OVERRIDES": "shares its contract",
    "IMPORTS": "imports it",
}


def impact_lines(impact: Impact) -> Sequence[str]:
    """What is touched; then tests to run, past failures and fixes, and callers in turn, some of each
    before more of any."""
    tests = [_test(test) for test in impact.tests[:MOST_TESTS]]
    events = [_event(event) for event in impact.history[:MOST_EVENTS]]
    callers = [_caller(caller) for caller in impact.callers[:MOST_CALLERS]]
    return [
        *_touched(impact.touched),
        *tests[:FIRST_TESTS],
        *events[:FIRST_EVENTS],
        *callers[:FIRST_CALLERS],
        *tests[FIRST_TESTS:],
        *events[FIRST_EVENTS:],
        *callers[FIRST_CALLERS:],
    ]


def _touched(nodes: Sequence[ImpactNode]) -> Iterator[str]:
    """A trace's frames from the raising one outwards, then a change's symbols; some a line."""
    for is_trace in (True, False):
        yield from _named([node for node in nodes if (node.via == "frame") is is_trace], is_trace)


def _named(nodes: Sequence[ImpactNode], is_trace: bool) -> Iterator[str]:
    named = [f"{code(node.name)} ({_place(node)})" for node in nodes[:MAX_NAMED]]
    # The first stands alone: a short line that finds room in any budget.
    lines = [named[:1], *(named[n : n + NAMES_A_LINE] for n in range(1, len(named), NAMES_A_LINE))]
    for n, part in enumerate(line for line in lines if line):
        if is_trace:
            yield ("Called by " if n else "Raised in ") + ", called by ".join(part)
        else:
            yield "Changes " + ", ".join(part)
    if len(nodes) > MAX_NAMED:
        yield f"And {len(nodes) - MAX_NAMED} more {'frames' if is_trace else 'symbols'}"


def _test(node: ImpactNode) -> str:
    if node.via == "words":
        why = "names what changed"
    elif node.via == "test-run":
        why = "a change of it turned this green"
    elif node.distance == 0:
        why = "itself changed or in the trace"
    else:
        why = "runs it" if node.distance == 1 else f"{node.distance} calls away"
    return f"Run {code(node.name, 2 * MAX_PLACE)} ({why}, {node.confidence:.2f})"


def _caller(node: ImpactNode) -> str:
    far = f", {node.distance} steps away" if node.distance > 1 else ""
    return f"Reaches {code(node.name)} ({_place(node)}): {_HOW.get(node.via, 'uses it')}{far}"


def _event(event: PastEvent) -> str:
    when = f" {event.at:%Y-%m-%d}" if event.at is not None else ""
    quoted = one_line(event.title, MAX_TITLE).replace('"', "'")
    proof = f"; proved by {code(event.tests[0])}" if event.kind == "fix" and event.tests else ""
    return f'Past {one_line(event.kind, 20)}{when}: "{quoted}"{proof}'


def _place(node: ImpactNode) -> str:
    path = spot(node.path, MAX_PLACE)
    return f"{path}:{node.line}" if node.line else path
