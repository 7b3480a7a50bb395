"""Filters as SQL: globs mean what they say, and every value is bound."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.errors import InvalidInput
from plait.domain.values import Collection, Filter, Revision
from plait.ports import View
from vector.search.filters import condition, glob_pattern

VIEW = View((Revision(7, "r", 3),), "", 0)


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc", "apy"]),
        ("**/*.py", ["a.py", "a/b.py", "a/b/c.py"], ["a.js"]),
        ("src/**", ["src/a", "src/a/b.py"], ["src", "other/src/a"]),
        ("a?c", ["abc", "a.c"], ["ac", "a/c"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z"], ["az", "a/bz"]),
        ("[x]+(y)|z^$.{2}\\", ["[x]+(y)|z^$.{2}\\"], ["xx", "x"]),
        ("**", ["", "a", "a/b"], []),
    ],
)
def test_globs(glob: str, yes: list[str], no: list[str]) -> None:
    pattern = re.compile(glob_pattern(glob), re.DOTALL)
    assert [p for p in yes if not pattern.search(p)] == []
    assert [p for p in no if pattern.search(p)] == []


@given(st.text(st.characters(exclude_characters="*?\0\n", exclude_categories=["Cs"]), max_size=50))
def test_text_without_wildcards_matches_itself_alone(text: str) -> None:
    pattern = re.compile(glob_pattern(text), re.DOTALL)
    assert pattern.search(text)
    assert not pattern.search(text + "x")
    assert not pattern.search("x" + text)


@pytest.mark.parametrize("glob", ["*a" * 41, "a" * 401])
def test_globs_have_a_limit(glob: str) -> None:
    with pytest.raises(InvalidInput, match="wildcards"):
        glob_pattern(glob)


@given(st.text(min_size=1, max_size=20))
def test_no_value_reaches_the_sql(text: str) -> None:
    where = Filter(
        kinds=(text,), languages=(text,), path_glob="x" + text, tags_any=(text,), agent_id=text
    )
    try:
        found = condition(VIEW, where)
    except InvalidInput:
        return
    harmless = condition(VIEW, Filter(
        kinds=("k",), languages=("k",), path_glob="x*" if set("*?") & set(text) else "x",
        tags_any=("k",), agent_id="k",
    ))  # fmt: skip
    assert found.where == harmless.where


def test_one_collection_is_read_by_its_own_name() -> None:
    assert condition(VIEW, Filter()).table == "files"
    both = condition(VIEW, Filter(collections=(Collection.PLANS, Collection.DIFFS)))
    assert both.table == "item"
    assert both.params["collections"] == ["plans", "diffs"]
    assert not both.restrictive


def test_code_is_not_asked_for_times() -> None:
    """Nor for the one partition of each collection when all are meant: both made the planner believe that
    hardly a chunk is left, and read all of them."""
    everything = condition(VIEW, Filter(collections=tuple(Collection)))
    assert "(i.rev_from > 0 OR (" in everything.where
    assert "i.collection" not in everything.where
    some = condition(VIEW, Filter(collections=(Collection.FILES, Collection.DIFFS)))
    assert some.params["collections"] == ["files", "diffs"]
    theirs = condition(VIEW, Filter(collections=(Collection.DIFFS,)))
    assert "i.rev_from > 0 OR" not in theirs.where
    assert "i.valid_to" in theirs.where
