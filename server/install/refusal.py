"""Why a file is left as it is."""

from __future__ import annotations


class Refused(Exception):
    """A file that can't be edited safely. `line` counts from 1; 0 where no line is at fault."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.line = line


def line_of(text: str, offset: int) -> int:
    """The line, from 1, that holds the character at `offset`."""
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    return before.count("\n") + 1
