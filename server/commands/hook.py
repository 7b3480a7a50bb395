"""`plait hook EVENT --agent NAME`: what an agent's hooks call. It exits 0 and says nothing when in doubt.

Agents take exit code 2 of a hook as "don't": so nothing here ends with another code than 0, not even a
wrong word on the command line.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

STARTING_S = 10.0  # until the settings are read, which say how long the rest may take

HELP = """\
usage: plait hook EVENT --agent NAME

What the hooks of an agent call (`plait install` sets them up). Reads the client's JSON from standard
input, asks the running service, and answers in the client's format: on standard output what is new to the
session, or nothing. Always exits with 0, after a second at most.

events:
  session-start   what is indexed, and how fresh it is
  after-edit      what else must change with the edit, and the tests to run
  before-search   where the names that are searched for are defined
  session-end     store the session's transcript, in the background

agents: claude-code, codex, gemini-cli, cursor

examples:
  plait hook session-start --agent claude-code < payload.json
  PLAIT_HOOKS__AFTER_EDIT=false my-agent          switches one hook off

See docs/hooks.md.
"""


def main(argv: Sequence[str] | None = None, prog: str = "plait hook") -> int:
    """Answer one hook; as a process it ends here, with code 0."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or "-h" in words or "--help" in words:
        print(HELP, end="")
        return 0
    _end_after(STARTING_S)
    try:
        output = run(words)
        if output:
            # One write of less than a pipe holds: whoever reads gets all of it or nothing.
            os.write(1, output.encode() + b"\n")
    except BaseException as exc:  # an agent's session must not see that its memory fails
        _tell(exc)
    # Not `return`: taking the interpreter and gRPC apart costs as much as the answer.
    os._exit(0)


def run(words: Sequence[str]) -> str:
    """What goes to standard output. May raise anything."""
    from server.hooks.agents import Event, agent_of

    event, name = _parsed(words)
    agent = agent_of(name)
    if event not in list(Event) or agent is None:
        raise ValueError(
            f"`plait hook {' '.join(words)[:200]}` is unknown; see `plait hook --help`"
        )
    from plait import settings

    loaded = settings.load()
    _end_after(loaded.hooks.limit_s)
    raw = _stdin()
    from server.hooks.answer import answer
    from server.hooks.payload import read

    return answer(Event(event), agent, read(raw), loaded)


def _parsed(words: Sequence[str]) -> tuple[str, str]:
    """Event and agent; what is unknown is passed over, as a later version may know it."""
    event, agent = "", "claude-code"
    rest = iter(words)
    for word in rest:
        if word == "--agent":
            agent = next(rest, "")
        elif word.startswith("--agent="):
            agent = word.removeprefix("--agent=")
        elif not word.startswith("-"):
            event = event or word
    return event, agent


def _stdin() -> bytes:
    """Standard input to its end, as far as a payload may be long."""
    from server.hooks.payload import MAX_BYTES

    parts: list[bytes] = []
    size = 0
    while size <= MAX_BYTES and (part := os.read(0, 2**20)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _end_after(limit_s: float) -> None:
    """End this process with code 0 then, whatever it is waiting for: a client that never closes our standard
    input, a service that took the call and hangs, a disk that does not answer. A thread, since a signal
    would have to wait for the main one."""

    def end() -> None:
        time.sleep(limit_s)
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()


def _tell(exc: BaseException) -> None:
    """One line on standard error, which agents show where a person asks for it."""
    with suppress(Exception):
        text = " ".join(str(exc).split())[:300]
        os.write(2, f"plait hook: {type(exc).__name__}: {text}\n".encode("utf-8", "replace"))
