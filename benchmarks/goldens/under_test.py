"""The code under test: a checkout's commands, and a server of it in a fresh home."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.goldens.wire import Wire

# How fast the machine is must not change an answer: nothing gives up early, nothing is let go.
PATIENT = {
    "PLAIT_SEARCH__TIMEOUT_S": "300",
    "PLAIT_GRAPH__QUERY_TIMEOUT_S": "300",
    "PLAIT_GRAPH__CONNECT_TIMEOUT_S": "60",
    "PLAIT_POSTGRES__CONNECT_TIMEOUT_S": "60",
    "PLAIT_POSTGRES__STATEMENT_TIMEOUT_S": "300",
    "PLAIT_SERVER__TIMEOUT_S": "300",
    "PLAIT_SERVER__REST_S": "0",
    "PLAIT_SERVER__REFLECTION": "true",
    "PLAIT_EMBEDDED__START_TIMEOUT_S": "300",
    "PLAIT_HOOKS__LIMIT_S": "300",
    "PLAIT_CLIENT__AUTOSTART": "false",
}
INHERITED = ("PATH", "HOME", "TMPDIR")
REST_S = 600.0  # until vectors and graph must have followed


@dataclass(frozen=True, slots=True)
class Checkout:
    """`plait`: the command of the environment that the checkout is installed in."""

    plait: Path

    @classmethod
    def at(cls, root: Path | None) -> Checkout:
        """Of the checkout `root`; None: of the environment that runs this."""
        folder = root.absolute() / ".venv/bin" if root else Path(sys.executable).parent
        if not (folder / "plait").is_file():
            raise SystemExit(f"{folder} has no `plait`; run `make` in the checkout first")
        return cls(folder / "plait")

    def environment(self, home: str | Path) -> dict[str, str]:
        kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return {**kept, **PATIENT, "LANG": "C.UTF-8", "TZ": "UTC", "PLAIT_HOME": str(home)}

    def ask(
        self, *words: str, home: str | Path, stdin: str = "", cwd: str | Path = "/"
    ) -> subprocess.CompletedProcess[str]:
        """One command, however it ends."""
        return subprocess.run(
            [self.plait, *words],
            env=self.environment(home),
            cwd=cwd,
            input=stdin,
            capture_output=True,
            text=True,
            errors="surrogateescape",
        )

    def run(self, *words: str, home: str | Path) -> str:
        """What one command prints. Raises: SystemExit, when it fails."""
        done = self.ask(*words, home=home)
        if done.returncode:
            raise SystemExit(f"plait {' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return done.stdout


@dataclass(frozen=True, slots=True)
class Server:
    """A server of `checkout`, its home, and calls to it."""

    checkout: Checkout
    home: Path
    wire: Wire
    pid: int

    def index(self, name: str, root: Path) -> None:
        """Index `root` and wait until its vectors and its graph are there."""
        request = {"path": str(root), "repository": name}
        job = self.wire.done("IndexService.StartIndex", request)["job"]
        states = self.wire.stream("IndexService.WatchIndexJob", [{"id": job["id"]}])
        last = states[-1]["job"]
        if last["state"] != "INDEX_JOB_STATE_SUCCEEDED":
            raise SystemExit(f"{name} was not indexed: {last}")
        self.rest()

    def rest(self) -> None:
        """Wait until all that was written has its vectors and is in the graph."""
        end = time.monotonic() + REST_S
        while time.monotonic() < end:
            stats = self.wire.done("AdminService.Stats", {})
            behind = [
                r
                for r in stats.get("revisions", ())
                if r.get("embedded") != r.get("total")
                or r.get("graph_revision") != r.get("revision")
            ]
            if not behind and not int(stats.get("waiting_projections", 0)):
                return
            time.sleep(0.2)
        raise SystemExit(f"vectors or graph did not follow within {REST_S:g} s")


@contextmanager
def serving(checkout: Checkout, **settings: str) -> Iterator[Server]:
    """A server of `checkout` in a home of its own, which goes with it. `settings`: further variables."""
    home = Path(tempfile.mkdtemp(prefix="plait-goldens-", dir="/tmp"))
    home.chmod(0o711)  # the account that PostgreSQL runs as must get through
    process = subprocess.Popen(
        [checkout.plait, "serve", "--json"],
        env={**checkout.environment(home), "PLAIT_GRAPH__FOLLOW": "true", **settings},
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=(home / "serve.log").open("w"),
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"no server: {(home / 'serve.log').read_text(encoding='utf-8')}")
        with Wire(f"unix:{json.loads(line)['socket']}") as wire:
            yield Server(checkout, home, wire, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        _remove(home)


def _remove(home: Path) -> None:
    """Its stores' keepers tidy up for some seconds after the server."""
    for _ in range(600):
        shutil.rmtree(home, ignore_errors=True)
        if not home.exists():
            return
        time.sleep(0.1)
    raise SystemExit(f"{home} can't be removed; `plait stop` may help")
