"""Transcripts of coding agents with questions, read by `plait ingest`'s own importers.

Twelve runs written by hand for this benchmark (memory_transcripts.txt): an issue or a wish, what the agent
thinks, commands with what they print, a first attempt that is dropped for a reason, the one that stays,
what it came to. Half are written as SWE-agent's trajectories, half as Claude Code's sessions; steps that
look at real code stand between, so that an answer is one of some thirty items. The importers decide what is
stored and as what: turns, diffs, results of tests, reflections. Questions name their run by what it is
about; `transcripts` asks them over all twelve at once, `alone` over each run by itself. What the importers don't keep
can't be found: such a question counts as missed. Six runs are held out.
"""

from __future__ import annotations

import io
import json
import random
import re
import shlex
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.memory_histories import Entry, History, Question
from etl.ingest.importers import claude_code, edits, swe_agent
from etl.ingest.importers.draft import Options
from plait.domain.values import Artifact, Episode
from plait.memory.episode_links import symbols
from plait.memory.item_context import context
from plait.memory.prepare import COLLECTION

FILE = Path(__file__).with_suffix(".txt")
MISSING = -1  # a step that the importer did not keep
_BEGAN = datetime(2025, 9, 1, 9, tzinfo=UTC)
_MODULES = (
    "argparse", "bisect", "calendar", "cmd", "codecs", "configparser", "csv", "difflib", "fractions", "ftplib",
    "gettext", "heapq", "imaplib", "mailbox", "queue", "tarfile",
)  # fmt: skip
# Steps that look: a thought or none, a command; what they print is real code.
_LOOKS = (
    ("Let me read that part.", "sed -n '{n},{n}9p' {p}"), ("", "cat {p} | head -{n}"), ("", "git diff --stat"),
    ("Who else uses this?", "grep -rn {f} ."), ("Now what stands around it.", "nl -ba {p} | sed -n '{n},{n}5p'"),
    ("", "git status --short"), ("The tests next.", "ls -la tests"), ("", "git log -3 --format=%s -- {p}"),
)  # fmt: skip


@dataclass(slots=True)
class _Step:
    """`kind`: U a user's text, T the agent's, $ a command, E an edit of `text`, a path."""

    kind: str
    text: str
    label: str = ""
    output: list[str] = field(default_factory=list)
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Story:
    """`asked`: questions with the labels of the steps that answer."""

    held_out: bool
    format: str
    name: str
    path: str
    steps: list[_Step] = field(default_factory=list)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)


def transcripts() -> list[History]:
    """All runs in one store, asked about each half of them."""
    told = [(story, *_entries(story, n)) for n, story in enumerate(stories())]
    found = []
    for held_out in (False, True):
        entries: list[Entry] = []
        questions: list[Question] = []
        for story, mine, asked in told:
            if story.held_out == held_out:
                questions += _moved(asked, len(entries))
            entries += mine
        found.append(History("transcripts", held_out, entries, questions, "transcripts"))
    return found


def alone() -> list[History]:
    """Each run in a store of its own."""
    return [
        History(story.name, story.held_out, *_entries(story, n), "alone")
        for n, story in enumerate(stories())
    ]


def stories() -> list[_Story]:
    """As the file has them, with steps that look at code between."""
    found: list[_Story] = []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            half, form, name, path = line[3:].split()
            found.append(_Story(half == "held", form, name, path))
            continue
        _line(found[-1], line)
    for n, story in enumerate(found):
        story.steps = list(_mixed(story, random.Random(4_200 + n)))
    return found


def _line(story: _Story, line: str) -> None:
    if head := re.match(r"([UTE$])(?:\[(\w+)\])?: (.*)", line):
        story.steps.append(_Step(head[1], head[3], head[2] or ""))
        return
    mark, rest = line[:2].strip(), line[2:]
    step = story.steps[-1]
    if mark == "?:":
        text, _, gold = rest.rpartition(" | ")
        story.asked.append((text.strip(), tuple(gold.strip().split(","))))
    elif mark == "|":
        step.text += f"\n{rest.removeprefix('| ')}"
    elif mark == "" and rest.startswith("| "):
        step.text += f"\n{rest[2:]}"
    else:
        {">": step.output, "-": step.old, "+": step.new}[mark].append(rest)


def _mixed(story: _Story, rng: random.Random) -> Iterator[_Step]:
    lines = _lines(rng.choice(_MODULES))
    for step in story.steps:
        if "{code}" in step.output:
            at = step.output.index("{code}")
            step.output[at : at + 1] = _cut(lines, rng, 5, 30)
        yield step
        for _ in range(rng.randint(0, 2)):
            thought, command = rng.choice(_LOOKS)
            if thought:
                yield _Step("T", thought)
            function = rng.choice(re.findall(r"def (\w+)", "\n".join(lines)))
            n = str(rng.randint(11, 99))
            filled = command.replace("{n}", n).replace("{p}", story.path).replace("{f}", function)
            yield _Step("$", filled, output=_cut(lines, rng, 4, 25))
        # The last thing said is what came of it.
        if step is story.steps[-2]:
            yield story.steps[-1]
            return


@cache
def _lines(module: str) -> list[str]:
    file = Path(sysconfig.get_path("stdlib")) / f"{module}.py"
    return file.read_text(encoding="utf-8").splitlines()


def _cut(lines: Sequence[str], rng: random.Random, least: int, most: int) -> list[str]:
    start = rng.randrange(len(lines) - most)
    return list(lines[start : start + rng.randint(least, most)])


