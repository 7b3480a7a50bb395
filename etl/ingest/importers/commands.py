"""Shell commands of agents: which of them run tests, and what their output says of each test."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from etl.ingest.importers.trim import last_of_rewritten, plain
from plait.text.test_results import TestRun, results

MAX_COMMAND = 20_000  # characters looked at
MAX_OUTPUT = 2 * 2**20

_SEPARATOR = re.compile(r"(&&|\|\||[;|\n&()])")
# `2>&1`, `> file`, `&> file`
_REDIRECTION = re.compile(r"(?:\d{0,2}|&)>{1,2}(?:&\d|\s{0,9}[^\s|&;()]+)")
_SEPARATORS = re.compile(r"&&|\|\||[;|\n&()]|\bthen\b|\bdo\b")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=\S*\s*")
# Words before the command that is meant; some take words of their own.
_WRAPPER = re.compile(
    r"(?:sudo|env|time|nice|nohup|command|exec|xvfb-run|then|uv run|poetry run|pdm run|hatch run|"
    r"pipenv run|rye run|conda run|coverage run(?: -\S+)*(?= -m| \S)|npx|bunx|pnpm exec|yarn exec|"
    r"pnpm dlx|bundle exec|timeout(?: -\S{1,20}(?: (?:\d\S{0,9}|[A-Z]{1,9})(?= \d))?){0,4} \S+|stdbuf \S+|docker (?:compose )?exec(?: -\S+)* \S+|"
    r"docker-compose exec(?: -\S+)* \S+)\s+(?:--?[\w-]+(?:=\S+)?\s+){0,4}"
)
_PYTHON = r"(?:\S*/)?(?:python[\d.]*|pypy[\d.]*|py)(?: -[a-zA-Z]\S*)*?"
_RUNNERS: tuple[tuple[str, str], ...] = (
    ("pytest", rf"(?:\S*/)?(?:pytest|py\.test)(?:\s|\Z)|(?:{_PYTHON} )?-m pytest(?:\s|\Z)"),
    ("unittest", rf"(?:{_PYTHON} )?-m (?:unittest|django test|nose2?|twisted\.trial)(?:\s|\Z)"),
    ("unittest", rf"(?:{_PYTHON} )?(?:\./)?\S*manage\.py test(?:\s|\Z)"),
    ("unittest", rf"(?:{_PYTHON} )?(?:\./)?\S*(?:runtests|run_tests|setup)\.py(?: test)?(?:\s|\Z)"),
    ("go", r"(?:\S*/)?go test(?:\s|\Z)|gotestsum(?:\s|\Z)"),
    ("cargo", r"cargo (?:\+\S+ )?(?:test|nextest run)(?:\s|\Z)"),
    ("maven", r"(?:\S*/)?mvnw?(?:\.cmd)?\s(?:\S+\s){0,20}?(?:test|verify|install|package|surefire:test|failsafe:\S+)(?:\s|\Z)"),
    ("gradle", r"(?:\S*/)?gradlew?(?:\.bat)?\s(?:\S+\s){0,20}?\S*(?:[tT]est|check)(?:\s|\Z)"),
    ("jest", r"(?:\S*/)?jest(?:\s|\Z)"),
    ("vitest", r"(?:\S*/)?vitest(?:\s|\Z)"),
    ("jest", r"(?:npm|pnpm|yarn|bun)(?: (?:run|-\S+))* (?:t|test)(?::\S+)?(?:\s|\Z)"),
    ("mocha", r"(?:\S*/)?(?:mocha|ava|tap|playwright test|cypress run|node --test)(?:\s|\Z)"),
    ("other", r"(?:tox|nox|ctest|rspec|phpunit|dotnet test|swift test|mix test|make (?:\S+\s){0,5}?\S*(?:test|check)\S*)(?:\s|\Z)"),
)  # fmt: skip
_KNOWN = tuple((name, re.compile(pattern)) for name, pattern in _RUNNERS)
_NOT_A_RUN = re.compile(r"\s(?:--version|--help|-h|--collect-only|--co|--no-run|-list)(?:\s|\Z)")


_HEREDOC = re.compile(r"<<-?[ \t]{0,4}['\"]?(\w{1,40})['\"]?")
MAX_HEREDOCS = 20
_QUOTED = re.compile(r"'[^'\n]{0,2000}'|\"(?:[^\"\\\n]|\\.){0,2000}\"")
_SHELL = re.compile(r"\b(?:ba|z|da)?sh -l?c\b")


def runner(command: str) -> str:
    """The runner of the tests that `command` runs; "" when it runs none."""
    for part in simple(command):
        for name, pattern in _KNOWN:
            if pattern.match(part) and not _NOT_A_RUN.search(part):
                return name
    return ""


def exits_as_tests(command: str, *, failed: bool) -> bool:
    """Whether the exit status of `command` is that of the last tests it runs: nothing else follows them, nor
    reads what they print. What follows behind `&&` has run if all is well, so a success is theirs too."""
    text = _REDIRECTION.sub(" ", _unquoted(command))
    parts = _SEPARATOR.split(text)  # commands at even places, what stands between them at odd ones
    places = [n for n in range(0, len(parts), 2) if _is_runner(_bare(parts[n]))]
    if not places:
        return False
    piped = "pipefail" in text
    for n in range(places[-1] + 1, len(parts), 2):
        follows = any(part.strip() for part in parts[n + 1 :: 2])
        if parts[n] == "&":
            return False
        if not follows or (parts[n] == "&&" and not failed) or (parts[n] == "|" and piped):
            continue
        if parts[n] != ")":
            return False
    return True


def simple(command: str) -> list[str]:
    """The simple commands in `command`, as far as it is looked at, without assignments and wrappers
    before them; `_` stands for what is quoted, which is an argument unless a shell gets it."""
    return [bare for part in _SEPARATORS.split(_unquoted(command)) if (bare := _bare(part))]


def _unquoted(command: str) -> str:
    text = _without_heredocs(command[:MAX_COMMAND])
    if _SHELL.search(text):
        return text.replace("'", "\n").replace('"', "\n")
    return _QUOTED.sub("_", text)


def _is_runner(part: str) -> bool:
    return any(p.match(part) and not _NOT_A_RUN.search(part) for _, p in _KNOWN)


def _without_heredocs(text: str) -> str:
    """What a shell hands to a command as its input is no command."""
    at = 0
    for _ in range(MAX_HEREDOCS):
        begin = _HEREDOC.search(text, at)
        if begin is None:
            break
        line_end = text.find("\n", begin.end())
        end = re.compile(rf"\n\s{{0,40}}{begin[1]}(?=\s|\Z)").search(text, max(0, line_end))
        if line_end < 0 or end is None:
            break
        text = f"{text[: begin.start()]} {text[begin.end() : line_end]}{text[end.end() :]}"
        at = begin.start()
    return text


def _bare(part: str) -> str:
    """One simple command without assignments and wrappers before it."""
    part = part.strip()
    for _ in range(6):
        before = part
        if match := _ASSIGNMENT.match(part):
            part = part[match.end() :]
        if match := _WRAPPER.match(part):
            part = part[match.end() :]
        if part == before:
            return part
    return part


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of tests printed. `counts` may say more than `runs` names: quiet runners name
    failures only."""

    runner: str
    runs: tuple[TestRun, ...]
    counts: dict[str, int]


