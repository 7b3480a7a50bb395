"""Hostile input: every importer answers with episodes or a PlaitError, in bounded memory and time."""

from __future__ import annotations

import contextlib
import io
import json
import resource
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.ingest.episode_json import Read
from etl.ingest.importers import registry
from etl.ingest.importers.draft import Options
from etl.ingest.importers.trim import trim
from etl.ingest.importers.unified import split
from plait.domain.errors import PlaitError, TranscriptInvalid
from plait.domain.values import ArtifactKind

OPTIONS = Options(repo="x")


def told(data: bytes, format_: str, name: str = "f") -> list[Read]:
    return list(registry.read_all(io.BytesIO(data), name, format_, OPTIONS))


def refusal(data: bytes, format_: str) -> PlaitError:
    (one,) = told(data, format_)
    assert one.error is not None
    assert ";" in str(one.error)  # what to do
    return one.error


# -- XML ---------------------------------------------------------------------------------------------------

LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a "ha">'
    + "".join(
        f'<!ENTITY b{i} "{("&b" + str(i - 1) + ";") * 10 if i else "&a;" * 10}">' for i in range(10)
    )
    + ']><testsuite name="&b9;"/>'
)


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><testsuite name="x"><testcase name="&f;"/></testsuite>',
        '<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd"><testsuite/>',
        '<!DOCTYPE x [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]><testsuite/>',
        "<!DOCTYPE testsuite><testsuite/>",
    ],
)
def test_document_types_are_refused(text: str) -> None:
    assert "document type" in str(refusal(text.encode(), "junit"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<testsuite>",
        b"<html/>",
        b"<testsuite></testsuites>",
        b"<testsuite>&nope;</testsuite>",
        b"\xff\xfe\x00",
        b'<?xml version="1.0" encoding="no-such"?><testsuite/>',
        b"<testsuite>" * 100_000,
        b"<testsuite><testcase " + b'a="b" ' * 10 + b"/",
        b'<testsuite name="' + b"x" * (6 * 2**20) + b'"/>',
        b'<testsuite name="x\x00"/>',
    ],
)
def test_what_is_no_report_is_refused(data: bytes) -> None:
    assert isinstance(refusal(data, "junit"), TranscriptInvalid)


def test_a_report_with_hostile_numbers_and_names_is_read() -> None:
    text = (
        '<testsuite name="n" time="inf"><testcase name="" classname="" time="nan"/>'
        '<testcase name="../../etc" file="../../../etc/passwd" time="-1"><failure/></testcase>'
        '<testcase name="t" file="/etc/passwd" time="1e999"><failure>&#x1f600;</failure></testcase></testsuite>'
    )
    (one,) = told(text.encode(), "junit")
    assert one.episode is not None
    assert all(a.path == "" for a in one.episode.artifacts)


# -- JSON Lines --------------------------------------------------------------------------------------------


class Endless(io.RawIOBase):
    """One line of `size` bytes, then `after`: never in memory as a whole."""

    def __init__(self, size: int, after: bytes) -> None:
        self.left, self.after = size, after

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        n = min(len(buffer), self.left)
        if n:
            buffer[:n] = b"x" * n
            self.left -= n
            return n
        n = min(len(buffer), len(self.after))
        buffer[:n], self.after = self.after[:n], self.after[n:]
        return n


def entry(**changes: object) -> bytes:
    value = {
        "type": "assistant",
        "sessionId": "s",
        "cwd": "/r",
        "timestamp": "2026-01-01T00:00:00Z",
        "message": {
            "role": "assistant",
            "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "hi"}],
        },
        **changes,
    }
    return json.dumps(value).encode() + b"\n"


