"""The many ways to write one test's name, and which symbol of an index is meant: one, or none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_NAME = 1_000

# pytest and Jest name a file; unittest puts the class behind in parentheses.
_UNITTEST = re.compile(r"(\w{1,300}) \(([\w.]{1,600})\)(?:.{0,300})", re.DOTALL)
# Go's subtests follow their function's name: `pkg.TestParse/empty_input`.
_GO_SUBTEST = re.compile(
    r"((?:[\w./-]{0,300}[./ ])?(?:Test|Benchmark|Fuzz|Example)(?:[A-Z_0-9]\w{0,200})?)/"
)
_FILE_EXTENSION = re.compile(
    r"\.(?:py|pyi|js|jsx|mjs|cjs|ts|tsx|mts|cts|java|kt|go|rs|rb|php|cs|swift)\Z"
)
_ARGUMENTS = re.compile(r"\([^()]{0,300}\)\Z")
_SEPARATORS = re.compile(r"[.:#/$>\s]+")


@dataclass(frozen=True, slots=True)
class TestName:
    """`parts`: the outermost first, the function last. `path`: the file, where it was named."""

    __test__ = False  # pytest would collect it

    parts: tuple[str, ...]
    path: str = ""

    @property
    def name(self) -> str:
        """The function's own name; "" for a name that can't be a function's."""
        return self.parts[-1] if self.parts else ""


def parse_name(reported: str) -> TestName:
    """A tool's name for a test, parsed, without parameters: pytest's `a/test_b.py::C::test_d[1]`,
    unittest's `test_d (a.test_b.C)`, JUnit's `a.b.CTest.testD`, Maven's `a.b.CTest#testD`, Go's
    `pkg.TestD/case`, Rust's `b::tests::d`."""
    text = reported.strip()[:MAX_NAME]
    if match := _UNITTEST.fullmatch(text):
        owner = match[2].removesuffix("." + match[1])
        return TestName((*owner.split("."), match[1]))
    path, text = _split_path(text)
    if not path and (subtest := _GO_SUBTEST.match(text)):
        text = subtest[1]
    text = _without_parameters(text)
    parts = [part for part in _SEPARATORS.split(text) if part]
    if path:
        bare = _FILE_EXTENSION.sub("", path)
        # A name behind a file may repeat the module; the file's own parts come first once.
        parts = [*[p for p in bare.split("/") if p], *parts]
    return TestName(tuple(parts), path)


def _split_path(text: str) -> tuple[str, str]:
    """`(file, rest)`; the file is the part before `::`, ` > ` or ` › `, if it looks like one."""
    for separator in ("::", " > ", " \u203a "):
        head, found, rest = text.partition(separator)
        if found and _FILE_EXTENSION.search(head):
            return head.replace("\\", "/").removeprefix("./").lstrip("/"), rest
    return "", text


def _without_parameters(text: str) -> str:
    """Without `[1-a]` of pytest, `(String)[1]` of JUnit and `()`."""
    if text.endswith("]"):
        text = text.partition("[")[0]
    return _ARGUMENTS.sub("", text).rstrip()


def choose(test: TestName, known: Iterable[tuple[str, str]]) -> str:
    """The one symbol of `known` (`(symbol, path)`, tests of that name) that `test` means; "" when none
    or several fit. One's parts must end with all of the other's: less is a guess."""
    fitting: dict[str, int] = {}
    for symbol, path in known:
        if test.path and not _same_file(test.path, path):
            continue
        parts = tuple(part for part in _SEPARATORS.split(symbol) if part)
        common = _common_end(parts, test.parts)
        if test.path:
            # The file was compared already; the rest must agree.
            inside = len(test.parts) - len([p for p in test.path.split("/") if p])
            if common >= max(1, inside):
                fitting[symbol] = common
        elif common and common == min(len(parts), len(test.parts)):
            fitting[symbol] = common
    best = max(fitting.values(), default=0)
    chosen = [symbol for symbol, common in fitting.items() if common == best]
    return chosen[0] if len(chosen) == 1 else ""


def _same_file(one: str, other: str) -> bool:
    """Equal from the end on: a tool that ran in a folder names files from there."""
    return one == other or one.endswith("/" + other) or other.endswith("/" + one)


def _common_end(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    n = 0
    while n < min(len(one), len(other)) and one[-1 - n] == other[-1 - n]:
        n += 1
    return n
