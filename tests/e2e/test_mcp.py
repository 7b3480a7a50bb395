"""The MCP server on real stores: in memory, over stdio and over HTTP, by both SDKs, in both protocols."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, ListRootsResult, Root

from plait.client import AsyncPlaitClient
from plait.client.discovery import ServerAddress
from plait.settings import Settings
from server.app import App
from server.grpc.server import Server, running
from server.mcp.answer import META
from server.mcp.server import Setup, build
from server.mcp.service import Service
from server.process.address import announce, claimed
from tests.processes import LIMIT_S, eventually, gone

ERAS = ("legacy", "auto")
CLIENT = Path(__file__).parents[1] / "mcp_client.mjs"
MODULES = CLIENT.parents[1] / "node_modules" / "@modelcontextprotocol"


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


@pytest.fixture
def service(server: Server) -> Service:
    return Service(lambda: AsyncPlaitClient(server.target))


Opened = Callable[..., Any]


@pytest.fixture
def opened(service: Service, source: Path, indexed: str) -> Opened:
    """A client in memory of a server that was started in `source`, or in another folder."""

    def make(folder: Path | None = source, *, trusts: bool = True, **options: Any) -> Client:
        return Client(build(Setup(service, folder, trusts, LIMIT_S, 0.5)), **options)

    return make


def project(root: Path, function: str = "alone") -> Path:
    """A small repository that nobody has indexed yet."""
    root.mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "one.py").write_text(
        f"def {function}():\n    return helper()\n\n\ndef helper():\n    return 1\n"
    )
    return root


# -- in memory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_each_tool_answers_in_both_protocols(opened: Opened, era: str) -> None:
    async with opened(mode=era) as client:
        assert client.instructions.startswith("Use Plait before")
        assert client.server_capabilities.tools is not None
        assert [t.name for t in (await client.list_tools()).tools] == [
            "recall",
            "search",
            "graph",
            "remember",
        ]
        found = await client.call_tool("search", {"query": "wait between attempts", "k": 2})
        assert "pkg/retries.py:4-6  pkg.retries.backoff  def backoff(attempt: int)" in text(found)
        assert "indexed" in text(found).splitlines()[-1]
        places = [hit[:2] for hit in found.structured_content["hits"]]
        assert ["pkg/retries.py:4-6", "pkg.retries.backoff"] in places
        callers = await client.call_tool("graph", {"symbol": "backoff", "ask": "callers"})
        assert text(callers).startswith("pkg/retries.py:12 pkg.retries.fetch_with_retries\n")
        recalled = await client.call_tool("recall", {"task": "make the retries back off longer"})
        assert "pkg/retries.py" in text(recalled)
        assert recalled.structured_content["context"] in text(recalled)
        assert recalled.meta[META]["recall_id"]
        note = {"text": f"{era}: backoff is capped at 30 s", "about": "pkg.retries.backoff"}
        kept = await client.call_tool("remember", note)
        assert text(kept).startswith("kept about pkg.retries.backoff")
        again = await client.call_tool("remember", note)
        assert text(again).startswith("it was known already")


@pytest.mark.parametrize(
    ("ask", "symbol", "said"),
    [
        ("callees", "fetch_with_retries", "pkg/retries.py:4 pkg.retries.backoff called at 12"),
        ("impact", "backoff", "pkg/retries.py:12 pkg.retries.fetch_with_retries"),
        ("tests", "backoff", "no test is known"),
        ("path", "fetch_with_retries", "pkg/retries.py:4 pkg.retries.backoff"),
        ("outline", "pkg/retries.py", "4-6 pkg.retries.backoff function"),
    ],
)
async def test_the_graph_answers_with_places(
    opened: Opened, ask: str, symbol: str, said: str
) -> None:
    async with opened() as client:
        more = {"to": "backoff"} if ask == "path" else {}
        found = await client.call_tool("graph", {"symbol": symbol, "ask": ask, **more})
        assert said in text(found)
        assert not found.is_error


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("search", {"query": "  "}, "`query` is empty"),
        ("search", {"query": "x" * 9000}, "9,000 bytes, more than 8,192"),
        ("search", {"query": "x", "k": 1000}, "`k` is 1,000; give 1 to 50"),
        ("search", {"query": "x", "paths": "../../etc/**"}, "outside the repository"),
        ("search", {"query": "x", "repo": "servd"}, "Did you mean served"),
        ("recall", {}, "say what you are about to do"),
        ("recall", {"diff": "+x\n" * 350_000}, "send the part that matters"),
        ("recall", {"task": "x", "budget": 1}, "give 150 to 8,000"),
        ("graph", {"symbol": "backof", "ask": "callers"}, "near it: backoff"),
        ("graph", {"symbol": "backoff", "ask": "path"}, "needs two symbols"),
        ("graph", {"symbol": "backoff", "ask": "calls"}, "Invalid enum value 'calls'"),
        ("remember", {"text": ""}, "`text` is empty"),
        ("remember", {"text": "x", "about": "/etc/passwd"}, "outside the repository"),
        ("forget", {}, "There is no tool 'forget'"),
    ],
)
async def test_an_odd_call_is_told_what_to_do(
    opened: Opened, tool: str, given: dict[str, Any], said: str
) -> None:
    async with opened() as client:
        found = await client.call_tool(tool, given)
        assert found.is_error
        assert said in text(found)
        assert len(text(found)) < 500


@pytest.mark.parametrize("era", ERAS)
async def test_fifty_calls_at_once_and_cancelled_ones(opened: Opened, era: str) -> None:
    async with opened(mode=era) as client:
        calls = [
            asyncio.create_task(client.call_tool("search", {"query": f"retries {n}"}))
            for n in range(50)
        ]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(a, CallToolResult) and not a.is_error for a in answers[1::2])
        assert not (await client.call_tool("search", {"query": "retries"})).is_error


async def test_a_recall_keeps_its_budget_as_text_and_as_json(opened: Opened) -> None:
    from plait.text import token_count

    count = token_count.counter().count
    async with opened() as client:
        for budget in (150, 900):
            asked = {"task": "change how retries back off", "budget": budget}
            found = await client.call_tool("recall", asked)
            assert count(text(found)) <= budget
            assert count(json.dumps(found.structured_content, ensure_ascii=False)) <= budget


async def test_no_call_is_traced(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp.server import _otel

    def span(*args: Any, **more: Any) -> Any:
        raise AssertionError("a span was begun")

    monkeypatch.setattr(_otel, "otel_span", span)
    async with opened() as client:
        assert not (await client.call_tool("search", {"query": "retries"})).is_error


# -- which repository --------------------------------------------------------------------------------------


async def test_a_new_folder_is_indexed_by_the_first_call(opened: Opened, tmp_path: Path) -> None:
    root = project(tmp_path / "fresh")
    async with opened(root / "nowhere" / "..") as client:
        found = await client.call_tool("search", {"query": "alone"})
        assert "one.py:1-2  one.alone" in text(found)

        async def graph_is_there() -> bool:
            callers = await client.call_tool("graph", {"symbol": "helper", "ask": "callers"})
            assert not callers.is_error, text(callers)
            return text(callers).startswith("one.py:2 one.alone")

        await eventually(graph_is_there)


async def test_a_second_folder_of_one_name_gets_a_name_of_its_own(
    opened: Opened, client: AsyncPlaitClient, tmp_path: Path
) -> None:
    one, two = project(tmp_path / "a" / "twin", "first"), project(tmp_path / "b" / "twin", "second")
    for root, function in ((one, "first"), (two, "second")):
        async with opened(root) as agent:
            found = await agent.call_tool("search", {"query": function, "k": 1})
            assert f"one.{function}" in text(found)
    names = {r.root: r.name for r in await client.list_repositories()}
    assert names[str(one)] == "twin"
    assert names[str(two)].startswith("twin-")


async def test_a_nested_work_tree_is_indexed_apart(opened: Opened, tmp_path: Path) -> None:
    outer = project(tmp_path / "outer", "outside")
    inner = project(outer / ".claude" / "worktrees" / "inner", "inside")
    (inner / ".git").rmdir()
    (inner / ".git").write_text("gitdir: ../../../.git/worktrees/inner\n")
    async with opened(outer) as client:
        assert "one.outside" in text(await client.call_tool("search", {"query": "outside"}))
    async with opened(inner) as client:
        found = text(await client.call_tool("search", {"query": "inside"}))
        assert "one.inside" in found
        assert "outside" not in found


async def test_an_edit_is_said_and_indexed_behind(opened: Opened, tmp_path: Path) -> None:
    root = project(tmp_path / "edited")
    async with opened(root) as client:
        await client.call_tool("search", {"query": "alone"})
        later = time.time() + 60
        (root / "one.py").write_text("def replaced():\n    return 1\n")
        os.utime(root / "one.py", (later, later))
        found = await client.call_tool("search", {"query": "alone helper", "k": 1})
        assert "the shown file changed since" in text(found)
        assert found.meta[META]["changed"] == ["one.py"]

        async def indexed_again() -> bool:
            return "one.replaced" in text(await client.call_tool("search", {"query": "replaced"}))

        await eventually(indexed_again)


async def test_the_clients_root_comes_before_the_working_folder(
    opened: Opened, source: Path, tmp_path: Path
) -> None:
    root = project(tmp_path / "rooted here")

    async def roots(_: Any) -> ListRootsResult:
        uri: Any = root.as_uri()
        return ListRootsResult(roots=[Root(uri=uri)])

    async with opened(source, mode="legacy", list_roots_callback=roots) as client:
        found = await client.call_tool("search", {"query": "alone", "k": 1})
        assert "one.alone" in text(found)
        assert found.meta[META]["repository"] == "rooted-here"
        named = await client.call_tool("search", {"query": "backoff", "k": 1, "repo": "served"})
        assert named.meta[META]["repository"] == "served"


async def test_over_http_a_root_chooses_and_indexes_nothing(
    opened: Opened, source: Path, tmp_path: Path
) -> None:
    async def roots(_: Any) -> ListRootsResult:
        uri: Any = project(tmp_path / f"of-the-server-{time.monotonic_ns()}").as_uri()
        return ListRootsResult(roots=[Root(uri=uri)])

    agent = opened(source, trusts=False, mode="legacy", list_roots_callback=roots)
    async with agent as client:
        found = await client.call_tool("search", {"query": "alone"})
        assert found.is_error
        assert "is not indexed on this server" in text(found)


@pytest.mark.parametrize("kind", ["root", "empty", "gone"])
async def test_a_folder_that_is_no_repository_is_left_alone(
    opened: Opened, client: AsyncPlaitClient, tmp_path: Path, kind: str
) -> None:
    folder = {"root": Path("/"), "empty": tmp_path, "gone": tmp_path / "gone"}[kind]
    before = {known.name for known in await client.list_repositories()}
    async with opened(folder) as agent:
        found = await agent.call_tool("search", {"query": "backoff"})
    # With one repository in all, that one is meant; with several, it says which there are.
    assert len(before) == 1 or found.is_error
    if found.is_error:
        assert "`repo`" in text(found)
    assert {known.name for known in await client.list_repositories()} == before


# -- processes ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def announced(app: App, settings: Settings) -> AsyncIterator[None]:
    """The session's server as the service of its home, for processes that look for it there."""
    with claimed(settings.home) as socket:
        async with running(app, socket=socket):
            announce(
                settings.home, ServerAddress(os.getpid(), str(socket), "", 0, "test", "2026-01-01")
            )
            yield


