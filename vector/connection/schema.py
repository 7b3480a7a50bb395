"""Which schema this version writes, and which one a store has: told without starting a server."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plait.settings import Settings

# Beside the embedded server's data: the number of the last migration, as of the last opening.
NOTE = "schema"


@dataclass(frozen=True, slots=True)
class Schema:
    """The last migration. `note`: in words why the number is not known; it is 0 then."""

    number: int
    name: str = ""
    note: str = ""


def shipped() -> Schema:
    """By the names of the migrations: their bodies and the driver need not be read."""
    names = (entry.name for entry in resources.files("vector.sql").iterdir())
    found = [m for name in names if (m := re.fullmatch(r"(\d{4})_([a-z0-9_]+)\.sql", name))]
    last = max(found, key=lambda m: m[1])
    return Schema(int(last[1]), last[2])


def stored(settings: Settings) -> Schema | None:
    """The schema of the store that `settings` name; None where there is no store yet."""
    dsn = settings.postgres.dsn.get_secret_value()
    if dsn:
        return _read_schema(dsn, settings.postgres.connect_timeout_s)
    folder = settings.home / "postgres"
    if not (folder / "data").is_dir():
        return None
    try:
        return Schema(int((folder / NOTE).read_text()))
    except (OSError, ValueError):
        return Schema(0, note="not known: no version that tells it has opened this store yet")


def note(folder: Path) -> None:
    """Write down that the store in `folder` has the schema of this version. Left out where it can't be written,
    on a full disk say: it only saves `plait version` a server."""
    from plait.supervisor.files import write_private

    text = str(shipped().number)
    file = folder / NOTE
    with suppress(OSError):
        if not file.is_file() or file.read_text() != text:
            write_private(file, text)


def _read_schema(dsn: str, timeout_s: float) -> Schema | None:
    import psycopg

    try:
        with psycopg.connect(dsn, connect_timeout=max(1, int(timeout_s))) as conn:
            known = conn.execute("SELECT to_regclass('plait.schema_migration')").fetchone()
            if known is None or known[0] is None:
                return None
            last = conn.execute(
                "SELECT number, name FROM plait.schema_migration ORDER BY number DESC LIMIT 1"
            ).fetchone()
            return Schema(*last) if last else None
    except psycopg.Error:
        return Schema(0, note="not known: `postgres.dsn` does not answer")
