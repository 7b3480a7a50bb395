"""`plait watch`: what is saved in a folder is found, as long as the folder is there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import LIMIT_S, PATIENT, wait_until

PLAIT = str(Path(sys.executable).with_name("plait"))
Watch = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a.py").write_text("def first():\n    return 1\n")
    (root / "b.py").write_text("from a import first\n\n\ndef second():\n    return first()\n")
    return root


@pytest.fixture(scope="module")
def environment(plait_home: Path) -> Iterator[dict[str, str]]:
    given = {**os.environ, **PATIENT, "PLAIT_HOME": str(plait_home)}
    yield given
    subprocess.run([PLAIT, "stop"], env=given, capture_output=True, timeout=LIMIT_S)


@pytest.fixture
def watch(environment: dict[str, str]) -> Iterator[Watch]:
    started: list[subprocess.Popen[str]] = []

    def start(root: Path, *more: str) -> subprocess.Popen[str]:
        words = [PLAIT, "watch", str(root), "--json", "--no-embed", *more]
        out = subprocess.PIPE
        started.append(subprocess.Popen(words, env=environment, stdout=out, stderr=out, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next revision."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read() if process.stderr else ""
    row: dict[str, Any] = json.loads(line)
    return row


def found(environment: dict[str, str], repository: str) -> str:
    words = [PLAIT, "search", "third", "--repo", repository, "--json"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    return done.stdout


@pytest.mark.parametrize("more", [(), ("--poll",)], ids=["", "polling"])
def test_a_saved_file_is_indexed_and_ctrl_c_ends_it(
    tree: Path, watch: Watch, environment: dict[str, str], more: tuple[str, ...]
) -> None:
    process = watch(tree, *more, "--repo", f"tree{len(more)}")
    assert told(process)["paths"] is None
    (tree / "a.py").write_text("def first():\n    return third()\n\n\ndef third(): ...\n")
    row = told(process)
    assert row["paths"] == ["a.py"]
    assert "third" in found(environment, row["repository"])
    shutil.copy(tree / "b.py", tree / "c.py")
    assert told(process)["paths"] == ["c.py"]
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130


def test_a_folder_that_is_moved_is_followed(
    tree: Path, watch: Watch, environment: dict[str, str]
) -> None:
    (tree / "sub").mkdir()
    (tree / "sub" / "moved.py").write_text("def third(): ...\n")
    process = watch(tree, "--repo", "moved")
    told(process)
    (tree / "sub").rename(tree / "other")
    told(process)
    wait_until(lambda: "other/moved.py" in found(environment, "moved"))
    assert "sub/moved.py" not in found(environment, "moved")
    (tree / "other").rename(tree.parent / f"{tree.name}-outside")
    told(process)
    wait_until(lambda: "moved.py" not in found(environment, "moved"))


@pytest.mark.skipif(sys.platform != "linux", reason="of inotify")
def test_what_the_kernel_had_no_room_for_is_found(
    tree: Path, watch: Watch, environment: dict[str, str]
) -> None:
    """Of a process that is stopped events wait in a queue, and what it can't hold is lost."""
    noise = [tree / "x.txt", tree / "y.txt"]
    for path in noise:
        path.write_text("noise\n")
    process = watch(tree, "--repo", "stopped")
    told(process)
    process.send_signal(signal.SIGSTOP)
    room = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for _ in range(room // 2 + 1):
        for path in noise:  # in turn: equal events in a row are one
            path.touch()
    (tree / "a.py").write_text("def first():\n    return third()\n\n\ndef third(): ...\n")
    process.send_signal(signal.SIGCONT)
    wait_until(lambda: "a.third" in found(environment, "stopped"))


def test_ten_thousand_saved_files_are_found(
    tree: Path, watch: Watch, environment: dict[str, str]
) -> None:
    process = watch(tree, "--repo", "storm")
    told(process)
    for number in range(100):
        folder = tree / f"d{number}"
        folder.mkdir()
        for each in range(100):
            (folder / f"{each}.txt").write_text(f"storm {number} {each}\n")
    (tree / "z.py").write_text("def third(): ...\n")
    wait_until(lambda: "z.py" in found(environment, "storm"))

    def files() -> int:
        words = [PLAIT, "repos", "--json"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        rows = json.loads(done.stdout)["repositories"]
        return next(int(row["files"]) for row in rows if row["name"] == "storm")

    wait_until(lambda: files() == 10_003)


def test_another_folder_in_its_place_ends_it(tree: Path, watch: Watch) -> None:
    process = watch(tree, "--repo", "replaced")
    told(process)
    tree.rename(tree.parent / f"{tree.name}-old")
    tree.mkdir()
    (tree / "new.py").write_text("def new(): ...\n")
    assert process.wait(LIMIT_S) == 1


def test_a_folder_that_goes_ends_it_with_a_message(tree: Path, watch: Watch) -> None:
    process = watch(tree, "--repo", "gone")
    told(process)
    shutil.rmtree(tree)
    assert process.wait(LIMIT_S) == 1
    assert process.stderr is not None
    assert "is gone" in process.stderr.read()


def test_no_folder_is_wrong_usage(tmp_path: Path, watch: Watch) -> None:
    process = watch(tmp_path / "none")
    assert process.wait(LIMIT_S) == 2
