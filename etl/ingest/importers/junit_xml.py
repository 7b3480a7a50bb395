"""JUnit's XML reports, as pytest, Surefire, gotestsum, jest-junit and others write them.

Read by expat, piece by piece. A document type declaration is refused whole: entities are not needed
for a report, and are what XML bombs and the reading of local files are made of.
"""

from __future__ import annotations

import hashlib
import math
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import BinaryIO, NoReturn
from xml.parsers import expat  # nosemgrep: declarations are refused below

from etl.ingest.episode_json import Read
from etl.ingest.importers.draft import Draft, Options, inside, time_of
from etl.ingest.importers.test_runs import test_list
from etl.ingest.importers.trim import trim
from plait.domain.errors import TranscriptInvalid
from plait.domain.values import ArtifactKind
from plait.text.test_results import TestRun

MAX_BYTES = 64 * 2**20
MAX_CASES = 50_000
MAX_DEPTH = 64
MAX_TEXT = 256 * 1024  # characters stored of one element
MAX_ALL_TEXT = 32 * 2**20  # and of all together
MAX_SILENCE = 4 * 2**20  # bytes without an event: one endless tag
MAX_PROPERTIES = 25
FAILURES_SHOWN = 200  # failing tests with an artifact of their own; the lists name all
PIECE = 65_536
EVIDENCE_PIECE = 8 * 2**20

_TEXTS = {"failure", "error", "skipped", "system-out", "system-err", "property"}
_FILE_ENDING = re.compile(r"\.\w{1,5}\Z")


@dataclass(slots=True)
class Case:
    """One `testcase`. `status` by the elements inside it."""

    classname: str
    name: str
    file: str
    took_ms: float | None
    status: str = "passed"
    message: str = ""
    kind: str = ""  # the exception's type
    trace: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    suites: list[str] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    output: list[str] = field(default_factory=list)
    started_at: datetime | None = None
    seconds: float = 0.0


def read(stream: BinaryIO, name: str, options: Options) -> Iterator[Read]:
    """One episode: a test_result a failing test, then the run with `meta.tests`.

    Raises: TranscriptInvalid.
    """
    report, raw = _parse(stream, name)
    yield from (draft.read() for draft in _drafts(report, raw, name, options))


def _bad(name: str, problem: str, fix: str) -> NoReturn:
    raise TranscriptInvalid(f"{name}: {problem}; {fix}", file=name)


# -- reading ------------------------------------------------------------------------------------------


def _parse(stream: BinaryIO, name: str) -> tuple[Report, bytes]:
    reader = _Reader(name)
    raw = bytearray()
    try:
        while piece := stream.read(PIECE):
            raw += piece
            if len(raw) > MAX_BYTES:
                _bad(name, f"is larger than {MAX_BYTES:,} bytes", "write a report a suite")
            reader.feed(piece)
        reader.parser.Parse(b"", True)
    except expat.ExpatError as exc:
        _bad(
            name,
            f"line {exc.lineno} is not XML: {expat.ErrorString(exc.code)}",
            "write the report again",
        )
    except (UnicodeError, ValueError, LookupError) as exc:
        _bad(name, f"is in an encoding that can't be read ({exc})", "write it as UTF-8")
    if not reader.seen_suite:
        _bad(name, "holds no <testsuite>", "it is no JUnit report")
    return reader.report, bytes(raw)


