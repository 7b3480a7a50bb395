"""What calls about API keys answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from plait.domain.keys import ApiKey


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A key and its new secret, which is said this once. `old_until`: when those before end."""

    key: ApiKey
    secret: str = field(repr=False)
    old_until: datetime | None = None
