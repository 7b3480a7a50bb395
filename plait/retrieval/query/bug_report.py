"""Queries that are bug reports: their prose ranks before the code and output that they quote.

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


def as_report(analysis: Analysis, subject: str = "") -> Analysis:
    """`analysis` with the terms of the title first and of quoted text last, without versions, platforms and headings;
    unchanged if the text does not have the form of a report. `subject`: further text for terms, such as the errors of
    a trace."""
    report = _report(analysis)
    if report is None:
        return analysis
    prose = _prose(report)
    title = query_terms(report.title)
    terms = dict.fromkeys((*title, *query_terms(prose)))
    shown = [t for t in query_terms(f"{report.shown}\n{subject}") if t not in terms]
    names = identifiers(prose)
    return replace(
        analysis,
        text=prose,
        terms=tuple(terms | dict.fromkeys(shown))[:MAX_TERMS],
        weights=dict.fromkeys(shown, WEIGHTS.shown) | dict.fromkeys(title, WEIGHTS.title),
        identifiers=names or analysis.identifiers,
        phrases=phrases(prose),
    )


def embedded(analysis: Analysis) -> str:
    """The text to embed after `as_report`."""
    report = _report(analysis)
    return analysis.text if report is None else _prose(report)


def _report(analysis: Analysis) -> bug_reports.Report | None:
    report = (
        bug_reports.parse_report(analysis.text) if analysis.words >= WEIGHTS.least_words else None
    )
    return report if report is not None and _has_content(_prose(report)) else None


def _has_content(text: str) -> bool:
    content: set[str] = set()
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if word not in STOP_WORDS:
            content.add(word)
            if len(content) == WEIGHTS.least_telling:
                return True
    return False


def _prose(report: bug_reports.Report) -> str:
    return f"{report.title}\n{report.prose}".strip()
