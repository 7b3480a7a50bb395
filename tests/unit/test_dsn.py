"""`postgres.password` reaches libpq as it is written, whatever it holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from plait.domain.errors import BadSettings
from plait.settings import load
from vector.connection.dsn import external

passwords = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1)


def of(dsn: str, password: str = "") -> str:
    given_ = {"PLAIT_HOME": "/nowhere", "PLAIT_POSTGRES__DSN": dsn}
    return external(load(environ={**given_, "PLAIT_POSTGRES__PASSWORD": password}))


@given(passwords)
def test_any_password_arrives_whole(password: str) -> None:
    for dsn in ("postgresql://plait@db:5433/app", "host=db port=5433 user=plait dbname=app"):
        told = conninfo_to_dict(of(dsn, password))
        assert told == {
            "host": "db", "port": "5433", "user": "plait", "dbname": "app", "password": password
        }  # fmt: skip


def test_it_stands_before_the_dsn_s_own() -> None:
    assert (
        conninfo_to_dict(of("postgresql://a:old@db/x", "p@ss:w/rd'\""))["password"]
        == "p@ss:w/rd'\""
    )


def test_without_one_the_dsn_is_as_it_was() -> None:
    assert of("postgresql://a:b@db/x") == "postgresql://a:b@db/x"
    assert of("") == ""


def test_a_password_of_nothing_is_refused() -> None:
    with pytest.raises(BadSettings, match=r"postgres\.dsn"):
        of("", "secret")


def test_what_is_no_dsn_is_said_without_its_words() -> None:
    with pytest.raises(BadSettings) as caught:
        of("host=db pass word", "secret")
    assert "secret" not in str(caught.value)
    assert "pass word" not in str(caught.value)
