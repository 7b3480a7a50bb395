"""The totals that runners of tests print at their end."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

MAX_LINES = 400  # at the end of an output
MAX_LINE = 1_000  # characters

_PYTEST_END = re.compile(
    r"=+ ?(?P<loud>[^=\n]{3,300}?) in [\d.:]{1,20}m?s?(?: \([\d:]+\))? ?=*|(?P<quiet>\d[^=\n]{3,200}?) in [\d.]{1,20}s(?: \([\d:]+\))?"
)
_PYTEST_COUNT = re.compile(r"(\d{1,7}) (passed|failed|errors?|skipped|xfailed|xpassed)\b")
_UNITTEST_RAN = re.compile(r"Ran (\d{1,7}) tests? in ")
_UNITTEST_END = re.compile(r"(?:OK|FAILED)(?: \(([^)\n]{1,200})\))?")
_MAVEN = re.compile(
    r"(?:\[\w+\] )?Tests run: (\d{1,7}), Failures: (\d{1,7}), Errors: (\d{1,7}), Skipped: (\d{1,7})\s*"
)
_CARGO = re.compile(
    r"test result: \w+\. (\d{1,7}) passed; (\d{1,7}) failed; (\d{1,7}) ignored.{0,200}"
)
_MOCHA = re.compile(r"\s{0,10}(\d{1,7}) (passing|failing|pending)\b.{0,40}")
_NODE = re.compile(r"(?:#|ℹ) (pass|fail|skipped) (\d{1,7})")
_STATUS = {
    "passing": "passed", "failing": "failed", "pending": "skipped",
    "pass": "passed", "fail": "failed", "skipped": "skipped",
}  # fmt: skip
_JEST = re.compile(r"\s*Tests:?\s+(?=.{0,200}(?:passed|failed|skipped))(.{1,200})")


class _Counts:
    """Counts by status, as far as the lines were read. A later summary replaces an earlier one; mocha and
    node count a status a line, and cargo a summary a crate."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.ran = 0  # by unittest, whose next line says how they ended

    def read(self, line: str) -> None:
        """Take the line as the first of the runners that know it."""
        for match, take in _SUMMARIES:
            if found := match(line):
                take(self, found)
                return

    def by_words(self, match: re.Match[str]) -> None:
        if found := _PYTEST_COUNT.findall(match[0]):
            self.counts = _words(found)

    def unittest_ran(self, match: re.Match[str]) -> None:
        self.ran = int(match[1])

    def unittest_end(self, match: re.Match[str]) -> None:
        if self.ran:
            self.counts, self.ran = _unittest(self.ran, match[1] or ""), 0

    def maven(self, match: re.Match[str]) -> None:
        ran, failed, errors, skipped = (int(n) for n in match.groups())
        passed = ran - failed - errors - skipped
        self.counts = {"passed": passed, "failed": failed, "error": errors, "skipped": skipped}

    def mocha(self, match: re.Match[str]) -> None:
        self.counts[_STATUS[match[2]]] = int(match[1])

    def node(self, match: re.Match[str]) -> None:
        self.counts[_STATUS[match[1]]] = int(match[2])

    def cargo(self, match: re.Match[str]) -> None:
        for status, n in zip(("passed", "failed", "skipped"), match.groups(), strict=True):
            self.counts[status] = self.counts.get(status, 0) + int(n)


_Match = Callable[[str], re.Match[str] | None]
_SUMMARIES: tuple[tuple[_Match, Callable[[_Counts, re.Match[str]], None]], ...] = (
    (lambda line: _PYTEST_END.fullmatch(line.strip()), _Counts.by_words),
    (_JEST.fullmatch, _Counts.by_words),
    (_UNITTEST_RAN.match, _Counts.unittest_ran),
    (lambda line: _UNITTEST_END.fullmatch(line.strip()), _Counts.unittest_end),
    (_MAVEN.fullmatch, _Counts.maven),
    (_MOCHA.fullmatch, _Counts.mocha),
    (_NODE.fullmatch, _Counts.node),
    (_CARGO.fullmatch, _Counts.cargo),
)


def totals(text: str) -> dict[str, int]:
    """Counts by status from the last summary lines; empty when there are none."""
    counts = _Counts()
    for line in text.split("\n")[-MAX_LINES:]:
        if len(line) < MAX_LINE:
            counts.read(line.strip("\r"))
    return {status: n for status, n in counts.counts.items() if n > 0}


def _words(found: Sequence[tuple[str, str]]) -> dict[str, int]:
    names = {"errors": "error", "xfailed": "skipped", "xpassed": "passed"}
    out: dict[str, int] = {}
    for n, word in found:
        key = names.get(word, word)
        out[key] = out.get(key, 0) + int(n)
    return out


def _unittest(ran: int, details: str) -> dict[str, int]:
    out = {"passed": ran}
    names = {"failures": "failed", "errors": "error", "skipped": "skipped"}
    for key, n in re.findall(r"(failures|errors|skipped)=(\d{1,7})", details):
        out[names[key]] = int(n)
        out["passed"] -= int(n)
    return out
