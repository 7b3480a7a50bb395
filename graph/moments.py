"""The "as of" times of a graph query as its parameters, in milliseconds since 1970."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from plait.domain.errors import InvalidInput
from plait.domain.memory import AsOf

VALID, RECORDED = "valid_as_of", "recorded_as_of"


def bound(cypher: str, given: Mapping[str, Any], as_of: AsOf) -> dict[str, Any]:
    """Parameters of a user's statement, with the two times where it mentions them.

    Raises: InvalidInput, for a time that the statement ignores, or that comes in both ways.
    """
    moments = {
        VALID: _ms(as_of.valid) if as_of.valid else None,
        RECORDED: _ms(as_of.recorded) if as_of.recorded else None,
    }
    out = dict(given)
    for name, at in moments.items():
        mentioned = f"${name}" in cypher
        if at is not None and not mentioned:
            raise InvalidInput(
                f"as_of is given and the statement does not use ${name}; compare the edges' times with "
                f"it, as in: WHERE r.recorded_from <= ${name}",
                field="as_of",
                parameter=name,
            )
        if at is not None and name in given:
            raise InvalidInput(
                f"${name} is given by as_of and by parameters; leave one of them out",
                field="parameters",
                parameter=name,
            )
        if mentioned and name not in given:
            out[name] = _now() if at is None else at
    return out


def _now() -> int:
    return time.time_ns() // 1_000_000


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1e6 + 0.5) // 1000
