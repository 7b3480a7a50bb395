"""The DSN of an external server, out of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plait.domain.errors import BadSettings

if TYPE_CHECKING:
    from plait.settings import Settings


def external(settings: Settings) -> str:
    """`postgres.dsn` with `postgres.password` in it, which may hold any character; "" for the embedded
    server. Never log it.

    Raises: BadSettings.
    """
    dsn = settings.postgres.dsn.get_secret_value()
    password = settings.postgres.password.get_secret_value()
    if not password:
        return dsn
    if not dsn:
        raise BadSettings(
            "`postgres.password` is set and `postgres.dsn` is not; name the server in `postgres.dsn`, or "
            "leave the password out: the embedded server has its own",
            key="postgres.password",
        )
    import psycopg
    from psycopg.conninfo import make_conninfo

    try:
        return make_conninfo(dsn, password=password)
    except psycopg.ProgrammingError as exc:
        # Not the driver's words: they may have a part of the DSN.
        raise BadSettings(
            "`postgres.dsn` is no connection string; write postgresql://USER@HOST:5432/DATABASE, and the "
            "password as `postgres.password`",
            key="postgres.dsn",
        ) from exc
