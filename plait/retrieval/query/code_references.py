"""What a query names in code: paths, symbols, stack frames, hunks of a diff, error texts.

`find_references` is pure and linear in the text; a short question without a path or a name in it costs microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain

from plait.ports import Spot
from plait.retrieval.query.analysis import identifiers as names_in
from plait.retrieval.ranking.weights import DEFAULT
from plait.text.diff import FileDiff, Hunk, parse_diff, touched
from plait.text.issue_references import references
from plait.text.stack_traces import Frame, parse_traces
from plait.text.test_names import parse_name

# The most of each kind that are looked up: a text that names more is about none of them in particular.
MAX_FRAMES = 40
MAX_HUNKS = 60
MAX_PATHS = 16
MAX_SYMBOLS = 16
MAX_TESTS = 16
MAX_ISSUES = 16
MAX_READ = 262_144  # characters
MAX_SUBJECT = 4_000
SUBJECT_FRAMES = 8

WEIGHTS = DEFAULT.locations


class AnchorKind(StrEnum):
    PATH = "path"
    SYMBOL = "symbol"
    FRAME = "frame"  # of a stack trace; the innermost comes first
    HUNK = "hunk"  # of a diff, lines of the old file
    TEST = "test"  # a test's name, as a runner prints it


@dataclass(frozen=True, slots=True)
class Anchor:
    """`weight`: 0 to 1, how sure the text means this place."""

    kind: AnchorKind
    spot: Spot
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Span:
    """A period that a text names by `words`; both ends count."""

    start: datetime
    end: datetime
    words: str = ""


@dataclass(frozen=True, slots=True)
class Anchors:
    """`errors`: exception names and messages, as the text has them. `issues`: references as `#12`.
    `prose`: the text without traces and hunks, "" if nothing is left. `subject`: what a trace or a diff is
    about, in few words: its errors, its files and changed lines. `functions`: of a trace's innermost frames.
    `span`: the time that the text names."""

    places: tuple[Anchor, ...] = ()
    errors: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()
    is_diff: bool = False
    is_trace: bool = False
    prose: str = ""
    subject: str = ""
    functions: tuple[str, ...] = ()
    span: Span | None = None


def find_references(text: str, attached: str = "", identifiers: Sequence[str] = ()) -> Anchors:
    """What `text` and the diff or trace `attached` to it name. `identifiers`: of the text, as
    `plait.retrieval.query.analysis.identifiers` gives them."""
    if not attached and not _may_hold_more(text):
        places = tuple(_symbols(identifiers))
        return Anchors(places, issues=_issues(text), prose=text)
    whole = (
        f"{text}\n{attached}" if attached and not attached.startswith(text) else attached or text
    )
    whole = whole[:MAX_READ]
    files: tuple[FileDiff, ...] = ()
    if _may_be_diff(whole):
        diff = touched(parse_diff(whole))
        files, whole = diff.files, diff.prose if diff.files else whole
    trace = parse_traces(whole)
    prose = trace.prose.strip()
    if files or trace.frames:
        identifiers = names_in(prose)
    places = (
        *_frames(trace.frames),
        *_hunks(files),
        *_tests(prose),
        *_paths(prose),
        *_symbols(identifiers),
    )
    errors = trace.errors if trace.frames else ()
    return Anchors(
        _once(places),
        trace.errors,
        _issues(prose),
        is_diff=bool(files),
        is_trace=bool(trace.frames),
        prose=prose,
        functions=_functions(trace.frames),
        subject="\n".join((*errors, *_what_changed(files)))[:MAX_SUBJECT],
    )


def _may_hold_more(text: str) -> bool:
    """Whether there may be anything but identifiers: paths, traces, diffs, test ids, errors."""
    return any(sign in text for sign in _SIGNS) or _FILE.search(text) is not None


def _may_be_diff(text: str) -> bool:
    return "diff --" in text or ("--- " in text and "+++ " in text and "@@" in text)


# What every way to name an issue holds.
_MAY_BE_ISSUE = re.compile(r"#\d|[A-Za-z]-\d|/(?:issues|pull|merge_requests)/\d", re.ASCII)
_SIGNS = ("\n", "/", "\\", "test", "Error", "Exception", "Warning", "panic: ")


def _issues(text: str) -> tuple[str, ...]:
    if _MAY_BE_ISSUE.search(text) is None:
        return ()
    found = (r.name.removeprefix("issue/") for r in references(text) if r.is_issue)
    return tuple(f"#{name}" if name.isdigit() else name for name in found)[:MAX_ISSUES]


def _once(places: Iterable[Anchor]) -> tuple[Anchor, ...]:
    """One anchor a spot, the surest."""
    best: dict[Spot, Anchor] = {}
    for anchor in places:
        known = best.get(anchor.spot)
        if known is None or known.weight < anchor.weight:
            best[anchor.spot] = anchor
    return tuple(best.values())


# -- stack traces ----------------------------------------------------------------------------------

# Where other people's code lies: what follows is the path inside its package.
_PACKAGES = re.compile(
    r".*/(?:site-packages|dist-packages|node_modules|gems/[^/]+|pkg/mod|registry/src/[^/]+|vendor)/"
)
_STANDARD = re.compile(r".*/(?:python[23](?:\.\d+)?|go/src|rustlib/src/rust|rustc/[0-9a-f]+)/")
_VERSION = re.compile(r"@v[^/]*(?=/)")
# A runtime's own: `<frozen importlib._bootstrap>`, `node:internal/…`.
_NO_FILE = ("<", "node:", "internal/")


def _frames(frames: Sequence[Frame]) -> Iterator[Anchor]:
    for frame in frames[:MAX_FRAMES]:
        path = own_path(frame.path)
        if path:
            spot = Spot(path, frame.function, frame.line, frame.line)
            yield Anchor(AnchorKind.FRAME, spot, WEIGHTS.frame_decay**frame.depth)


def own_path(path: str) -> str:
    """A printed path as far as a repository may have it: without the folder that packages are installed
    in. "" for a file of the runtime itself, or for none."""
    if not path or path.startswith(_NO_FILE):
        return ""
    if match := _PACKAGES.match(path):
        return _VERSION.sub("", path[match.end() :])
    if match := _STANDARD.match(path):
        inside = path[match.end() :]
        # `threading.py` alone could be anybody's.
        return inside if "/" in inside else ""
    if len(path) > 2 and path[1] == ":":
        path = path[2:]
    while path.startswith("./"):
        path = path[2:]
    return path


def _functions(frames: Sequence[Frame]) -> tuple[str, ...]:
    own = [f.function for f in frames if f.function and own_path(f.path)]
    return tuple(dict.fromkeys(own))[:SUBJECT_FRAMES]


# -- diffs -----------------------------------------------------------------------------------------


def _hunks(files: Sequence[FileDiff]) -> Iterator[Anchor]:
    left = MAX_HUNKS
    for file in files:
        path = file.old or file.new
        if not file.hunks and left > 0:
            left -= 1
            yield Anchor(AnchorKind.HUNK, Spot(path), WEIGHTS.path)
        for hunk in file.hunks[:left]:
            first, last = changed(hunk)
            yield Anchor(AnchorKind.HUNK, Spot(path, "", first, last), WEIGHTS.path_line)
        left -= len(file.hunks[:left])


def _what_changed(files: Sequence[FileDiff]) -> Iterator[str]:
    """Paths, then the lines that are taken away or added."""
    yield from (file.path for file in files)
    for file in files:
        for hunk in file.hunks:
            yield from (line[1:].strip() for line in hunk.lines if line[0] != " ")


def changed(hunk: Hunk) -> tuple[int, int]:
    """First and last line of the old file that `hunk` changes, without its context; for lines that are
    only added, the one above them."""
    first = last = 0
    line = hunk.old_start
    for text in hunk.lines:
        if text[0] == " ":
            line += 1
            continue
        at = line if text[0] == "-" else max(line - 1, 1)
        first, last = first or at, max(last, at)
        line += text[0] == "-"
    return first or hunk.old_start, last or hunk.old_start + max(hunk.old_lines - 1, 0)


# -- tests, paths, symbols -------------------------------------------------------------------------

_EXTENSIONS = (
    "py|pyi|pyx|js|jsx|mjs|cjs|ts|tsx|mts|cts|vue|svelte|java|kt|kts|scala|groovy|go|rs|rb|php|cs|fs|swift"
    "|m|mm|c|h|cc|cpp|cxx|hh|hpp|hxx|cu|lua|dart|ex|exs|erl|hs|clj|jl|sh|bash|sql|proto|html|css|scss|less"
    "|md|rst|toml|yaml|yml|json|cfg|ini|gradle|tf"
)
_FILE = re.compile(rf"\w\.(?:{_EXTENSIONS})\b", re.ASCII)
# A path of one part or more with a known extension; then a line: `:12`, `:12-20`, `#L12-L20`, `, line 12`.
_PATH = re.compile(
    rf"(?<![\w./\\@+-])((?:~|\.{{1,2}}|[A-Za-z]:)?[/\\]?(?:[\w@.+-]{{1,100}}[/\\]){{0,24}}"
    rf"[\w@+-][\w@.+-]{{0,100}}\.(?:{_EXTENSIONS}))(?![\w])"
    r"(?:(?::|#L|, line |\(|:L)(\d{1,7})(?:(?:-L?|,)(\d{1,7}))?)?",
    re.ASCII,
)
_TEST_ID = re.compile(
    r"(?<![\w./-])((?:[\w.+-]{1,100}/){0,24}[\w.-]{1,100}\.py(?:::\w{1,200}){1,6})(?:\[[^\]\n]{0,200}\])?",
    re.ASCII,
)
_UNITTEST = re.compile(r"(?<!\w)(test\w{0,200} \([\w.]{3,300}\))", re.ASCII)


def _tests(prose: str) -> Iterator[Anchor]:
    named: list[str] = []
    if "::" in prose:
        named += _TEST_ID.findall(prose)
    if "test" in prose and " (" in prose:
        named += _UNITTEST.findall(prose)
    for text in dict.fromkeys(named[:MAX_TESTS]):
        test = parse_name(text)
        if test.path:
            inner = text.split("::")[1:]
            yield Anchor(AnchorKind.TEST, Spot(test.path, ".".join(inner)), WEIGHTS.test)
        elif len(test.parts) > 1:
            yield Anchor(AnchorKind.TEST, Spot("", ".".join(test.parts)), WEIGHTS.test)


def _paths(prose: str) -> Iterator[Anchor]:
    found: dict[Spot, float] = {}
    for match in chain(_PATH.finditer(prose), _LINK.finditer(prose) if "/blob/" in prose else ()):
        path = own_path(match[1].replace("\\", "/"))
        if not path or path.lower() in _NO_PATH:
            continue
        first = int(match[2] or 0)
        last = max(int(match[3] or 0), first)
        found.setdefault(Spot(path, "", first, last), WEIGHTS.path_line if first else WEIGHTS.path)
        if len(found) >= MAX_PATHS:
            break
    for spot, weight in found.items():
        yield Anchor(AnchorKind.PATH, spot, weight)


# Products that read as file names.
_NO_PATH = frozenset({"node.js", "vue.js", "next.js", "nuxt.js", "d3.js", "three.js", "chart.js"})
# GitHub's and GitLab's links to a file of a commit. No other address names a file of a repository.
_LINK = re.compile(
    r"/blob/[^/\s]{1,100}/([\w@.+-]{1,100}(?:/[\w@.+-]{1,100}){0,24})(?:#L(\d{1,7})(?:-L(\d{1,7}))?)?",
    re.ASCII,
)


def _symbols(identifiers: Sequence[str]) -> Iterator[Anchor]:
    """Names as code writes them. A dotted one may begin with a variable's name, so its end counts too,
    less."""
    for name in identifiers[:MAX_SYMBOLS]:
        name = _SELF.sub("", name)
        if _FILE.search(name) or len(name) < 3:
            continue
        yield Anchor(AnchorKind.SYMBOL, Spot("", name), WEIGHTS.symbol)
        leaf = name.rpartition(".")[2]
        if leaf != name and len(leaf) > 3:
            yield Anchor(AnchorKind.SYMBOL, Spot("", leaf), WEIGHTS.leaf)


_SELF = re.compile(r"\A(?:self|this|cls|super)\.")
