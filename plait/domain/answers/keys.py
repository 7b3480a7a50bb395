"""What calls about API keys answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from plait.domain.keys import ApiKey


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A key and its new secret, which is shown only here. `old_until`: when earlier secrets expire."""

    key: ApiKey
    secret: str = field(repr=False)
    old_until: datetime | None = None
