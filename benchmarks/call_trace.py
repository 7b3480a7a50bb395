"""Run a Python program and log which of a folder's functions call which, by `sys.setprofile`.

    python benchmarks/call_trace.py OUT ROOT -m pytest -q tests
    python benchmarks/call_trace.py OUT ROOT script.py ARGS

OUT gets JSON: `calls`: [caller file, first line, name, line of the call, callee file, first line, name]
for frames that both lie below ROOT; `sites`: [file, line, callee name] for every call made from there,
also of foreign and C functions. Needs nothing but the standard library: it runs in the program's
own environment.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

CO_GENERATORS = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator


class Trace:
    """Collects call pairs of code below `root`."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root) + os.sep
        self.calls: set[tuple[CodeType, int, CodeType]] = set()
        self.sites: set[tuple[CodeType, int, str]] = set()
        self._inside: dict[CodeType, bool] = {}

    def inside(self, code: CodeType) -> bool:
        known = self._inside.get(code)
        if known is None:
            path = os.path.realpath(code.co_filename)
            known = path.startswith(self.root) and "site-packages" not in path
            known = known and Path(path).is_file()  # not "<string>", nor a compiled template
            self._inside[code] = known
        return known

    def profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            caller = frame.f_back
            if caller is None or not self.inside(caller.f_code):
                return
            code, line = frame.f_code, caller.f_lineno
            self.sites.add((caller.f_code, line, code.co_name))
            if self.inside(code):
                self.calls.add((caller.f_code, line, code))
        elif event == "c_call" and self.inside(frame.f_code):
            self.sites.add((frame.f_code, frame.f_lineno, getattr(arg, "__name__", "?")))

    def dump(self, path: str) -> None:
        root = len(self.root)

        def where(code: CodeType) -> tuple[str, int, str]:
            file = os.path.realpath(code.co_filename)[root:]
            return file, code.co_firstlineno, code.co_name

        calls = [(*where(a), line, *where(b)) for a, line, b in self.calls]
        sites = {(where(a)[0], line, name) for a, line, name in self.sites}
        found = {"calls": sorted(set(calls)), "sites": sorted(sites)}
        Path(path).write_text(json.dumps(found), encoding="utf-8")


def main() -> None:
    out, root, *command = sys.argv[1:]
    trace = Trace(root)
    parent = os.getpid()
    sys.path.insert(0, str(Path.cwd()))
    threading.setprofile(trace.profile)
    sys.setprofile(trace.profile)
    try:
        if command[0] == "-m":
            sys.argv = command[1:]
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = command
            sys.path.insert(0, str(Path(command[0]).resolve().parent))
            runpy.run_path(command[0], run_name="__main__")
    finally:
        sys.setprofile(None)
        if os.getpid() == parent:
            trace.dump(out)


if __name__ == "__main__":
    main()
