"""Which issues and commits a text names, claims fixed and blames; and what only looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.text.issue_references import MAX_REFERENCES, references

M, F, C = "mentions", "fixes", "causes"


def read(text: str) -> dict[str, str]:
    return {
        r.name.removeprefix("issue/"): F if r.fixes else C if r.causes else M
        for r in references(text)
    }


NAMED = [
    ("see #123", {"123": M}),
    ("(#12)", {"12": M}),
    ("#1, #2", {"1": M, "2": M}),
    ("GH-77 again", {"77": M}),
    ("django/django#1234 there", {"django/django#1234": M}),
    ("https://github.com/psf/requests/issues/42", {"psf/requests#42": M}),
    ("https://github.com/Psf/Requests/pull/42#issuecomment-1", {"psf/requests#42": M}),
    ("https://gitlab.com/a/b/c/-/issues/7.", {"a/b/c#7": M}),
    ("PROJ-123: crash", {"PROJ-123": M}),
    ("bug #9 and issue #10", {"9": M, "10": M}),
    ("end of a sentence #5.", {"5": M}),
    ("Fixes #1", {"1": F}),
    ("fixes: #1", {"1": F}),
    ("Closes #1, #2 and #3.", {"1": F, "2": F, "3": F}),
    ("Fixed #36021 -- kept deferred fields", {"36021": F}),
    ("resolves PROJ-9", {"PROJ-9": F}),
    ("Fix issue #4 (see #5)", {"4": F, "5": M}),
    ("fix for bug #4", {"4": F}),
    ("Closes https://github.com/a/b/issues/3", {"a/b#3": F}),
    ("Resolved owner/repo#8; #9", {"owner/repo#8": F, "9": F}),
    ("#3 first. Later: fixes #3", {"3": F}),
    ("Regression from #45", {"45": C}),
    ("Fixes #12, a regression introduced in #45", {"12": F, "45": C}),
    ("fixes the regression from #4", {"4": C}),
    ("caused by 3f2c9ab1", {"commit/3f2c9ab1": C}),
    ("introduced in commit `3F2c9ab1`", {"commit/3f2c9ab1": C}),
    ("git bisect: 3f2c9ab1d is the first bad commit", {"commit/3f2c9ab1d": C}),
    ("broken since " + "a" * 40, {"commit/" + "a" * 40: C}),
    ("as in commit 3f2c9ab1", {"commit/3f2c9ab1": M}),
]

NOTHING = [
    "color: #123;",
    "background-color: #333333",
    "border: 1px solid #123456;",
    "fill='#112233'",
    "#fff #abc #1a2b3c",
    "#include <stdio.h>",
    "#!/bin/sh",
    "# 12 monkeys",
    "## 3",
    "##3",
    "&#123; &#39;",
    "C#12 F#7",
    "page.html#12 and a/b.html#3x",
    "step #2 of attempt #3",
    "test case #4",
    "option #1",
    "v1.2.3 and 10.0.0-12",
    "UTF-8, SHA-256, ISO-8859-1, RFC-2119, CVE-2024-1234, GPT-4, AES-128",
    "x86-64 and ARM-64",
    "PROJ-12-34 and A-1",
    "MY_PROJ-12",
    "`#12` in code",
    "```\nfixes #12\n```",
    "~~~\n#5",
    "#0 #012",
    "#12345678",
    "a#1",
    "url?x=#1",
    "#1.5",
    "the defaced wall was introduced in december",
    "caused by 12345678",
    "fix the tests",
]

NO_FIX = [
    "does not fix #1",
    "doesn't fix #1",
    "doesn\u2019t really fix #1",
    "failed to fix #1",
    "trying to fix #1",
    "this should fix #1",
    "would have to fix #1",
    "fix what broke. #1",
    "prefix #1",
    "the bug-fix #1",
    "fixture #1",
    "not fixed: #1",
    "until we resolve #1",
]


@pytest.mark.parametrize(("text", "found"), NAMED, ids=[t for t, _ in NAMED])
def test_what_a_text_says(text: str, found: dict[str, str]) -> None:
    assert read(text) == found


@pytest.mark.parametrize("text", NOTHING)
def test_what_only_looks_like_a_reference(text: str) -> None:
    assert read(text) == {}


@pytest.mark.parametrize("text", NO_FIX)
def test_what_is_no_claim_of_a_fix(text: str) -> None:
    assert read(text) == {"1": M}


def test_bounds() -> None:
    text = " ".join(f"#{n}" for n in range(1, 5000))
    assert len(references(text)) == MAX_REFERENCES


@pytest.mark.parametrize(
    "piece", ["#1, ", "fix ", "`", "```\n", "not to ", "a/", "caused by ", "A", "color:"]
)
def test_long_repeats_end(piece: str) -> None:
    """Were a pattern quadratic, a quarter of a million characters would not come back."""
    references(piece * (262_144 // len(piece)))


@given(st.text(st.sampled_from("#12fix es:,\n`()AB-/~&.ab"), max_size=200))
def test_any_text_is_read_and_names_are_well_formed(text: str) -> None:
    for found in references(text):
        kind, _, rest = found.name.partition("/")
        assert kind in ("issue", "commit")
        assert rest
        assert not (found.fixes and found.causes)


@given(st.lists(st.integers(1, 9_999_999), min_size=1, max_size=10, unique=True))
def test_each_of_a_list_is_fixed(numbers: list[int]) -> None:
    text = "Fixes " + ", ".join(f"#{n}" for n in numbers)
    assert read(text) == {str(n): F for n in numbers}
