"""`plait search`, `graph`, `ingest`, `repos` and `serve` as their users run them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from plait.client import PlaitClient, PlaitRpcError, discovery
from plait.settings import load
from tests.processes import LIMIT_S, patient, wait_until

SOURCE = '''\
def ceiling(attempt):
    """The longest wait between two attempts."""
    return min(30, attempt)


def attempts():
    return [ceiling(n) for n in range(3)]
'''


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("commanded")
    (root / "waits.py").write_text(SOURCE)
    (root / "sub").mkdir()
    return root


@pytest.fixture(scope="module")
def plait(command_environment: dict[str, str], repository: Path) -> Any:
    """Run one command inside the repository, which is indexed on the first call."""

    def run(*arguments: str, cwd: Path = repository, stdin: str = "", **more: str) -> Any:
        command = [sys.executable, "-m", "server.cli", *patient(*arguments)]
        if arguments[:1] == ("-m",):
            command = [sys.executable, *arguments]
        # -P: as the console script, which doesn't look into the working folder for modules.
        command.insert(1, "-P")
        return subprocess.run(
            command,
            cwd=cwd,
            env={**command_environment, **more},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    done = run("index", ".", "--repo", "commanded", "--no-embed")
    assert done.returncode == 0, done.stderr
    return run


def test_search_means_the_repository_you_are_in(plait: Any, repository: Path) -> None:
    done = plait("search", "longest wait between attempts", cwd=repository / "sub")
    assert done.returncode == 0, done.stderr
    assert "waits.py:1-3" in done.stdout
    assert "def ceiling(attempt):" in done.stdout
    assert "ranked by its words alone" in done.stderr
    assert "\x1b" not in done.stdout


def test_search_as_json(plait: Any) -> None:
    done = plait("search", "ceiling", "--json", "--explain", "-k", "1")
    answer = json.loads(done.stdout)
    (hit,) = answer["hits"]
    assert (hit["repo"], hit["path"], hit["start_line"]) == ("commanded", "waits.py", 1)
    assert hit["arms"]
    assert [r["repository"] for r in answer["revisions"]] == ["commanded"]


def test_nothing_found_has_its_own_code(plait: Any) -> None:
    done = plait("search", "zyzzyva", "--path", "nowhere/**")
    assert (done.returncode, done.stdout) == (3, "")
    assert "nothing found in commanded" in done.stderr


def test_an_unknown_repository_is_an_error_with_a_reason(plait: Any) -> None:
    done = plait("search", "x", "--repo", "nope", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["reason"] == "REPOSITORY_NOT_INDEXED"
    assert "[REPOSITORY_NOT_INDEXED]" in done.stderr
    assert "Traceback" not in done.stderr


def test_callers_as_rows(plait: Any) -> None:
    done = plait("graph", "callers", "waits.ceiling")
    assert done.returncode == 0, done.stderr
    assert "attempts" in done.stdout


def test_cypher_as_json(plait: Any) -> None:
    text = "MATCH (f:Function {repo: $repo}) RETURN f.name AS name ORDER BY name"
    done = plait("graph", "--cypher", text, "--param", "repo=commanded", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == [["attempts"], ["ceiling"]]


def test_cypher_that_writes_is_refused(plait: Any) -> None:
    done = plait("graph", "--cypher", "CREATE (n:X) RETURN n")
    assert done.returncode == 1
    assert "[CYPHER_REFUSED]" in done.stderr


def test_an_unknown_template_is_refused_with_the_known_ones(plait: Any) -> None:
    done = plait("graph", "callerz", "x")
    assert done.returncode in (1, 2)
    assert "callers" in done.stderr


EPISODE = {
    "repo": "commanded",
    "outcome": {"status": "success", "summary": "raised the ceiling"},
    "artifacts": [{"kind": "reflection", "content": "walrus: raise the ceiling slowly"}],
}


def test_ingest_twice_stores_once(plait: Any, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(EPISODE))
    first = plait("ingest", str(file), "--json")
    assert first.returncode == 0, first.stderr
    again = json.loads(plait("ingest", str(file), "--json").stdout)
    assert again["repeated"]
    assert json.loads(first.stdout)["episode_id"] == again["episode_id"]
    found = plait("search", "walrus", "--in", "reflections")
    assert "raise the ceiling slowly" in found.stdout


def test_the_module_stores_the_same_episode(plait: Any, tmp_path: Path) -> None:
    lines = [{**EPISODE, "request_id": "module-1"}, {**EPISODE, "request_id": "module-1"}]
    text = "\n".join(json.dumps(line) for line in lines)
    done = plait("-m", "etl.ingest_episode", "-", "--json", stdin=text)
    assert done.returncode == 0, done.stderr
    stored = [json.loads(line) for line in done.stdout.splitlines()]
    assert [s["repeated"] for s in stored] == [False, True]


def test_a_faulty_line_is_named_and_the_others_stored(plait: Any) -> None:
    bad = {**EPISODE, "artifacts": [{"kind": "patch", "content": "x"}]}
    good = {**EPISODE, "request_id": "after-a-bad-one"}
    done = plait("ingest", "-", stdin=f"{json.dumps(bad)}\n{json.dumps(good)}\n")
    assert done.returncode == 1
    assert "-:1: /artifacts/0/kind" in done.stderr
    assert "Stored" in done.stdout


@pytest.mark.parametrize(("file", "says"), [("missing.json", "cannot read"), ("-", "empty")])
def test_an_unreadable_file_is_an_error(plait: Any, file: str, says: str) -> None:
    done = plait("ingest", file)
    assert done.returncode == 1
    assert says in done.stderr
    assert "[EPISODE_INVALID]" in done.stderr


def test_repos_lists_what_is_indexed(plait: Any, repository: Path) -> None:
    done = plait("repos")
    assert f"\t{repository}" in done.stdout
    assert json.loads(plait("repos", "--json").stdout)["repositories"]


def test_deleting_asks_first(plait: Any) -> None:
    done = plait("repos", "delete", "commanded")
    assert done.returncode == 2
    assert "--yes" in done.stderr


# -- serve ---------------------------------------------------------------------------------------------------


@contextmanager
def served(environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "server", *arguments]
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr and process.stderr.read()
    address: dict[str, Any] = json.loads(line)
    return address


def test_serve_answers_drains_and_leaves_nothing(
    plait: Any, command_environment: dict[str, str], plait_home: Path
) -> None:
    with served(command_environment, "--port", "0", "--json") as process:
        address = ready(process)
        assert discovery.read(plait_home) is not None
        target = f"{address['host']}:{address['port']}"
        with PlaitClient(target) as client:
            assert client.healthy(timeout_s=LIMIT_S)
            with pytest.raises(PlaitRpcError, match="authorization"):
                client.list_repositories()
        # A client of this home finds its token; and with another one the old one works for a while.
        with PlaitClient(target, settings=load(environ=command_environment)) as client:
            client.list_repositories()
            done = plait("serve", "--rotate-token")
            assert done.returncode == 0, done.stderr
            client.list_repositories()
        # A command finds it, and a second server of this home is refused.
        found = plait("search", "ceiling")
        assert found.returncode == 0, found.stderr
        second = plait("serve")
        assert "[SERVER_ALREADY_RUNNING]" in second.stderr
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0
        assert "method=KnowledgeService/Search code=OK" in log
        assert "draining" in log
    assert discovery.read(plait_home) is None
    assert not discovery.socket_path(plait_home).exists()


def test_serve_listens_on_the_socket_alone_until_it_is_given_a_port(
    command_environment: dict[str, str],
) -> None:
    with served(command_environment, "--json") as process:
        address = ready(process)
        assert (address["host"], address["port"]) == ("", 0)
        assert not [
            c for c in psutil.Process(process.pid).net_connections("inet") if c.status == "LISTEN"
        ]
        folder = Path(address["socket"]).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        assert Path(address["socket"]).stat().st_mode & 0o777 == 0o600


def test_no_address_of_other_machines_without_tls(plait: Any) -> None:
    done = plait("serve", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 1
    assert "[TLS_MISSING]" in done.stderr
    assert "server.tls_certificate" in done.stderr


def test_a_killed_server_is_replaced(
    plait: Any, command_environment: dict[str, str], plait_home: Path
) -> None:
    with served(command_environment, "--json") as process:
        ready(process)
        process.kill()
        process.wait()
        assert discovery.read(plait_home) is not None
        done = plait("search", "ceiling")  # the address is stale: its own server answers
        assert done.returncode == 0, done.stderr
    with served(command_environment, "--json") as process:
        ready(process)


def test_a_stopped_server_is_said_not_to_answer(
    plait: Any, command_environment: dict[str, str]
) -> None:
    with served(command_environment, "--json") as process:
        address = ready(process)
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
        done = plait("search", "ceiling", PLAIT_SERVER__TIMEOUT_S="2")
        process.send_signal(signal.SIGCONT)
    assert done.returncode == 1
    assert "[SERVER_NOT_ANSWERING]" in done.stderr
    assert f"kill {address['pid']}" in done.stderr


def test_a_taken_port_is_said_with_its_fix(plait: Any) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = plait("serve", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert "[PORT_TAKEN]" in done.stderr
    assert "--port" in done.stderr
