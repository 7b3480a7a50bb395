"""ArcadeDB as a keeper's child: its command line, users, readiness and known failures."""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graph.server import boltprobe
from plait.domain.errors import EmbeddedServerFailed, StoreFull
from plait.supervisor.account import Account
from plait.supervisor.child import Diagnosis, Launch, StartAgain
from plait.supervisor.files import give, private_folder, read_json, secret, tail, write_private
from plait.supervisor.ports import LOOPBACK, free_ports
from plait.supervisor.process import Step, listens_on

DATABASE, WRITER, READER = "plait", "root", "reader"

# The Java machine: small, one user, short bursts. The one place to tune it.
JVM_FLAGS: tuple[str, ...] = (
    "-XX:+UseSerialGC",
    # The first compiler only: the second one's compile time was most of what a write of Django's size
    # cost (22 → 14 CPU s on made-up data), and a server that lives for seconds never earns it back.
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",  # no /tmp/hsperfdata_USER
    "-XX:+ExitOnOutOfMemoryError",  # the keeper starts it again; a server out of memory is of no use
    "-XX:-CreateCoredumpOnCrash",
    "-Djava.awt.headless=true",
    "-Duser.timezone=UTC",
    "-Dfile.encoding=UTF-8",
)
JVM_MODULES: tuple[str, ...] = (
    "--add-modules=jdk.incubator.vector",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--enable-native-access=ALL-UNNAMED",
)

# What keeps users' Cypher from files, the network and endless runs,
# and what an acknowledged write survives.
SERVER_OPTIONS: Mapping[str, str] = {
    "server.mode": "test",  # `production` replaces every error text by "check the log"
    "server.plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
    "bolt.host": LOOPBACK,
    "server.httpIncomingHost": LOOPBACK,
    "opencypher.loadCsv.allowFileUrls": "false",
    "opencypher.loadCsv.allowRemoteUrls": "false",
    "server.restoreImportAllowLocalUrls": "false",
    "command.timeout": "30000",  # ms, writers' statements too
    "txWalFlush": "2",  # fsync at commit
    "server.saltIterations": "1000",  # the passwords are 256 random bits: stretching adds nothing
    # A transaction copies every page it changes, and 500 edges change many: against 64 KB it takes a
    # tenth off the CPU of a first projection, at the same size on disk (16 KB: a third more disk).
    "bucketDefaultPageSize": "32768",
    "bucketReuseSpaceMode": "low",  # looking for gaps in pages costs a bulk write a third
    "queryMaxRangeSize": "100000",  # `range()` bombs
}

_FULL_RIGHTS = ["createRecord", "readRecord", "updateRecord", "deleteRecord"]
_ADMIN = {
    "resultSetLimit": -1,
    "readTimeout": -1,
    "access": ["updateSecurity", "updateSchema", "updateDatabaseSettings"],
    "types": {"*": {"access": _FULL_RIGHTS}},
}
_NOTHING = {"resultSetLimit": -1, "readTimeout": -1, "access": [], "types": {"*": {"access": []}}}
_READ = {**_NOTHING, "types": {"*": {"access": ["readRecord"]}}}
GROUPS: dict[str, Any] = {
    "databases": {
        "*": {"groups": {"admin": _ADMIN, "*": _NOTHING}},
        DATABASE: {"groups": {"admin": _ADMIN, "reader": _READ, "*": _NOTHING}},
    },
    "version": 2,
}


