"""One turn of a conversation, and the memories to make of it: pure functions.

No model is called. The rules are few; `custom.rule` of a memory names the one that made it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from plait.domain.memory import NO_ID, MemoryEntry, MemoryMetadata, MemorySource, MemoryType
from plait.memory.entry import (
    MAX_CONTENT_BYTES,
    MAX_NAME_BYTES,
    canonical,
    check_text,
    fail,
)
from plait.memory.recalled import paragraphs, without_recalled

MAX_OUTCOMES = 100
MAX_TURN_BYTES = 4 * 2**20
MAX_STATEMENTS = 20  # a turn
MAX_STATEMENT = 600  # characters
# Of a tool's output: its first and last lines, and the lines about errors between them.
HEAD_LINES, TAIL_LINES, TELLING_LINES = 6, 12, 24
MAX_LINE = 300  # characters

TRIVIAL = "the turn says nothing to remember"
RECALLED = "all that the turn says is in memory already"
COMMAND = "the turn is a command to the agent's own shell"

# What people say to agree, thank or go on.
_FILLER = frozenset(
    re.findall(
        r"\w+",
        "ok okay k kk yes yep yeah y no nope n thanks thank thx ty you great good nice cool perfect"
        " sure please go ahead on continue next proceed done fine right correct lgtm hi hello hey bye"
        " awesome do it that looks all very much so well got works now sounds yup agreed exactly",
    )
)
_COMMAND = re.compile(r"/[a-z][\w:-]{0,40}(\s.{0,200})?")
_WORD = re.compile(r"[^\W_]+")

_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]*)*[.!?]*")
# Instructions, conventions and facts, recognised by how people phrase them.
_RULES: tuple[tuple[str, MemoryType, float, re.Pattern[str]], ...] = (
    (
        "remember",
        MemoryType.SEMANTIC,
        0.9,
        re.compile(
            r"\b(?:please )?(?:remember|note|keep in mind|don'?t forget)\b(?: that| to|:|,)", re.I
        ),
    ),
    (
        "instruction",
        MemoryType.PROCEDURAL,
        0.85,
        re.compile(
            r"^(?:\W*|.{0,60}[,;:] |(?:you |we |please |and |but |so )+(?:should |must |have to )?)"
            r"(?:always|never|from now on|in future|every time|whenever|do not ever|don'?t ever)\b",
            re.I,
        ),
    ),
    (
        "convention",
        MemoryType.PROCEDURAL,
        0.75,
        re.compile(
            r"\b(?:(?:we|this (?:project|repo|repository|codebase)) (?:always |never |only |don'?t |do not )?"
            r"(?:use|uses|prefer|prefers|follow|follows|run|runs|deploy|write|writes|put|puts|avoid|avoids|keep|require|requires)"
            r"|(?:i|we) (?:prefer|want you to|like|hate|expect)|our (?:convention|style|rule|policy|process)"
            r"|must (?:always|never)|make sure (?:to|that|you)|instead of)\b",
            re.I,
        ),
    ),
)
_QUESTION = re.compile(r"\?\s*$")
_TELLING = re.compile(
    r"error|exception|traceback|fail|fatal|panic|assert|warning|denied|refused|not found|timed? ?out"
    r"|undefined|cannot|can't|unexpected|\bpassed\b|^\s*E\s|^[+-]{3} ",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"^\s*$|^[\s\-=*_.#~|+]+$|\b\d{1,3}%|^\s*(?:downloading|fetching|resolving|collecting|extracting"
    r"|compiling|installing|requirement already satisfied|get:\d|hit:\d)\b",
    re.IGNORECASE,
)
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;?]{0,20}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])"
)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """One tool's output. `command`: its input, as written."""

    tool: str
    result: str
    command: str = ""
    succeeded: bool = True


@dataclass(frozen=True, slots=True)
class Turn:
    user_message: str = ""
    assistant_reasoning: str = ""
    outcomes: tuple[ToolOutcome, ...] = ()