def read(name: str, output: str) -> Outcome:
    """The results in `output` of the runner `name`."""
    text = plain(last_of_rewritten(output[-MAX_OUTPUT:]))
    runs = _FROM_OUTPUT.get(name, _lines)(text)
    counts = _totals(text) or {}
    if not counts:
        for run in runs:
            counts[run.status] = counts.get(run.status, 0) + 1
    return Outcome(name, tuple(runs), counts)


def _lines(text: str) -> list[TestRun]:
    return results(text, {})


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


def _javascript(text: str) -> list[TestRun]:
    """jest, vitest and mocha in their verbose form: files, `describe` blocks by indentation, tests."""
    out: list[TestRun] = []
    file, blocks = "", list[tuple[int, str]]()
    for line in text.split("\n")[:200_000]:
        if len(line) > 2_000 or not line.strip():
            continue
        if match := _JS_FILE.match(line):
            file, blocks = match[1], []
        elif match := _JS_TEST.fullmatch(line):
            blocks = [b for b in blocks if b[0] < len(match[1])]
            if file or blocks:
                out.append(_javascript_test(match, file, [b[1] for b in blocks]))
        elif line.startswith(" ") and not line.lstrip().startswith(
            ("at ", "●", "|", ">", "expect")
        ):
            depth = len(line) - len(line.lstrip())
            blocks = [b for b in blocks if b[0] < depth][:10]
            if depth <= 20 and len(line.strip()) <= 200:
                blocks.append((depth, line.strip()))
        elif not line.startswith(" "):
            blocks = []
        if len(out) >= 5_000:
            break
    return out or _lines(text)