def command(*more: str) -> list[str]:
    return [sys.executable, "-P", "-m", "server.cli", "mcp", *more]


@asynccontextmanager
async def over_stdio(source: Path, environment: dict[str, str], era: str) -> AsyncIterator[Client]:
    program, *arguments = command()
    parameters = StdioServerParameters(command=program, args=arguments, cwd=source, env=environment)
    async with Client(stdio_client(parameters), mode=era) as client:
        yield client


@pytest.mark.parametrize("era", ERAS)
async def test_over_stdio(
    announced: None, indexed: str, source: Path, command_environment: dict[str, str], era: str
) -> None:
    async with over_stdio(source, command_environment, era) as client:
        assert len((await client.list_tools()).tools) == 4
        found = await client.call_tool("search", {"query": "backoff", "k": 1})
        assert "pkg.retries.backoff" in text(found)
        assert (await client.call_tool("search", {"query": ""})).is_error


@contextmanager
def shim(source: Path, environment: dict[str, str], **options: Any) -> Iterator[Any]:
    """A shim that is spoken to by hand."""
    started = subprocess.Popen(
        command(),
        cwd=source,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    },
}


def say(process: Any, *messages: Any) -> None:
    for message in messages:
        process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def hear(process: Any) -> Any:
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return json.loads(line)