def check_turn(turn: Turn) -> None:
    """Raises: MemoryInvalid, naming the field at fault."""
    if not (turn.user_message.strip() or turn.assistant_reasoning.strip() or turn.outcomes):
        fail("user_message", "and the rest of the turn are empty", "send what was said or done")
    if len(turn.outcomes) > MAX_OUTCOMES:
        fail("tool_outcomes", f"has {len(turn.outcomes)} entries", f"send at most {MAX_OUTCOMES}")
    total = 0
    for field, text in _texts(turn):
        check_text(text, field, MAX_CONTENT_BYTES)
        total += len(text.encode())
    if total > MAX_TURN_BYTES:
        fail("turn", f"is {total:,} bytes, more than {MAX_TURN_BYTES:,}", "send it in parts")
    for outcome in turn.outcomes:
        if not outcome.tool.strip():
            fail("tool_outcomes.tool", "is empty", "name the tool")
        check_text(outcome.tool, "tool_outcomes.tool", MAX_NAME_BYTES)


def _texts(turn: Turn) -> Iterator[tuple[str, str]]:
    yield "user_message", turn.user_message
    yield "assistant_reasoning", turn.assistant_reasoning
    for outcome in turn.outcomes:
        yield "tool_outcomes.command", outcome.command
        yield "tool_outcomes.content", outcome.result


def body_of(turn: Turn) -> bytes:
    """The canonical JSON of the whole turn."""
    outcomes = [[o.tool, o.command, o.result, o.succeeded] for o in turn.outcomes]
    return canonical([turn.user_message, turn.assistant_reasoning, outcomes])


# -- the user's message ------------------------------------------------------------------------------------


def trivial(text: str) -> str:
    """Why `text` holds nothing worth storing; "" when it does."""
    bare = text.strip()
    if not bare:
        return TRIVIAL
    if _COMMAND.fullmatch(bare):
        return COMMAND
    if len(bare) > 120:
        return ""
    words = [word.casefold() for word in _WORD.findall(bare)]
    return TRIVIAL if all(word in _FILLER for word in words) else ""


@dataclass(frozen=True, slots=True)
class Statement:
    text: str
    rule: str
    type: MemoryType
    importance: float


def statements(message: str) -> list[Statement]:
    """Preferences, conventions and things to remember that a person states. Fenced code and questions
    are skipped."""
    found: dict[str, Statement] = {}
    for part in paragraphs(message):
        if part.lstrip().startswith(("```", "~~~", ">", "|")):
            continue
        for match in _SENTENCE.finditer(part[:50_000]):
            text = match[0].strip().lstrip("-*• ").strip()
            if not 8 <= len(text) <= MAX_STATEMENT or _QUESTION.search(text):
                continue
            for rule, type_, importance, pattern in _RULES:
                if pattern.search(text):
                    found.setdefault(text, Statement(text, rule, type_, importance))
                    break
            if len(found) == MAX_STATEMENTS:
                return list(found.values())
    return list(found.values())


# -- tools' output ------------------------------------------------------------------------------------------


def reduced(result: str) -> str:
    """A tool's output without noise: its first and last lines and the lines about errors between them;
    gaps are marked with the number of lines left out."""
    lines = [_bare(line) for line in result.split("\n")]
    lines = [line for line in lines if not _NOISE.search(line) or _TELLING.search(line)]
    if len(lines) <= HEAD_LINES + TAIL_LINES + TELLING_LINES // 2:
        return "\n".join(lines)
    between = range(HEAD_LINES, len(lines) - TAIL_LINES)
    telling = [i for i in between if _TELLING.search(lines[i])][:TELLING_LINES]
    chosen = [*range(HEAD_LINES), *telling, *range(len(lines) - TAIL_LINES, len(lines))]
    out: list[str] = []
    for before, i in zip([-1, *chosen], chosen, strict=False):
        if i - before > 1:
            out.append(f"[… {i - before - 1} lines]")
        out.append(lines[i])
    return "\n".join(out)


