"""What no message can carry, refused in words before it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from plait.domain.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")
Number = TypeVar("Number")


def number(table: Mapping[Any, Number], value: object, field: str) -> Number:
    """The number of `value`, one of a closed set. Raises: InvalidInput, for one that is not in it."""
    found = table.get(value) if isinstance(value, str) else None
    if found is None:
        known = ", ".join(repr(str(one)) for one in table)
        raise InvalidInput(f"{field} is {value!r}; give one of {known}", field=field)
    return found


def sendable(make: Callable[P, R]) -> Callable[P, R]:
    """`make`, which builds a message, with half surrogate pairs refused: messages are UTF-8."""

    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return make(*args, **kwargs)
        except UnicodeEncodeError as exc:
            half = ord(exc.object[exc.start])
            raise InvalidInput(
                f"a text holds half of a surrogate pair, U+{half:04X} at character {exc.start}, which"
                " UTF-8 has no bytes for; read it with errors='replace', or send"
                " text.encode('utf-8', 'replace').decode()"
            ) from None

    return made
