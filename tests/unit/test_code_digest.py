"""What of code counts for a change: tokens, not layout, comments or quotes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.text.code_digest import SIZE, gist

PYTHON = """\
def fetch(url, retries=3):
    # three times is enough
    for _ in range(retries):
        if answer := get(url, timeout='10'):
            return answer
    return None
"""
SAME = {
    "another layout": """\
def fetch(
  url,
  retries=3,
):
  for _ in range(retries):

    if answer := get(
        url, timeout="10"
    ):
      return answer  # found
  return None
""",
    "tabs": PYTHON.replace("    ", "\t"),
    "no comment": PYTHON.replace("    # three times is enough\n", ""),
    "another comment": PYTHON.replace("three times", "twice"),
    "a blank line": PYTHON.replace("    return None", "\n    return None"),
}
OTHER = {
    "a number": PYTHON.replace("=3", "=4"),
    "a name": PYTHON.replace("answer", "reply"),
    "a string": PYTHON.replace("'10'", "'1 0'"),
    "a dedent": PYTHON.replace("    return None", "        return None"),
    "a decorator": f"@cached\n{PYTHON}",
    "a docstring": PYTHON.replace("    # three", '    """three'),
    "a hash in a string": PYTHON.replace("'10'", "'10#'"),
}
JS = "function get(a, b) {\n  // why\n  return `x ${a}` + b; /* sum */\n}\n"


@pytest.mark.parametrize("name", SAME)
def test_layout_and_comments_are_no_change(name: str) -> None:
    assert gist(SAME[name], "python") == gist(PYTHON, "python")


@pytest.mark.parametrize("name", OTHER)
def test_what_runs_otherwise_is_a_change(name: str) -> None:
    assert gist(OTHER[name], "python") != gist(PYTHON, "python")


def test_an_empty_body_stands_where_it_likes() -> None:
    below, behind = "def f():\n    ...\n\nx = 1\n", "def f(): ...\nx = 1\n"
    assert gist(below, "python") == gist(behind, "python")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("x = (a,)", "x = (a)", False),
        ("(x,) = f()", "(x) = f()", False),
        ("return (a,)", "return (a)", False),
        ("x[1,]", "x[1]", False),
        ("(a, b,)", "(a, b)", True),
        ("f(a,)", "f(a)", True),
        ("f(x)(\n    a,\n)", "f(x)(a)", True),
        ("def f(\n    a,\n): pass", "def f(a): pass", True),
        ("from a import (\n    b,\n)", "from a import (b)", True),
        ("x = [1,]", "x = [1]", True),
        ("x = {1,}", "x = {1}", True),
    ],
)
def test_a_comma_that_makes_a_tuple_is_no_layout(one: str, other: str, same: bool) -> None:
    assert (gist(one, "python") == gist(other, "python")) == same


def test_a_comment_that_nothing_closes_is_none() -> None:
    """Else all behind a pattern that holds its beginning could change unseen."""
    code = "x = /[/*]/; a(); // why\ny = '/*';"
    assert gist(code, "javascript") == gist(code.replace("why", "so"), "javascript")
    assert gist(code, "javascript") != gist(code.replace("a()", "b()"), "javascript")
    assert gist(code, "javascript") != gist(code.replace("y =", "z ="), "javascript")
    assert gist("a /**/ b /*/ c */", "go") == gist("a b", "go")
    assert gist("f = (\n  { a },\n) => a", "javascript") == gist("f = ({ a }) => a", "javascript")


def test_other_languages() -> None:
    same = "function get(a, b)\n{\n    return `x ${a}` + b;\n}"
    assert gist(JS, "javascript") == gist(same, "javascript")
    assert gist(JS, "javascript") != gist(JS.replace("`x $", "`x  $"), "javascript")
    assert gist("#include <a.h>\nint x;", "c") != gist("int x;", "c")
    assert gist("a # b", "unknown") != gist("a # c", "unknown")
    assert gist("a  b", "unknown") == gist("a\nb", "unknown")


@given(st.lists(st.sampled_from(["a", "b1", "(", ")", ",", "+", "{", "}", "'s'"])), st.data())
def test_blanks_between_tokens_are_no_change(tokens: list[str], data: st.DataObject) -> None:
    blanks = st.text(alphabet=" \t\n", min_size=1, max_size=3)
    apart = "".join(token + data.draw(blanks) for token in tokens)
    assert gist(apart, "go") == gist(" ".join(tokens), "go")


@pytest.mark.parametrize("language", ["python", "go", "unknown"])
@pytest.mark.parametrize(
    "code",
    ["'\\" * 20_000, '"""' * 13_000, "/*" * 20_000, "`" * 40_000, "'" * 40_000, "(" * 40_000,
     "\n" + " \n" * 20_000, '"""a\n' * 10_000],
    ids=lambda code: repr(code[:5]),
)  # fmt: skip
def test_what_is_never_closed_is_read_once(code: str, language: str) -> None:
    """Where it was not, one of these took ten seconds."""
    assert len(gist(code, language)) == SIZE
    assert gist(code[:400], language) != gist("other", language)
