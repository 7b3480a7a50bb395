"""Goldens: a record is read as it was written, what differs is named, and what chance decides is masked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.goldens import attached, cases
from benchmarks.goldens.normal import Normal

RECORD: cases.Cases = {"one": ["a", "", " b", "== c"], "two": []}


def test_a_record_is_read_as_it_was_written_and_equal_ones_are_equal_bytes(tmp_path: Path) -> None:
    cases.write(tmp_path, "part/first", RECORD)
    cases.write(tmp_path, "part/second", RECORD)
    assert cases.load(tmp_path, ["part"]) == {"part/first": RECORD, "part/second": RECORD}
    first, second = ((tmp_path / f"part/{n}.txt.gz").read_bytes() for n in ("first", "second"))
    assert first == second


def test_each_case_that_differs_is_named_with_its_lines() -> None:
    after: cases.Cases = {"one": ["a", "x", " b", "== c"], "three": ["new"]}
    found = cases.changed(cases.digests({"f": RECORD}), cases.digests({"f": after}))
    assert found == [("f", "one", "differs"), ("f", "two", "gone"), ("f", "three", "new")]
    lines = list(cases.difference(RECORD["one"], after["one"], context=0))
    assert lines == ["@@ -2 +2 @@", "-", "+x"]


def test_what_chance_and_clock_decide_is_masked_and_nothing_else() -> None:
    normal = Normal({"home": "/tmp/x"})
    now, id_ = datetime.now(UTC), "01a20616-6d61-7000-8000-07db2dd14704"
    answer = {
        "id": id_,
        "at": now.isoformat(),
        "ends": (now + timedelta(days=10)).isoformat(),
        "then": "2025-09-01T09:00:00Z",
        "took_ms": 3.2,
        "score": 0.12345678,
        "root": f"/tmp/x/y of {id_}",
        "ms": int(now.timestamp() * 1e3),
        "number": 17,
    }
    assert normal.lines(answer) == [
        "{",
        ' "at": "<now>",',
        ' "ends": "<now +10 d>",',
        ' "id": "<id 1>",',
        ' "ms": "<now>",',
        ' "number": 17,',
        ' "root": "<home>/y of <id 1>",',
        ' "score": 0.123457,',
        ' "then": "2025-09-01T09:00:00Z",',
        ' "took_ms": "<took_ms>"',
        "}",
    ]


def test_what_commands_print_is_masked_as_json_or_as_text() -> None:
    normal = Normal({})
    assert normal.printed('{"took_ms": 1.5}\n') == [
        "[",
        " {",
        '  "took_ms": "<took_ms>"',
        " }",
        "]",
    ]
    assert normal.printed(f"12 files in 3.1 s, {datetime.now(UTC):%Y-%m-%d}") == [
        "12 files in TIME, <now>"
    ]
    assert normal.printed("") == []


def test_diffs_and_traces_are_of_the_trees_own_lines(tmp_path: Path) -> None:
    source = "class A:\n    def run(self):\n        return 1\n"
    (tmp_path / "a.py").write_text(source, encoding="utf-8")
    (diff,) = attached.diffs(tmp_path)
    assert "-        return 1\n+        return 1  // changed" in diff
    (trace,) = attached.traces(tmp_path)
    assert 'File "/app/a.py", line 3, in run' in trace