class _Reader:
    """expat's events to a Report."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.report = Report()
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse
        self.parser.ExternalEntityRefHandler = self._refuse_reference
        self.parser.buffer_text = True
        self.seen_suite = False
        self.path: list[str] = []
        self.suites: list[tuple[str, str]] = []  # (name, file) of the open ones
        self.case: Case | None = None
        self.taking: list[str] | None = None
        self.property = ""
        self.room = 0
        self.all_room = MAX_ALL_TEXT
        self.silence = 0

    def feed(self, piece: bytes) -> None:
        self.silence += len(piece)
        self.parser.Parse(piece, False)
        if self.silence > MAX_SILENCE:
            _bad(self.name, "has a tag of megabytes", "it is no JUnit report")

    def _refuse(self, *_: object) -> NoReturn:
        _bad(
            self.name,
            "has a document type declaration",
            "take out the <!DOCTYPE …>; reports need none",
        )

    def _refuse_reference(self, *_: object) -> int:
        self._refuse()

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self.silence = 0
        self.path.append(tag)
        if len(self.path) > MAX_DEPTH:
            _bad(self.name, f"is nested more than {MAX_DEPTH} deep", "it is no JUnit report")
        if tag in ("testsuite", "testsuites"):
            self._suite(tag, attributes)
        elif tag == "testcase":
            self._case(attributes)
        elif tag in ("failure", "error", "skipped", "rerunFailure", "flakyFailure", "flakyError"):
            self._result(tag, attributes)
        elif tag == "property":
            self._property(attributes)
        elif tag in ("system-out", "system-err"):
            self._take(self.case.output if self.case else self.report.output)

    def _end(self, tag: str) -> None:
        self.silence = 0
        self.path.pop()
        if tag in _TEXTS:
            self.taking = None
        if tag == "property" and self.property:
            self.property = ""
        if tag == "testcase":
            self.case = None
        elif tag == "testsuite" and self.suites:
            self.suites.pop()

    def _text(self, text: str) -> None:
        self.silence = 0
        if self.taking is None or self.room <= 0 or self.all_room <= 0:
            return
        part = text[: min(self.room, self.all_room)]
        self.taking.append(part)
        self.room -= len(part)
        self.all_room -= len(part)

    def _take(self, into: list[str]) -> None:
        self.taking, self.room = into, MAX_TEXT

    def _suite(self, tag: str, attributes: dict[str, str]) -> None:
        self.seen_suite = True
        named = attributes.get("name", "")[:300]
        if tag == "testsuite":
            file = attributes.get("file", attributes.get("filepath", ""))
            self.suites.append((named, file[:1000]))
            if len(self.suites) == 1:
                self.report.seconds += _seconds(attributes.get("time")) or 0.0
        if named and len(self.report.suites) < MAX_PROPERTIES and named not in self.report.suites:
            self.report.suites.append(named)
        began = time_of(attributes.get("timestamp"))
        if began and (self.report.started_at is None or began < self.report.started_at):
            self.report.started_at = began

    def _case(self, attributes: dict[str, str]) -> None:
        if not self.path[:-1] or self.path[-2] not in ("testsuite", "testsuites"):
            return
        if len(self.report.cases) >= MAX_CASES:
            _bad(self.name, f"has more than {MAX_CASES:,} tests", "write a report a suite")
        took = _seconds(attributes.get("time"))
        suite_name, suite_file = self.suites[-1] if self.suites else ("", "")
        self.case = Case(
            classname=(attributes.get("classname") or attributes.get("class") or suite_name)[:1000],
            name=attributes.get("name", "")[:1000],
            file=(attributes.get("file") or suite_file)[:1000],
            took_ms=None if took is None else took * 1000,
        )
        # Some write the result as an attribute.
        if attributes.get("status", "").lower() in ("skipped", "disabled", "notrun", "ignored"):
            self.case.status = "skipped"
        self.report.cases.append(self.case)

    def _result(self, tag: str, attributes: dict[str, str]) -> None:
        case = self.case
        if case is None or tag in ("flakyFailure", "flakyError"):
            return  # passed in the end
        if tag == "rerunFailure":
            return self._take(case.output)
        status = {"failure": "failed"}.get(tag, tag)
        if case.status in ("passed", "skipped"):
            case.status = status
            case.message = attributes.get("message", "")[:10_000]
            case.kind = attributes.get("type", "")[:300]
        self._take(case.trace)

    def _property(self, attributes: dict[str, str]) -> None:
        key, value = attributes.get("name", "")[:60], attributes.get("value")
        if self.case is None and key and value and len(self.report.properties) < MAX_PROPERTIES:
            self.report.properties[key] = value[:100]


def _seconds(text: str | None) -> float | None:
    """Surefire writes `1,234.5`."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < 1e9 else None


# -- what comes of it ---------------------------------------------------------------------------------


def reported(case: Case) -> str:
    """The test as its tool would name it: with its file before it where one is known."""
    file = case.file.replace("\\", "/").removeprefix("./")
    if not file or file.startswith("/") or ".." in file.split("/") or not _FILE_ENDING.search(file):
        return f"{case.classname}.{case.name}" if case.classname else case.name
    module = posixpath.splitext(file)[0].replace("/", ".")
    rest = case.classname
    if rest == module or rest.startswith(module + "."):
        rest = rest[len(module) + 1 :]
    elif file.endswith((".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs")):
        return " > ".join([file, *_levels(case)])
    else:
        rest = rest.rpartition(".")[2]
    return "::".join(part for part in (file, *rest.split("."), case.name) if part)


