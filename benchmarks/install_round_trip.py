"""Bytes that differ after `plait install` and `plait uninstall`, for every agent and scope.

    python -m benchmarks.install_round_trip [--large MB]

For each agent: a home with nothing of it; files as users have them (comments, tabs, CRLF, trailing commas, no
last line end, empty files); and large files. Printed beside it: whether a second install
changed a byte, and the time of a plan over the large file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter

from server.install import apply, machine, plan
from server.install.agents import AGENTS, Agent, Form, Scope
from server.install.machine import Machine
from server.install.plan import NOTHING, Wanted

JSONS = (
    b"{}",
    b"",
    b'{\n  "a": 1\n}\n',
    b'\xef\xbb\xbf{\r\n\t// mine\r\n\t"a": [1, 2,],\r\n}',
    b'{"mcpServers": {}, "hooks": {"SessionStart": []}}',
    b'{\n  "servers": {\n    "x": {} // mine\n  }, /* c */\n}\n',
)
TOMLS = (
    b"",
    b"a = 1",
    b'# mine\r\n[mcp_servers.x]\r\ncommand = "y"\r\n',
    b'a = 1\n\n[projects."/p"]\n\n',
)
TEXTS = (b"", b"# Mine", b"# Mine\r\n\r\n", b"\n\n", b"\xef\xbb\xbfmine\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--large", type=float, default=10.0, help="MB of the large files")
    size = int(parser.parse_args().large * 1_000_000)
    total = 0
    print(f"{'agent':<12} {'files':>5} {'homes':>5} {'differ':>6} {'2nd install':>11} {'large':>7}")
    for agent in AGENTS:
        files, homes, differ, again = 0, 0, 0, 0
        for scope in Scope:
            for turn in range(len(JSONS) + 1):
                wrote, bytes_off, changed = round_trip(agent, scope, turn)
                files, homes = files + wrote, homes + 1
                differ, again = differ + bytes_off, again + changed
        seconds, off = large(agent, size)
        differ += off
        total += differ + again
        print(f"{agent.name:<12} {files:>5} {homes:>5} {differ:>6} {again:>11} {seconds:>6.1f}s")
    print(f"bytes that differ after install + uninstall: {total}")
    return 1 if total else 0


def round_trip(agent: Agent, scope: Scope, turn: int) -> tuple[int, int, int]:
    """Files written, bytes that differ afterwards, and files that a second install changed."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        here = a_machine(root)
        if turn:
            fill(agent, scope, here, turn - 1)
        before = contents(root)
        wrote = run(agent, Wanted(), scope, here)
        again = run(agent, Wanted(), scope, here)
        run(agent, NOTHING, scope, here)
        return wrote, difference(before, contents(root)), again


def large(agent: Agent, size: int) -> tuple[float, int]:
    """Seconds of a plan over a server file of `size` bytes, and bytes that differ after the round trip."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        here = a_machine(root)
        path = here.files(agent.server.paths, Scope.USER)[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        if agent.server.form is Form.TOML:
            table = "[projects.'/home/user/src/repository-{}']\ntrust_level = 'trusted'\n"
            path.write_text("".join(table.format(i) for i in range(size // 70)))
        else:
            row = {"history": ["what is this", "and that"], "cost": 0.25, "on": True}
            path.write_text(json.dumps({f"/p/{i}": row for i in range(size // 85)}, indent=1))
        before = contents(root)
        start = perf_counter()
        plan.make([agent], Wanted(), Scope.USER, here, "plait")
        seconds = perf_counter() - start
        run(agent, Wanted(), Scope.USER, here)
        run(agent, NOTHING, Scope.USER, here)
        return seconds, difference(before, contents(root))


def a_machine(root: Path) -> Machine:
    (root / "project" / ".git").mkdir(parents=True)
    return Machine(machine.bases(root, {}, mac=False), root / "project")


def fill(agent: Agent, scope: Scope, here: Machine, turn: int) -> None:
    """Give the user files of another make at each turn."""
    for path in here.files(agent.server.paths, scope):
        kinds = TOMLS if agent.server.form is Form.TOML else JSONS
        write(path, kinds[turn % len(kinds)])
    for path in here.files(agent.hooks.paths, scope) if agent.hooks else ():
        write(path, JSONS[turn % len(JSONS)])
    for path in here.files(agent.instructions, scope):
        write(path, TEXTS[turn % len(TEXTS)])


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def run(agent: Agent, wanted: Wanted, scope: Scope, here: Machine) -> int:
    """Files that were changed. Raises: RuntimeError, when one was left alone."""
    home = Path(here.bases["home"]) / "plait"
    done = apply.apply(plan.make([agent], wanted, scope, here, "plait"), scope, home)
    if done.problems:
        raise RuntimeError(f"{agent.name}: {done.problems[0]}")
    return sum(change.action != "unchanged" for change in done.changes)


def contents(root: Path) -> dict[str, bytes]:
    """Bytes of every file; a folder counts as one byte."""
    return {str(p): p.read_bytes() if p.is_file() else b"/" for p in root.rglob("*")}


def difference(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> int:
    return sum(
        old != new
        and sum(a != b for a, b in zip(old, new, strict=False)) + abs(len(old) - len(new))
        for old, new in (
            (before.get(n, b""), after.get(n, b"")) for n in before.keys() | after.keys()
        )
    )


if __name__ == "__main__":
    sys.exit(main())
