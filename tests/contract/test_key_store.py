"""KeyStore: API keys are kept whole, found by a secret's digest, rotated, revoked, and stored nowhere in
clear."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from plait.domain.access import ALL_VERBS, Caller, Quota, Verb
from plait.domain.errors import KeyEnded, KeyNameTaken, KeyUnknown, TooManyKeys
from plait.domain.keys import ApiKey
from plait.ports import KeyStore
from vector import keys as adapter
from vector.store import Store

NOW = datetime.now(UTC)


def digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def key(id_: str, name: str = "", *, tenant: str = "acme", **more: object) -> ApiKey:
    caller = Caller(id_, ALL_VERBS, tenant)
    given = {"created_at": NOW, "made_by": "owner", **more}
    return ApiKey(caller, name or id_, **given)  # type: ignore[arg-type]


@pytest.fixture
def keys(store: Store) -> KeyStore:
    return store.keys


async def test_a_key_is_kept_whole(keys: KeyStore) -> None:
    caller = Caller(
        id="k1",
        verbs=frozenset({Verb.READ, Verb.ADMIN}),
        tenant="acme",
        repositories=frozenset({"app", "lib, with @ and 'quotes'"}),
        quota=Quota(600, 1_000_000, 4),
    )
    whole = ApiKey(caller, "ci", NOW, made_by="owner", expires_at=NOW + timedelta(days=90))
    await keys.add(whole, digest("a"))
    await keys.add(key("k2", created_at=NOW + timedelta(seconds=1)), digest("b"))
    assert [one.id for one in await keys.list()] == ["k1", "k2"]
    assert (await keys.list())[0] == whole
    found = await keys.secret_of(digest("a"))
    assert found is not None
    assert (found.key, found.digest, found.valid_until) == (whole, digest("a"), None)
    assert found.is_alive(NOW)


async def test_a_secret_that_nobody_has_finds_nothing(keys: KeyStore) -> None:
    await keys.add(key("k1"), digest("a"))
    for other in (digest("A"), b"", b"x" * 32, digest("a")[:31]):
        assert await keys.secret_of(other) is None


async def test_a_name_is_one_living_key_of_a_tenant(keys: KeyStore) -> None:
    await keys.add(key("k1", "ci"), digest("a"))
    with pytest.raises(KeyNameTaken):
        await keys.add(key("k2", "ci"), digest("b"))
    assert await keys.secret_of(digest("b")) is None
    await keys.add(key("k3", "ci", tenant="zeta"), digest("c"))
    await keys.add(key("k4", "ci", tenant=""), digest("d"))
    await keys.revoke("k1")
    await keys.add(key("k5", "ci"), digest("e"))
    gone = key("k6", "old", expires_at=NOW - timedelta(seconds=1))
    await keys.add(gone, digest("f"))
    await keys.add(key("k7", "old"), digest("g"))


async def test_two_who_make_one_name_at_once_make_one_key(store: Store, other: Store) -> None:
    """Of many, by two processes."""

    async def add(n: int) -> bool:
        try:
            await (store, other)[n % 2].keys.add(key(f"k{n}", "ci"), digest(str(n)))
        except KeyNameTaken:
            return False
        return True

    assert sum(await asyncio.gather(*(add(n) for n in range(8)))) == 1
    assert len(await store.keys.list()) == 1


async def test_after_a_rotation_both_secrets_work_for_the_grace(keys: KeyStore) -> None:
    await keys.add(key("k1"), digest("a"))
    until = NOW + timedelta(hours=24)
    rotated = await keys.replace_secret("k1", digest("b"), until)
    assert rotated.rotated_at is not None
    old, new = await keys.secret_of(digest("a")), await keys.secret_of(digest("b"))
    assert old is not None
    assert new is not None
    assert (old.valid_until, new.valid_until) == (until, None)
    assert old.is_alive(until - timedelta(seconds=1))
    assert not old.is_alive(until)
    assert new.is_alive(until)


async def test_a_rotation_without_grace_ends_every_earlier_secret(keys: KeyStore) -> None:
    await keys.add(key("k1"), digest("a"))
    await keys.replace_secret("k1", digest("b"), NOW + timedelta(hours=24))
    at = datetime.now(UTC)
    await keys.replace_secret("k1", digest("c"), at)
    for secret in ("a", "b"):
        found = await keys.secret_of(digest(secret))
        assert found is not None
        assert not found.is_alive(at)
    # Nor does a later, longer grace bring one back.
    await keys.replace_secret("k1", digest("d"), at + timedelta(days=9))
    found = await keys.secret_of(digest("a"))
    assert found is not None
    assert not found.is_alive(at)


async def test_a_revoked_key_is_ended_with_all_its_secrets(keys: KeyStore) -> None:
    await keys.add(key("k1"), digest("a"))
    await keys.replace_secret("k1", digest("b"), NOW + timedelta(hours=24))
    revoked = await keys.revoke("k1")
    assert revoked.revoked_at is not None
    for secret in ("a", "b"):
        found = await keys.secret_of(digest(secret))
        assert found is not None
        assert not found.is_alive(datetime.now(UTC))
    assert (await keys.revoke("k1")).revoked_at == revoked.revoked_at
    with pytest.raises(KeyEnded):
        await keys.replace_secret("k1", digest("c"), NOW)
    assert await keys.secret_of(digest("c")) is None


async def test_an_expired_key_lets_nobody_in_and_is_not_rotated(keys: KeyStore) -> None:
    await keys.add(key("k1", expires_at=NOW), digest("a"))
    found = await keys.secret_of(digest("a"))
    assert found is not None
    assert found.is_alive(NOW - timedelta(seconds=1))
    assert not found.is_alive(NOW)
    with pytest.raises(KeyEnded):
        await keys.replace_secret("k1", digest("b"), NOW)


async def test_what_is_not_there_is_named(keys: KeyStore) -> None:
    with pytest.raises(KeyUnknown):
        await keys.replace_secret("nobody", digest("a"), NOW)
    with pytest.raises(KeyUnknown):
        await keys.revoke("nobody")


async def test_keys_that_ended_long_ago_go_as_another_is_made(keys: KeyStore) -> None:
    long_ago = NOW - adapter.KEEP - timedelta(days=1)
    await keys.add(key("k1", created_at=long_ago, expires_at=long_ago), digest("a"))
    await keys.add(key("k2", created_at=long_ago), digest("b"))
    lately = NOW - adapter.KEEP + timedelta(days=1)
    await keys.add(key("k3", expires_at=lately), digest("c"))
    await keys.add(key("k4"), digest("d"))
    assert {one.id for one in await keys.list()} == {"k2", "k3", "k4"}
    assert await keys.secret_of(digest("a")) is None


async def test_a_tenant_cannot_make_keys_without_end(
    keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "MAX_KEYS", 2)
    await keys.add(key("k1"), digest("a"))
    await keys.add(key("k2"), digest("b"))
    await keys.revoke("k2")
    with pytest.raises(TooManyKeys):
        await keys.add(key("k3"), digest("c"))
    await keys.add(key("k4", tenant="zeta"), digest("d"))


async def test_another_process_sees_it(store: Store, other: Store) -> None:
    await store.keys.add(key("k1"), digest("a"))
    assert (await other.keys.secret_of(digest("a"))) is not None
    await other.keys.revoke("k1")
    found = await store.keys.secret_of(digest("a"))
    assert found is not None
    assert found.key.revoked_at is not None


async def test_no_column_holds_a_secret(store: Store, truth_dsn: str) -> None:
    secret = "plait_" + "s3cret" * 7
    await store.keys.add(key("k1"), digest(secret))
    with psycopg.connect(truth_dsn, options="-c search_path=plait") as conn:
        held = conn.execute(
            "SELECT k::text || s::text FROM api_key k JOIN api_key_secret s ON s.key_id = k.id"
        ).fetchone()
    assert held
    assert secret not in held[0]
    assert digest(secret).hex() in held[0]
