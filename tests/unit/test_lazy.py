"""A lazy module serves threads that come to it at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

TOGETHER = """
import sys, threading
from plait.lazy import lazy_module

module = lazy_module("plait.wire.search")
assert "plait.wire.search" not in sys.modules
barrier, found = threading.Barrier(8), []

def use():
    barrier.wait()
    found.append(len(module.MODES))

threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(found))
"""


def test_threads_that_use_a_module_first_all_get_it_whole() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TOGETHER], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("8\n", "")


@pytest.mark.parametrize("module", ["etl.index_repo", "server"])
def test_modules_built_into_python_are_not_taken_for_the_root_folders(module: str) -> None:
    command = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
