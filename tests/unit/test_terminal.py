"""What is written, and to whom: a pipe whose reader has enough, a terminal that wants no styling."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from rich.text import Text

from plait import terminal

MANY = """
import argparse
from server.commands import frame
from server.commands.output import show

def work():
    out = show.console()
    for number in range(100_000):
        {say}
    return frame.OK

raise SystemExit(frame.run(argparse.Namespace(json=False, debug=False), work))
"""
SAYINGS = {"rich": "out.print(f'line {number}')", "print": "print('line', number)"}


def piped(*command: str) -> subprocess.CompletedProcess[str]:
    """`command` in a pipe into a reader that takes one line."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", '"$@" | head -1', "bash", *command],
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("say", SAYINGS.values(), ids=SAYINGS)
def test_a_reader_that_has_enough_is_no_failure(say: str) -> None:
    done = piped(sys.executable, "-c", MANY.format(say=say))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "line 0\n"


@pytest.mark.parametrize("words", [["--help"], ["version"], ["search", "--help"]])
def test_nobody_reads_what_is_said_last(words: list[str]) -> None:
    command = '"$@" | sh -c "exec <&-; sleep 0.2"'
    done = subprocess.run(
        [
            "bash",
            "-o",
            "pipefail",
            "-c",
            command,
            "bash",
            sys.executable,
            "-m",
            "server.cli",
            *words,
        ],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "value", "styled"),
    [("NO_COLOR", "1", False), ("TERM", "dumb", False), ("TERM", "xterm-256color", True)],
)
def test_styling(name: str, value: str, styled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(name, value)
    written = io.StringIO()
    out = terminal.console(file=written, force_terminal=True)
    out.print(Text("bold", style="bold underline"), Text("red", style="red"))
    assert ("\x1b" in written.getvalue()) is styled
    assert "bold" in written.getvalue()