def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def initialize(process: Any) -> None:
    say(process, INITIALIZE)
    assert hear(process)["result"]["serverInfo"]["name"] == "plait"
    say(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})


async def test_the_shim_is_light_and_ends_with_its_input(
    announced: None, indexed: str, source: Path, command_environment: dict[str, str]
) -> None:
    """What a session holds for as long as it lasts: no model, no store, no server."""
    # The interpreter itself says on its way out what it has loaded, which os._exit would skip.
    script = (
        "import os, sys; leave = os._exit\n"
        "def end(code):\n"
        "    print(*sys.modules, file=sys.stderr, flush=True); leave(code)\n"
        "os._exit = end\n"
        "from server.cli import main; main(['mcp'])"
    )

    def talk() -> tuple[int, set[str]]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", script],
            cwd=source,
            env=command_environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            initialize(process)
            say(process, call(2, "search", query="backoff"), call(3, "recall", task="backoff"))
            say(
                process,
                call(4, "graph", symbol="backoff", ask="callers"),
                call(5, "remember", text="x y"),
            )
            answers = sorted(
                (hear(process) for _ in range(4)), key=lambda answer: int(answer["id"])
            )
            assert [answer["result"].get("isError") for answer in answers] == [False] * 4, answers
            _, said = process.communicate()
            loaded = said.decode().split()
            assert loaded, "it did not end by os._exit"
            return process.returncode, set(loaded)
        finally:
            process.kill()
            process.communicate()

    code, loaded = await asyncio.to_thread(talk)
    assert code == 0
    heavy = {"server.app", "onnxruntime", "numpy", "psycopg", "neo4j", "quicktok", "tokenizers"}
    assert loaded & heavy == set()
    assert "server.mcp.stdio" in loaded


