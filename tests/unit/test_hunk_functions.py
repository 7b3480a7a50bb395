"""Which functions a hunk touches, in the file before it, after it, and long after it."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.text.diff import parse_diff
from plait.text.hunk_functions import SourceFile, Span, functions

BEFORE = """\
import os

LIMIT = 10


class Cart:
    size = 3

    def add(self, item):
        self.items.append(item)
        return self

    def total(self):
        result = 0
        for item in self.items:
            result += item.price
        return result


def load(path):
    with open(path) as file:
        return file.read()


def outer(values):
    def inner(value):
        return value * LIMIT

    return [inner(value) for value in values]
"""


def source(text: str) -> SourceFile:
    """Spans by indentation, as an index has them."""
    rows = text.splitlines()
    spans: list[Span] = []
    scope: list[tuple[int, str]] = []
    for n, row in enumerate(rows, start=1):
        stripped = row.strip()
        indent = len(row) - len(row.lstrip())
        if not stripped.startswith(("def ", "class ")):
            continue
        end = n
        for m in range(n, len(rows)):
            if rows[m].strip() and len(rows[m]) - len(rows[m].lstrip()) <= indent:
                break
            if rows[m].strip():
                end = m + 1
        scope = [s for s in scope if s[0] < indent]
        name = stripped.split()[1].split("(")[0].rstrip(":")
        scope.append((indent, name))
        if stripped.startswith("def "):
            spans.append(Span(".".join(s[1] for s in scope), n, end))
    return SourceFile.of(dict(enumerate(rows, start=1)), spans)


def touched(old: str, new: str, at: str, context: int = 3) -> list[list[str]]:
    """Of each hunk of old → new, in the index of `at`."""
    written = difflib.unified_diff(
        old.splitlines(), new.splitlines(), "a/f.py", "b/f.py", lineterm="", n=context
    )
    file = source(at)
    return [
        functions(h.lines, h.old_start, h.new_start, h.heading, file)
        for f in parse_diff("\n".join(written)).files
        for h in f.hunks
    ]


def change(old: str, new: str) -> str:
    assert old in BEFORE
    return BEFORE.replace(old, new)


CASES = [
    ("a line", change("result = 0", "result = 0.0"), [["Cart.total"]]),
    ("an insertion", change("        return self\n", "        log(item)\n        return self\n"), [["Cart.add"]]),
    ("a removal", change("        for item in self.items:\n", ""), [["Cart.total"]]),
    ("the last line of a function", change("return file.read()", "return file.read().strip()"), [["load"]]),
    ("behind the last line", change("return file.read()\n", "return file.read()\n    return None\n"), [["load"]]),
    ("the head", change("def load(path)", "def load(path, mode)"), [["load"]]),
    ("an inner function", change("value * LIMIT", "value + LIMIT"), [["outer.inner"]]),
    ("outside of functions", change("LIMIT = 10", "LIMIT = 12"), [[]]),
    ("the class body", change("size = 3", "size = 4"), [[]]),
    ("two at once", change("        return self\n\n    def total(self):\n        result = 0\n", "        return None\n\n    def total(self):\n        result = 1\n"), [["Cart.add", "Cart.total"]]),
    ("far apart", BEFORE.replace("result = 0", "result = 1").replace("value * LIMIT", "value"), [["Cart.total"], ["outer.inner"]]),
]  # fmt: skip


@pytest.mark.parametrize(("new", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
@pytest.mark.parametrize("shift", ["", "# a\n# b\n" * 20, "x = '''return self'''\n" * 3])
def test_before_after_and_moved(new: str, expected: list[list[str]], shift: str) -> None:
    assert touched(BEFORE, new, shift + BEFORE) == expected
    assert touched(BEFORE, new, shift + new) == expected


def test_a_new_function_is_touched_where_it_is() -> None:
    new = BEFORE.replace("def load(", "def save(path):\n    os.remove(path)\n\n\ndef load(")
    assert touched(BEFORE, new, new) == [["save"]]
    assert touched(BEFORE, new, BEFORE) == [[]]


def test_a_removed_function_is_touched_where_it_was() -> None:
    gone = BEFORE[: BEFORE.index("def load(")] + BEFORE[BEFORE.index("def outer(") :]
    assert touched(BEFORE, gone, BEFORE) == [["load"]]
    assert touched(BEFORE, gone, gone) == [[]]


def test_a_function_that_was_rewritten_since_is_not_guessed() -> None:
    new = change("result += item.price", "result += item.price * item.count")
    later = new.replace(
        "        result = 0\n        for item in self.items:\n            result += item.price * item.count\n"
        "        return result\n",
        "        return sum(line.cost for line in self.lines)\n",
    )
    assert touched(BEFORE, new, later, context=1) == [[]]


TWINS = "".join(f"def twin{i}(x):\n    y = x + 1\n    return y * y\n\n\n" for i in range(3))


def test_equal_places_are_told_apart_by_numbers_or_not_at_all() -> None:
    rows = TWINS.splitlines()
    rows[6] = "    y = x + 2"
    new = "\n".join(rows) + "\n"
    assert touched(TWINS, new, TWINS, context=1) == [["twin1"]]
    hunk = [" def", "-    y = x + 1", "+    y = x + 2", "     return y * y"]
    assert functions(hunk, 900, 900, "", source(TWINS)) == []


def test_the_heading_decides_between_equal_places() -> None:
    hunk = ["     y = x + 1", "-    return y * y", "+    return y"]
    assert functions(hunk, 900, 900, "def twin2(x):", source(TWINS)) == ["twin2"]


def test_the_heading_alone_is_no_evidence() -> None:
    hunk = [" nowhere to be found", "-in this file at all", "+whatever it may be"]
    assert functions(hunk, 9, 9, "def load(path):", source(BEFORE)) == []


def test_the_heading_and_one_own_line_are() -> None:
    hunk = ["     gone before it()", "-        result += item.price", "-    gone too()", "+    x()"]
    assert functions(hunk, 300, 300, "    def total(self):", source(BEFORE)) == ["Cart.total"]


def test_a_single_common_line_elsewhere_is_no_evidence() -> None:
    assert functions(["-    return result", "+    return 1"], 1, 1, "", source(TWINS)) == []


def test_a_file_that_is_known_in_part() -> None:
    """A class's chunk leaves lines out: what is not known speaks neither for nor against."""
    whole = source(BEFORE)
    part = SourceFile.of({n: x for n, x in whole.lines.items() if 13 <= n <= 17}, whole.spans)
    new = change("result = 0", "result = 0.0")
    hunk = parse_diff(
        "\n".join(
            difflib.unified_diff(
                BEFORE.splitlines(), new.splitlines(), "a/f", "b/f", lineterm="", n=8
            )
        )
    ).files[0].hunks[0]  # fmt: skip
    assert functions(hunk.lines, hunk.old_start, hunk.new_start, "", part) == ["Cart.total"]


lines = st.lists(st.sampled_from(BEFORE.splitlines()), max_size=40)


@given(lines, lines, lines)
def test_any_diff_in_any_file(old: list[str], new: list[str], at: list[str]) -> None:
    file = source("\n".join(at))
    known = {span.symbol for span in file.spans}
    for found in touched("\n".join(old), "\n".join(new), "\n".join(at)):
        assert set(found) <= known


@given(st.data())
def test_a_changed_line_is_found_in_its_function(data: st.DataObject) -> None:
    """Each line that tells something, changed alone, before and after, wherever the file moved to."""
    rows = BEFORE.splitlines()
    n = data.draw(st.sampled_from([i for i, row in enumerate(rows) if len(row.strip()) > 5]))
    rows[n] += "  # changed"
    new = "\n".join(rows)
    shift = "# moved\n" * data.draw(st.integers(0, 50))
    file = source(BEFORE)
    inside = [s for s in file.spans if s.start <= n + 1 <= s.end]
    expected = [[inside[-1].symbol]] if inside else [[]]
    assert touched(BEFORE, new, shift + BEFORE) == expected
    assert touched(BEFORE, new, shift + new) == expected
