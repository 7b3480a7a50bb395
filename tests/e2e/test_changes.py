"""What changes in a folder is told however little the kernel allows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import LIMIT_S

# Once the first change is told a folder is made and, when that is told, a file in it. Ends when the file is,
# or when anything may have changed.
FOLLOW = """
import asyncio, sys
from pathlib import Path
from etl.source.changes import changes

root = Path(sys.argv[1])

def polling(why):
    print("polling:", why)

async def main():
    watching = changes(root, polling)
    told = asyncio.ensure_future(anext(watching))
    while not told.done():
        (root / "a.txt").write_text("a")
        await asyncio.sleep(0.2)
    (root / "late" / "below").mkdir(parents=True)
    async for paths in watching:
        if paths is None or "late" in paths or "late/below" in paths:
            break
    (root / "late" / "below" / "b.txt").write_text("b")
    async for paths in watching:
        if paths is None or "late/below/b.txt" in paths:
            break
    print("told")

asyncio.run(main())
"""


def _has_namespaces() -> bool:
    if not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "-U", "-r", "true"], capture_output=True).returncode == 0


limited = pytest.mark.skipif(
    not _has_namespaces(), reason="limits of inotify are set in a user namespace"
)


def followed(root: Path, *before: str) -> str:
    words = [*before, sys.executable, "-P", "-c", FOLLOW, str(root)]
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(words, capture_output=True, text=True, env=here, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sub" / "below").mkdir(parents=True)
    return tmp_path


@limited
@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("max_inotify_instances=0", "Too many open files"),
        ("max_inotify_watches=2", "watch limit reached"),
        ("max_inotify_watches=4", "no watch left"),  # for the folder that comes later
    ],
)
def test_where_the_kernel_can_watch_no_more_files_are_looked_at(
    root: Path, limit: str, why: str
) -> None:
    name, value = limit.split("=")
    script = f'echo {value} > /proc/sys/user/{name} && exec "$@"'
    output = followed(root, "unshare", "-U", "-r", "sh", "-c", script, "sh")
    assert why in output
    assert output.endswith("told\n")


def test_folders_that_come_later_are_watched(root: Path) -> None:
    assert followed(root) == "told\n"
