"""What of an issue's text is form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.retrieval.query.analysis import SearchQuery, analyse
from plait.text.issue_forms import plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("it fails <!-- please\nread --> here", "it fails   here"),
        ("it fails <!-- without an end", "it fails <!-- without an end"),
        ("<!-- a -->x<!-- b", " x<!-- b"),
        ("- [x] I searched\n* [ ] I did not\nit fails", "\n\nit fails"),
        ("the list - [x] in a line stays", "the list - [x] in a line stays"),
        ("a[0] - [x]", "a[0] - [x]"),
        ("see [the docs](https://a.b/c?d=e) now", "see the docs now"),
        ("see https://a.b/c, then", "see   then"),
        ("![shot](https://a.b/c.png)x<img src='y'>", " x "),
        (
            "https://github.com/o/r/blob/main/a.py#L3 fails",
            "https://github.com/o/r/blob/main/a.py#L3 fails",
        ),
        ("https://a.b/c", "https://a.b/c"),
        ("they say:\n> it fails\n>  here", "they say:\nit fails\n here"),
        ("as in\n>>> 1 > 0\nTrue", "as in\n>>> 1 > 0\nTrue"),
        ("plain words", "plain words"),
    ],
)
def test_form_is_left_out(text: str, expected: str) -> None:
    assert plain(text) == expected


@given(st.text(alphabet="<!-> []x*()!http:/s.\nimg `", max_size=200))
def test_something_is_left_of_any_text(text: str) -> None:
    short = plain(text)
    assert len(short) <= len(text)
    assert bool(short.strip()) == bool(text.strip())


def test_terms_are_of_what_is_left() -> None:
    asked = analyse(SearchQuery("loading fails <!-- describe the bug --> https://example.org/path"))
    assert asked.terms == ("load", "fail")
