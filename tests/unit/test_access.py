"""Parts of the door that need no server: places, quotas, connections, roots, addresses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plait import settings as plait_settings
from plait.client import discovery
from plait.client.discovery import ServerAddress
from plait.client.transport import endpoint
from plait.domain.access import OWNER, Caller, Quota
from plait.domain.errors import (
    BadSettings,
    PathNotAllowed,
    QuotaExceeded,
    RepositoryNotAllowed,
    TooManyCalls,
)
from plait.settings import ServerSettings
from plait.supervisor import token_file
from server.access import current, roots
from server.access.callers import TOKEN
from server.access.concurrency import Places, Rates
from server.access.connections import MAX_UNKNOWN_BYTES, Connection, Connections
from server.grpc.messages import scope

# -- places and quotas -------------------------------------------------------------------------------------


def test_a_caller_takes_its_share_of_the_places_and_frees_each_once() -> None:
    places = Places(4, 3)
    taken = [places.take(TOKEN) for _ in range(3)]
    with pytest.raises(TooManyCalls, match="3 calls"):
        places.take(TOKEN)
    other = places.take(OWNER)
    with pytest.raises(TooManyCalls, match="4 calls"):
        places.take(OWNER)
    for free in (*taken, *taken, other):
        free()
    assert len([places.take(TOKEN) for _ in range(3)]) == 3


def test_a_key_may_have_fewer_places_than_others() -> None:
    places = Places(4, 3)
    narrow = Caller("k", quota=Quota(max_concurrent=1))
    places.take(narrow)
    with pytest.raises(TooManyCalls):
        places.take(narrow)


def test_calls_a_minute_come_back_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    rates, key = Rates(), Caller("k", quota=Quota(calls_per_minute=2))
    for _ in range(2):
        rates.count(key)
    with pytest.raises(QuotaExceeded) as caught:
        rates.count(key)
    assert caught.value.retry_s == 30
    now[0] += 30
    rates.count(key)
    with pytest.raises(QuotaExceeded):
        rates.count(key)
    for _ in range(100):
        rates.count(OWNER)  # no quota, no limit


# -- connections -------------------------------------------------------------------------------------------


def connected(known: Connections, closed: list[str], name: str, peer: str) -> Connection | None:
    def close() -> None:
        closed.append(name)
        known.leave(made)

    made = Connection(name, peer, close)
    return made if known.admit(made) else None


def test_the_oldest_unknown_connection_makes_place_and_known_ones_stay() -> None:
    known = Connections(ServerSettings(max_connections=3, max_connections_per_peer=2))
    closed: list[str] = []
    first = connected(known, closed, "1", "10.0.0.1")
    assert first is not None
    assert known.recognise(first, "token")
    assert connected(known, closed, "2", "10.0.0.1")
    assert connected(known, closed, "3", "10.0.0.1")  # of two places of an address
    assert closed == ["2"]
    assert connected(known, closed, "4", "10.0.0.2")
    assert connected(known, closed, "5", "10.0.0.3")  # of three in all
    assert closed == ["2", "3"]
    assert connected(known, closed, "local", "")  # the socket's are not counted
    for one in list(known):
        known.recognise(one, "other")
    assert connected(known, closed, "6", "10.0.0.4") is None  # all are known
    assert known.find("unix:4") is not None
    assert known.find("unix:2") is None


def test_a_key_has_so_many_connections() -> None:
    known = Connections(ServerSettings(max_connections_per_peer=2))
    made = [connected(known, [], str(n), f"10.0.0.{n}") for n in range(3)]
    assert [known.recognise(one, "key") for one in made if one] == [True, True, False]


def test_a_stranger_sends_little() -> None:
    stranger = Connection("1", "10.0.0.1", lambda: None)
    assert stranger.took(MAX_UNKNOWN_BYTES)
    assert not stranger.took(1)
    stranger.known = "token"
    assert stranger.took(10**9)
    assert Connection("2", "", lambda: None).took(10**9)


# -- roots -------------------------------------------------------------------------------------------------


def test_over_tcp_a_folder_must_lie_under_a_root_whatever_links_say(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    (outside / "link").symlink_to(inside)
    allowed = ServerSettings(index_roots=f"/nowhere:{inside}")
    assert roots.check(inside, TOKEN, allowed) == inside
    assert roots.check(inside / "not" / "there", TOKEN, allowed) == inside / "not" / "there"
    assert roots.check(outside / "link", TOKEN, allowed) == inside
    for path in (outside, inside / "link", inside / ".." / "out", tmp_path / "inner", Path("/")):
        for caller in (TOKEN, OWNER):
            with pytest.raises(PathNotAllowed, match=r"server\.index_roots"):
                roots.check(path, caller, allowed)
    with pytest.raises(PathNotAllowed):
        roots.check(inside, TOKEN, ServerSettings())


def test_over_the_socket_what_is_the_owners_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert roots.check(tmp_path, OWNER, ServerSettings()) == tmp_path
    monkeypatch.setattr(
        os, "geteuid", lambda: 12345
    )  # an account with no entry, and nothing its own
    with pytest.raises(PathNotAllowed, match="your home folder"):
        roots.check(tmp_path, OWNER, ServerSettings())


# -- names, addresses --------------------------------------------------------------------------------------


def test_ids_keep_to_the_callers_repositories() -> None:
    current.answer(Caller("k", repositories=frozenset({"mine"})))
    assert scope.id_in("default", "mine:a.b", "x") == "mine:a.b"
    assert scope.id_in("acme", "mine:a.b", "x") == "acme@mine:a.b"
    assert scope.id_in("default", "std::vector", "x") == "std::vector"
    with pytest.raises(RepositoryNotAllowed):
        scope.id_in("default", "theirs:a.b", "x")
    current.answer(current.NO_ID)
    with pytest.raises(RepositoryNotAllowed):
        scope.name_in("default", "mine")


@pytest.mark.parametrize(
    "target",
    [
        *("localhost", "localhost:", ":50051", "host:0", "host:70000", "http://host:1", "host:1/x"),
        *(
            "::1:50051",
            "[::1]",
            "unix:relative.sock",
            "unix:",
            "dns:///host:1",
            "a b:1",
            "host:1\n",
        ),
    ],
)
def test_what_is_no_address_is_said_so(target: str) -> None:
    with pytest.raises(BadSettings, match="HOST:PORT"):
        endpoint(target)


def test_tls_goes_with_every_address_beyond_this_machine() -> None:
    loaded = plait_settings.load(environ={"PLAIT_HOME": "/nowhere"})
    for target in ("127.0.0.1:1", "localhost:1", "[::1]:1"):
        assert endpoint(target, loaded=loaded).credentials is None
    for target in ("team:1", "10.0.0.1:1", "127.0.0.1.example.com:1", "[2001:db8::1]:1"):
        assert endpoint(target, loaded=loaded).credentials is not None


def test_the_homes_token_goes_to_the_homes_own_server_alone(tmp_path: Path) -> None:
    """A port that another account took after our server ended gets nothing."""
    loaded = plait_settings.load(environ={"PLAIT_HOME": str(tmp_path)})
    token_file.make(discovery.token_path(tmp_path))
    address = ServerAddress(1, str(tmp_path / "none"), "127.0.0.1", 50051, "1", "2026-01-01")
    (discovery.folder(tmp_path) / "server.json").write_text(address.to_json())
    assert endpoint("127.0.0.1:50051", loaded=loaded).metadata == ()
    told = endpoint("127.0.0.1:50051", token="t" * 43, loaded=loaded).metadata
    assert told == (("authorization", f"Bearer {'t' * 43}"),)
    with pytest.raises(BadSettings, match=r"client\.token"):
        endpoint("127.0.0.1:50051", token="t\n", loaded=loaded)
