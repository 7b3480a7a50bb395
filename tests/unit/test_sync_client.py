"""The synchronous client is what the asynchronous one makes, and the check of that can fail."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "generate_sync_client.py"))


def test_the_committed_client_is_current(tool: dict[str, Any], tmp_path: Path) -> None:
    fresh = tool["generate"]()
    assert tool["stale"](fresh, ROOT / "plait" / "client" / "sync") == []
    (tmp_path / "client.py").write_text(fresh["client.py"] + "# by hand\n")
    (tmp_path / "left_over.py").write_text("")
    others = sorted(fresh.keys() - {"client.py"})
    assert tool["stale"](fresh, tmp_path) == sorted(["client.py", "left_over.py", *others])


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("async def f() -> int:\n    return await g()\n", "def f() -> int:\n    return g()\n"),
        ("async for x in xs:\n    pass\n", "for x in xs:\n    pass\n"),
        ("x: AsyncIterator[AsyncPlaitClient]\n", "x: Iterator[PlaitClient]\n"),
        ("except grpc.aio.AioRpcError:\n", "except grpc.RpcError:\n"),
        ("from plait.client.aio.keys import X\n", "from plait.client.sync.keys import X\n"),
        (
            '"""The asynchronous client.\n\nAs `aio`."""\n',
            '"""The synchronous client.\n\nAs `sync`."""\n',
        ),
        ("text = 'await async'  # both\n", "text = 'await async'  # both\n"),
    ],
)
def test_a_line_is_translated(tool: dict[str, Any], source: str, made: str) -> None:
    assert tool["translate"](source) == made
