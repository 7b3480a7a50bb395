"""SWE-agent's trajectories (`.traj`: 0.x and 1.x) and mini-swe-agent's (`.traj.json`, 1 and 2).

One JSON object. Its texts are taken out one by one: `query`, which repeats the whole history at every
step, is skipped without being built.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, BinaryIO

import msgspec

from etl.ingest.episode_json import Read
from etl.ingest.importers import edits, steps
from etl.ingest.importers.costs import look_ups
from etl.ingest.importers.costs.payments import Payments
from etl.ingest.importers.draft import Draft, Options, inside, repo_name
from etl.ingest.importers.jsonl import items, message_text, text
from etl.ingest.importers.trim import trim
from etl.ingest.importers.unified import FilePatch, add_file, split
from plait.domain.errors import TranscriptInvalid
from plait.domain.savings import Looked
from plait.domain.values import ArtifactKind

MAX_BYTES = 64 * 2**20
MAX_VALUES = 3_000_000  # objects and lists: what `[[],[],…` would cost
MAX_STEPS = 20_000
MAX_FIELD_BYTES = 8 * 2**20
EVIDENCE_PIECE = 8 * 2**20
AGENT = "swe-agent"
TRIED = "An edit that was not kept as it is:"

_NULL = msgspec.Raw(b"null")
_FENCE = re.compile(
    r"```(?:bash|sh|shell|mswea_bash_command|[\w-]{0,40})\s*\n(.*?)\n```", re.DOTALL
)
_RETURNED = re.compile(r"<returncode>\s*(-?\d{1,6})\s*</returncode>")
_OUTPUT = re.compile(r"<output(?:_head)?>\n?(.*?)\n?</output(?:_tail|_head)?>", re.DOTALL)
_INSTANCE = re.compile(r"([A-Za-z0-9][\w.-]*?)__([\w.-]+?)-(\d+)(?:\.|\Z)")
_EDITOR = ("str_replace_editor", "edit_anthropic")
# A backslash, a whole pair, or half of one.
_ESCAPES = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_ENDING = ("submit", "exit_cost", "exit_forfeit", "skip")
_READING = ("open", "goto", "scroll_up", "scroll_down")
_SEARCHING = ("search_file", "search_dir", "find_file")
_LOOKING = (*_READING, *_SEARCHING)
_PROBLEM = re.compile(
    r"<pr_description>\s*(.*?)\s*</pr_description>|ISSUE:\s*(.*?)\s*INSTRUCTIONS:", re.DOTALL
)


class _Step(msgspec.Struct):
    action: msgspec.Raw = _NULL
    observation: msgspec.Raw = _NULL
    thought: msgspec.Raw = _NULL
    response: msgspec.Raw = _NULL
    execution_time: msgspec.Raw = _NULL


class _Message(msgspec.Struct):
    role: msgspec.Raw = _NULL
    content: msgspec.Raw = _NULL
    is_demo: msgspec.Raw = _NULL
    tool_calls: msgspec.Raw = _NULL
    extra: msgspec.Raw = _NULL


class _Trajectory(msgspec.Struct):
    trajectory: list[_Step] | None = None
    history: list[_Message] | None = None
    messages: list[_Message] | None = None
    info: msgspec.Raw = _NULL
    instance_id: msgspec.Raw = _NULL
    trajectory_format: msgspec.Raw = _NULL


_DECODER = msgspec.json.Decoder(_Trajectory)


def read(stream: BinaryIO, name: str, options: Options) -> Iterator[Read]:
    """One episode a run; more of one session where it is long.

    Raises: TranscriptInvalid.
    """
    raw = stream.read(MAX_BYTES + 1)
    run = _decode(raw, name)
    yield from (draft.read() for draft in _Run(run, raw, name, options).drafts())


def _decode(raw: bytes, name: str) -> _Trajectory:
    if len(raw) > MAX_BYTES:
        raise TranscriptInvalid(
            f"{name}: is larger than {MAX_BYTES:,} bytes; take the `query` fields out of its steps",
            file=name,
        )
    if raw.count(b"{") + raw.count(b"[") > MAX_VALUES:
        raise TranscriptInvalid(f"{name}: holds too many values; it is no trajectory", file=name)
    try:
        run = _decoded(raw.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise TranscriptInvalid(
            f"{name}: is no SWE-agent trajectory ({str(exc)[:200]}); write the file again",
            file=name,
        ) from exc
    if run.trajectory is None and run.messages is None:
        raise TranscriptInvalid(
            f"{name}: has neither `trajectory` nor `messages`; it is no SWE-agent trajectory",
            file=name,
        )
    if not (run.trajectory or run.messages or text(_value(run.info), "submission").strip()):
        raise TranscriptInvalid(
            f"{name}: its trajectory is empty: the run did nothing, so there is nothing to store",
            file=name,
        )
    return run


def _decoded(raw: bytes) -> _Trajectory:
    """Python writes half a surrogate pair as it is, and the decoder refuses it, wherever it stands."""
    try:
        return _DECODER.decode(raw)
    except msgspec.DecodeError:
        mended = _ESCAPES.sub(_mend, raw) if b"\\ud" in raw.lower() else raw
        if mended == raw:
            raise
        return _DECODER.decode(mended)


def _mend(match: re.Match[bytes]) -> bytes:
    return match[0] if len(match[0]) != 6 else b"\\ufffd"


def _value(raw: msgspec.Raw) -> Any:
    """The JSON value of a field; None for one that is too large or broken."""
    body = bytes(raw)
    if len(body) > MAX_FIELD_BYTES or body.count(b"{") + body.count(b"[") > 100_000:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _string(raw: msgspec.Raw) -> str:
    return message_text(_value(raw))


class _Run:
    """One trajectory to drafts."""

    def __init__(self, run: _Trajectory, raw: bytes, name: str, options: Options) -> None:
        self.run, self.raw, self.name, self.options = run, raw, name, options
        info = _value(run.info)
        self.info: Mapping[str, Any] = info if isinstance(info, dict) else {}
        patch = text(self.info, "submission")
        self.submitted = frozenset(patch.replace("\r\n", "\n").split("\n"))
        self.out: list[Draft] = []
        self.written: list[tuple[str, str]] = []  # (path, diff) of editor commands
        self.began: datetime | None = None
        self.thought = ""
        self.payments = Payments()
        self.final: tuple[Draft, int] | None = None  # the last message, with no action after it

    def drafts(self) -> list[Draft]:
        self._room()
        if self.run.trajectory is not None:
            self._old()
        else:
            self._mini(self.run.messages or [])
        self._submission()
        self._finish()
        return self.out

    def _room(self) -> Draft:
        if not self.out or self.out[-1].full:
            if self.out:
                self.out[-1].metrics.update(self.payments.take())
            draft = Draft(AGENT, self.options, self.name, "application/json", part=len(self.out))
            draft.agent_id, draft.tags = AGENT, [AGENT]
            self.out.append(draft)
        return self.out[-1]

    # -- SWE-agent --

    def _old(self) -> None:
        for message in (self.run.history or [])[:50]:
            role = _value(message.role)
            if role == "user" and _value(message.is_demo) is not True:
                self._prompt(_string(message.content))
                break
            if role == "assistant" and _value(message.is_demo) is not True:
                break
        for n, step in enumerate((self.run.trajectory or [])[:MAX_STEPS]):
            thought, action = _string(step.thought).strip(), _string(step.action).strip()
            self.payments.window().call()
            self._think(thought or ("" if action else _string(step.response)), n)
            if action:
                observation = _string(step.observation)
                self._act(action, observation, {"step": n})
                self._pay(n, action, observation)
            took = _value(step.execution_time)
            if isinstance(took, int | float) and 0 < took < 1e7:
                self.out[0].count("execution_seconds", round(took, 3))

    def _prompt(self, content: str) -> None:
        if not content.strip():
            return
        draft = self._room()
        draft.count("prompts")
        if match := _PROBLEM.search(content):
            content = match[1] or match[2] or content
        steps.add_message(draft, "user", content)

    def _think(self, thought: str, step: int) -> None:
        if thought.strip():
            self.thought = thought.strip()
            draft = self._room()
            place = steps.add_message(draft, "assistant", thought, {"step": step})
            self.final = (draft, place) if place >= 0 else None

    def _act(
        self, action: str, observation: str, meta: dict[str, Any], code: int | None = None
    ) -> None:
        draft = self._room()
        draft.count("tool_calls")
        word = action.split(None, 1)[0]
        if word in _ENDING:
            return
        self.final = None
        if word in _EDITOR:
            self._edit(draft, action, observation, meta)
        elif word not in _LOOKING:
            if code is not None:
                meta = {**meta, "exit_code": code}
            failed = None if code is None else code != 0
            steps.add_command(draft, action, observation, meta, failed=failed)

    def _pay(self, step: int, action: str, observation: str) -> None:
        window = self.payments.window()
        window.tool_called(f"step {step}", action, _looked(action))
        window.tool_returned(f"step {step}", observation)

    def _edit(self, draft: Draft, action: str, observation: str, meta: Mapping[str, Any]) -> None:
        """What the editor changed; looking at a file is left out. The submission has the whole diff;
        edits replace it where there is none. Edits that are not in it become turns, since the final
        file is without them."""
        given = _arguments(action)
        if given is None or given.get("command") == "view":
            return
        path = _in_repository(given.get("path", ""), self.options.root)
        if "No replacement was performed" in observation or not path:
            draft.count("tool_errors" if path else "edits_outside")
            return
        old, new = given.get("old_str", ""), given.get("new_str", given.get("file_text", ""))
        made = given.get("command") == "create"
        diff = edits.written(path, None, new) if made else edits.replaced(path, [(old, new)])
        draft.count("edits")
        if diff and given.get("command") in ("create", "str_replace") and len(self.written) < 2_000:
            self.written.append((path, diff))
        hunks = diff[diff.find("\n@@ ") + 1 :]
        if diff and not self._submits(hunks):
            short = trim(hunks)
            draft.count("edits_dropped")
            draft.add(
                ArtifactKind.TURN,
                f"{TRIED}\n{short.text}",
                path,
                {**meta, "role": "tool", "tool": "edit"},
            )

    def _submits(self, hunks: str) -> bool:
        """Whether the submission has what `hunks` add, or take away where they add nothing. True too where
        nothing was submitted, since the diff itself is stored then."""
        lines = [x for x in hunks.split("\n") if x.startswith(("+", "-"))]
        telling = [x for x in lines if x[0] == "+" and x[1:].strip()] or lines
        return not any(self.submitted) or all(x in self.submitted for x in telling)

    # -- mini-swe-agent --

    def _mini(self, messages: Sequence[_Message]) -> None:
        waiting: list[str] = []
        for n, message in enumerate(messages[:MAX_STEPS]):
            role, content, extra = (
                _value(message.role),
                _string(message.content),
                _value(message.extra),
            )
            self._time(extra)
            if role == "assistant":
                self._called(content, extra)
                waiting = _commands(content, _value(message.tool_calls), extra)
                self._think(_FENCE.sub("", content).replace("THOUGHT:", "").strip(), n)
            elif role in ("user", "tool", "exit") and waiting:
                command = waiting.pop(0)
                output, code = _observed(content, extra)
                self._act(command, output, {"step": n}, code)
                self._pay(n, command, content)
            elif role == "user" and not any(d.artifacts for d in self.out):
                self._prompt(content)

    def _called(self, content: str, extra: object) -> None:
        response = extra.get("response") if isinstance(extra, dict) else None
        window = self.payments.window()
        window.call(usage=response.get("usage") if isinstance(response, dict) else None)
        window.wrote(_FENCE.sub("", content))

    def _time(self, extra: object) -> None:
        at = extra.get("timestamp") if isinstance(extra, dict) else None
        if self.began is None and isinstance(at, int | float) and 0 < at < 4e9:
            self.began = datetime.fromtimestamp(at, UTC)

    # -- the end --

    def _submission(self) -> None:
        patch = text(self.info, "submission")
        files, _ = split(patch.replace("\r\n", "\n")) if patch.strip() else ([], "")
        for file in files[:2_000]:
            add_file(self._room(), file, submitted=True)
        if files:
            return
        for path, diff in self.written:
            made = FilePatch(path=path)
            for line in diff.split("\n"):
                made.add(line)
            add_file(self._room(), made, submitted=False)

    def _finish(self) -> None:
        first, last = self.out[0], self.out[-1]
        if self.final is not None:
            steps.as_reflection(*self.final)
        status = text(self.info, "exit_status").strip()
        last.metrics.update(_stats(self.info))
        last.metrics.update(self.payments.take())
        name = _string(self.run.instance_id) or re.sub(r"\.traj(\.json)?\Z", "", _base(self.name))
        match = _INSTANCE.match(name)
        pieces = [self.raw[i : i + EVIDENCE_PIECE] for i in range(0, len(self.raw), EVIDENCE_PIECE)]
        while len(self.out) < len(pieces):
            self.out.append(
                Draft(AGENT, self.options, self.name, "application/json", part=len(self.out))
            )
            self.out[-1].agent_id = AGENT
        first.summary = f"{name}: {status or 'no exit status'}. {self.thought}".strip()
        run = next((d for d in reversed(self.out) if d.tested), None)
        for n, draft in enumerate(self.out):
            draft.identity, draft.session_key, draft.started_at = self.raw, name, self.began
            draft.repo = f"{match[1]}/{match[2]}" if match else repo_name(text(self.info, "repo"))
            if run is not None and not draft.tested:
                draft.tests, draft.tested = run.tests, run.tested
            if n < len(pieces):
                draft.keep(pieces[n])
            steps.settle(draft)
            draft.status = _status(
                status, draft.status, bool(text(self.info, "submission").strip())
            )


def _looked(action: str) -> Looked | None:
    """Of SWE-agent's own commands, or the shell's."""
    words = action.split(None, 2)
    if words[0] in _READING or (words[0] in _EDITOR and words[1:2] == ["view"]):
        return Looked.READ
    return Looked.SEARCH if words[0] in _SEARCHING else look_ups.of_command(action)


def _status(exit_status: str, tests: str, submitted: bool) -> str:
    """A submitted patch is no success by itself: nobody ran the issue's tests. The result of the
    agent's own last tests stands; a run that ended otherwise is partial with a patch, else a failure."""
    if exit_status.lower() in ("submitted", "submit"):
        return tests if submitted else "failure"
    if not exit_status:
        return tests
    return "partial" if submitted else "failure"


