"""The parts of a bug report: the title, the prose, what is shown (code, logs), and the form.

The prose names the code at fault best, its first line above all. Code to reproduce a fault, logs and
listings name much else that takes part; versions, platforms and a template's headings name none of it.
`parse_report` is pure and linear in the text, line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_LINE = 300  # characters; a longer line is no heading and no list of versions


@dataclass(frozen=True, slots=True)
class Report:
    """`prose`: without the title. `shown`: code blocks, prompts, lines of code."""

    title: str
    prose: str
    shown: str


# Markdown's fences, with one backtick by mistake, and Trac's; `> ` is a quoted report.
_OPEN = re.compile(r"[ \t>]{0,12}(?:(?:```+|~~~+|\{\{\{)[^`\n]{0,80}|`)\Z")
_CLOSE = re.compile(r"[ \t>]{0,12}(?:`+|~~~+|\}\}\})[ \t]*\Z|.{1,200}(?:```+|\}\}\})\Z")
_HEADING = re.compile(
    r"[ \t>]{0,6}(?:#{1,6}[ \t]{1,4}(.{1,120})|[*_]{2}(.{1,100})[*_]{2}:?|([A-Z][\w ,/&'()-]{1,60}):)[ \t]*\Z"
)
_ABOUT_SYSTEMS = re.compile(
    r"\b(?:environment|versions?|platform|operating systems?|system info\w*|dependenc\w+|check(?:s|list)|"
    r"components?|installed|pip (?:list|freeze)|os)\b",
    re.IGNORECASE,
)
_MOST_WORDS = 6  # of a heading over a list of versions
# Headings that templates have; others are the writer's own words.
_OF_TEMPLATES = re.compile(
    r"\W{0,8}(?:steps? (?:to|for) reproduc\w+|(?:how )?(?:to )?reproduc\w+(?: (?:steps?|example|code))?|"
    r"(?:the )?(?:expected|actual|current|observed|desired)(?: (?:behaviou?rs?|results?|outputs?|outcomes?))?|"
    r"describe (?:the|your) (?:bug|issue|problem)|(?:bug |issue )?(?:description|summary|report)|"
    r"(?:minimal |complete |working |reproducible |verifiable ){0,4}(?:example|reproduc\w+)|"
    r"(?:example )?code(?: (?:samples?|snippets?|examples?|for reproduction))?|additional (?:context|information|notes?)|"
    r"logs?(?:/tracebacks?)?|(?:full )?(?:traceback|stack ?trace)s?(?: details)?|subject|issue|bug|problem|"
    r"what happen(?:ed|s)|screenshots?|outputs?|context|related issues?|(?:possible|suggested) (?:solution|fix))\W{0,4}\Z",
    re.IGNORECASE,
)
# `- Python version: 3.11`, `OS: Linux`.
_VERSION = re.compile(
    r"[ \t>*-]{0,8}`?(?:[\w .&/+-]{0,40}versions?[`*]{0,3}[ \t]?:.{0,100}\d|"
    r"(?:OS|Platform|Python|Operating system)[`*]{0,3}[ \t]?:).{0,200}\Z",
    re.IGNORECASE,
)
# What prints them: `pip list`, `np.show_versions()`. The listing that follows is of the form as well.
_PRINTS_VERSIONS = re.compile(
    r"show_versions|version_info\b|__version__|platform\.platform|\bpip3? (?:list|freeze|show)\b|\bconda list\b"
)
# Prompts, and lines that are code in a text without fences, as old trackers have them.
_CODE = re.compile(
    r"[ \t>]{0,12}(?:>>> ?|\.\.\. |In \[\d|Out\[\d|\$ )"
    r"|[ \t]{0,40}(?:from [\w.]{1,100} import \w|import [\w.]{1,80}(?: as \w{1,80})?\Z|(?:async )?def \w{1,100}\(|class \w{1,100}[(:]"
    r"|@[\w.]{1,100}(?:\(.{0,200})?\Z|[\w.]{1,100}(?:\[.{1,40}\])? = \S|print\()"
    r"|(?:\t| {4})[ \t]{0,40}(?:return\b|[\w.]{1,100}\(.{0,200}\)\Z)"
)


def parse_report(text: str) -> Report | None:
    """The report in `text`; None for a text that is not laid out as one, or that has no prose.
    The title is the first line of the prose."""
    prose: list[str] = []
    shown: list[str] = []
    laid_out = False
    for kind, line in _lines(text):
        if kind == "prose":
            prose.append(line)
        elif kind == "shown":
            shown.append(line)
        laid_out = laid_out or kind != "prose"
    title, _, rest = "\n".join(prose).strip().partition("\n")
    if not laid_out or not title:
        return None
    return Report(title.strip(), rest.strip(), "\n".join(shown).strip())


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Each line with its kind: prose, shown, or form."""
    state = _State()
    for line in text.replace("\r\n", "\n").split("\n"):
        if state.fenced:
            yield state.inside_fence(line), line
        elif len(line) <= MAX_LINE and (heading := _heading(line)) is not None:
            yield state.begin_section(heading), heading
        else:
            yield state.outside_fence(line), line


def _heading(line: str) -> str | None:
    found = None if _OPEN.match(line) else _HEADING.match(line)
    return (found[1] or found[2] or found[3]).strip() if found else None


@dataclass(slots=True)
class _State:
    """Where in a report the next line is. `systems`: in a section about systems and versions; `listed`: the
    next fenced block lists versions; `fenced`: in a fenced block."""

    systems: bool = False
    listed: bool = False
    fenced: bool = False

    def inside_fence(self, line: str) -> str:
        self.fenced = _CLOSE.match(line[:MAX_LINE]) is None
        bare = not self.fenced and not line.strip(" \t>`~}")
        kind = "form" if self.systems or self.listed or bare else "shown"
        self.listed = self.listed and self.fenced
        return kind

    def begin_section(self, name: str) -> str:
        self.systems = len(name.split()) <= _MOST_WORDS and bool(_ABOUT_SYSTEMS.search(name))
        return "form" if self.systems or _OF_TEMPLATES.match(name) else "prose"

    def outside_fence(self, line: str) -> str:
        if len(line) > MAX_LINE:
            return "form" if self.systems else "prose"
        if _OPEN.match(line):
            self.fenced = True
            return "form"
        if self.systems or _VERSION.match(line) or _OF_TEMPLATES.match(line):
            return "form"
        if _PRINTS_VERSIONS.search(line):
            self.listed = True
            return "form"
        return "shown" if _CODE.match(line) else "prose"
