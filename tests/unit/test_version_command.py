"""`plait version` tells the package, the schema that it writes, and the schema of what is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import plait
from plait.settings import load
from server.commands import version
from vector.connection import schema
from vector.connection.migrate import migrations

OURS = migrations()[-1].number


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path))
    monkeypatch.delenv("PLAIT_POSTGRES__DSN", raising=False)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert version.main(["--json"]) == 0
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


def test_where_nothing_is_stored_there_is_no_schema(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(capsys)["stored_schema"] is None
    assert version.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"plait {plait.__version__}", f"schema {OURS}", "stored here: nothing"]
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "said"),
    [(OURS, f"schema {OURS}"), (OURS - 1, "brings it up to"), (OURS + 1, "newer Plait")],
)
def test_the_stored_schema_is_told_apart(
    home: Path, capsys: pytest.CaptureFixture[str], number: int, said: str
) -> None:
    (home / "postgres" / "data").mkdir(parents=True)
    (home / "postgres" / "schema").write_text(str(number))
    answer = told(capsys)
    assert (answer["schema"], answer["stored_schema"]) == (OURS, number)
    version.main([])
    assert said in capsys.readouterr().out


def test_a_store_that_no_such_version_opened_is_not_guessed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "postgres" / "data").mkdir(parents=True)
    answer = told(capsys)
    assert answer["stored_schema"] is None
    assert "not known" in str(answer["stored_note"])
    schema.note(home / "postgres")
    assert told(capsys)["stored_schema"] == OURS


def test_a_server_that_is_away_is_said_to_be(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_POSTGRES__DSN", f"host={home} dbname=x user=x")
    assert "does not answer" in str(told(capsys)["stored_note"])
    found = schema.stored(load())
    assert found is not None
    assert found.number == 0
