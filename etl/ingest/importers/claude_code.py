"""Claude Code's sessions: `~/.claude/projects/*/*.jsonl`, one JSON object a line.

An episode is one turn: a prompt and all that follows until the agent ends its answer, is interrupted,
or falls silent for an hour. Sessions grow, so where a turn ends must not depend on what comes later:
each rule looks at lines before the end and at the first line after it. A turn that has not ended yet is
left for the next import, and a turn that has is read the same way in every later one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

from etl.ingest.episode_json import Read
from etl.ingest.importers import claude_tools as tools
from etl.ingest.importers import steps
from etl.ingest.importers.costs import claude_payments
from etl.ingest.importers.costs.payments import Payments
from etl.ingest.importers.draft import Draft, Options, repo_name, time_of
from etl.ingest.importers.jsonl import Line, items, lines, message_text, text

IDLE = timedelta(hours=1)  # a session this long without a line has ended its turn
MAX_PENDING = 1_000  # tool calls without a result yet
AGENT = "claude-code"

_INTERRUPTED = "[Request interrupted by user"
# Texts in user entries that were not typed.
_NOT_TYPED = (
    "<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>",
    "<user-memory-input>", "<task-notification>", "Caveat: The messages below", "<local-command-caveat>",
)  # fmt: skip
_COMMANDS = ("<command-name>", "<command-message>")
_COMMAND = re.compile(r"<command-name>\s*(/?[^<\n]{1,100}?)\s*</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_LOCAL = frozenset({
    "clear", "compact", "exit", "quit", "model", "cost", "help", "config", "login", "logout", "status",
    "resume", "mcp", "agents", "doctor", "memory", "context", "usage", "permissions", "hooks", "ide",
    "theme", "vim", "terminal-setup", "bug", "release-notes", "add-dir", "export", "rewind", "plugin",
})  # fmt: skip
_USAGE = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}


def read(stream: BinaryIO, name: str, options: Options) -> Iterator[Read]:
    """An episode a turn, in order; faulty lines as errors; an open turn as a note."""
    session = _Session(name, options)
    last: Line | None = None
    for line in lines(stream, name):
        if last is not None and last.error is not None:
            yield Read(last.number, None, last.error)
        last = line
        if line.value is not None:
            yield from session.feed(line)
    if last is not None and last.error is not None:
        if last.whole:
            yield Read(last.number, None, last.error)
        else:
            note = "the last line is not whole yet; import again when it is written"
            yield Read(last.number, None, note=note)
    yield from session.end()


class _Session:
    """Lines in, episodes out as their turns end."""

    def __init__(self, name: str, options: Options) -> None:
        self.name, self.options = name, options
        self.root = options.root
        self.repo = self.session = ""
        self.side_only: bool | None = (
            None  # a subagent's own file: all its lines are of a side chain
        )
        self.pending: dict[str, tools.Call] = {}
        self.others: list[bytes] = []  # lines that are no messages, before the next one that is
        self.others_size = 0
        self.last_time: datetime | None = None
        self.turn: _Turn | None = None
        self.part = 0  # of one turn: the next episode goes on with it
        self.payments = Payments()

    def feed(self, line: Line) -> Iterator[Read]:
        entry = line.value
        assert entry is not None
        kind = text(entry, "type")
        if kind not in ("user", "assistant") or not isinstance(entry.get("message"), dict):
            self._keep_other(line.raw)
            claude_payments.take(self.payments, entry)
            return
        self._learn(entry)
        time = time_of(entry.get("timestamp"))
        begins = self._begins_turn(entry, time)
        if begins or (self.turn and self.turn.draft.full):
            yield from self._close(split=not begins)
        self.last_time = time or self.last_time
        turn = self.turn or self._open(line, entry)
        for raw in [*self.others, line.raw]:
            turn.draft.keep(raw)
        self.others, self.others_size = [], 0
        claude_payments.take(self.payments, entry)
        turn.take(entry, time, side=self._side(entry))
        if turn.ended:
            yield from self._close()

    def _begins_turn(self, entry: Mapping[str, Any], time: datetime | None) -> bool:
        """Whether the turn before has ended: by an hour's silence, or by a prompt."""
        if time and self.last_time and time - self.last_time > IDLE:
            return True
        is_users = text(entry, "type") == "user" and not self._side(entry)
        return is_users and _prompt(entry) is not None

    def end(self) -> Iterator[Read]:
        turn = self.turn
        if turn is None:
            return
        now = self.options.now or datetime.now(UTC)
        if self.last_time is None or now - self.last_time > IDLE:
            yield from self._close()
        elif turn.draft.artifacts or self.pending:
            note = "the turn that begins here has not ended; import again when it has"
            yield Read(turn.draft.line, None, note=note)

    def _keep_other(self, raw: bytes) -> None:
        """Snapshots, titles and the like go into the evidence of the message after them."""
        if self.others_size + len(raw) <= 2**20:
            self.others.append(raw)
            self.others_size += len(raw)

    def _learn(self, entry: Mapping[str, Any]) -> None:
        """The first message determines these for the file."""
        folder = text(entry, "cwd")
        if self.side_only is None:
            self.side_only = entry.get("isSidechain") is True
        self.root = self.root or folder
        self.repo = self.repo or repo_name(folder)
        self.session = self.session or text(entry, "sessionId")

    def _side(self, entry: Mapping[str, Any]) -> bool:
        return entry.get("isSidechain") is True and not self.side_only

    def _open(self, line: Line, entry: Mapping[str, Any]) -> _Turn:
        draft = Draft(AGENT, self.options, self.name, "application/jsonl", line.number)
        draft.repo, draft.agent_id, draft.session_key = self.repo, AGENT, self.session
        draft.branch = text(entry, "gitBranch")
        draft.started_at = time_of(entry.get("timestamp"))
        draft.tags = [AGENT, *(["subagent"] if self.side_only else [])]
        draft.part = self.part
        if self.part:
            draft.tags.append("continued")
        self.turn = _Turn(draft, self.root, self.pending)
        return self.turn

    def _close(self, *, split: bool = False) -> Iterator[Read]:
        turn, self.turn = self.turn, None
        if turn is None:
            return
        turn.finish(self.last_time, whole=not split)
        self.part = self.part + 1 if split else 0
        if turn.draft.artifacts:
            turn.draft.metrics.update(self.payments.take())
            yield turn.draft.read()