def _javascript_test(match: re.Match[str], file: str, blocks: list[str]) -> TestRun:
    """One line's test, named by its file, by the `describe` blocks round it, and by itself."""
    levels = [part.strip() for part in match["name"].split(" > ")]
    has_file = levels[0].endswith((".ts", ".js", ".tsx", ".jsx", ".mjs"))
    names = [*blocks, *levels] if has_file or not file else [file, *blocks, *levels]
    took = _milliseconds(match["took"], match["unit"])
    return TestRun(" > ".join(names), _JS_STATUS.get(match["mark"], "failed"), took)


def _milliseconds(took: str | None, unit: str | None) -> float | None:
    try:
        return None if took is None else float(took) * (1000 if unit == "s" else 1)
    except ValueError:
        return None


_FROM_OUTPUT: dict[str, Callable[[str], list[TestRun]]] = {
    "jest": _javascript, "vitest": _javascript, "mocha": _javascript,
}  # fmt: skip

# Totals as runners print them at their end.
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
_STATUS_OF = {
    "passing": "passed", "failing": "failed", "pending": "skipped",
    "pass": "passed", "fail": "failed", "skipped": "skipped",
}  # fmt: skip
_JEST = re.compile(r"\s*Tests:?\s+(?=.{0,200}(?:passed|failed|skipped))(.{1,200})")


def _totals(text: str) -> dict[str, int]:
    """Counts by status from the last summary lines; empty when there are none."""
    summary = _Summary()
    for line in text.split("\n")[-400:]:
        if len(line) < 1_000:
            any(read(summary, line.strip("\r")) for read in _SUMMARIES)
    return {key: n for key, n in summary.counts.items() if n > 0}


class _Summary:
    """Counts as summary lines come by. Each method reads one runner's line; False for any other line."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._ran = 0  # by unittest, whose last line is still to come

    def pytest_or_jest(self, line: str) -> bool:
        match = _PYTEST_END.fullmatch(line.strip()) or _JEST.fullmatch(line)
        if match is not None and (found := _PYTEST_COUNT.findall(match[0])):
            self.counts = _words(found)
        return match is not None

    def unittest_ran(self, line: str) -> bool:
        match = _UNITTEST_RAN.match(line)
        self._ran = int(match[1]) if match is not None else self._ran
        return match is not None

    def unittest_end(self, line: str) -> bool:
        match = _UNITTEST_END.fullmatch(line.strip()) if self._ran else None
        if match is not None:
            self.counts, self._ran = _unittest(self._ran, match[1] or ""), 0
        return match is not None

    def maven(self, line: str) -> bool:
        match = _MAVEN.fullmatch(line)
        if match is not None:
            run, failed, error, skipped = (int(group) for group in match.groups())
            passed = run - failed - error - skipped
            self.counts = {"passed": passed, "failed": failed, "error": error, "skipped": skipped}
        return match is not None

    def mocha(self, line: str) -> bool:
        match = _MOCHA.fullmatch(line)
        if match is not None:
            self.counts[_STATUS_OF[match[2]]] = int(match[1])
        return match is not None

    def node(self, line: str) -> bool:
        match = _NODE.fullmatch(line)
        if match is not None:
            self.counts[_STATUS_OF[match[1]]] = int(match[2])
        return match is not None

    def cargo(self, line: str) -> bool:
        match = _CARGO.fullmatch(line)
        if match is not None:
            for key, n in zip(("passed", "failed", "skipped"), match.groups(), strict=True):
                self.counts[key] = self.counts.get(key, 0) + int(n)
        return match is not None


_SUMMARIES = (
    _Summary.pytest_or_jest,
    _Summary.unittest_ran,
    _Summary.unittest_end,
    _Summary.maven,
    _Summary.mocha,
    _Summary.node,
    _Summary.cargo,
)


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