class ArcadeChild:
    name = "the graph server (ArcadeDB)"
    stop_steps: Sequence[Step] = (Step(signal.SIGTERM, 20.0), Step(signal.SIGKILL, 5.0))
    death_signal = signal.SIGTERM

    def __init__(
        self, folder: Path, *, package: Path, version: str, account: Account | None, heap_mb: int
    ) -> None:
        self._folder = folder
        self._package = package
        self._version = version
        self._account = account if account and _within_reach(account, package, folder) else None
        self._heap_mb = heap_mb
        self._root = folder / "data"
        self._groups_file = self._root / "config" / "server-groups.json"
        self._bolt_port = self._http_port = self._log_offset = 0
        self._writer = self._reader = ""
        self.log = folder / "server.log"

    # -- the keeper's questions -------------------------------------------------------------------

    def prepare(self) -> None:
        for path in (self._root, self._root / "config", self._folder / "tmp"):
            private_folder(path)
        users = self._root / "config" / "server-users.jsonl"
        if not all((self._folder / f"{who}-password").exists() for who in ("writer", "reader")):
            users.unlink(missing_ok=True)  # their passwords are lost: the server makes new ones
        self._writer, self._reader = (
            secret(self._folder / f"{who}-password") for who in ("writer", "reader")
        )
        owner = self._account.owner if self._account else None
        write_private(self._groups_file, json.dumps(GROUPS, indent=1), owner=owner)
        write_private(self._root / "config" / "first-password", self._writer, owner=owner)
        if owner is not None:
            for path in (self._root / "config", self._folder / "tmp", self._root):
                give(path, *owner)

    def launch(self, mark: str) -> Launch:
        self._bolt_port, self._http_port = free_ports(2)
        self._log_offset = self.log.stat().st_size if self.log.exists() else 0
        options = {
            **SERVER_OPTIONS,
            "bolt.port": str(self._bolt_port),
            "server.httpIncomingPort": str(self._http_port),
            "server.rootPath": str(self._root),
            "server.rootPasswordPath": str(self._root / "config" / "first-password"),
            "server.logsDirectory": str(self._folder / "tmp"),
        }
        args = [
            str(self._package / "jre" / "bin" / "java"),
            f"-Xmx{self._heap_mb}m",
            # Most of a batch dies young: a wide nursery saves half the collections.
            f"-Xmn{self._heap_mb * 2 // 5}m",
            *JVM_FLAGS,
            *JVM_MODULES,
            f"-Djava.io.tmpdir={self._folder / 'tmp'}",
            f"-XX:ErrorFile={self._folder / 'tmp' / 'java-crash.log'}",
            f"-Dplait.mark={mark}",
            *(f"-Darcadedb.{key}={value}" for key, value in options.items()),
            "-cp",
            str(self._package / "jars" / "*"),
            "com.arcadedb.server.ArcadeDBServer",
        ]
        env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": str(self._folder / "tmp")}
        return Launch(args=args, env=env, cwd=self._folder / "tmp", account=self._account)

    def ready(self, pid: int) -> bool:
        self._check_log()
        if not listens_on(pid, self._bolt_port, self._http_port):
            # Only to a socket that is our child's do we send a password.
            return False
        try:
            self._ensure_database()
            self._ensure_reader()
            self._probe(WRITER, self._writer)
            self._probe(READER, self._reader)
        except (OSError, http.client.HTTPException):
            return False
        except boltprobe.ProbeFailed as exc:
            if exc.refused and "auth" in str(exc).lower():
                raise self._bad_password(str(exc)) from exc
            return False
        self._check_groups()
        return True

    def endpoint(self) -> Mapping[str, Any]:
        return {
            "host": LOOPBACK,
            "bolt_port": self._bolt_port,
            "http_port": self._http_port,
            "version": self._version,
        }

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        if "No space left on device" in log_tail or "Disk quota exceeded" in log_tail:
            full = StoreFull(
                f"no space is left on the disk under {self._folder}; free some, then run again",
                path=self._folder,
            )
            return Diagnosis(full, permanent=True)
        return None

    def clean(self) -> None:
        shutil.rmtree(self._folder / "tmp", ignore_errors=True)

    # -- parts --------------------------------------------------------------------------------------

    def _check_log(self) -> None:
        """Java outlives the server's main thread; only the log shows that it died."""
        text = tail(self.log, 30, offset=self._log_offset)
        if 'Exception in thread "main"' not in text:
            return
        diagnosis = self.diagnose(text)
        if diagnosis is not None:
            raise diagnosis.error
        if any(sign in text for sign in ("Unable to listen", "Address already in use")):
            raise StartAgain(f"port {self._bolt_port} or {self._http_port} was taken meanwhile")
        raise EmbeddedServerFailed(f"{self.name} did not start; its log {self.log} ends:\n{text}")

    def _probe(self, user: str, password: str) -> None:
        boltprobe.probe(LOOPBACK, self._bolt_port, user=user, password=password, database=DATABASE)

    def _ensure_database(self) -> None:
        answer = self._http("GET", f"/api/v1/exists/{DATABASE}")
        if answer.get("result") is not True:
            self._http("POST", "/api/v1/server", {"command": f"create database {DATABASE}"})

    def _ensure_reader(self) -> None:
        """Make the reader; that it exists already is fine."""
        user = {
            "name": READER,
            "password": self._reader,
            "databases": {DATABASE: ["reader"]},
        }
        self._http("POST", "/api/v1/server", {"command": f"create user {json.dumps(user)}"})

    def _check_groups(self) -> None:
        """The server replaces a groups file that it cannot read by a default without our reader."""
        groups = read_json(self._groups_file) or {}
        if groups.get("databases", {}).get(DATABASE) != GROUPS["databases"][DATABASE]:
            raise EmbeddedServerFailed(
                f"the graph server did not take the rights in {self._groups_file}; see {self.log}"
            )

    def _http(
        self, method: str, path: str, body: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The answer as a mapping, errors too. Raises: OSError, HTTPException, PlaitError."""
        token = base64.b64encode(f"{WRITER}:{self._writer}".encode()).decode()
        link = http.client.HTTPConnection(LOOPBACK, self._http_port, timeout=30)
        try:
            headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}
            link.request(method, path, json.dumps(body) if body else None, headers)
            answer = link.getresponse()
            text = answer.read()
        finally:
            link.close()
        if answer.status in (401, 403):
            raise self._bad_password(f"HTTP {answer.status}")
        try:
            tree = json.loads(text)
        except ValueError:
            return {}
        return tree if isinstance(tree, dict) else {}

    def _bad_password(self, cause: str) -> EmbeddedServerFailed:
        return EmbeddedServerFailed(
            f"the graph server refuses the passwords in {self._folder} ({cause}); delete "
            "writer-password and reader-password there and run again: new ones are set"
        )


def _within_reach(account: Account, *folders: Path) -> bool:
    """Whether the account can run Java and keep data there; else the server runs as we do."""
    return all(account.can_enter(folder) for folder in folders)
