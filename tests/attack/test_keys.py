"""API keys over TCP: nobody gets more than he was given, a key that ended opens nothing, and the audit log
tells who tried without a word of what was said."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest

from plait.client import AsyncPlaitClient, Filter, PlaitRpcError, new_memory
from plait.domain.access import ALL_VERBS, Quota, Verb
from plait.domain.answers.keys import NewSecret
from server.access.keys import digest_of, new_secret
from server.app import App
from server.audit import path_of
from server.grpc.server import Server, running
from tests.e2e import conftest
from tests.processes import eventually, wait_until

app, rest_between_files = conftest.app, conftest.rest_between_files

MARKER = "zanzibarine"


@pytest.fixture(scope="module")
async def server(app: App) -> AsyncIterator[Server]:
    with TemporaryDirectory(prefix="plait-") as folder:
        async with running(app, socket=Path(folder) / "p", host="127.0.0.1", port=0) as started:
            yield started


@pytest.fixture(scope="module")
async def owner(server: Server) -> AsyncIterator[AsyncPlaitClient]:
    async with AsyncPlaitClient(server.target) as client:
        yield client


Open = Callable[[NewSecret | str], AsyncPlaitClient]


@pytest.fixture
async def opened(server: Server, app: App) -> AsyncIterator[Open]:
    """A client over TCP that shows a secret."""
    async with AsyncExitStack() as stack:

        def open_(secret: NewSecret | str) -> AsyncPlaitClient:
            shown = secret if isinstance(secret, str) else secret.secret
            client = AsyncPlaitClient(
                f"127.0.0.1:{server.port}", token=shown, settings=app.settings
            )
            stack.push_async_callback(client.close)
            return client

        yield open_


@pytest.fixture
def name() -> Callable[[], str]:
    return lambda: f"a-{uuid4().hex[:10]}"


async def refusal(call: Any) -> str:
    with pytest.raises(PlaitRpcError) as caught:
        await call
    return caught.value.reason


WIDER: dict[str, dict[str, Any]] = {
    "another tenant": {"tenant": "zeta"},
    "all tenants": {"tenant": "", "all_tenants": True},
    "another repository": {"repositories": ("app", "other")},
    "all repositories": {"repositories": (), "all_repositories": True},
    "another verb": {"verbs": ALL_VERBS},
    "a later end": {"ttl": timedelta(days=30)},
    "no end": {"ttl": None},
    "more calls": {"quota": Quota(601, 1000, 2)},
    "any number of calls": {"quota": Quota(0, 1000, 2)},
    "larger requests": {"quota": Quota(600, 0, 2)},
    "more at a time": {"quota": Quota(600, 1000, 3)},
}
OWN: dict[str, Any] = {
    "tenant": "acme",
    "repositories": ("app",),
    "verbs": (Verb.READ, Verb.ADMIN),
    "ttl": timedelta(hours=1),
    "quota": Quota(600, 1000, 2),
}


async def test_an_admin_key_gives_nothing_that_it_has_not(
    owner: AsyncPlaitClient, opened: Open, name: Callable[[], str]
) -> None:
    """Every single step up, and every two together."""
    own = {**OWN, "ttl": timedelta(hours=2), "quota": Quota(100_000, 1000, 2)}
    given = await owner.create_key(name(), **{**own, "quota": Quota(100_000, 1000, 2)})
    client = opened(given)
    wider = {**WIDER, "more calls": {"quota": Quota(100_001, 1000, 2)}}
    steps = [*itertools.combinations(wider, 1), *itertools.combinations(wider, 2)]
    for step in steps:
        asked = dict(OWN)
        for one in step:
            asked |= wider[one]
        assert await refusal(client.create_key(name(), **asked)) == "GRANT_TOO_WIDE", step
    within = await client.create_key(name(), **OWN)
    assert within.key.made_by == given.key.id
    listed = {key.id for key in await owner.list_keys()}
    assert listed >= {given.key.id, within.key.id}


async def test_keys_of_others_are_not_there_for_an_admin_key(
    owner: AsyncPlaitClient, opened: Open, name: Callable[[], str]
) -> None:
    admin = await owner.create_key(name(), **OWN)
    others = [
        await owner.create_key(name(), **{**OWN, **WIDER[step]})
        for step in ("another tenant", "all tenants", "another repository", "all repositories", "another verb")
    ]  # fmt: skip
    client = opened(admin)
    seen = {key.id for key in await client.list_keys(include_ended=True)}
    assert admin.key.id in seen
    assert not seen & {other.key.id for other in others}
    for other in others:
        assert await refusal(client.rotate_key(other.key.id)) == "KEY_UNKNOWN"
        assert await refusal(client.revoke_key(other.key.id)) == "KEY_UNKNOWN"
    alive = {key.id for key in await owner.list_keys()}
    assert alive >= {other.key.id for other in others}


@pytest.mark.parametrize(
    "step", ["a later end", "no end", "any number of calls", "larger requests"]
)
async def test_rotation_is_no_way_to_a_stronger_secret(
    owner: AsyncPlaitClient, opened: Open, name: Callable[[], str], step: str
) -> None:
    admin = await owner.create_key(name(), **OWN)
    stronger = await owner.create_key(name(), **{**OWN, **WIDER[step]})
    assert await refusal(opened(admin).rotate_key(stronger.key.id)) == "GRANT_TOO_WIDE"


@pytest.mark.parametrize("verbs", [(Verb.READ,), (Verb.WRITE,), (Verb.READ, Verb.WRITE)])
async def test_without_admin_no_key_is_managed(
    owner: AsyncPlaitClient, opened: Open, name: Callable[[], str], verbs: tuple[Verb, ...]
) -> None:
    made = await owner.create_key(name(), tenant="acme", all_repositories=True, verbs=verbs)
    client = opened(made)
    for call in (
        client.create_key(name(), tenant="acme", all_repositories=True, verbs=verbs),
        client.list_keys(),
        client.rotate_key(made.key.id),
        client.revoke_key(made.key.id),
    ):
        assert await refusal(call) == "VERB_NOT_ALLOWED"


async def test_a_key_that_ended_opens_nothing(
    owner: AsyncPlaitClient, opened: Open, name: Callable[[], str]
) -> None:
    made = await owner.create_key(name(), tenant="acme", all_repositories=True)
    client = opened(made)
    assert await client.list_repositories() == ()
    await owner.revoke_key(made.key.id)
    assert await refusal(client.list_repositories()) == "UNAUTHENTICATED"

    made = await owner.create_key(name(), tenant="acme", all_repositories=True)
    rotated = await owner.rotate_key(made.key.id)
    assert await opened(made).list_repositories() == ()
    leaked = await owner.rotate_key(made.key.id, grace=timedelta(0))
    for old in (made, rotated):
        assert await refusal(opened(old).list_repositories()) == "UNAUTHENTICATED"
    assert await opened(leaked).list_repositories() == ()

    short = await owner.create_key(
        name(), tenant="acme", all_repositories=True, ttl=timedelta(seconds=1)
    )
    client = opened(short)

    async def refused() -> str:
        try:
            await client.list_repositories()
        except PlaitRpcError as exc:
            return exc.reason
        return ""

    assert await eventually(refused) == "UNAUTHENTICATED"


async def test_near_misses_of_a_secret_open_nothing(
    owner: AsyncPlaitClient, opened: Open, name: Callable[[], str]
) -> None:
    made = await owner.create_key(name(), tenant="acme", all_repositories=True)
    right = made.secret
    last = "A" if right[-1] != "A" else "B"
    digest = digest_of(right).hex()
    wrong = [
        right[:-1], right + "A", right[:-1] + last, right.upper(), right.removeprefix("plait_"),
        made.key.id, digest, "plait_", "' OR ''='", new_secret(), right.replace("plait_", "Plait_"),
    ]  # fmt: skip
    for secret in wrong:
        assert await refusal(opened(secret).list_repositories()) == "UNAUTHENTICATED", secret
    assert await opened(made).list_repositories() == ()


async def test_the_audit_log_tells_who_wrote_and_who_was_refused_and_no_words(
    owner: AsyncPlaitClient, opened: Open, name: Callable[[], str], app: App
) -> None:
    repo = name()
    # The store is shared: one that holds another tenant answers no Cypher.
    made = await owner.create_key(
        name(), tenant="default", repositories=(repo,), verbs=(Verb.WRITE,)
    )
    client = opened(made)
    stored = await client.store(
        new_memory(f"{MARKER} one", repo=repo, agent_id=MARKER, tags=(MARKER,)), request_id="r-1"
    )
    assert await refusal(client.search(MARKER, where=Filter(repos=(repo,)))) == "VERB_NOT_ALLOWED"
    assert await refusal(client.store(new_memory(MARKER, repo="other"))) == "REPOSITORY_NOT_ALLOWED"
    assert await refusal(opened(f"plait_{MARKER}").list_repositories()) == "UNAUTHENTICATED"
    path = path_of(app.settings)

    def lines() -> list[dict[str, Any]]:
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def mine() -> list[dict[str, Any]]:
        return [line for line in lines() if line["caller"] == made.key.id]

    wait_until(lambda: len(mine()) >= 3)
    wrote, *refused = mine()
    assert (wrote["method"], wrote["code"], wrote["tenant"]) == (
        "MemoryService/StoreMemory",
        "OK",
        "default",
    )
    assert (wrote["repositories"], wrote["request_id"]) == ([repo], "r-1")
    assert wrote["ids"] == [str(stored.entry.id)]
    assert wrote["peer"].startswith("tcp 127.0.0.1")
    assert [(one["event"], one["reason"]) for one in refused] == [
        ("refused", "VERB_NOT_ALLOWED"), ("refused", "REPOSITORY_NOT_ALLOWED"),
    ]  # fmt: skip
    wait_until(lambda: any(one.get("reason") == "UNAUTHENTICATED" for one in lines()))
    assert any(
        one.get("method") == "AccessService/CreateKey" and one["peer"] == "socket"
        for one in lines()
    )
    text = path.read_text()
    assert MARKER not in text
    assert made.secret not in text
