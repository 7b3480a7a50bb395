"""The terminal as Plait writes to it: styled only where one is there that wants it."""

from __future__ import annotations

from typing import Any, NoReturn

from rich.console import Console

from plait.domain.display import Guarded


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        """rich would end the process with 1; that a reader (`| head`) has enough is no failure."""
        raise BrokenPipeError


def console(*, stderr: bool = False, **options: Any) -> Console:
    """Standard output or standard error. With NO_COLOR or on a dumb terminal nothing is styled: rich by
    itself leaves out the colours, and keeps bold and underlined."""
    made = _Console(stderr=stderr, **options)
    if isinstance(stream := made.file, Guarded) and made.is_terminal:
        options = {**options, "file": stream.inner}  # what is styled has escapes of its own
        made = _Console(stderr=stderr, **options)
    if made.no_color or made.is_dumb_terminal:
        return _Console(stderr=stderr, color_system=None, **options)
    return made