def test_a_line_of_100_megabytes_is_refused_with_bounded_memory() -> None:
    stream = io.BufferedReader(Endless(100 * 2**20, b"\n" + entry()))
    tracemalloc.start()
    found = list(registry.read(stream, "f", "claude-code", OPTIONS))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found[0].error is not None
    assert "104,857,601 bytes" in str(found[0].error)
    assert found[1].episode is not None  # the next line is read
    assert peak < 40 * 2**20


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"a": [' + b"[]," * 300_000 + b"[]]}",
        b"7",
        b'{"type": "user", "message": ' + b'{"content": ' * 5_000 + b"1" + b"}" * 5_001,
    ],
)
def test_a_faulty_line_is_told_and_the_next_one_read(line: bytes) -> None:
    found = told(line + b"\n" + entry(), "claude-code")
    assert [f.error is not None for f in found] == [True, False]
    assert found[1].episode is not None


def test_a_truncated_last_line_waits_for_its_end() -> None:
    whole = entry() + entry()
    found = told(whole[:-20], "claude-code")
    assert found[0].episode is not None
    assert "not whole yet" in found[1].note
    assert all(f.error is None for f in found)


def edit(path: str) -> bytes:
    use = {
        "type": "tool_use",
        "id": "t",
        "name": "Write",
        "input": {"file_path": path, "content": "x\n"},
    }
    return entry(message={"role": "assistant", "content": [use]}) + entry()


@pytest.mark.parametrize(
    "path",
    [
        "/r/../../etc/passwd",
        "../../etc/passwd",
        "/etc/passwd",
        "/r\n+++ b/x",
        "/r/a\x00b",
        "/",
        "",
        "~/x",
        "\ud800",
    ],
)
def test_an_edit_never_leaves_the_repository(path: str) -> None:
    (one,) = told(edit(path), "claude-code")
    assert one.episode is not None
    for artifact in one.episode.artifacts:
        assert not artifact.path.startswith(("/", ".."))
        if artifact.kind is ArtifactKind.DIFF:
            assert artifact.path == "~/x"


# A small JSON of any shape under the keys that importers read.
KEYS = [
    "type", "message", "content", "role", "text", "tool_use", "tool_result", "id", "name", "input", "command",
    "tool_use_id", "toolUseResult", "timestamp", "isSidechain", "cwd", "sessionId", "file_path", "old_string",
    "new_string", "edits", "todos", "structuredPatch", "lines", "oldStart", "usage", "input_tokens",
    "trajectory", "action", "observation", "thought", "history", "messages", "info", "submission", "exit_status",
    "model_stats", "extra", "actions", "tool_calls", "function", "arguments", "returncode", "stop_reason",
]  # fmt: skip
WORDS = [
    "user", "assistant", "text", "tool_use", "tool_result", "thinking", "Bash", "Edit", "Write", "MultiEdit",
    "TodoWrite", "Task", "ExitPlanMode", "pytest -q", "end_turn", "2026-01-01T00:00:00Z", "\ud800", "\0",
    "0001-01-01T00:00:00+23:59", "diff --git a/x b/x", "str_replace_editor create /testbed/a '", "submit",
]  # fmt: skip
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=25,
)
ENTRY = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["user", "assistant", "system"]),
        "message": st.fixed_dictionaries(
            {
                "content": JSON
                | st.lists(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6), max_size=4)
            }
        ),
    },
    optional={
        "toolUseResult": JSON,
        "timestamp": JSON,
        "cwd": JSON,
        "isSidechain": JSON,
        "isMeta": JSON,
    },
)


@settings(max_examples=150, deadline=None)
@given(st.lists(ENTRY, max_size=6))
def test_a_session_of_any_shape_is_read_or_refused(entries: list[object]) -> None:
    data = b"".join(json.dumps(e).encode() + b"\n" for e in entries)
    first = told(data, "claude-code")
    again = told(data, "claude-code")
    assert [f.episode and f.episode.request_id for f in first] == [
        f.episode and f.episode.request_id for f in again
    ]


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6))
def test_a_trajectory_of_any_shape_is_read_or_refused(value: object) -> None:
    told(json.dumps(value).encode(), "swe-agent")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("action", "observation", "thought", "response"), JSON)
        ),
        min_size=1,
        max_size=4,
    ),
    JSON,
)
def test_steps_of_any_shape_are_read(steps: list[object], info: object) -> None:
    (one,) = told(json.dumps({"trajectory": steps, "info": info}).encode(), "swe-agent")
    assert one.episode is not None, one.error


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=2_000), st.sampled_from(sorted(registry.FORMATS)))
def test_any_bytes_are_read_or_refused(data: bytes, format_: str) -> None:
    with contextlib.suppress(PlaitError):
        registry.detect(data, "x")
    for one in told(data, format_):
        assert (one.episode is None) or (one.error is None)


