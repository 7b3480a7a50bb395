"""Text that others wrote, as people and agents may be shown it. Light to load: every command does.

Repositories, agents, transcripts and file names are hostile. A terminal takes some characters for orders
(escape sequences, C1 controls), a reader sees nothing of others that a model reads all the same (letters of
the tag block, zero-width marks), or sees the text in another order (bidirectional overrides). None of them
leaves a command, an MCP answer, a hook or a context: `visible` is what makes texts safe, `to_json` keeps
values whole and writes such characters as escapes, `guarded` covers all output of a process.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

# Controls but for tabs and line ends, what no reader sees, what changes the order of what is read. Joiners of
# emoji and scripts stay, and one variation selector after a character: a run of them carries hidden bytes.
_HIDDEN = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SELECTORS = "(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]+"
_REMOVED = re.compile(f"[{_HIDDEN}]+|{_SELECTORS}")
# Other ends of lines than ours: a carriage return overwrites the line before it.
_LINE_END = re.compile("\r\n?")
_BLANK = re.compile("[\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# What JSON leaves as it is, and `visible` does not.
_RAW = re.compile(f"[{_HIDDEN}\x85\u2028\u2029\ud800-\udfff]|{_SELECTORS}")


def visible(text: str) -> str:
    """`text` without what steers a terminal or is not seen; line ends are newlines, tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    text = _BLANK.sub(" ", _LINE_END.sub("\n", text))
    return _SURROGATE.sub("\ufffd", _REMOVED.sub("", text))


def to_json(value: Any, **options: Any) -> str:
    """`value` as JSON that loses nothing, and is no order to a terminal either."""
    return escaped(json.dumps(value, ensure_ascii=False, **options))


def escaped(written: str) -> str:
    """JSON of the same value, whose strings hold what `visible` would take out as escapes."""
    if written.isascii() and written.isprintable():
        return written
    return _RAW.sub(_escape, written)


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]


class Guarded:
    """A text stream that lets through what is `visible` and no more. `inner`: the stream itself, for what
    Plait styles."""

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner

    def write(self, text: str) -> int:
        self.inner.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def guarded() -> None:
    """Guard standard output and standard error of this process, once."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, Guarded):
            setattr(sys, name, cast(TextIO, Guarded(stream)))
