"""A full disk is named, however what met it puts that."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from plait.domain.errors import EmbeddedServerFailed, HomeUnusable, StoreFull
from plait.supervisor.files import unusable
from vector.server import pgdata

SAID = [
    "initdb: error: could not write to file: No space left on device",
    'FATAL:  could not extend file "base/1/2691": wrote only 4096 of 8192 bytes at block 10\n'
    "HINT:  Check free disk space.\nPANIC:  cannot abort transaction 1",
    "child process was terminated by signal 7: Bus error",
    "could not write: Disk quota exceeded",
]


@pytest.mark.parametrize("said", SAID)
def test_a_tool_that_found_no_space_says_so(said: str, tmp_path: Path) -> None:
    done = subprocess.CompletedProcess(["initdb"], 1, "", said)
    with pytest.raises(StoreFull, match="no space is left"):
        pgdata._check(done, "initdb", tmp_path / "data")


def test_another_fault_is_no_full_disk(tmp_path: Path) -> None:
    done = subprocess.CompletedProcess(["initdb"], 1, "", "initdb: error: locale not found")
    with pytest.raises(EmbeddedServerFailed, match="locale not found"):
        pgdata._check(done, "initdb", tmp_path / "data")


def test_a_copy_that_found_no_space_says_so(tmp_path: Path) -> None:
    why = f"[Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}"
    assert isinstance(unusable(tmp_path, shutil.Error([("a", "b", why)])), StoreFull)
    assert isinstance(unusable(tmp_path, shutil.Error([("a", "b", "gone")])), HomeUnusable)
    assert isinstance(unusable(tmp_path, PermissionError(errno.EACCES, "no")), HomeUnusable)
