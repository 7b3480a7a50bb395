"""Times as options of commands, and errors in the words of the command line."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from plait.domain.answers.graph import GraphEdge, GraphNode
from plait.domain.errors import InvalidInput, MemoryNotFound, PlaitError
from plait.text.time_expressions import resolve
from server.commands import frame
from server.commands.graph import without_doubles
from server.commands.output import wording

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime.fromisoformat("2026-03-18T15:30:00+01:00")  # a Wednesday


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("today", "2026-03-18T00:00"),
        ("yesterday", "2026-03-17T00:00"),
        ("last Tuesday", "2026-03-17T00:00"),
        ("this week", "2026-03-16T00:00"),
        ("last month", "2026-02-01T00:00"),
        ("end of last month", "2026-03-01T00:00"),
        ("2026-03-01", "2026-03-01T00:00"),
        ("yesterday 14:00", "2026-03-17T14:00"),
        ("two weeks ago", "2026-03-04T15:30"),
        ("2026-03-01T14:00Z", "2026-03-01T15:00"),
    ],
)
def test_the_bound_of_a_range_is_the_start_of_a_period(words: str, expected: str) -> None:
    found = resolve(words, NOW, BERLIN, bound=True)
    assert found == datetime.fromisoformat(expected).replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01", "2026-02-28T23:00Z"),
        ("20260301", "2026-02-28T23:00Z"),
        ("2026-07-01T10:00", "2026-07-01T08:00Z"),
        ("2026-07-01T10:00Z", "2026-07-01T10:00Z"),
        ("2026-07-01T10:00:00.25+05:30", "2026-07-01T04:30:00.25Z"),
    ],
)
def test_a_time_without_an_offset_is_in_the_callers_zone(
    monkeypatch: pytest.MonkeyPatch, text: str, expected: str
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert frame.time(text) == datetime.fromisoformat(expected)


def test_words_are_read_against_the_clock() -> None:
    assert frame.time("3 days ago") < frame.time("yesterday") < frame.time("now")
    assert frame.time("today") <= datetime.now(UTC)


@pytest.mark.parametrize(
    "text", ["", "a few days ago", "3/4/2026", "0001-01-01T00:00+14:00", "x" * 999]
)
def test_what_names_no_time_is_wrong_usage(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="last Tuesday"):
        frame.time(text)


@pytest.mark.parametrize(
    ("field", "message", "expected"),
    [
        ("as_of.valid.words", "as_of.valid.words: 'x' names no", "--as-of: 'x' names no"),
        ("as_of.recorded.time", "as_of.recorded.time is late", "--recorded-as-of is late"),
        ("filter.tags_any[0]", "filter.tags_any[0] is empty; x", "--tag is empty; x"),
        (
            "selector.recorded_to",
            "selector.recorded_to is not after recorded_from; swap them",
            "--until is not after --since; swap them",
        ),
        ("memory.importance", "importance: is 2; say 0 to 1", "--importance: is 2; say 0 to 1"),
        ("query", "query is empty", "the query is empty"),
        (
            "episode.artifacts[3].path",
            "episode.artifacts[3].path is",
            "episode.artifacts[3].path is",
        ),
        ("template", "there is no template 'x'", "there is no template 'x'"),
        ("id", "an ID is no UUID", "an ID is no UUID"),
        ("x", "names 'agent_id' `valid_to`", "names 'agent_id' `valid_to`"),
    ],
)
def test_errors_name_options(field: str, message: str, expected: str) -> None:
    assert wording.message(InvalidInput(message, field=field)) == expected


def test_errors_without_a_field_keep_their_words() -> None:
    assert (
        wording.message(PlaitError("path is gone; recorded_to stays"))
        == "path is gone; recorded_to stays"
    )
    assert "`plait memory list` shows" in wording.message(MemoryNotFound("1", "app"))


def test_a_table_says_a_word_once() -> None:
    node = GraphNode("app:memory/1", ("Memory",), {})
    touches = GraphEdge("TOUCHES", "a", "b", {})
    fixes = GraphEdge("FIXES", "a", "b", {})
    columns, rows = without_doubles(
        ("what", "link", "relation", "recorded_from"),
        [[node, touches, "TOUCHES", 1], [node, fixes, "FIXES", 2]],
    )
    assert columns == ["what", "link", "recorded_from"]
    assert rows == [[node, touches, 1], [node, fixes, 2]]
    columns, rows = without_doubles(
        ("fix", "test", "fixes", "touches"),
        [[node, None, fixes, touches], [node, None, fixes, None]],
    )
    assert (columns, rows) == (["fix", "test"], [[node, None], [node, None]])
    assert without_doubles(("a", "b"), [["x", "x"]]) == (["a", "b"], [["x", "x"]])
