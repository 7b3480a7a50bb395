"""Every method of every service, called over TCP by those who may not: nothing is answered, nothing is told."""

from __future__ import annotations

import asyncio
import json
import os
import socket as sockets
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pool
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc

from plait.client import AsyncPlaitClient, new_memory
from plait.client.errors import PlaitRpcError, from_rpc
from plait.domain.access import Caller, Quota, Verb
from plait.domain.errors import ServerNotOurs
from plait.domain.values import Filter
from plait.memory.episode import parse
from plait.supervisor import peers, token_file
from server.access.callers import unknown
from server.app import App
from server.grpc.server import SERVICES, Server, running
from server.grpc.verbs import VERBS
from tests.e2e import conftest
from tests.processes import LIMIT_S

app, rest_between_files = conftest.app, conftest.rest_between_files

POOL = descriptor_pool.Default()
METHODS = {
    f"/{name}/{method.name}": method
    for name in SERVICES
    for method in POOL.FindServiceByName(name).methods
}
MINE, THEIRS, SECRET = "attack-mine", "attack-theirs", "zanzibarine"

KEYS = {
    "reader": Caller("k-reader", frozenset({Verb.READ}), tenant="default"),
    "writer": Caller("k-writer", frozenset({Verb.WRITE}), tenant="default"),
    "nothing": Caller("k-nothing", frozenset()),
    "acme": Caller("k-acme", tenant="acme"),
    "mine": Caller("k-mine", tenant="default", repositories=frozenset({MINE})),
    "slow": Caller("k-slow", quota=Quota(calls_per_minute=3)),
    "small": Caller("k-small", quota=Quota(max_request_bytes=100)),
}


class Keys:
    """As an installation's API keys; "expired" is one that was."""

    async def caller(self, secret: str) -> Caller:
        if secret not in KEYS:
            raise unknown()
        return KEYS[secret]


@pytest.fixture(scope="module")
async def server(app: App) -> AsyncIterator[Server]:
    with TemporaryDirectory(prefix="plait-") as folder:
        socket = Path(folder) / "plait.sock"
        async with running(app, socket=socket, host="127.0.0.1", port=0, keys=Keys()) as started:
            yield started


