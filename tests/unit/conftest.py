"""What lies behind a call's door is tested as its owner's call."""

from __future__ import annotations

import pytest

from plait.domain.access import OWNER
from server.access import current


@pytest.fixture(autouse=True)
def owner() -> None:
    current.answer(OWNER)
