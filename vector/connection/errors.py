"""psycopg's errors become Plait's here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout

from plait.domain.errors import (
    DeadlineExceeded,
    InvalidInput,
    PlaitError,
    SchemaMismatch,
    StoreContended,
    StoreFull,
    StoreUnavailable,
)


def translate(exc: Exception, statement_timeout_s: float = 0.0) -> PlaitError | None:
    """The Plait error that says what `exc` says, or None for a bug of ours.

    Narrow classes first: DiskFull and QueryCanceled are OperationalErrors too.
    """
    if isinstance(exc, PoolTimeout | PoolClosed):
        return StoreUnavailable(
            "PostgreSQL gave no connection in time; check that the server of `postgres.dsn` runs and "
            "accepts connections, or raise `postgres.pool_size`"
        )
    if isinstance(exc, pg.DiskFull):
        return StoreFull(
            f"the disk under PostgreSQL is full ({_first_line(exc)}); free some space and run again: "
            "what was published is intact"
        )
    if isinstance(exc, pg.QueryCanceled):
        return DeadlineExceeded("a PostgreSQL statement", statement_timeout_s)
    if isinstance(exc, pg.DeadlockDetected | pg.SerializationFailure | pg.LockNotAvailable):
        return StoreContended(
            f"PostgreSQL gave up on contended rows ({_first_line(exc)}); run the same again"
        )
    if isinstance(exc, pg.UndefinedTable | pg.UndefinedColumn | pg.UndefinedFunction):
        return SchemaMismatch(
            f"the database lacks something this version needs ({_first_line(exc)}); "
            "it was changed by hand or by another version: use another database, or restore it"
        )
    if isinstance(exc, pg.InsufficientPrivilege | pg.ReadOnlySqlTransaction):
        return SchemaMismatch(
            f"PostgreSQL refused the statement ({_first_line(exc)}); the role of `postgres.dsn` must "
            "own its schema `plait`, on a server that is not a read-only replica"
        )
    if isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnavailable(
            f"PostgreSQL does not answer ({_first_line(exc)}); check `postgres.dsn`, "
            "or `plait doctor` for the embedded server"
        )
    if isinstance(exc, psycopg.DataError | UnicodeEncodeError):
        return InvalidInput(
            f"PostgreSQL cannot store or compare a value ({_first_line(exc)}); "
            "remove NUL characters and broken Unicode from the text"
        )
    return None


@contextmanager
def translated(statement_timeout_s: float = 0.0) -> Iterator[None]:
    """Driver errors raised inside leave as Plait's, with the driver's as their cause."""
    try:
        yield
    except (psycopg.Error, UnicodeEncodeError) as exc:
        ours = translate(exc, statement_timeout_s)
        if ours is None:
            raise
        raise ours from exc


def is_transient(exc: BaseException) -> bool:
    """Whether the same transaction may succeed a moment later: a lost connection, a server that
    starts or stops, a deadlock. A pool that found no server in its whole timeout has tried long enough."""
    if isinstance(exc, StoreContended):
        return True
    return isinstance(exc, StoreUnavailable) and not isinstance(
        exc.__cause__, PoolTimeout | PoolClosed
    )


def _first_line(exc: Exception) -> str:
    text = str(exc).strip()
    return text.splitlines()[0][:300] if text else type(exc).__name__
