"""Stores that an attack may take away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cut_off import Behind, stores_behind_proxies


@pytest.fixture(scope="session")
async def behind(plait_home: Path) -> AsyncIterator[Behind]:
    async with stores_behind_proxies(plait_home / "behind") as made:
        yield made
