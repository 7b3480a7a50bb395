"""What a diff does to a signature, as its callers see it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.retrieval.code_graph.signatures import Change, change_of
from plait.text.diff import parse_diff


def change(path: str, name: str, *lines: str) -> Change:
    old = sum(line[0] != "+" for line in lines)
    new = sum(line[0] != "-" for line in lines)
    text = "\n".join([f"--- a/{path}", f"+++ b/{path}", f"@@ -1,{old} +1,{new} @@", *lines, ""])
    (file,) = parse_diff(text).files
    return change_of(name, path, file.hunks)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a, b", "a, b", Change.NONE),
        ("a, b", "a,  b,", Change.NONE),
        ("a, b", "a, b, c=1", Change.NONE),
        ("a, b", "a, b, *, c=1", Change.NONE),
        ("a: int", "a: float = 0", Change.NONE),
        ("a, *, k=1", "a, *, k=2, m=3", Change.NONE),
        ("a, b", "a, b, c", Change.PARAMETERS),
        ("a, b", "b, a", Change.PARAMETERS),
        ("a, b=1", "a, b", Change.PARAMETERS),
        ("a, b", "a", Change.PARAMETERS),
        ("a, *args", "a", Change.PARAMETERS),
        ("a, *, k=1", "a, *, k", Change.PARAMETERS),
        ("a, *, k=1", "a, *, m=1", Change.PARAMETERS),
        ("a", "a, /", Change.PARAMETERS),
    ],
)
def test_python_says_whether_callers_still_fit(before: str, after: str, expected: Change) -> None:
    lines = (f"-def area({before}):", f"+def area({after}):", "     return 1")
    assert change("a.py", "area", *lines) is expected


def test_a_function_that_is_renamed_or_removed_is_gone() -> None:
    assert change("a.py", "area", "-def area(a):", "+def surface(a):", "     pass") is Change.GONE
    assert change("a.py", "area", "-def area(a):", "-    pass", " x = 1") is Change.GONE


def test_a_body_alone_changes_nothing_for_callers() -> None:
    assert change("a.py", "area", " def area(a):", "-    return 1", "+    return 2") is Change.NONE
    assert change("a.py", "area", "-    return 1", "+    return 2") is Change.NONE


def test_a_call_over_several_lines_is_no_definition() -> None:
    lines = ("-    area(", "-        1,", "+    area(", "+        2,", "     )")
    assert change("a.py", "area", *lines) is Change.NONE
    assert change("a.js", "area", *lines) is Change.NONE
    assert change("a.js", "area", "-  area(1, () => {", "+  area(2, () => {") is Change.NONE


def test_parameters_over_several_lines_are_one_list() -> None:
    lines = (" def area(", "     a,", "-    b,", "+    c,", " ):", "     pass")
    assert change("a.py", "area", *lines) is Change.PARAMETERS


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.js", "function area(a, b) {", "function area(a) {"),
        ("a.ts", "  area(a: number): number {", "  area(a: string): number {"),
        ("A.java", "  public int area(int a) {", "  public int area(int a, int b) {"),
        ("a.go", "func (s *Shape) area(a int) int {", "func (s *Shape) area(a, b int) int {"),
        ("a.rs", "pub fn area<T>(a: T) -> T {", "pub fn area<T>(a: &T) -> T {"),
    ],
)
def test_other_languages_are_compared_by_their_text(path: str, before: str, after: str) -> None:
    assert change(path, "area", f"-{before}", f"+{after}", "   x") is Change.PARAMETERS
    assert change(path, "area", f"-{before}", f"+{before}  ", "   x") is Change.NONE


def test_two_definitions_of_one_name_are_not_told_apart() -> None:
    lines = ("-def area(a):", "+def area(b):", " def area(c):", "     pass")
    assert change("a.py", "area", *lines) is Change.NONE


@given(
    st.lists(st.sampled_from("+- ").flatmap(lambda s: st.text(max_size=60).map(lambda t: s + t)))
)
def test_any_lines_have_a_change(lines: list[str]) -> None:
    flat = [" ".join(line.splitlines()) or " " for line in lines]
    sides = [line for line in flat if line[0] in "+- "]
    text = f"--- a/f.py\n+++ b/f.py\n@@ -1,{len(sides)} +1,{len(sides)} @@\n" + "\n".join(sides)
    for file in parse_diff(text).files:
        assert change_of("area", "f.py", file.hunks) in Change