def test_closed_input_and_garbage_end_cleanly(
    source: Path, command_environment: dict[str, str]
) -> None:
    for given in (b"", b"hello\n", os.urandom(5000) + b"\n{}\n[]\nnull\n"):
        done = subprocess.run(
            command(),
            cwd=source,
            env=command_environment,
            input=given,
            capture_output=True,
            timeout=LIMIT_S,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert all(json.loads(line)["error"] for line in done.stdout.splitlines())
    line = " ".join(command()) + " <&-"
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=source,
        env=command_environment,
        capture_output=True,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_garbage_between_messages_is_passed_over(
    source: Path, command_environment: dict[str, str]
) -> None:
    with shim(source, command_environment) as process:
        initialize(process)
        process.stdin.write(b"\xff\xfe garbage\n{\n")
        say(process, {"jsonrpc": "2.0", "id": 7, "method": "nope"})
        assert hear(process)["error"]["code"] == -32601


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_though_its_input_is_open(
    source: Path, command_environment: dict[str, str], number: signal.Signals
) -> None:
    with shim(source, command_environment) as process:
        initialize(process)
        process.send_signal(number)
        assert process.wait(LIMIT_S) == 0
        assert process.stderr.read() == b""


def test_it_does_not_outlive_its_parent(source: Path, command_environment: dict[str, str]) -> None:
    """The parent is killed and its end of the pipe stays open in somebody else, here in this test."""
    parent = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:])\n"
        "print(child.pid, file=sys.stderr, flush=True)\n"
        "child.wait()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", parent, *command()],
        cwd=source,
        env=command_environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        pid = int(process.stderr.readline())
        initialize(process)
        process.kill()
        assert gone(pid)
    finally:
        process.kill()
        process.communicate()


