"""Run a project's tests and log which of its functions each test runs, by `sys.setprofile`.

    python benchmarks/test_trace.py OUT ROOT -q tests      # in the project's own environment, with pytest

OUT gets JSON: node id of the test → [file, first line, name] of each code object below ROOT that ran from
its setup to the end of its call; parameters of one test are one. Tests that failed are left out.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest


class Recorder:
    """A pytest plugin."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root) + os.sep
        self.ran: dict[str, set[tuple[str, int, str]]] = {}
        self.failed: set[str] = set()
        self._now: set[CodeType] = set()
        self._inside: dict[CodeType, str] = {}

    def profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            self._now.add(frame.f_code)

    def path(self, code: CodeType) -> str:
        """Below the root; "" for foreign code."""
        known = self._inside.get(code)
        if known is None:
            path = os.path.realpath(code.co_filename)
            own = (
                path.startswith(self.root) and "site-packages" not in path and Path(path).is_file()
            )
            known = self._inside[code] = path[len(self.root) :] if own else ""
        return known

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self._now = set()
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            name = item.nodeid.partition("[")[0]
            mine = self.ran.setdefault(name, set())
            # A copy: servers that tests started go on in threads of theirs.
            for code in self._now.copy():
                if path := self.path(code):
                    mine.add((path, code.co_firstlineno, code.co_name))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid.partition("[")[0])

    def dump(self, path: str) -> None:
        found = {name: sorted(ran) for name, ran in self.ran.items() if name not in self.failed}
        Path(path).write_text(json.dumps(found), encoding="utf-8")


def main() -> int:
    out, root, *arguments = sys.argv[1:]
    os.chdir(root)
    sys.path.insert(0, str(Path.cwd()))
    recorder = Recorder(root)
    status = pytest.main(["-p", "no:cacheprovider", *arguments], plugins=[recorder])
    recorder.dump(out)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
