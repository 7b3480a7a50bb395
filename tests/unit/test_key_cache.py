"""Who an API key's secret lets in: from the store, kept for a moment, and never by guessing."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.access import Caller, Verb
from plait.domain.errors import KeyUnknown, StoreUnavailable, Unauthenticated
from plait.domain.keys import ApiKey, KeySecret
from server.access import keys
from server.access.keys import KeyCache, digest_of, new_secret

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Kept:
    """A KeyStore in memory that counts who asks it."""

    def __init__(self) -> None:
        self.secrets: dict[bytes, KeySecret] = {}
        self.asked: list[bytes] = []
        self.at_once = self.most_at_once = 0
        self.gate: asyncio.Event | None = None
        self.away = False

    async def add(self, key: ApiKey, digest: bytes) -> None:
        self.secrets[digest] = KeySecret(key, digest)

    async def list(self) -> Sequence[ApiKey]:
        return [secret.key for secret in self.secrets.values()]

    async def secret_of(self, digest: bytes) -> KeySecret | None:
        self.asked.append(digest)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.gate is not None:
                await self.gate.wait()
            else:
                await asyncio.sleep(0)
            if self.away:
                raise StoreUnavailable("away")
            return self.secrets.get(digest)
        finally:
            self.at_once -= 1

    async def replace_secret(self, key_id: str, digest: bytes, old_until: datetime) -> ApiKey:
        raise NotImplementedError

    async def revoke(self, key_id: str) -> ApiKey:
        for digest, secret in self.secrets.items():
            if secret.key.id == key_id:
                revoked = replace(secret.key, revoked_at=NOW)
                self.secrets[digest] = replace(secret, key=revoked)
                return revoked
        raise KeyUnknown(key_id)


class Clock:
    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.s - 1000)


@pytest.fixture
def store() -> Kept:
    return Kept()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(store: Kept, clock: Clock) -> KeyCache:
    return KeyCache(store, clock=clock, now=clock.now)


async def made(store: Kept, id_: str = "k1", **more: object) -> str:
    secret = new_secret()
    caller = Caller(id_, frozenset({Verb.READ}), "acme", frozenset({"app"}))
    key = ApiKey(caller, id_, NOW, **more)  # type: ignore[arg-type]
    await store.add(key, digest_of(secret))
    return secret


def test_a_secret_is_256_random_bits_and_says_whose_it_is() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch(r"plait_[A-Za-z0-9_-]{43}", secret) for secret in made)
    one = made.pop()
    assert digest_of(one) == hashlib.sha256(one.encode()).digest()


async def test_the_holder_of_a_secret_is_the_key_s_caller(store: Kept, cache: KeyCache) -> None:
    secret = await made(store)
    caller = await cache.caller(secret)
    assert (caller.id, caller.tenant, caller.repositories) == ("k1", "acme", frozenset({"app"}))
    assert caller.may(Verb.READ)
    assert not caller.may(Verb.WRITE)
    assert not caller.local


async def test_what_was_found_is_asked_again_after_a_moment(
    store: Kept, cache: KeyCache, clock: Clock
) -> None:
    secret = await made(store)
    for _ in range(5):
        await cache.caller(secret)
    assert len(store.asked) == 1
    clock.s += keys.FRESH_S
    await cache.caller(secret)
    assert len(store.asked) == 2


async def test_a_key_revoked_elsewhere_is_out_within_the_stated_time(
    store: Kept, cache: KeyCache, clock: Clock
) -> None:
    secret = await made(store)
    await cache.caller(secret)
    await store.revoke("k1")
    clock.s += keys.FRESH_S
    with pytest.raises(Unauthenticated, match="revoked"):
        await cache.caller(secret)


async def test_a_key_revoked_here_is_out_at_once(store: Kept, cache: KeyCache) -> None:
    secret = await made(store)
    await cache.caller(secret)
    await store.revoke("k1")
    cache.clear()
    with pytest.raises(Unauthenticated, match="revoked"):
        await cache.caller(secret)


async def test_an_answer_from_before_a_revocation_is_not_kept(store: Kept, cache: KeyCache) -> None:
    secret = await made(store)
    found = store.secrets[digest_of(secret)]
    store.gate = asyncio.Event()
    early = asyncio.create_task(cache.caller(secret))
    await asyncio.sleep(0.01)
    await store.revoke("k1")
    cache.clear()
    store.secrets[digest_of(secret)], revoked = found, store.secrets[digest_of(secret)]
    store.gate.set()  # the answer that was on its way says what was
    await early
    store.secrets[digest_of(secret)] = revoked
    with pytest.raises(Unauthenticated, match="revoked"):
        await cache.caller(secret)


async def test_a_key_ends_on_time_though_it_is_kept(
    store: Kept, cache: KeyCache, clock: Clock
) -> None:
    secret = await made(store, expires_at=NOW + timedelta(seconds=1))
    await cache.caller(secret)
    clock.s += 1
    with pytest.raises(Unauthenticated, match="expired"):
        await cache.caller(secret)
    assert len(store.asked) == 1


async def test_a_replaced_secret_ends_with_its_grace(
    store: Kept, cache: KeyCache, clock: Clock
) -> None:
    secret = await made(store)
    digest = digest_of(secret)
    store.secrets[digest] = replace(store.secrets[digest], valid_until=NOW + timedelta(seconds=1))
    await cache.caller(secret)
    clock.s += 1
    with pytest.raises(Unauthenticated, match="another secret"):
        await cache.caller(secret)


@given(st.text(max_size=60) | st.from_regex(r"plait_[A-Za-z0-9_-]{0,60}", fullmatch=True))
async def test_what_no_key_has_is_refused_and_not_repeated_to_anyone(said: str) -> None:
    store = Kept()
    await made(store)
    with pytest.raises(Unauthenticated) as caught:
        await KeyCache(store).caller(said)
    if len(said) > 8:
        assert said not in str(caught.value)
    well_formed = bool(re.fullmatch(r"plait_[A-Za-z0-9_-]{43}", said))
    assert len(store.asked) == well_formed


async def test_wrong_secrets_fill_no_memory_and_push_no_right_one_out(
    store: Kept, cache: KeyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "MAX_UNKNOWN", 50)
    secret = await made(store)
    await cache.caller(secret)
    for _ in range(200):
        with pytest.raises(Unauthenticated):
            await cache.caller(new_secret())
    asked = len(store.asked)
    await cache.caller(secret)
    assert len(store.asked) == asked
    assert len(cache._unknown) == 50


async def test_one_wrong_secret_is_asked_for_once(store: Kept, cache: KeyCache) -> None:
    wrong = new_secret()
    for _ in range(20):
        with pytest.raises(Unauthenticated):
            await cache.caller(wrong)
    assert len(store.asked) == 1


async def test_many_at_once_ask_once(store: Kept, cache: KeyCache) -> None:
    secret = await made(store)
    callers = await asyncio.gather(*(cache.caller(secret) for _ in range(50)))
    assert {caller.id for caller in callers} == {"k1"}
    assert len(store.asked) == 1


async def test_one_who_goes_away_takes_nobody_s_answer_along(store: Kept, cache: KeyCache) -> None:
    secret = await made(store)
    store.gate = asyncio.Event()
    first, second = (asyncio.create_task(cache.caller(secret)) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    store.gate.set()
    assert (await second).id == "k1"


async def test_strangers_wait_for_each_other_and_not_the_known_for_them(
    store: Kept, cache: KeyCache, clock: Clock
) -> None:
    secret = await made(store)
    await cache.caller(secret)
    clock.s += keys.FRESH_S
    store.gate, store.most_at_once = asyncio.Event(), 0
    strangers = [asyncio.create_task(cache.caller(new_secret())) for _ in range(50)]
    await asyncio.sleep(0.01)
    assert store.most_at_once == keys.STRANGERS
    known = asyncio.create_task(cache.caller(secret))
    await asyncio.sleep(0.01)
    assert store.asked[-1] == digest_of(secret)
    store.gate.set()
    assert (await known).id == "k1"
    answers = await asyncio.gather(*strangers, return_exceptions=True)
    assert all(isinstance(answer, Unauthenticated) for answer in answers)


async def test_nobody_is_let_in_on_what_was_known_while_the_store_is_away(
    store: Kept, cache: KeyCache, clock: Clock
) -> None:
    secret = await made(store)
    await cache.caller(secret)
    store.away = True
    clock.s += keys.FRESH_S
    with pytest.raises(StoreUnavailable):
        await cache.caller(secret)
    store.away = False
    assert (await cache.caller(secret)).id == "k1"


async def test_a_digest_that_only_looks_alike_lets_nobody_in(store: Kept, cache: KeyCache) -> None:
    """As a store whose collation or cut compared less than all of it would give."""
    secret = await made(store)
    wrong = new_secret()
    store.secrets[digest_of(wrong)] = store.secrets[digest_of(secret)]
    with pytest.raises(Unauthenticated):
        await cache.caller(wrong)