def _levels(case: Case) -> list[str]:
    """jest-junit repeats the describe blocks in the name, by its default template."""
    if case.classname and case.name.startswith(case.classname) and case.name != case.classname:
        return [case.classname, case.name[len(case.classname) :].strip()]
    return [part for part in dict.fromkeys((case.classname, case.name)) if part]


def _drafts(report: Report, raw: bytes, name: str, options: Options) -> list[Draft]:
    runs = [TestRun(reported(c) or "?", c.status, c.took_ms) for c in report.cases]
    found = test_list.counts(runs)
    out = [_draft(name, options, report)]
    first = out[0]
    failing = [
        (c, r) for c, r in zip(report.cases, runs, strict=True) if r.status in ("failed", "error")
    ]
    for case, run in failing[:FAILURES_SHOWN]:
        _failure(_room(out, name, options, report), case, run, options)
    tail = ""
    if len(failing) > FAILURES_SHOWN:
        tail = f"\n{len(failing) - FAILURES_SHOWN} more failing tests are only in the list."
    text = _summary(report, found) + tail
    for tests in test_list.portions(runs):
        draft = _room(out, name, options, report)
        meta = {
            "tests": tests,
            "suites": [s[:150] for s in report.suites[:10]],
            "properties": report.properties,
        }
        draft.add(ArtifactKind.TEST_RESULT, text, meta=meta if draft is first else {"tests": tests})
    if report.output:
        text = trim("".join(report.output)).text
        out[-1].add(ArtifactKind.TEST_RESULT, f"Output of the run:\n{text}", meta={"tests": []})
    first.summary = _summary(report, found)
    keys = {"passed": "tests_passed", "failed": "tests_failed", "error": "tests_errors"}
    for key, n in found.items():
        first.metrics[keys.get(key, "tests_skipped")] = n
    if report.seconds:
        first.metrics["seconds"] = round(report.seconds, 3)
    for draft in out:
        draft.status = test_list.status(found)
    return _with_evidence(out, raw, name, options, report)


def _draft(name: str, options: Options, report: Report, part: int = 0) -> Draft:
    draft = Draft("junit", options, name, "application/xml", part=part)
    draft.started_at = report.started_at
    return draft


def _room(out: list[Draft], name: str, options: Options, report: Report) -> Draft:
    if out[-1].full:
        out.append(_draft(name, options, report, part=len(out)))
    return out[-1]


def _with_evidence(
    out: list[Draft], raw: bytes, name: str, options: Options, report: Report
) -> list[Draft]:
    """The report's bytes, in pieces over the episodes where they are many; the request ids of all
    are of all bytes."""
    pieces = [raw[i : i + EVIDENCE_PIECE] for i in range(0, len(raw), EVIDENCE_PIECE)]
    while len(out) < len(pieces):
        out.append(_draft(name, options, report, part=len(out)))
        out[-1].status = out[0].status
    digest = hashlib.blake2b(raw, digest_size=10).hexdigest()
    session = f"junit-{digest}" if len(out) > 1 else ""
    for draft, piece in zip(out, pieces, strict=False):
        draft.keep(piece)
    for draft in out:
        draft.session_key = session
        draft.identity = raw
    return out


def _failure(draft: Draft, case: Case, run: TestRun, options: Options) -> None:
    trace = trim("".join(case.trace)).text
    message = trim(case.message, lines=12, chars=2_000).text
    if message and message in trace:
        message = ""
    output = trim("".join(case.output), lines=20, chars=2_000).text
    parts = [f"{run.status.upper()}: {run.reported}", case.kind, message, trace]
    if output.strip():
        parts.append(f"Output:\n{output}")
    draft.add(
        ArtifactKind.TEST_RESULT,
        "\n".join(part for part in parts if part.strip()),
        inside(case.file, options.root),
        # The run's list has the result; here it would be counted a second time.
        {"test": test_list.entry(run), "tests": []},
    )


def _summary(report: Report, found: dict[str, int]) -> str:
    suites = [s for s in report.suites if s not in ("pytest", "pytest tests")]
    where = f" in {', '.join(suites[:5])}" if suites else ""
    took = f", {report.seconds:.1f} s" if report.seconds else ""
    return f"Tests{where}: {test_list.summary(found)}{took}."