def _stats(info: Mapping[str, Any]) -> dict[str, float]:
    stats = info.get("model_stats")
    names = {
        "instance_cost": "cost_usd", "tokens_sent": "input_tokens", "api_calls": "api_calls",
        "tokens_received": "output_tokens",
    }  # fmt: skip
    out: dict[str, float] = {}
    for key, metric in names.items():
        n = stats.get(key) if isinstance(stats, dict) else None
        if isinstance(n, int | float) and not isinstance(n, bool) and 0 <= n < 1e15:
            out[metric] = float(n)
    return out


def _arguments(action: str) -> dict[str, str] | None:
    """`str_replace_editor str_replace /path --old_str '…' --new_str '…'`, as a shell would read it."""
    try:
        words = shlex.split(action[:1_000_000])
    except ValueError:
        return None
    if len(words) < 3:
        return None
    out = {"command": words[1], "path": words[2]}
    key = ""
    for word in words[3:]:
        if word.startswith("--") and len(word) < 30 and word[2:].replace("_", "").isalpha():
            key = word[2:]
        elif key:
            out[key], key = word, ""
    return out


def _in_repository(path: str, root: str) -> str:
    """SWE-agent's container has the repository as /testbed, /repo or /owner__name."""
    if found := inside(path, root):
        return found
    match = re.match(r"/(?:testbed|repo|workspace|[\w.-]+__[\w.-]+)/(.+)", path)
    return inside(match[1], "") if match else ""


def _commands(content: str, tool_calls: object, extra: object) -> list[str]:
    """The commands of an assistant's message, in order."""
    found = [text(action, "command") for action in items(extra, "actions")[:100]]
    if not any(found) and isinstance(tool_calls, list):
        for call in tool_calls[:100]:
            given = text(call, "function", "arguments")
            try:
                found.append(text(json.loads(given), "command"))
            except (ValueError, RecursionError):
                continue
    if not any(found):
        found = _FENCE.findall(content)[:1]
    return [command for command in found if command.strip()]


def _observed(content: str, extra: object) -> tuple[str, int | None]:
    """`(output, exit code)` of what followed a command."""
    output = text(extra, "raw_output")
    code = extra.get("returncode") if isinstance(extra, dict) else None
    if match := _RETURNED.search(content):
        code = int(match[1]) if code is None else code
    if not output:
        parts = _OUTPUT.findall(content)
        output = "\n".join(parts) if parts else content
    return output, code if isinstance(code, int) else None


def _base(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2]
