"""Freed memory goes back to the operating system, though blocks that live on lie beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# A segment's posting lists are such blocks: many of some hundred bytes, freed all but a few.
FREES = """\
from pathlib import Path
from plait.domain.freed import return_freed

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

blocks = [bytes(1_000) for _ in range(100_000)]
kept = blocks[::1_000] + blocks[-1:]
del blocks
before = resident()
return_freed()
print(before - resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's alone")
def test_holes_between_blocks_that_live_on_are_returned() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", FREES], cwd=root, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) > 50_000_000
