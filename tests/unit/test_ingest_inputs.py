"""Folders, links and batches of `ingest`, and what it does with answers: no store needed."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from etl import ingest_episode
from etl.ingest import inputs
from etl.ingest.episode_json import Read
from etl.ingest.feed import MAX_ITEMS, Feed
from etl.ingest.inputs import ImportResult, Input
from etl.ingest.sink import NotStored, Sink, Stored
from plait.domain.answers.status import MemoryUsage
from plait.domain.errors import PlaitError, RequestIdReused, StoreUnavailable
from plait.domain.retention import Budget
from plait.domain.values import Artifact, ArtifactKind, Episode, Outcome

EPISODE = {"repo": "x", "outcome": {"status": "success"}}
DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


SKIPPED: Counter[str] = Counter()


def named(*names: object) -> list[str]:
    return [
        i.name if isinstance(i, Input) else f"!{i.file}"
        for i in inputs.inputs([str(n) for n in names], SKIPPED)
    ]


def test_folders_are_searched_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "run.jsonl").write_text("{}")
    (tmp_path / "a.XML").write_text("<a/>")
    (tmp_path / "notes.txt").write_text("no")
    (tmp_path / "empty.json").write_text("")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.json").write_text("{}")
    (tmp_path / "b" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "out.json").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.json")
    SKIPPED.clear()
    assert named(tmp_path) == [str(tmp_path / "a.XML"), str(tmp_path / "b" / "run.jsonl")]
    assert SKIPPED == {
        inputs.OTHER_ENDING: 1,
        inputs.EMPTY: 1,
        inputs.NO_FILE: 2,
    }


def test_a_name_that_is_not_there_is_told_and_the_others_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert named(tmp_path / "gone", tmp_path / "a.json", "a\0b") == [
        f"!{tmp_path / 'gone'}",
        str(tmp_path / "a.json"),
        "!a\0b",
    ]


def result(n: int = 1) -> ImportResult:
    artifacts = [Artifact(ArtifactKind.NOTE, "x")] * n
    return ImportResult("f", "episode", Read(1, Episode("r", "x", Outcome("success"), artifacts)))


def test_a_batch_has_at_most_500_items() -> None:
    feed = Feed(iter([result(200)] * 7))
    sizes = []
    while batch := feed.batch():
        sizes.append(sum(len(t.read.episode.artifacts) for t in batch if t.read.episode))
    assert sum(sizes) == 1_400
    assert max(sizes) <= MAX_ITEMS


def test_what_the_reader_raises_comes_after_what_it_read() -> None:
    def source() -> Iterator[ImportResult]:
        yield result()
        raise StoreUnavailable("gone; try again")

    feed = Feed(source())
    assert len(feed.batch()) == 1
    with pytest.raises(StoreUnavailable):
        feed.batch()


def test_reading_ahead_is_bounded() -> None:
    taken = 0

    def source() -> Iterator[ImportResult]:
        nonlocal taken
        for _ in range(100_000):
            taken += 1
            yield result(100)

    feed = Feed(source())
    feed.batch()
    assert taken < 100
    feed.stop()


class Memory:
    """A sink that knows request ids, as a store does."""

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}
        self.batches: list[int] = []
        self.stored_usage: dict[tuple[str, str, Budget], MemoryUsage] = {}

    async def append(self, episode: Episode) -> Stored:
        raise AssertionError("batches only")

    async def append_many(self, episodes: Sequence[Episode]) -> list[Stored | NotStored]:
        self.batches.append(len(episodes))
        return [self._one(e) for e in episodes]

    async def usage(self) -> Mapping[tuple[str, str, Budget], MemoryUsage]:
        return self.stored_usage

    def _one(self, e: Episode) -> Stored | NotStored:
        known = self.known.setdefault(e.request_id, e.body_hash)
        if known != e.body_hash:
            return NotStored(RequestIdReused(e.request_id))
        return Stored(e.request_id, len(e.artifacts), False)


def run(sink: Memory, *arguments: object) -> int:
    @asynccontextmanager
    async def opened(args: argparse.Namespace) -> AsyncIterator[Sink]:
        yield sink

    args = ingest_episode.parser("ingest").parse_args([str(a) for a in arguments])
    return asyncio.run(ingest_episode.ingest(args, opened))


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_one_bad_file_is_reported_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(EPISODE))
    (tmp_path / "b.xml").write_text("<!DOCTYPE x><testsuite/>")
    (tmp_path / "c.diff").write_text(DIFF)
    (tmp_path / "d.json").write_text('{"unrelated": 1}')  # a folder may hold anything
    sink = Memory()
    assert run(sink, tmp_path, "--repo", "x", "--json") == 1
    out = lines(capsys)
    assert [("error" in o) for o in out].count(True) == 1
    assert {o["format"] for o in out if "error" not in o} == {"episode", "diff"}
    assert len(sink.known) == 2


def test_a_dry_run_stores_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.diff"
    file.write_text(DIFF)
    sink = Memory()
    assert run(sink, file, "--repo", "x", "--dry-run", "--json") == 0
    (line,) = lines(capsys)
    assert line["would_store"]["artifacts"] == [
        {"kind": "diff", "path": "x", "bytes": len(DIFF) - 1}
    ]
    assert sink.known == {}


def test_nothing_to_import_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Memory(), tmp_path) == 3
    assert "nothing found that can be imported" in capsys.readouterr().err


def test_a_file_that_is_not_there_has_no_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.json").write_text("")
    assert run(Memory(), tmp_path / "gone", tmp_path / "empty.json") == 1
    result = capsys.readouterr().err
    assert f"error: cannot read {tmp_path / 'gone'}: " in result
    assert f"error: {tmp_path / 'empty.json'}: the input is empty" in result


def test_the_same_bytes_by_other_rules_are_stored_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, config, rules = tmp_path / "c.diff", tmp_path / "plait.yaml", tmp_path / "rules.yaml"
    file.write_text(DIFF + "+password='a1b2c3d4e5'\n")
    rules.write_text("allow: ['a1b2c3d4e5']\n")
    config.write_text(f"secrets: {{rules: {rules}}}\n")
    sink = Memory()
    assert run(sink, file, "--repo", "x", "--json") == 0
    assert run(sink, file, "--repo", "x", "--json", "--config", config) == 0
    first, second = lines(capsys)
    assert (first["repeated"], second["repeated"], second["differs"]) == (False, True, True)


def test_a_request_id_of_the_callers_own_that_is_reused_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    one = {**EPISODE, "request_id": "r"}
    file.write_text(json.dumps(one) + "\n" + json.dumps({**one, "tags": ["other"]}) + "\n")
    assert run(Memory(), file) == 1


def test_a_format_can_be_forced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.txt"
    file.write_text("words\n" + DIFF)
    assert run(Memory(), file, "--format", "junit", "--repo", "x") == 1
    assert (
        run(Memory(), file, "--format", "diff", "--repo", "x", "--agent", "a", "--session", "s")
        == 0
    )
    with pytest.raises(SystemExit) as caught:
        run(Memory(), file, "--format", "none")
    assert caught.value.code == 2
    capsys.readouterr()


def test_a_store_that_is_gone_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_INDEX__OUTAGE_S", "0")  # by default it waits for minutes

    class Gone(Memory):
        async def append_many(self, episodes: Sequence[Episode]) -> list[Stored | NotStored]:
            raise StoreUnavailable("gone; try again")

    (tmp_path / "c.diff").write_text(DIFF)
    with pytest.raises(PlaitError, match="gone"):
        run(Gone(), tmp_path, "--repo", "x")


def test_what_retention_closed_is_said_where_something_was_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.diff").write_text(DIFF)
    sink = Memory()
    sink.stored_usage = {
        ("x", "a", Budget.RUNS): MemoryUsage(850, 1_000, 9, 11_105),
        ("x", "a", Budget.STORED): MemoryUsage(10, 1_000, 1, 0),
        ("elsewhere", "a", Budget.RUNS): MemoryUsage(1, 1_000, 1, 7),
    }
    assert run(sink, tmp_path, "--repo", "x") == 0
    closed, full = (x for x in capsys.readouterr().err.splitlines() if x.startswith("note: "))
    assert "compaction closed 11,105 turns and notes of runs; they are found" in closed
    assert "850 of 1,000 tokens" in full
    assert "memory.run_budget_tokens" in full
    # A repeat stored nothing, and programs read --json.
    run(sink, tmp_path, "--repo", "x", "--json")
    assert "note:" not in capsys.readouterr().err


def dry(*words: str) -> int:
    args = ingest_episode.parser("ingest").parse_args([*words, "--dry-run", "--repo", "x"])
    return asyncio.run(ingest_episode.ingest(args, _no_sink))


@asynccontextmanager
async def _no_sink(_: argparse.Namespace) -> AsyncIterator[Sink]:
    pytest.fail("a dry run opens nothing")
    yield


def test_a_folder_says_what_it_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.diff").write_text(DIFF)
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "notes.txt").write_text("no")
    assert dry(str(tmp_path)) == 0
    said = capsys.readouterr().err
    assert "skipped 2 files: 1 in no format that can be imported, 1 other endings\n" in said


def test_a_wrong_format_prints_a_few_errors_and_a_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.log"
    file.write_text("no JSON\n" * 30)
    assert dry(str(file), "--format", "claude-code") == 1
    lines = [x for x in capsys.readouterr().err.splitlines() if x.startswith("error: ")]
    assert len(lines) == 6
    assert lines[-1].endswith("25 more errors; --json has them all")
    assert dry(str(file), "--format", "claude-code", "--json") == 1
    out = capsys.readouterr().out.splitlines()
    assert sum("error" in json.loads(line) for line in out) == 30


def test_a_diff_cut_short_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cut.diff"
    file.write_text(DIFF.replace("@@ -1 +1 @@", "@@ -1,9 +1,9 @@"))
    assert dry(str(file)) == 0
    assert "the diff of x ends inside a hunk; what is there is taken" in capsys.readouterr().err
    file.write_text(DIFF)
    assert dry(str(file)) == 0
    assert "hunk" not in capsys.readouterr().err


@pytest.mark.parametrize("body", ['{"trajectory": []}', '{"messages": [], "info": {}}'])
def test_an_empty_trajectory_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str
) -> None:
    file = tmp_path / "run.traj"
    file.write_text(body)
    assert dry(str(file)) == 1
    assert "its trajectory is empty" in capsys.readouterr().err
