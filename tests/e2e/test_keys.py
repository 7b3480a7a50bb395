"""API keys over the contract and by `plait keys`: made once seen, listed without secrets, rotated, revoked."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc.aio
import pytest

from plait.client import AsyncPlaitClient, PlaitRpcError
from plait.domain.access import Quota, Verb
from plait.domain.errors import Unauthenticated
from plait.v1 import access_service_pb2 as pb
from server.access.keys import KeyCache
from server.app import App
from server.grpc.server import running
from tests.processes import LIMIT_S


@pytest.fixture(scope="module")
async def socket(app: App, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Path]:
    path = tmp_path_factory.mktemp("k") / "plait.sock"
    async with running(app, socket=path):
        yield path


@pytest.fixture(scope="module")
async def owner(socket: Path) -> AsyncIterator[AsyncPlaitClient]:
    async with AsyncPlaitClient(f"unix:{socket}") as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"k-{uuid4().hex[:8]}"


# -- over the contract -------------------------------------------------------------------------------------


async def test_a_key_lives_and_ends(owner: AsyncPlaitClient, app: App, name: str) -> None:
    made = await owner.create_key(
        name,
        tenant="acme",
        repositories=("app", "lib"),
        verbs=(Verb.READ, Verb.WRITE),
        quota=Quota(600, 1_000_000, 4),
        ttl=timedelta(days=90),
    )
    assert made.secret not in repr(made)
    key, cache = made.key, KeyCache(app.truth.keys)
    assert (key.name, key.made_by, key.caller.tenant) == (name, "owner", "acme")
    assert key.expires_at is not None
    assert key.expires_at - key.created_at == timedelta(days=90)
    assert await cache.caller(made.secret) == key.caller
    (listed,) = [one for one in await owner.list_keys() if one.name == name]
    assert listed == key

    rotated = await owner.rotate_key(key.id)
    assert rotated.secret != made.secret
    assert rotated.old_until is not None
    assert timedelta(hours=23) < rotated.old_until - datetime.now(UTC) <= timedelta(hours=24)
    for secret in (made.secret, rotated.secret):
        assert (await cache.caller(secret)).id == key.id

    at_once = await owner.rotate_key(key.id, grace=timedelta(0))
    cache.clear()
    for secret in (made.secret, rotated.secret):
        with pytest.raises(Unauthenticated):
            await cache.caller(secret)
    assert (await cache.caller(at_once.secret)).id == key.id

    revoked = await owner.revoke_key(key.id)
    assert revoked.revoked_at is not None
    cache.clear()
    with pytest.raises(Unauthenticated, match="revoked"):
        await cache.caller(at_once.secret)
    assert key.id not in {one.id for one in await owner.list_keys()}
    assert key.id in {one.id for one in await owner.list_keys(include_ended=True)}
    assert await owner.revoke_key(key.id) == revoked


@pytest.mark.parametrize(
    ("request_", "reason", "field"),
    [
        (pb.CreateKeyRequest(), "INVALID_INPUT", "name"),
        (pb.CreateKeyRequest(name="-x"), "INVALID_INPUT", "name"),
        (pb.CreateKeyRequest(name="a b"), "INVALID_INPUT", "name"),
        (pb.CreateKeyRequest(name="a" * 65), "INVALID_INPUT", "name"),
        (pb.CreateKeyRequest(name="a"), "SCOPE_MISSING", "tenant"),
        (pb.CreateKeyRequest(name="a", tenant="t", all_tenants=True), "INVALID_INPUT", "tenant"),
        (pb.CreateKeyRequest(name="a", tenant="NO"), "INVALID_INPUT", "tenant"),
        (pb.CreateKeyRequest(name="a", tenant="t"), "SCOPE_MISSING", "repositories"),
        (
            pb.CreateKeyRequest(
                name="a", tenant="t", repositories=["z@x"], verbs=[pb.KEY_VERB_READ]
            ),
            "INVALID_INPUT",
            "repository",
        ),
        (
            pb.CreateKeyRequest(name="a", tenant="t", all_repositories=True),
            "INVALID_INPUT",
            "verbs",
        ),
    ],
)
async def test_what_is_no_key_is_refused_with_its_field(
    owner: AsyncPlaitClient, socket: Path, request_: pb.CreateKeyRequest, reason: str, field: str
) -> None:
    found = await refused(socket, request_)
    assert (found.reason, list(found.fields)) == (reason, [field])


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"verbs": [0]}, "verbs"),
        ({"verbs": [1, 9]}, "verbs"),
        ({"calls_per_minute": -1}, "calls_per_minute"),
        ({"max_request_bytes": -1}, "max_request_bytes"),
        ({"max_concurrent": 10_001}, "max_concurrent"),
        ({"ttl": {"seconds": 0}}, "ttl"),
        ({"ttl": {"seconds": -5}}, "ttl"),
        ({"ttl": {"seconds": 315_576_000_000}}, "ttl"),
    ],
)
async def test_limits_of_a_key_have_limits(socket: Path, more: dict[str, Any], field: str) -> None:
    request = pb.CreateKeyRequest(
        **{"name": "a", "tenant": "t", "all_repositories": True, "verbs": [1], **more}
    )
    found = await refused(socket, request)
    assert (found.reason, list(found.fields)) == ("INVALID_INPUT", [field])


async def refused(socket: Path, request: pb.CreateKeyRequest) -> PlaitRpcError:
    from plait.client.errors import from_rpc
    from plait.v1.access_service_pb2_grpc import AccessServiceStub

    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await AccessServiceStub(channel).CreateKey(request)
    return from_rpc(caught.value)


async def test_what_is_not_there_is_named(owner: AsyncPlaitClient, name: str) -> None:
    for call in (owner.rotate_key("key-0"), owner.revoke_key(""), owner.revoke_key("%")):
        with pytest.raises(PlaitRpcError) as caught:
            await call
        assert caught.value.reason == "KEY_UNKNOWN"
    made = await owner.create_key(name, tenant="acme", all_repositories=True)
    with pytest.raises(PlaitRpcError) as caught:
        await owner.create_key(name, tenant="acme", all_repositories=True)
    assert caught.value.reason == "KEY_NAME_TAKEN"
    with pytest.raises(PlaitRpcError) as caught:
        await owner.rotate_key(made.key.id, grace=timedelta(days=31))
    assert caught.value.reason == "INVALID_INPUT"
    await owner.revoke_key(made.key.id)
    with pytest.raises(PlaitRpcError) as caught:
        await owner.rotate_key(made.key.id)
    assert caught.value.reason == "KEY_ENDED"


# -- by the command ----------------------------------------------------------------------------------------


@dataclass
class Done:
    code: int
    out: str
    err: str


Plait = Callable[..., Awaitable[Done]]


@pytest.fixture
def plait(command_environment: dict[str, str], socket: Path, tmp_path: Path) -> Plait:
    """A command against the server of this process, which answers meanwhile."""

    async def run(*words: str) -> Done:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "server.cli", *words),
            cwd=tmp_path,
            env={**command_environment, "PLAIT_SERVER": f"unix:{socket}"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), LIMIT_S)
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())

    return run


async def test_a_key_by_commands(plait: Plait, app: App, name: str) -> None:
    added = await plait(
        *("keys", "add", name, "--tenant", "acme", "--repo", "app", "--repo", "lib"),
        *("--verbs", "read,write", "--expires", "90d", "--calls-per-minute", "600"),
    )
    assert added.code == 0, added.err
    # Alone on standard output, as `TOKEN=$(plait keys add …)` wants it, and nowhere else.
    assert re.fullmatch(r"plait_[A-Za-z0-9_-]{43}\n", added.out)
    secret = added.out.strip()
    assert secret not in added.err
    assert "read,write in app, lib of tenant acme" in added.err
    caller = await KeyCache(app.truth.keys).caller(secret)
    assert (caller.tenant, caller.quota.calls_per_minute) == ("acme", 600)

    listed = await plait("keys", "list")
    assert listed.code == 0
    (row,) = [line for line in listed.out.splitlines() if line.startswith(name)]
    for told in ("acme", "app, lib", "read,write", "600 calls a minute", "owner", caller.id):
        assert told in row
    as_json = json.loads((await plait("keys", "list", "--tenant", "acme", "--json")).out)
    assert name in {key["name"] for key in as_json["keys"]}
    for text in (listed.out, listed.err, json.dumps(as_json)):
        assert secret not in text
        assert "plait_" not in text

    taken = await plait("keys", "add", name, "--tenant", "acme", "--all-repos")
    assert (taken.code, "KEY_NAME_TAKEN" in taken.err, taken.out) == (1, True, "")

    rotated = json.loads((await plait("keys", "rotate", name, "--grace", "0", "--json")).out)
    cache = KeyCache(app.truth.keys)
    with pytest.raises(Unauthenticated):
        await cache.caller(secret)
    assert (await cache.caller(rotated["secret"])).id == caller.id == rotated["key"]["id"]

    revoked = await plait("keys", "revoke", name)
    assert (revoked.code, revoked.out) == (0, "")
    cache.clear()
    with pytest.raises(Unauthenticated):
        await cache.caller(rotated["secret"])
    ended = await plait("keys", "rotate", name)
    assert (ended.code, "KEY_ENDED" in ended.err) == (1, True)
    gone = await plait("keys", "revoke", "nobody")
    assert (gone.code, "KEY_UNKNOWN" in gone.err) == (1, True)


async def test_a_name_of_several_tenants_is_asked_back(plait: Plait, name: str) -> None:
    for tenant in ("acme", "zeta"):
        done = await plait("keys", "add", name, "--tenant", tenant, "--all-repos", "--json")
        assert done.code == 0, done.err
    both = await plait("keys", "revoke", name)
    assert (both.code, "--tenant NAME" in both.err) == (1, True)
    one = await plait("keys", "revoke", name, "--tenant", "zeta", "--json")
    assert json.loads(one.out)["key"]["tenant"] == "zeta"
    rest = await plait("keys", "revoke", name, "--json")
    assert json.loads(rest.out)["key"]["tenant"] == "acme"
