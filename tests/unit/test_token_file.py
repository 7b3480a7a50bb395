"""A token file: made once, read again when it changes, rotated with a grace, refused when others can read it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from plait.domain.access import Caller
from plait.domain.errors import TokenUnsafe, Unauthenticated
from plait.supervisor import token_file
from plait.supervisor.token_file import TokenFile, Tokens
from server.access.callers import TOKEN, Callers, unknown


def test_a_rotation_reaches_who_has_the_file_open_and_spares_the_token_before(
    tmp_path: Path,
) -> None:
    path = tmp_path / "server" / "token"
    server = TokenFile(path)
    old = token_file.read(path).current
    new = token_file.rotate(path)
    assert new.current != old
    assert token_file.read(path) == Tokens(new.current, old, float(f"{new.until:.3f}"))
    assert server.accept(new.current)
    assert server.accept(old)
    token_file.rotate(path, grace_s=0)
    assert not server.accept(old)
    assert not server.accept(new.current)
    assert server.accept(token_file.read(path).current)
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_absent_previous_token_opens_nothing() -> None:
    assert not Tokens("t" * 43, "", time.time() + 60).accept("")
    assert not Tokens("t" * 43, "p" * 43, time.time() - 1).accept("p" * 43)


def test_a_file_that_becomes_readable_for_others_shuts_the_door(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = TokenFile(tmp_path / "token")
    secret = token_file.read(server.path).current
    server.path.chmod(0o640)
    for _ in range(2):
        assert not server.accept(secret)
    assert [vars(record)["error"] for record in caplog.records] == [
        f"other accounts can read or own the token {server.path}; remove it, and run "
        "`plait serve --rotate-token` for another"
    ]
    with pytest.raises(TokenUnsafe, match="remove it"):
        TokenFile(server.path)
    server.path.unlink()
    assert not server.accept(secret)
    assert server.accept(token_file.rotate(server.path).current)


class NoKeys:
    async def caller(self, secret: str) -> Caller:
        raise unknown()


async def test_the_token_is_a_caller_and_nothing_else_is(tmp_path: Path) -> None:
    callers = Callers(TokenFile(tmp_path / "token"), NoKeys())
    assert await callers.caller(token_file.read(tmp_path / "token").current) is TOKEN
    for wrong in ("", "x", "ä" * 43, "t" * 100_000):
        with pytest.raises(Unauthenticated, match="not valid"):
            await callers.caller(wrong)
