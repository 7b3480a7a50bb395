"""Shell commands of agents: which of them run tests, and the result of each test from their output."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from etl.ingest.importers.test_runs import javascript
from etl.ingest.importers.test_runs.totals import totals
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
    harmless = {")"} | ({"|"} if "pipefail" in text else set()) | (set() if failed else {"&&"})
    behind = parts[places[-1] + 1 :]
    return all(
        separator != "&" and (separator in harmless or not any(map(str.strip, behind[n + 1 :: 2])))
        for n, separator in enumerate(behind)
        if n % 2 == 0
    )


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


_FROM_OUTPUT: dict[str, Callable[[str], list[TestRun]]] = dict.fromkeys(
    ("jest", "vitest", "mocha"), javascript.tests
)


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
    listed = _FROM_OUTPUT.get(name)
    runs = (listed(text) if listed else []) or results(text, {})
    counts = totals(text)
    if not counts:
        for run in runs:
            counts[run.status] = counts.get(run.status, 0) + 1
    return Outcome(name, tuple(runs), counts)