@pytest.fixture(scope="module")
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """Known, as one that goes on guessing without is closed."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as made:
        await call(made, "/plait.v1.IndexService/ListRepositories", bearer("reader"))
        yield made


def bearer(secret: str, tenant: str = "") -> tuple[tuple[str, str], ...]:
    said = (("authorization", f"Bearer {secret}"),)
    return (*said, ("plait-tenant", tenant)) if tenant else said


def request_of(method: str) -> Message:
    made: Message = GetMessageClass(METHODS[method].input_type)()
    return made


async def call(
    channel: grpc.aio.Channel,
    method: str,
    metadata: tuple[tuple[str, str], ...] = (),
    request: Message | None = None,
) -> list[Any]:
    """The answers of one call. Raises: PlaitRpcError."""
    about = METHODS[method]
    sent = request if request is not None else request_of(method)
    parse = GetMessageClass(about.output_type).FromString
    kind = f"{'stream' if about.client_streaming else 'unary'}_{'stream' if about.server_streaming else 'unary'}"
    made = getattr(channel, kind)(
        method, request_serializer=lambda m: m.SerializeToString(), response_deserializer=parse
    )
    given = iter([sent]) if about.client_streaming else sent
    begun = made(given, metadata=metadata, timeout=LIMIT_S)
    try:
        if about.server_streaming:
            return [answer async for answer in begun]
        return [await begun]
    except grpc.aio.AioRpcError as exc:
        raise from_rpc(exc) from exc


async def refused(*args: Any) -> PlaitRpcError:
    with pytest.raises(PlaitRpcError) as caught:
        await call(*args)
    return caught.value


def test_every_method_has_a_verb_and_no_verb_is_of_a_method_that_is_gone() -> None:
    assert set(VERBS) == set(METHODS)


@pytest.mark.parametrize("method", sorted(METHODS))
async def test_who_is_not_known_gets_nothing(
    channel: grpc.aio.Channel, server: Server, method: str
) -> None:
    guesses = [
        (),
        bearer("wrong"),
        bearer("expired"),
        bearer("x" * 5000),
        (("authorization", "Bearer "),),
        (("authorization", "Basic reader"),),
        (("authorization", "reader"),),
        (*bearer("reader"), *bearer("acme")),
        (("plait-tenant", "default"),),
    ]
    for metadata in guesses:
        error = await refused(channel, method, metadata)
        assert (error.code, error.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")


@pytest.mark.parametrize("method", sorted(METHODS))
async def test_a_key_does_what_its_verbs_say(channel: grpc.aio.Channel, method: str) -> None:
    for name in ("nothing", "reader", "writer"):
        if not KEYS[name].may(VERBS[method]):
            error = await refused(channel, method, bearer(name))
            assert (error.code, error.reason) == (
                grpc.StatusCode.PERMISSION_DENIED,
                "VERB_NOT_ALLOWED",
            )


@pytest.mark.parametrize("method", sorted(METHODS))
async def test_the_tenant_is_the_keys(channel: grpc.aio.Channel, method: str) -> None:
    for tenant in ("default", "globex"):
        error = await refused(channel, method, bearer("acme", tenant), probing(method, MINE))
        assert error.reason == "TENANT_NOT_ALLOWED", error
        assert error.code is grpc.StatusCode.PERMISSION_DENIED


# -- another repository ------------------------------------------------------------------------------------


def filled(method: str, **fields: Any) -> Message:
    return ParseDict(fields, request_of(method))


def probing(method: str, repo: str, path: str = "/") -> Message:
    """A request that is right but for naming `repo`."""
    name = method.rpartition("/")[2]
    memory = {"repository": repo, "agentId": "a", "content": "x", "type": "MEMORY_TYPE_SEMANTIC"}
    episode = {"repository": repo, "outcome": {"status": "OUTCOME_STATUS_SUCCESS", "summary": "x"}}
    fields: dict[str, dict[str, Any]] = {
        "Search": {"query": "x", "filter": {"repositories": [repo]}},
        "Recall": {"query": "x", "filter": {"repositories": [repo]}},
        "GraphQuery": {
            "template": {"name": "callers", "parameters": {"symbol": {"stringValue": "x"}}},
            "repositories": [repo],
        },
        "AppendEpisode": {"requestId": "r1", "episode": episode},
        "IngestEpisodes": {"append": {"requestId": "r1", "episode": episode}},
        "StartIndex": {"path": path, "repository": repo},
        "DeleteRepository": {"name": repo},
        "StoreMemory": {"requestId": "r1", "memory": memory},
        "BatchStoreMemories": {"requests": [{"requestId": "r1", "memory": memory}]},
        "GetMemory": {"id": str(uuid4()), "repository": repo},
        "DeleteMemory": {"id": str(uuid4()), "repository": repo},
        "ListMemories": {"filter": {"repositories": [repo]}},
        "QueryMemories": {"query": "x", "filter": {"repositories": [repo]}},
        "Learn": {"requestId": "r1", "repository": repo, "agentId": "a", "userMessage": "x"},
        "GetSavings": {"repositories": [repo]},
        "Compact": {"requestId": "r1", "repository": repo, "agentId": "a", "dryRun": True},
        "Forget": {"repository": repo, "selector": {"agentId": "a"}, "dryRun": True},
        "Verify": {"repositories": [repo]},
        "Rebuild": {"repositories": [repo]},
        "ListDeadLetters": {"repositories": [repo]},
        "RetryDeadLetters": {"repositories": [repo]},
        "ReplayRecall": {"recallId": str(uuid4())},
        "ReportFeedback": {"requestId": "r1", "recallId": str(uuid4())},
        "UndoCompaction": {"compactionId": str(uuid4())},
        "GetIndexJob": {"id": "none"},
        "WatchIndexJob": {"id": "none"},
        "ListRepositories": {},
        "Stats": {},
        "CreateKey": {
            "name": "k",
            "tenant": "acme",
            "repositories": [repo],
            "verbs": ["KEY_VERB_READ"],
        },
        "ListKeys": {},
        "RotateKey": {"keyId": "key-0"},
        "RevokeKey": {"keyId": "key-0"},
        "DescribeFolder": {"folder": path},
        "AdviseEdit": {"edits": [{"path": f"{path}/a.py", "hunks": "@@ -1 +1 @@\n-a\n+b\n"}]},
        "NameSymbols": {"folder": path, "names": ["zanzibarine"]},
    }
    return filled(method, **fields.get(name, {}))


# What names no repository names an id or a folder, or asks for all: below. Keys: tests/e2e/test_keys.py.
BY_NAME = sorted(
    method
    for method in METHODS
    # Keys belong to a tenant, and have tests of their own.
    if "/plait.v1.AccessService/" not in method
    and method.rpartition("/")[2]
    not in {
        *("ReplayRecall", "ReportFeedback", "UndoCompaction", "GetIndexJob", "WatchIndexJob"),
        *("ListRepositories", "Stats", "DescribeFolder", "AdviseEdit", "NameSymbols"),
        *("CreateKey", "ListKeys", "RotateKey", "RevokeKey"),
    }
)


@pytest.mark.parametrize("method", BY_NAME)
async def test_a_repository_of_others_is_refused_whether_it_is_there_or_not(
    channel: grpc.aio.Channel, theirs: SimpleNamespace, method: str
) -> None:
    told = set()
    for name in (THEIRS, "attack-not-there"):
        request = probing(method, name, theirs.home)
        error = await refused(channel, method, bearer("mine"), request)
        told.add((error.code, error.reason, error.message.replace(name, "")))
    if method.endswith("StartIndex"):  # over TCP no folder may be named, whatever it is called
        assert {reason for _, reason, _ in told} == {"PATH_NOT_ALLOWED"}
        return
    ((code, reason, _),) = told
    assert (code, reason) == (grpc.StatusCode.PERMISSION_DENIED, "REPOSITORY_NOT_ALLOWED")


@pytest.fixture(scope="module")
async def theirs(
    app: App,
    server: Server,
    tmp_path_factory: pytest.TempPathFactory,
) -> SimpleNamespace:
    """What another repository holds, and the ids of it, made by the owner."""
    root = tmp_path_factory.mktemp("theirs")
    (root / "secret.py").write_text(
        f"def {SECRET}():\n    return 1\n\n\ndef calls_{SECRET}():\n    return {SECRET}()\n"
    )
    async with AsyncPlaitClient(server.target) as owner:
        job = await owner.start_index(str(root), repository=THEIRS)
        *_, job = [state async for state in owner.watch_index_job(job.id)]
        assert job.state == "succeeded", job
        await owner.store(new_memory("nothing to see", repo=MINE, agent_id="a"))
        stored = await owner.store(new_memory(f"{SECRET} is the word", repo=THEIRS, agent_id="a"))
        episode = parse(
            {
                "repo": THEIRS,
                "outcome": {"status": "success", "summary": SECRET},
                "artifacts": [{"kind": "reflection", "content": f"{SECRET} was reflected on"}],
            }
        )
        await owner.append_episode(episode)
        await conftest.at_rest(app)
        recall = await owner.recall(SECRET, where=Filter(repos=(THEIRS,)))
        compaction = await owner.compact(THEIRS, "a")
    return SimpleNamespace(
        home=str(root),
        job=job.id,
        memory=str(stored.entry.id),
        recall=str(recall.recall_id),
        compaction=compaction,
    )


async def test_ids_of_others_are_unknown_ids(
    channel: grpc.aio.Channel, theirs: SimpleNamespace
) -> None:
    known = {
        "KnowledgeService/ReplayRecall": ("recallId", theirs.recall),
        "KnowledgeService/ReportFeedback": ("recallId", theirs.recall),
        "IndexService/GetIndexJob": ("id", theirs.job),
        "IndexService/WatchIndexJob": ("id", theirs.job),
        "MemoryService/GetMemory": ("id", theirs.memory),
        "MemoryService/DeleteMemory": ("id", theirs.memory),
    }
    for name, (field, id_) in known.items():
        method = f"/plait.v1.{name}"
        told = set()
        for one in (id_, str(uuid4())):
            fields: dict[str, Any] = {field: one}
            if name.endswith("Memory"):
                fields["repository"] = MINE
            if name.endswith("Feedback"):
                fields |= {
                    "requestId": "r1",
                    "outcome": {"status": "OUTCOME_STATUS_SUCCESS", "summary": "x"},
                }
            error = await refused(channel, method, bearer("mine"), filled(method, **fields))
            told.add((error.code, error.reason, error.message.replace(one, "")))
        ((code, _, _),) = told
        assert code is grpc.StatusCode.NOT_FOUND, name
    undo = "/plait.v1.AdminService/UndoCompaction"
    error = await refused(channel, undo, bearer("mine"), probing(undo, MINE))
    assert error.reason == "COMPACTION_UNKNOWN"


async def test_ids_of_others_inside_a_request_of_ones_own_do_nothing(
    channel: grpc.aio.Channel, theirs: SimpleNamespace
) -> None:
    store = "/plait.v1.MemoryService/StoreMemory"
    memory = {"repository": MINE, "agentId": "a", "content": "takes its place"}
    told = set()
    for one in (theirs.memory, str(uuid4())):
        request = filled(store, requestId=f"r-{one}", memory=memory, supersedes=one)
        error = await refused(channel, store, bearer("mine"), request)
        told.add((error.code, error.reason, error.message.replace(one, "")))
    ((_, reason, _),) = told
    assert reason == "MEMORY_NOT_FOUND"
    forget = "/plait.v1.AdminService/Forget"
    selector = {"ids": [theirs.memory]}
    for dry in (True, False):
        request = filled(forget, repository=MINE, selector=selector, dryRun=dry)
        found = await told_of(channel, forget, request)
        assert "memories: " not in found, found
    get = "/plait.v1.MemoryService/GetMemory"
    request = filled(get, id=theirs.memory, repository=THEIRS)
    (still,) = await call(channel, get, bearer("reader"), request)
    assert SECRET in still.memory.content
    search = "/plait.v1.KnowledgeService/Search"
    asked = {"repositories": [MINE], "collections": ["COLLECTION_MEMORIES"]}
    request = filled(search, query=SECRET, filter=asked, whyNot=[theirs.memory], explain=True)
    assert "is the word" not in await told_of(channel, search, request)


async def told_of(channel: grpc.aio.Channel, method: str, request: Message) -> str:
    """All that the key of one repository is answered, be it an error."""
    try:
        return str(await call(channel, method, bearer("mine"), request))
    except PlaitRpcError as exc:
        if exc.code not in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT):
            raise
        return str(exc).replace(SECRET, "", 1)  # the query itself is repeated


async def test_nothing_of_others_is_in_an_answer_about_everything(
    channel: grpc.aio.Channel, theirs: SimpleNamespace
) -> None:
    everything: dict[str, dict[str, Any]] = {
        "KnowledgeService/Search": {"query": SECRET, "filter": {"allRepositories": True}},
        "KnowledgeService/Recall": {"query": SECRET, "filter": {"allRepositories": True}},
        "KnowledgeService/GraphQuery": {
            "template": {"name": "callers", "parameters": {"symbol": {"stringValue": SECRET}}},
            "allRepositories": True,
        },
        "MemoryService/ListMemories": {"filter": {"allRepositories": True}},
        "MemoryService/QueryMemories": {"query": SECRET, "filter": {"allRepositories": True}},
        "MemoryService/GetSavings": {"allRepositories": True},
        "AdminService/Stats": {"includeGraph": True},
        "AdminService/Verify": {"allRepositories": True},
        "AdminService/ListDeadLetters": {"allRepositories": True},
        "IndexService/ListRepositories": {},
        "HookService/DescribeFolder": {"folder": theirs.home, "refresh": True},
        "HookService/NameSymbols": {"folder": theirs.home, "names": [SECRET]},
        "HookService/AdviseEdit": {
            "edits": [{"path": f"{theirs.home}/secret.py", "hunks": "@@ -1 +1 @@\n-a\n+b\n"}]
        },
    }
    for name, fields in everything.items():
        method = f"/plait.v1.{name}"
        found = await told_of(channel, method, filled(method, **fields))
        assert THEIRS not in found, name
        assert f"calls_{SECRET}" not in found, name
        assert f"{SECRET} is the word" not in found, name
        assert f"{SECRET} was reflected" not in found, name


async def test_cypher_and_ids_in_a_template_stay_inside(
    channel: grpc.aio.Channel, theirs: SimpleNamespace
) -> None:
    method = "/plait.v1.KnowledgeService/GraphQuery"
    cypher = filled(method, cypher={"text": "MATCH (n) RETURN n"}, repositories=[MINE])
    error = await refused(channel, method, bearer("mine"), cypher)
    assert error.reason == "CYPHER_NOT_ALLOWED"
    for symbol in (f"{THEIRS}:secret.{SECRET}", f"secret.{SECRET}", SECRET):
        asked = {"name": "callers", "parameters": {"symbol": {"stringValue": symbol}}}
        request = filled(method, template=asked, repositories=[MINE])
        error = await refused(channel, method, bearer("mine"), request)
        assert error.reason in ("REPOSITORY_NOT_ALLOWED", "UNKNOWN_SYMBOL")


# -- quotas, health, the token -----------------------------------------------------------------------------


async def test_a_key_keeps_to_its_quota(channel: grpc.aio.Channel) -> None:
    method = "/plait.v1.IndexService/ListRepositories"
    for _ in range(3):
        await call(channel, method, bearer("slow"))
    error = await refused(channel, method, bearer("slow"))
    assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")
    assert error.retry_after_s
    search = "/plait.v1.KnowledgeService/Search"
    large = filled(search, query="x" * 200, filter={"allRepositories": True})
    assert (await refused(channel, search, bearer("small"), large)).reason == "QUOTA_EXCEEDED"


async def test_without_a_token_nothing_but_health_answers(channel: grpc.aio.Channel) -> None:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    for method in ("/plait.v1.Nothing/Nothing", "/grpc.reflection.v1alpha.ServerReflection/X"):
        made: Any = channel.unary_unary(method, bytes, bytes)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await made(b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_the_token_of_the_home_opens_and_is_rotated_without_downtime(
    app: App,
    server: Server,
) -> None:
    path = app.settings.home / "server" / "token"
    target = f"127.0.0.1:{server.port}"
    old = token_file.read(path).current
    new = token_file.rotate(path).current
    for secret in (old, new):
        async with AsyncPlaitClient(target, token=secret) as client:
            await client.list_repositories()
    token_file.rotate(path, grace_s=0)
    async with AsyncPlaitClient(target, token=old) as client:
        with pytest.raises(PlaitRpcError) as caught:
            await client.list_repositories()
        assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED


async def test_over_tcp_no_folder_may_be_indexed_until_one_is_named(
    channel: grpc.aio.Channel,
    app: App,
    theirs: SimpleNamespace,
) -> None:
    method = "/plait.v1.IndexService/StartIndex"
    token = token_file.read(app.settings.home / "server" / "token").current
    for path in ("/", "/root", "/etc", theirs.home, "/not/there"):
        error = await refused(channel, method, bearer(token), filled(method, path=path))
        assert error.reason == "PATH_NOT_ALLOWED"


# -- another account ---------------------------------------------------------------------------------------

NO_ID = 65534
ELSEWHERE = """
import json, os, socket, sys
os.setgid({uid}); os.setuid({uid})
said = {{}}
for name in sys.argv[1:3]:
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.settimeout(5); made.connect(name); said[name] = "connected"
            made.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes(3) + b"\\x04" + bytes(5))
            said[name] = "answered" if made.recv(1) else "closed"
    except OSError as exc:
        said[name] = type(exc).__name__
