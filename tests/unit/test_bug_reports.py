"""A bug report's title, what it says and what it shows; and what a search for it asks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.retrieval.query.analysis import SearchQuery, analyse
from plait.retrieval.query.bug_report import as_report, embedded
from plait.retrieval.query.code_references import Anchors
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.stages.resolve import about
from plait.text.bug_reports import Report, parse_report

REPORT = """\
Timeouts of `Pool.acquire` are ignored

### Describe the bug
When the pool is exhausted the caller waits for ever although a timeout was given.

Minimal example:

```python
import warehouse

class Shelf(warehouse.Rack):
    def fetch_parcel(self):
        return self.counter.take_ticket()
```

**Expected behavior**
An error after the seconds that were asked for, as the documentation of acquire promises.

### Environment
- Python version: 3.11
```
zebra==1.2
```
"""


def test_a_report_is_taken_apart() -> None:
    report = parse_report(REPORT)
    assert report is not None
    assert report.title == "Timeouts of `Pool.acquire` are ignored"
    assert report.prose.split("\n")[0] == (
        "When the pool is exhausted the caller waits for ever although a timeout was given."
    )
    assert "An error after the seconds" in report.prose
    assert "class Shelf" in report.shown
    everything = f"{report.title} {report.prose} {report.shown}"
    for form in ("Describe the bug", "Minimal example", "Expected", "Python", "zebra"):
        assert form not in everything


def test_line_ends_of_web_forms_are_line_ends() -> None:
    crlf = REPORT.replace("\n", "\r\n")
    assert parse_report(crlf) == parse_report(REPORT)
    assert as_report(analyse(SearchQuery(crlf))) == as_report(analyse(SearchQuery(REPORT)))


@pytest.mark.parametrize(
    ("text", "report"),
    [
        ("one line", None),
        ("a title\n\nand a paragraph, as a commit message has", None),
        ("```\nx = 1\n```", None),  # nothing is said
        ("Saving fails\nDescription\nwhen full", Report("Saving fails", "when full", "")),
        ("## Steps to reproduce\nSaving fails\nwhen full", Report("Saving fails", "when full", "")),
        ("# Saving fails\n`a` is lost", None),
        ("Saving fails\n>>> save(1)\n0", Report("Saving fails", "0", ">>> save(1)")),
        ("Saving fails\n{{{\nsave(1)\n}}}\nso", Report("Saving fails", "so", "save(1)")),
        ("Saving fails\n> ```\n> save(1)\n> ```", Report("Saving fails", "", "> save(1)")),
        ("Saving fails\n`\nsave(1)\n`\nso", Report("Saving fails", "so", "save(1)")),
        ("Saving fails\n```\nnever closed", Report("Saving fails", "", "never closed")),
        ("Saving fails\nAffected versions:\n1.2\n1.3", Report("Saving fails", "", "")),
        ("Saving fails\nOS: Linux\nPython version: 3.11", Report("Saving fails", "", "")),
        (
            "Saving fails\nimport store\nthe store is full",
            Report("Saving fails", "the store is full", "import store"),
        ),
        (
            "Saving fails\nOutput of `pip list`:\n```\nstore 1.2\n```\nwhen full\n```\nsave(1)\n```",
            Report("Saving fails", "when full", "save(1)"),
        ),
        # Prose that begins as code or as a list of versions does.
        ("Saving fails\nimport of the module fails\nreturn values are lost", None),
        ("Saving fails\nIn this version: nothing is kept", None),
    ],
)
def test_layouts(text: str, report: Report | None) -> None:
    assert parse_report(text) == report


@given(st.text(alphabet="`~{}#*>: \n.()=ab@1", max_size=300))
def test_a_report_holds_nothing_but_the_text(text: str) -> None:
    report = parse_report(text)
    if report is not None:
        assert report.title
        for line in f"{report.title}\n{report.prose}\n{report.shown}".split("\n"):
            assert line.strip() in text


def test_what_is_said_counts_before_what_is_shown() -> None:
    asked = as_report(analyse(SearchQuery(REPORT)))
    assert (
        asked.weights["acquir" if "acquir" in asked.terms else "acquire"] == DEFAULT.reports.title
    )
    assert asked.weights["parcel"] == asked.weights["warehous"] == DEFAULT.reports.shown
    assert "exhaust" in asked.terms
    assert "exhaust" not in asked.weights
    assert asked.identifiers == ("Pool.acquire",)
    assert "zebra" not in asked.terms
    assert "fetch_parcel" not in asked.text
    assert embedded(analyse(SearchQuery(REPORT))) == asked.text


def test_names_that_are_only_shown_are_better_than_none() -> None:
    asked = as_report(analyse(SearchQuery(REPORT.replace("`Pool.acquire`", "the pool"))))
    assert "fetch_parcel" in asked.identifiers


def test_a_short_question_with_code_stays_as_it_is() -> None:
    asked = analyse(SearchQuery("why does this fail?\n```\nstore.save_all()\n```"))
    assert asked.words < DEFAULT.reports.least_words
    assert as_report(asked) is asked


@pytest.mark.parametrize(
    "said", ["What does this do?", "Explain this code:", "!!! ???\n- OS: Linux"]
)
def test_code_with_next_to_nothing_said_of_it_is_what_the_question_is_about(said: str) -> None:
    code = "\n".join(f"parcel_{n} = store.fetch(parcel_{n}, 1)" for n in range(20))
    asked = analyse(SearchQuery(f"{said}\n```\n{code}\n```"))
    assert asked.words >= DEFAULT.reports.least_words
    assert as_report(asked) is asked
    assert embedded(asked) == asked.text


def test_errors_of_a_trace_are_shown() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\nKeyError: 1\n'
    )
    found = Anchors(
        is_trace=True, prose=REPORT, subject="KeyError: lantern", functions=("turn_wheel",)
    )
    asked = about(analyse(SearchQuery(REPORT + trace)), found, located=False)
    assert asked.weights["lantern"] == asked.weights["wheel"] == DEFAULT.reports.shown
    assert asked.weights["timeout"] == DEFAULT.reports.title