SNIPPETS = st.sampled_from([
    b"diff --git a/x b/x\n", b"--- a/x\n", b"+++ b/x\n", b"@@ -1,2 +1,2 @@\n", b"@@ -1 +1 @@ f\n", b"@@ -0,0 +999999999 @@\n",
    b"-a\n", b"+b\n", b" c\n", b"\n", b"\\ No newline at end of file\n", b"Index: x\n", b"From " + b"a" * 40 + b" Mon Sep 17 00:00:00 2001\n",
    b"Subject: [PATCH 1/0] =?x?q?=FF?=\n", b"Date: Mon, 99 Foo 99999 99:99:99 +9999\n", b"Content-Type: text/plain; charset=\xff\n",
    b"Content-Transfer-Encoding: base64\n", b"---\n", b"-- \n", b"rename to ../../x\n", b"\xff\xfe\n", b"commit abcdef1\n",
])  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(SNIPPETS, max_size=30), st.sampled_from(["diff", "patch"]))
def test_patches_of_any_shape_are_read_or_refused(parts: list[bytes], format_: str) -> None:
    data = b"".join(parts)
    ids = [[r.episode and r.episode.request_id for r in told(data, format_)] for _ in range(2)]
    assert ids[0] == ids[1]


@settings(max_examples=200, deadline=None)
@given(st.lists(SNIPPETS, max_size=30))
def test_splitting_keeps_every_line_of_a_file(parts: list[bytes]) -> None:
    text = b"".join(parts).decode("utf-8", "replace")
    files, _ = split(text)
    lines = text.split("\n")
    for one in files:
        rows = one.text.split("\n")
        assert any(
            lines[i : i + len(rows)] == rows or set(rows) <= set(lines) for i in range(len(lines))
        )


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=400), st.integers(2, 40), st.integers(20, 300))
def test_trimmed_text_is_short_and_counts_what_it_cut(text: str, lines: int, chars: int) -> None:
    short = trim(text, lines, chars)
    assert len(short.text) <= chars + 60 * (short.text.count("lines cut") + 1)
    assert (short.cut == 0) == ("lines cut …]" not in short.text or "lines cut …]" in text)


# -- sizes -------------------------------------------------------------------------------------------------


def test_a_diff_of_one_huge_file_is_split_over_episodes() -> None:
    def lines() -> Iterator[bytes]:
        yield b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,400000 @@\n"
        for _ in range(400_000):
            yield b"+" + b"y" * 60 + b"\n"

    found = told(b"".join(lines()), "diff")
    assert all(f.error is None for f in found), [f.error for f in found]
    assert len(found) > 2
    assert len({f.episode.session_key for f in found if f.episode}) == 1
    assert len({f.episode.request_id for f in found if f.episode}) == len(found)


def test_a_session_with_very_much_in_one_turn_is_split() -> None:
    use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "true"}}
    call = entry(message={"role": "assistant", "content": [use]})
    result = entry(
        type="user",
        message={
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}],
        },
    )
    found = [f.episode for f in told((call + result) * 900 + entry(), "claude-code")]
    sizes = [len(e.artifacts) for e in found if e]
    assert sizes == [400, 400, 101]
    assert [("continued" in e.tags) for e in found if e] == [False, True, True]
    assert len({e.request_id for e in found if e}) == 3


def test_a_trajectory_larger_than_its_bound_is_refused() -> None:
    assert "larger than" in str(refusal(b" " * (64 * 2**20 + 1), "swe-agent"))
    assert "too many values" in str(refusal(b"[" * 3_000_001, "swe-agent"))


def test_nothing_here_took_much_memory() -> None:
    """A bomb that went off would show: all tests of this file in one process."""
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2_000_000  # kB