try:
    open(sys.argv[3]).read(); said["token"] = "read"
except OSError as exc:
    said["token"] = type(exc).__name__
print(json.dumps(said))
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


def open_to_all(folder: Path, socket: Path) -> None:
    folder.chmod(0o755)
    socket.chmod(0o666)


@as_root
async def test_another_account_gets_to_no_socket_and_no_token(app: App) -> None:
    with TemporaryDirectory(prefix="plait-") as folder:
        socket = Path(folder) / "plait.sock"
        async with running(app, socket=socket):
            inner = socket.with_name("grpc.sock")
            token = app.settings.home / "server" / "token"
            token_file.make(token)
            command = [sys.executable, "-c", ELSEWHERE.format(uid=NO_ID)]
            args = [str(socket), str(inner), str(token)]
            done = await asyncio.to_thread(
                subprocess.run, [*command, *args], capture_output=True, text=True, timeout=LIMIT_S
            )
            said = json.loads(done.stdout)
            assert said == {
                args[0]: "PermissionError",
                args[1]: "PermissionError",
                "token": "PermissionError",
            }
            # Were the folder and the socket open to all, who connects would still be looked at.
            open_to_all(Path(folder), socket)
            done = await asyncio.to_thread(
                subprocess.run, [*command, *args], capture_output=True, text=True, timeout=LIMIT_S
            )
            said = json.loads(done.stdout)
            assert said[args[0]] in ("closed", "ConnectionResetError", "BrokenPipeError")
            assert said[args[1]] == "PermissionError"
            assert said["token"] == "PermissionError"


IMPOSTOR = """
import os, socket, sys
os.setgid({uid}); os.setuid({uid})
made = socket.socket(socket.AF_UNIX)
made.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777); made.listen()
print("listening", flush=True)
while True:
    made.accept()
"""


@as_root
def test_a_client_says_nothing_to_another_accounts_server() -> None:
    from plait.client import PlaitClient

    with TemporaryDirectory(prefix="plait-") as folder:
        Path(folder).chmod(0o777)
        path = f"{folder}/plait.sock"
        with subprocess.Popen(
            [sys.executable, "-c", IMPOSTOR.format(uid=NO_ID), path],
            stdout=subprocess.PIPE,
            text=True,
        ) as impostor:
            try:
                assert impostor.stdout is not None
                assert impostor.stdout.readline() == "listening\n"
                with pytest.raises(ServerNotOurs, match="another account"):
                    PlaitClient(f"unix:{path}")
            finally:
                impostor.kill()


def test_the_kernel_says_who_is_at_the_other_end() -> None:
    one, other = sockets.socketpair(sockets.AF_UNIX)
    with one, other:
        assert peers.uid_of(one) == os.geteuid()
        assert peers.is_ours(other)