class _Turn:
    """One prompt and what followed, as far as it goes into one episode."""

    def __init__(self, draft: Draft, root: str, pending: dict[str, tools.Call]) -> None:
        self.draft, self.root, self.pending = draft, root, pending
        self.ended = self.interrupted = self.broken = False
        self.final = -1  # index of the last message, while no action has followed it
        self.prompt = self.thought = ""
        self.usage: dict[str, Mapping[str, Any]] = {}

    def take(self, entry: Mapping[str, Any], time: datetime | None, *, side: bool) -> None:
        meta: dict[str, Any] = {"at": time.isoformat()} if time else {}
        if side:
            meta["sidechain"] = True
        if text(entry, "type") == "user":
            self._user(entry, meta, side)
        else:
            self._assistant(entry, meta, side)

    # -- what people and tools say --

    def _user(self, entry: Mapping[str, Any], meta: dict[str, Any], side: bool) -> None:
        content = entry["message"].get("content")
        for block in items(entry, "message", "content"):
            if text(block, "type") == "tool_result":
                self._result(block, entry.get("toolUseResult"))
        spoken = message_text(content)
        if spoken.lstrip().startswith(_INTERRUPTED):
            self.interrupted = self.ended = not side
            return
        if entry.get("isCompactSummary") is True:
            steps.add_reflection(self.draft, spoken, {**meta, "from": "compaction"})
            return
        if side:
            return  # a subagent's prompt is in the call that started it
        prompt = _prompt(entry)
        if prompt:
            self.prompt = self.prompt or prompt
            self.draft.count("prompts")
            steps.add_message(self.draft, "user", prompt, meta)

    def _result(self, block: Mapping[str, Any], details: object) -> None:
        call = self.pending.pop(text(block, "tool_use_id"), None)
        if call is not None:
            tools.add(self.draft, call, tools.Result.of(block, details), self.root)

    # -- the agent's messages and actions --

    def _assistant(self, entry: Mapping[str, Any], meta: dict[str, Any], side: bool) -> None:
        message = entry["message"]
        if entry.get("isApiErrorMessage") is True:
            self.draft.count("api_errors")
            self.broken = True
            return
        model = text(message, "model")
        if model and model != "<synthetic>":
            meta["model"] = model[:100]
        if isinstance(message.get("usage"), dict):
            self.usage[text(message, "id") or str(len(self.usage))] = message["usage"]
        spoke = [self._block(block, meta, side) for block in _blocks(message.get("content"))]
        if any(spoke) and not side and text(message, "stop_reason") == "end_turn":
            self.ended = True

    def _block(self, block: object, meta: Mapping[str, Any], side: bool) -> bool:
        """Read one block; whether it is a message of the agent to its user."""
        kind = text(block, "type")
        if kind == "tool_use" and isinstance(block, dict):
            self.final, self.broken = (self.final if side else -1), False
            given = block.get("input")
            call = tools.Call(text(block, "name"), given if isinstance(given, dict) else {}, meta)
            if len(self.pending) < MAX_PENDING:
                self.pending[text(block, "id")] = call
        elif kind == "thinking" and not side:
            self.thought = text(block, "thinking") or self.thought
        elif kind == "text" and text(block, "text").strip():
            if side:
                return False
            place = steps.add_message(self.draft, "assistant", text(block, "text"), meta)
            self.final, self.broken = place, False
            return place >= 0
        return False

    def finish(self, last: datetime | None, *, whole: bool = True) -> None:
        """Settle the draft. `last`: the time of the turn's last line; not `whole`: another part follows."""
        draft = self.draft
        if whole:
            for call in self.pending.values():
                tools.add(draft, call, None, self.root)
            self.pending.clear()
        self._count_usage()
        if draft.started_at and last and last > draft.started_at:
            draft.metrics["seconds"] = (last - draft.started_at).total_seconds()
        if whole:
            self._conclude()
        draft.summary = draft.summary or self.prompt
        steps.settle(draft, interrupted=self.interrupted, broken=self.broken)

    def _count_usage(self) -> None:
        for usage in self.usage.values():
            for key, metric in _USAGE.items():
                n = usage.get(key)
                if isinstance(n, int) and 0 <= n < 10**9:
                    self.draft.count(metric, n)

    def _conclude(self) -> None:
        """The agent's last message is the turn's summary; what it thought last may add to it."""
        if self.final < 0:
            return
        draft = self.draft
        draft.summary = steps.as_reflection(draft, self.final)
        learned = steps.conclusion(self.thought)
        if learned and learned not in draft.summary:
            steps.add_reflection(draft, learned, {"from": "thinking"})


def _blocks(content: object) -> list[object]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _prompt(entry: Mapping[str, Any]) -> str | None:
    """What the user typed; None for an entry that is a tool's result or the program's own."""
    if entry.get("isMeta") is True or entry.get("isCompactSummary") is True:
        return None
    blocks = items(entry, "message", "content")
    if any(text(block, "type") == "tool_result" for block in blocks):
        return None
    spoken = steps.typed(message_text(entry["message"].get("content"))).strip()
    if not spoken or spoken.startswith((*_NOT_TYPED, _INTERRUPTED)):
        return None
    return _command(spoken) if spoken.startswith(_COMMANDS) else spoken


def _command(spoken: str) -> str | None:
    """A slash command with its arguments; None for one that the program itself answers."""
    name = _COMMAND.search(spoken)
    if name is None or name[1].lstrip("/") in _LOCAL:
        return None
    given = _ARGUMENTS.search(spoken)
    return f"/{name[1].lstrip('/')} {given[1].strip() if given else ''}".strip()
