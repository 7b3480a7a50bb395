"""Driver errors become the right Plait errors; only what may heal is tried again."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors as pg
from psycopg_pool import PoolTimeout

from plait.domain.errors import (
    DeadlineExceeded,
    InvalidInput,
    PlaitError,
    SchemaMismatch,
    StoreContended,
    StoreFull,
    StoreUnavailable,
)
from vector.connection.errors import is_transient, translated
from vector.server import pgchild


@pytest.mark.parametrize(
    ("raised", "expected", "transient"),
    [
        (pg.DiskFull("no space left"), StoreFull, False),
        (pg.QueryCanceled("timeout"), DeadlineExceeded, False),
        (pg.DeadlockDetected("deadlock"), StoreContended, True),
        (pg.AdminShutdown("shutting down"), StoreUnavailable, True),
        (psycopg.OperationalError("connection lost"), StoreUnavailable, True),
        (PoolTimeout("none"), StoreUnavailable, False),
        (pg.UndefinedTable("item"), SchemaMismatch, False),
        (pg.InsufficientPrivilege("denied"), SchemaMismatch, False),
        (pg.CharacterNotInRepertoire("\\x00"), InvalidInput, False),
    ],
)
def test_translation(raised: Exception, expected: type[PlaitError], transient: bool) -> None:
    with pytest.raises(expected) as caught, translated(3.0):
        raise raised
    assert caught.value.__cause__ is raised
    assert is_transient(caught.value) is transient
    assert "\n" not in caught.value.message


def test_our_own_bugs_are_not_dressed_up() -> None:
    with pytest.raises(pg.SyntaxError), translated():
        raise pg.SyntaxError("near SELEKT")


def test_the_log_may_shrink_to_two_segments_of_an_older_home() -> None:
    """PostgreSQL refuses to start with less: `initdb` gave segments of 16 MB before."""
    assert int(pgchild.TUNING["min_wal_size"].removesuffix("MB")) >= 2 * 16
