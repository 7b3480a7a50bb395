"""Claude Code's tools: a call and its result to artifacts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from etl.ingest.importers import edits, steps
from etl.ingest.importers.costs import look_ups
from etl.ingest.importers.draft import Draft, inside
from etl.ingest.importers.jsonl import items, message_text, text
from etl.ingest.importers.trim import trim
from plait.domain.savings import Looked
from plait.domain.values import ArtifactKind

# Read-only tools: their results are in the repository or on the web, so they are not stored.
NOISE = frozenset({
    "Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "ToolSearch", "BashOutput",
    "KillShell", "KillBash", "TaskOutput", "TaskStop", "TaskList", "TaskGet", "TaskUpdate", "Skill",
    "SlashCommand", "EnterPlanMode", "ListMcpResourcesTool", "ReadMcpResourceTool", "LSP",
})  # fmt: skip

_EXIT = re.compile(r"(?:Error: )?Exit code (\d{1,3})\b")
_REFUSED = ("The user doesn't want to", "The user doesn’t want to", "[Request interrupted by user")
_USER_REPLY = re.compile(r"the user said:\s*(.+)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Call:
    """A `tool_use` block."""

    name: str
    input: Mapping[str, Any]
    meta: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """A `tool_result` block, and what Claude Code itself noted of it (`toolUseResult`)."""

    output: str
    failed: bool
    details: Mapping[str, Any]

    @classmethod
    def of(cls, block: Mapping[str, Any], details: object) -> Result:
        known = details if isinstance(details, dict) else {}
        return cls(message_text(block.get("content")), block.get("is_error") is True, known)


def add(draft: Draft, call: Call, result: Result | None, root: str) -> None:
    """What `call` did; `result` is None when the session ended before there was one."""
    draft.count("tool_calls")
    if result is not None and result.failed:
        draft.count("tool_errors")
        if result.output.startswith(_REFUSED):
            _refused(draft, call, result)
            return
    make = _TOOLS.get(call.name)
    if make is None and look_ups.of_tool(call.name, call.input) is Looked.PLAIT:
        return  # Plait's own answers: if stored, they would be recalled as somebody else's
    if make is not None:
        make(draft, call, result, root)
    elif call.name not in NOISE:
        _other(draft, call, result)


def _refused(draft: Draft, call: Call, result: Result) -> None:
    draft.count("tools_refused")
    if reply := _USER_REPLY.search(result.output):
        steps.add_message(draft, "user", reply[1], {**call.meta, "refused": call.name})


def _bash(draft: Draft, call: Call, result: Result | None, root: str) -> None:
    command = text(call.input, "command")
    output, failed = "", None
    meta = {"tool": call.name, **call.meta}
    if result is not None:
        streams = [text(result.details, "stdout"), text(result.details, "stderr")]
        output = "\n".join(s for s in streams if s) or result.output
        failed = result.failed
        if match := _EXIT.match(result.output):
            meta["exit_code"] = int(match[1])
        if result.details.get("interrupted") is True:
            meta["interrupted"] = True
        if call.input.get("run_in_background") is True:
            failed = None  # it runs in the background: its end is elsewhere
    if command.strip():
        steps.add_command(draft, command, output, meta, failed=failed)


def _edit(draft: Draft, call: Call, result: Result | None, root: str) -> None:
    if result is not None and result.failed:
        return  # nothing was changed
    pairs = [
        (text(e, "old_string"), text(e, "new_string"))
        for e in (items(call.input, "edits") or [call.input])[:1_000]
    ]
    created = result is not None and text(result.details, "type") == "create"

    def make(path: str) -> str:
        patch = result.details.get("structuredPatch") if result is not None else None
        return edits.patched(path, patch, created=created) or edits.replaced(path, pairs)

    _diff(draft, call, make, root)


def _write(draft: Draft, call: Call, result: Result | None, root: str) -> None:
    if result is not None and result.failed:
        return
    content = text(call.input, "content")
    details: Mapping[str, Any] = result.details if result is not None else {}
    before = text(details, "originalFile") or None

    def make(path: str) -> str:
        return edits.patched(path, details.get("structuredPatch")) or edits.written(
            path, before, content
        )

    _diff(draft, call, make, root)


def _diff(draft: Draft, call: Call, make: Callable[[str], str], root: str) -> None:
    """A diff of a file in the repository; of one elsewhere a turn, which is linked to no file."""
    named = text(call.input, "file_path") or text(call.input, "notebook_path")
    path = inside(named, root)
    meta = {"tool": call.name, **call.meta}
    if path:
        diff = make(path)
        if diff:
            draft.count("edits")
            draft.add(ArtifactKind.DIFF, diff, path, meta)
        return
    draft.count("edits_outside")
    body = trim(make(named.replace("\\", "/").lstrip("/") or "file"), 60).text
    steps.add_message(
        draft, "tool", f"{call.name} outside the repository: {named[:500]}\n{body}", meta
    )


def _notebook(draft: Draft, call: Call, result: Result | None, root: str) -> None:
    if result is not None and result.failed:
        return
    draft.count("edits")
    path = inside(text(call.input, "notebook_path"), root)
    cell = text(call.input, "cell_id") or "a cell"
    source = trim(text(call.input, "new_source")).text
    steps.add_message(
        draft, "tool", f"{call.name} {path}, {cell}:\n{source}", {"tool": call.name, **call.meta}
    )


def _todos(draft: Draft, call: Call, result: Result | None, root: str) -> None:
    """One plan a list: where only states changed, the plan shows the last ones."""
    listed = steps.todo_list(items(call.input, "todos"))
    meta = {"tool": call.name, **call.meta}
    for place in range(len(draft.artifacts) - 1, -1, -1):
        known = draft.artifacts[place]
        if known.kind is ArtifactKind.PLAN and known.meta.get("tool") == call.name:
            if _texts(known.content) == _texts(listed):
                before = len(draft.artifacts)
                steps.add_plan(draft, listed, meta)
                if len(draft.artifacts) > before:
                    draft.artifacts[place] = draft.artifacts.pop()
                return
            break
    steps.add_plan(draft, listed, meta)


def _texts(listed: str) -> list[str]:
    return [line[6:] for line in listed.split("\n")]


def _task_created(draft: Draft, call: Call, result: Result | None, root: str) -> None:
    """Tasks that are made one after the other are one plan."""
    listed = steps.todo_list([call.input])
    last = draft.artifacts[-1] if draft.artifacts else None
    if last is not None and last.kind is ArtifactKind.PLAN and last.meta.get("tool") == call.name:
        draft.artifacts.pop()
        listed = f"{last.content}\n{listed}"
    steps.add_plan(draft, listed, {"tool": call.name, **call.meta})


def _plan(draft: Draft, call: Call, result: Result | None, root: str) -> None:
    meta = {"tool": call.name, **call.meta}
    if result is not None:
        meta["approved"] = not result.failed
    details: Mapping[str, Any] = result.details if result is not None else {}
    steps.add_plan(draft, text(call.input, "plan") or text(details, "plan"), meta)


def _agent(draft: Draft, call: Call, result: Result | None, root: str) -> None:
    draft.count("subagents")
    prompt = trim(text(call.input, "prompt"), 60).text
    answered = trim(result.output, 120, 8_000).text if result is not None else ""
    title = text(call.input, "description")
    body = f"Subagent: {title}\n{prompt}\n\nIts answer:\n{answered}".rstrip()
    steps.add_message(draft, "tool", body, {"tool": call.name, **call.meta})


def _question(draft: Draft, call: Call, result: Result | None, root: str) -> None:
    questions = "\n".join(text(q, "question") for q in items(call.input, "questions")[:20])
    answered = result.output if result is not None else ""
    steps.add_message(draft, "user", f"{questions}\n{answered}", {"tool": call.name, **call.meta})


def _other(draft: Draft, call: Call, result: Result | None) -> None:
    """A tool that is not known (MCP servers' mostly): its input and result, short."""
    arguments = trim(json.dumps(call.input, ensure_ascii=False, default=str), 10, 1_000).text
    answered = trim(result.output, 30, 3_000).text if result is not None else ""
    failed = " failed" if result is not None and result.failed else ""
    body = f"{call.name[:200]}{failed} {arguments}\n{answered}".rstrip()
    steps.add_message(draft, "tool", body, {"tool": call.name[:200], **call.meta})


_TOOLS: dict[str, Callable[[Draft, Call, Result | None, str], None]] = {
    "Bash": _bash, "PowerShell": _bash, "Edit": _edit, "MultiEdit": _edit, "Write": _write,
    "NotebookEdit": _notebook, "TodoWrite": _todos, "TaskCreate": _task_created,
    "ExitPlanMode": _plan, "exit_plan_mode": _plan, "Task": _agent, "Agent": _agent,
    "AskUserQuestion": _question,
}  # fmt: skip
