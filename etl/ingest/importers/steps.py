"""What agents do, as artifacts: messages, plans, commands, runs of tests, edits. Every format's steps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from etl.ingest.importers.costs import look_ups
from etl.ingest.importers.draft import Draft
from etl.ingest.importers.test_runs import commands, test_list
from etl.ingest.importers.test_runs.verdict import verdict
from etl.ingest.importers.trim import trim
from plait.domain.savings import Looked
from plait.domain.values import ArtifactKind

PROMPT = (400, 40_000)  # lines and characters of what people write
ANSWER = (200, 16_000)  # and of what the agent writes
COMMAND_CHARS = 2_000
MIN_CONCLUSION = 80  # characters of a thought that are worth keeping
MAX_CONCLUSION = 1_500

_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def typed(text: str) -> str:
    """`text` without what the agent's program put into it, recalled memories for one."""
    return _REMINDER.sub("", text) if "<system-reminder>" in text else text


def add_message(draft: Draft, role: str, text: str, meta: Mapping[str, Any] | None = None) -> int:
    """Add a turn; its place among the artifacts, -1 when there was nothing to add."""
    text = typed(text)
    lines, chars = PROMPT if role == "user" else ANSWER
    short = trim(text, lines, chars)
    before = len(draft.artifacts)
    draft.add(ArtifactKind.TURN, short.text, meta={"role": role, **(meta or {})})
    _cut(draft, short.cut)
    return before if len(draft.artifacts) > before else -1


def add_command(
    draft: Draft,
    command: str,
    output: str,
    meta: Mapping[str, Any] | None = None,
    *,
    failed: bool | None = None,
) -> None:
    """A command and its result: a test_result when it ran tests, else a turn.

    `failed` is None where the transcript does not say.
    """
    draft.count("commands")
    shown = f"$ {trim(command, 40, COMMAND_CHARS).text}"
    about: dict[str, Any] = {"role": "tool", "command": command[:COMMAND_CHARS], **(meta or {})}
    if failed is not None:
        about["failed"] = failed
        draft.count("commands_failed", int(failed))
    ran = commands.runner(command)
    if ran and (output.strip() or failed is not None):
        run = commands.read(ran, output)
        draft.tests = dict(run.counts)
        draft.tested = verdict(ran, command, output, run.counts, failed=failed)
        if output.strip():
            _add_tests(draft, run, shown, output, about)
            return
        draft.count("test_runs")
    if look_ups.of_command(command) is Looked.PLAIT:
        output = ""  # Plait's own answers: if stored, they would be recalled as somebody else's
    short = trim(output)
    _cut(draft, short.cut)
    draft.add(ArtifactKind.TURN, f"{shown}\n{short.text}".rstrip(), meta=about)


def _add_tests(
    draft: Draft, run: commands.Outcome, shown: str, output: str, meta: dict[str, Any]
) -> None:
    draft.count("test_runs")
    short = trim(output)
    _cut(draft, short.cut)
    text = f"{shown}\n{short.text}"
    for tests in test_list.portions(run.runs):
        about = {**meta, "runner": run.runner, "counts": run.counts, "tests": tests}
        draft.add(ArtifactKind.TEST_RESULT, text, meta=about)
        text = f"{shown}\n(more results of the same run)"


def add_plan(draft: Draft, text: str, meta: Mapping[str, Any] | None = None) -> int:
    before = len(draft.artifacts)
    draft.add(ArtifactKind.PLAN, trim(text, *PROMPT).text, meta=meta)
    return before if len(draft.artifacts) > before else -1


def add_reflection(draft: Draft, text: str, meta: Mapping[str, Any] | None = None) -> None:
    draft.add(ArtifactKind.REFLECTION, trim(text, *ANSWER).text, meta=meta)


def as_reflection(draft: Draft, place: int) -> str:
    """Make the turn at `place` a reflection: the last message is its result. Returns its text."""
    artifact = draft.artifacts[place]
    draft.artifacts[place] = replace(artifact, kind=ArtifactKind.REFLECTION)
    return artifact.content


def conclusion(thought: str) -> str:
    """A thought's last paragraph, if it is not trivial; "" else."""
    paragraphs = [p.strip() for p in thought.strip().split("\n\n") if p.strip()]
    last = paragraphs[-1] if paragraphs else ""
    return last[-MAX_CONCLUSION:] if len(last) >= MIN_CONCLUSION else ""


def todo_list(todos: Sequence[Any]) -> str:
    """`- [x] done`, `- [~] begun`, `- [ ] to do`, a line each."""
    marks = {"completed": "x", "done": "x", "in_progress": "~"}
    out = []
    for todo in todos[:200]:
        if isinstance(todo, Mapping):
            text = todo.get("content") or todo.get("subject") or todo.get("step") or ""
            mark = marks.get(str(todo.get("status", "")), " ")
            if isinstance(text, str) and text.strip():
                out.append(f"- [{mark}] {' '.join(text.split())[:500]}")
    return "\n".join(out)


def settle(draft: Draft, *, interrupted: bool = False, broken: bool = False) -> None:
    """The outcome's status and the counts, both of the last run of tests, with or without counts."""
    if draft.tests:
        for key, n in draft.tests.items():
            draft.metrics[{"error": "tests_errors"}.get(key, f"tests_{key}")] = n
    if interrupted:
        draft.status = "partial"
    elif broken:
        draft.status = "failure"
    elif draft.tested:
        draft.status = draft.tested


def _cut(draft: Draft, lines: int) -> None:
    if lines:
        draft.count("lines_cut", lines)