def _bare(line: str) -> str:
    """As a terminal shows it in the end: after its last carriage return, without colours."""
    shown = line.rstrip("\r").rpartition("\r")[2]
    return _ESCAPES.sub("", shown[: 4 * MAX_LINE])[:MAX_LINE].rstrip()


def outcome_text(outcome: ToolOutcome) -> str:
    """The text of one memory of a tool's run; "" for a success without output and command."""
    result = reduced(without_recalled(outcome.result)).strip()
    if outcome.succeeded and not result and not outcome.command:
        return ""
    command = outcome.command.strip()
    command = command if len(command) <= 2_000 else command[:2_000] + " …"
    head = f"{outcome.tool}{' ' + command if command else ''} → {'succeeded' if outcome.succeeded else 'failed'}"
    return f"{head}\n{result}" if result else head


# -- the memories of a turn ------------------------------------------------------------------------------------


def memories(
    repo: str, agent_id: str, session_key: str, turn: Turn
) -> tuple[list[MemoryEntry], str]:
    """The memories of a turn, in its order, and the reason when there are none. Text with the marks of a
    recall is left out; `learn` finds text that merely equals a memory."""
    base = MemoryEntry(
        NO_ID, repo, agent_id, "", MemoryMetadata(session_key=session_key), kind="turn"
    )
    message_text, cause = _new_text(turn.user_message)
    out: list[MemoryEntry] = []
    if message_text:
        laid_down = statements(message_text)
        # A message that is nothing but a statement is one memory.
        if [s.text for s in laid_down] != [message_text]:
            out.append(
                _entry(base, message_text, MemorySource.USER, MemoryType.EPISODIC, 0.5, "said")
            )
        out += [
            _entry(base, s.text, MemorySource.USER, s.type, s.importance, s.rule, kind="memory")
            for s in laid_down
        ]
    reasoning, other = _new_text(turn.assistant_reasoning)
    if reasoning:
        out.append(
            _entry(base, reasoning, MemorySource.AGENT, MemoryType.EPISODIC, 0.4, "reasoning")
        )
    for outcome in turn.outcomes:
        if text := outcome_text(outcome):
            weight = 0.3 if outcome.succeeded else 0.6
            entry = _entry(base, text, MemorySource.SYSTEM, MemoryType.EPISODIC, weight, "tool")
            out.append(_of_tool(entry, outcome))
    return out, "" if out else cause or other or TRIVIAL


def _new_text(text: str) -> tuple[str, str]:
    """The new text of a message, and the reason when there is none."""
    left = without_recalled(text).strip()
    if not left:
        return "", RECALLED if text.strip() else ""
    cause = trivial(left)
    return ("", cause) if cause else (left, "")


def _entry(
    base: MemoryEntry,
    content: str,
    source: MemorySource,
    type_: MemoryType,
    importance: float,
    rule: str,
    *,
    kind: str = "turn",
) -> MemoryEntry:
    metadata = replace(base.metadata, source=source, importance=importance, custom={"rule": rule})
    return replace(base, content=content, metadata=metadata, type=type_, kind=kind)


def _of_tool(entry: MemoryEntry, outcome: ToolOutcome) -> MemoryEntry:
    custom = {"rule": "tool", "tool": outcome.tool, "succeeded": outcome.succeeded}
    return replace(entry, metadata=replace(entry.metadata, custom=custom))


def without_paragraphs(entries: Sequence[MemoryEntry], known: set[str]) -> list[MemoryEntry]:
    """`entries` without the paragraphs that are `known`; those of which nothing is left go."""
    out = []
    for entry in entries:
        parts = paragraphs(entry.content)
        left = [part for part in parts if part not in known]
        if len(left) == len(parts):
            out.append(entry)
        elif left:
            out.append(replace(entry, content="\n\n".join(left)))
    return out