# -- the formats of agents -------------------------------------------------------------------------------


def _swe(story: _Story) -> bytes:
    """A trajectory of SWE-agent 1.x."""
    steps, thought, files = [], "", []
    for step in story.steps[1:]:
        if step.kind == "T":
            if thought:
                steps.append({"thought": thought, "action": "", "observation": ""})
            thought = step.text
            continue
        action, seen = step.text, "\n".join(step.output)
        if step.kind == "E":
            old, new = "\n".join(step.old), "\n".join(step.new)
            path = f"/testbed/{step.text}"
            action = f"str_replace_editor str_replace {path} --old_str {shlex.quote(old)} --new_str {shlex.quote(new)}"
            seen = f"The file {path} has been edited."
            if step.label != "first":
                files.append(edits.replaced(step.text, [(old, new)]))
        steps.append({"thought": thought, "action": action, "observation": seen})
        thought = ""
    steps.append({"thought": thought, "action": "submit", "observation": ""})
    issue = f"ISSUE:\n{story.steps[0].text}\n\nINSTRUCTIONS:\nFix it."
    return json.dumps(
        {
            "trajectory": steps,
            "history": [{"role": "user", "content": issue}],
            "info": {"exit_status": "submitted", "submission": "\n".join([*files, ""])},
        }
    ).encode()


def _claude(story: _Story) -> bytes:
    """A session of Claude Code."""
    root = f"/home/ana/src/{story.name}"
    lines: list[dict[str, Any]] = []

    def say(kind: str, content: object, **more: str) -> None:
        at = _BEGAN + timedelta(seconds=9 * len(lines))
        message = {"role": kind, "content": content, **more}
        lines.append(
            {
                "type": kind, "message": message, "cwd": root, "sessionId": f"s-{story.name}",
                "timestamp": at.isoformat().replace("+00:00", "Z"), "isSidechain": False,
            }
        )  # fmt: skip

    for n, step in enumerate(story.steps):
        if step.kind == "U":
            say("user", step.text)
        elif step.kind == "T":
            last = n == len(story.steps) - 1
            say(
                "assistant",
                [{"type": "text", "text": step.text}],
                stop_reason="end_turn" if last else "tool_use",
            )
        else:
            name, given, seen = "Bash", {"command": step.text}, "\n".join(step.output)
            if step.kind == "E":
                old, new = "\n".join(step.old), "\n".join(step.new)
                name, seen = "Edit", "The file has been updated."
                given = {
                    "file_path": f"{root}/{step.text}",
                    "old_string": old,
                    "new_string": new,
                }
            say("assistant", [{"type": "tool_use", "id": f"t{n}", "name": name, "input": given}])
            say("user", [{"type": "tool_result", "tool_use_id": f"t{n}", "content": seen}])
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


# -- what the importers make of them ---------------------------------------------------------------------


def _episodes(story: _Story) -> list[Episode]:
    options = Options(repo="runs", now=_BEGAN + timedelta(days=90))
    if story.format == "swe":
        read = swe_agent.read(io.BytesIO(_swe(story)), f"{story.name}.traj", options)
    else:
        read = claude_code.read(io.BytesIO(_claude(story)), f"{story.name}.jsonl", options)
    found = [one.episode for one in read if one.episode is not None]
    assert found, story.name
    return found


def _entries(story: _Story, number: int) -> tuple[list[Entry], list[Question]]:
    made = [(episode, a) for episode in _episodes(story) for a in episode.artifacts]
    at = _BEGAN + timedelta(days=3 * number)
    entries = [_entry(episode, a, at) for episode, a in made]
    places = _places(story, [a.content for _, a in made])
    questions = []
    for text, labels in story.asked:
        gold = frozenset(n for label in labels for n in places[label])
        # An edit that only a reflection tells of is there: what is missing altogether is not.
        questions.append(
            Question("transcript", text, frozenset(gold - {MISSING}) or frozenset([MISSING]))
        )
    return entries, questions


def _entry(episode: Episode, artifact: Artifact, at: datetime) -> Entry:
    named = symbols(artifact)
    role = str(artifact.meta.get("role", ""))
    return Entry(
        artifact.content,
        at,
        COLLECTION[artifact.kind],
        artifact.kind.value,
        source="system" if role == "tool" else "user" if role == "user" else "agent",
        path=artifact.path,
        symbol=named[0] if len(named) == 1 else "",
        session=episode.session_key,
        speaker=role or artifact.kind.value,
        context=context(episode.outcome.summary),
        type="episodic",
    )


def _places(story: _Story, texts: Sequence[str]) -> Mapping[str, list[int]]:
    """By label the items that have what the step says; edits may stand in several."""
    found: dict[str, list[int]] = {}
    after = 0
    for step in story.steps:
        if step.kind == "E":
            added = [f"+{line}" for line in step.new if line not in step.old]
            have = [n for n, text in enumerate(texts) if _has(text, added)]
        else:
            start = (f"$ {step.text}" if step.kind == "$" else step.text).partition("\n")[0][:70]
            n = next((n for n in range(after, len(texts)) if start in texts[n]), MISSING)
            have, after = [n], max(after, n + 1)
        if step.label:
            found[step.label] = have or [MISSING]
    return found


def _has(text: str, added: Sequence[str]) -> bool:
    lines = text.split("\n")
    return all(line in lines for line in added)


def _moved(asked: Sequence[Question], by: int) -> list[Question]:
    return [
        Question(q.kind, q.text, frozenset(g + by if g != MISSING else g for g in q.gold))
        for q in asked
    ]
