"""jest, vitest and mocha in their verbose form: files, `describe` blocks by indentation, tests."""

from __future__ import annotations

import re

from plait.text.test_results import TestRun

MAX_LINES = 200_000
MAX_LINE = 2_000  # characters; a longer line is no test's
MAX_TESTS = 5_000
MAX_BLOCKS, MAX_BLOCK_DEPTH, MAX_BLOCK_NAME = 10, 20, 200

_JS_FILE = re.compile(
    r"\s{0,4}(?:PASS|FAIL|✓|❯|×|✗)\s+(?:\|[^|]{0,80}\|\s*)?(\S{1,400}\.(?:[cm]?[jt]sx?|vue))(?:\s|\Z)"
)
_JS_TEST = re.compile(
    r"(\s*)(?P<mark>✓|√|✔|✕|×|✖|✗|○|↓|-)\s+(?P<name>\S.{0,400}?)(?:\s+\(?(?P<took>[\d.]{1,9})\s?(?P<unit>ms|s)\)?)?\s*"
)
_JS_STATUS = {
    "✓": "passed",
    "√": "passed",
    "✔": "passed",
    "○": "skipped",
    "↓": "skipped",
    "-": "skipped",
}


_SOURCES = (".ts", ".js", ".tsx", ".jsx", ".mjs")
_NO_BLOCK = ("at ", "●", "|", ">", "expect")  # how lines of an error begin


def tests(text: str) -> list[TestRun]:
    """The tests that the output names, at most `MAX_TESTS`, in its order."""
    listing = _Listing()
    out: list[TestRun] = []
    for line in text.split("\n")[:MAX_LINES]:
        if len(line) <= MAX_LINE and line.strip() and (run := listing.read(line)) is not None:
            out.append(run)
            if len(out) >= MAX_TESTS:
                break
    return out


class _Listing:
    """The position of the next line in a listing of tests."""

    def __init__(self) -> None:
        self.file = ""
        self.blocks: list[tuple[int, str]] = []  # indentation and name, outermost first

    def read(self, line: str) -> TestRun | None:
        """The test that `line` reports; else `line` is read as context of the lines below."""
        if match := _JS_FILE.match(line):
            self.file, self.blocks = match[1], []
        elif match := _JS_TEST.fullmatch(line):
            return self._test(match)
        elif not line.startswith(" "):
            self.blocks = []
        elif not line.lstrip().startswith(_NO_BLOCK):
            self._block(len(line) - len(line.lstrip()), line.strip())
        return None

    def _test(self, match: re.Match[str]) -> TestRun | None:
        self._leave(len(match[1]))
        if not self.file and not self.blocks:
            return None
        levels = [level.strip() for level in match["name"].split(" > ")]
        names = [*(name for _, name in self.blocks), *levels]
        if self.file and not levels[0].endswith(_SOURCES):
            names.insert(0, self.file)
        took = _milliseconds(match["took"], match["unit"])
        return TestRun(" > ".join(names), _JS_STATUS.get(match["mark"], "failed"), took)

    def _block(self, depth: int, name: str) -> None:
        self._leave(depth)
        del self.blocks[MAX_BLOCKS:]
        if depth <= MAX_BLOCK_DEPTH and len(name) <= MAX_BLOCK_NAME:
            self.blocks.append((depth, name))

    def _leave(self, depth: int) -> None:
        self.blocks = [block for block in self.blocks if block[0] < depth]


def _milliseconds(took: str | None, unit: str | None) -> float | None:
    try:
        return None if took is None else float(took) * (1000 if unit == "s" else 1)
    except ValueError:
        return None
