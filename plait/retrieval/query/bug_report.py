"""A query that is a bug report: what is said in it is looked for before what it only shows.

Measured on issues of other projects and the functions that closed them, see docs/experiments/issues.md.
"""

from __future__ import annotations

import re
from dataclasses import replace

from plait.retrieval.query.analysis import MAX_TERMS, Analysis, identifiers, phrases
from plait.retrieval.ranking.weights import DEFAULT
from plait.text import bug_reports
from plait.text.tokenize import STOP_WORDS, query_terms

WEIGHTS = DEFAULT.reports

_WORD = re.compile(r"\w+")


def as_report(asked: Analysis, subject: str = "") -> Analysis:
    """`asked` with the title first, what is shown last, and without versions, platforms and headings; as it is
    where its text is not laid out as a report. `subject`: what else its terms are of, a trace's errors."""
    report = _report(asked)
    if report is None:
        return asked
    spoken = _spoken(report)
    title = query_terms(report.title)
    terms = dict.fromkeys((*title, *query_terms(spoken)))
    shown = [t for t in query_terms(f"{report.shown}\n{subject}") if t not in terms]
    names = identifiers(spoken)
    return replace(
        asked,
        text=spoken,
        terms=tuple(terms | dict.fromkeys(shown))[:MAX_TERMS],
        weights=dict.fromkeys(shown, WEIGHTS.shown) | dict.fromkeys(title, WEIGHTS.title),
        identifiers=names or asked.identifiers,
        phrases=phrases(spoken),
    )


def embedded(asked: Analysis) -> str:
    """The text of which `as_report` leaves the vector to be made."""
    report = _report(asked)
    return asked.text if report is None else _spoken(report)


def _report(asked: Analysis) -> bug_reports.Report | None:
    report = bug_reports.parse_report(asked.text) if asked.words >= WEIGHTS.least_words else None
    return report if report is not None and _says_something(_spoken(report)) else None


def _says_something(text: str) -> bool:
    telling: set[str] = set()
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if word not in STOP_WORDS:
            telling.add(word)
            if len(telling) == WEIGHTS.least_telling:
                return True
    return False


def _spoken(report: bug_reports.Report) -> str:
    return f"{report.title}\n{report.prose}".strip()