async def test_a_client_that_dies_in_the_middle_of_a_call_leaves_nothing(
    announced: None, indexed: str, source: Path, command_environment: dict[str, str]
) -> None:
    def talk() -> None:
        with shim(source, command_environment) as process:
            initialize(process)
            say(process, *(call(n, "search", query=f"retries {n}") for n in range(10)))
            process.stdout.close()
            process.stdin.close()
            process.stdin = process.stdout = None
            assert process.wait(LIMIT_S) == 0
            assert process.stderr.read() == b""

    await asyncio.to_thread(talk)


# -- HTTP --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def http(
    announced: None, source: Path, command_environment: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """The URL and the token of a server in `source`."""
    process = subprocess.Popen(
        command("--http", "127.0.0.1:0", "--json"),
        cwd=source,
        env=command_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    told = json.loads(line)
    yield told["url"], Path(told["token"]).read_text().strip()
    process.terminate()
    _, said = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, said) == (0, "")


@pytest.mark.parametrize("era", ERAS)
async def test_over_http(http: tuple[str, str], indexed: str, era: str) -> None:
    import httpx2

    url, secret = http
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {secret}"}) as web:
        async with Client(streamable_http_client(url, http_client=web), mode=era) as client:
            assert len((await client.list_tools()).tools) == 4
            found = await client.call_tool("search", {"query": "backoff", "k": 1})
            assert "pkg.retries.backoff" in text(found)


async def test_http_lets_nobody_else_in(http: tuple[str, str]) -> None:
    url, secret = http
    place = urlsplit(url)

    def post(body: bytes = b"{}", **headers: str) -> int:
        connection = HTTPConnection(place.hostname or "", place.port, timeout=LIMIT_S)
        try:
            sent = {"Content-Type": "application/json", **headers}
            connection.request("POST", place.path, body, sent)
            return connection.getresponse().status
        finally:
            connection.close()

    bearer = {"Authorization": f"Bearer {secret}"}
    for headers, status in (
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Origin": "https://evil.example", "Content-Type": "text/plain"}, 403),
        ({"Origin": "https://evil.example", **bearer}, 403),
        ({"Host": "evil.example", **bearer}, 421),
    ):
        assert await asyncio.to_thread(post, b"{}", **headers) == status
    both = {"Accept": "application/json, text/event-stream", **bearer}
    large = b'"' + b"x" * 5_000_000 + b'"'
    assert await asyncio.to_thread(post, large, **bearer) == 413
    assert await asyncio.to_thread(post, b"\xff garbage", **both) == 400


def test_a_port_that_is_taken_is_said(
    http: tuple[str, str], source: Path, command_environment: dict[str, str]
) -> None:
    where = urlsplit(http[0]).netloc
    done = subprocess.run(
        command("--http", where),
        cwd=source,
        env=command_environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "[PORT_TAKEN]" in done.stderr
    refused = subprocess.run(
        command("--http", "0.0.0.0:0"),
        cwd=source,
        env=command_environment,
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 1
    assert "[MCP_ADDRESS_REFUSED]" in refused.stderr


# -- the TypeScript SDK ------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_typescript_sdk_is_answered(
    http: tuple[str, str],
    indexed: str,
    source: Path,
    command_environment: dict[str, str],
    era: str,
    transport: str,
) -> None:
    node = shutil.which("node")
    if node is None or not MODULES.is_dir():
        assert not os.environ.get("CI"), "CI has node, and runs `npm ci` before the tests"
        pytest.skip("needs node and `npm ci`")
    reached = ["stdio", *command()] if transport == "stdio" else ["http", *http]
    done = await asyncio.to_thread(
        subprocess.run,
        [node, str(CLIENT), era, *reached],
        cwd=source,
        env=command_environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["tools"] == ["recall", "search", "graph", "remember"]
    assert told["instructions"].startswith("Use Plait")
    assert "pkg.retries.backoff" in told["found"]["content"][0]["text"]
    assert told["wrong"]["isError"] is True


def test_help_names_the_clients_part(command_environment: dict[str, str]) -> None:
    done = subprocess.run(
        command("--help"), env=command_environment, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "plait mcp --http" in done.stdout
