"""Four lines for the agent, between two marks, in a Markdown file that is the user's."""

from __future__ import annotations

from server.install import splice
from server.install.refusal import Refused, line_of

BEGIN = "<!-- plait:begin -->"
END = "<!-- plait:end -->"
LINES = (
    "Plait knows this repository's code, call graph and history. Use it before grep or reading files.",
    'Begin a task with `recall`: the code, tests and past work that it needs. Shell: `plait recall "…"`.',
    "Find code by meaning or name with `search`; callers, impact and tests of a symbol with `graph`.",
    "Keep what the next session must know with `remember`.",
)


def put(text: str | None) -> str:
    """The file with our lines at its end, or renewed where they are. Raises: Refused."""
    eol = splice.eol_of(text or "")
    block = eol.join((BEGIN, *LINES, END))
    if text is None:
        return block + eol
    if span := _span(text):
        return text[: span[0]] + block + text[span[1] :]
    return text + eol + block + eol


def take(text: str | None) -> str | None:
    """The file without our lines; None when it held nothing else. Raises: Refused."""
    span = _span(text or "")
    if text is None or span is None:
        return text
    (start, end), eol = span, splice.eol_of(text)
    before, after = text[:start], text[end:].removeprefix(eol)
    if not before and not after:
        return None
    # The line break that was put before: of a text that ended without one, and of one that did.
    shorter = before.removesuffix(eol)
    return (shorter if not after or not shorter or shorter.endswith(eol) else before) + after


def has(text: str | None) -> bool:
    return text is not None and BEGIN in text


def _span(text: str) -> tuple[int, int] | None:
    """From the first mark to past the last. Raises: Refused, when one is missing or there twice."""
    if BEGIN not in text and END not in text:
        return None
    start, end = text.find(BEGIN), text.find(END)
    if start < 0 or end < start or text.count(BEGIN) != 1 or text.count(END) != 1:
        raise Refused(
            f"the marks {BEGIN} and {END} must stand there once each, in this order; "
            "put them right or remove them with the lines between",
            line_of(text, max(start, end)),
        )
    return start, end + len(END)
