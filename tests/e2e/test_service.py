"""The service of a home: started by who needs it, one, gone with all that it brought."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from plait.client import PlaitClient, discovery
from plait.settings import IndexSettings
from tests.processes import LIMIT_S, PATIENT, gone, patient, wait_until

KEPT = ("PATH", "HOME", "LANG", "TMPDIR")
Plait = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def plait(fresh_home: Path, tmp_path: Path) -> Iterator[Plait]:
    """Commands of a fresh home that start its service."""
    (tmp_path / "waits.py").write_text(
        "def ceiling():\n    return 30\n\n\ndef waits():\n    ceiling()\n"
    )
    keep = {name: value for name, value in os.environ.items() if name in KEPT}
    environment = {
        **keep, **PATIENT, "PLAIT_HOME": str(fresh_home), "PLAIT_CLIENT__AUTOSTART": "true"
    }  # fmt: skip

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "server.cli", *patient(*words)],
            cwd=tmp_path,
            env={**environment, **more},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    yield run
    run("stop")


def served_by(home: Path) -> list[psutil.Process]:
    """Every process that names `home` on its command line, servers' children too."""
    found = []
    for one in psutil.process_iter(["cmdline"]):
        if str(home) in " ".join(one.info["cmdline"] or ()) and one.pid != os.getpid():
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended while we looked
                found += [one, *one.children(recursive=True)]
    return found


def left_behind(home: Path) -> set[str]:
    """Files of running servers: sockets, addresses, endpoints."""
    names = {"server.json", "plait.sock", "endpoint.json", "child.json", "postmaster.pid"}
    return {str(path) for path in home.rglob("*") if path.name in names}


def nothing_left(home: Path) -> None:
    wait_until(lambda: not served_by(home))
    assert left_behind(home) == set()


def pids(plait: Plait) -> dict[str, list[int]]:
    told = json.loads(plait("status", "--json").stdout)
    return {one["role"]: one["pids"] for one in told["processes"]}


def test_one_service_starts_serves_and_stops(plait: Plait, fresh_home: Path) -> None:
    assert plait("status").returncode == 3
    assert plait("status", "--ready").returncode == 1
    assert plait("stop").returncode == 3
    # It is begun behind an index run, and asked for at once by four, none of them the first.
    assert plait("index", ".", "--repo", "it", "--no-embed").returncode == 0
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: plait("repos", "--json"), range(4)))
    assert [a.returncode for a in answers] == [0] * 4, [a.stderr for a in answers]
    (service,) = pids(plait)["service"]
    log = (fresh_home / "server" / "service.log").read_text()
    assert log.count("ListRepositories code=OK") >= 4  # by one service, all of them
    assert "waits.py" in plait("search", "ceiling").stdout
    assert pids(plait)["service"] == [service]
    assert "it" in plait("status").stdout
    ready = plait("status", "--ready")
    assert (ready.returncode, ready.stdout, ready.stderr) == (0, "", "")
    assert plait("stop").returncode == 0
    nothing_left(fresh_home)


def test_a_program_and_another_home_use_it(
    plait: Plait, fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in PATIENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PLAIT_CLIENT__AUTOSTART", "true")
    monkeypatch.setenv("PLAIT_HOME", str(fresh_home))
    with PlaitClient() as client:  # starts it
        assert client.list_repositories() == ()
        target = client.target
    other = {"PLAIT_HOME": str(tmp_path / "other")}
    assert plait("repos", "--server", target, **other).returncode == 3
    assert plait("repos", PLAIT_SERVER=target, **other).returncode == 3
    assert not (tmp_path / "other").exists()
    refused = plait("repos", "--server", "unix:/nowhere/plait.sock")
    assert refused.returncode == 1
    assert "[UNAVAILABLE]" in refused.stderr
    # The tenant is the caller's, not the one of who started the service.
    assert plait("memory", "store", "x", "--repo", "r", "--tenant", "acme").returncode == 0
    assert plait("memory", "list", "--repo", "r").returncode == 3


@pytest.mark.parametrize("role", ["service", "keeper", "postgres"])
def test_what_is_killed_leaves_nothing_and_is_replaced(
    plait: Plait, fresh_home: Path, role: str
) -> None:
    assert plait("memory", "store", "kept", "--repo", "r").returncode == 0
    running = pids(plait)
    keeper, postgres, *_ = running["postgresql"]
    killed = {"service": running["service"][0], "keeper": keeper, "postgres": postgres}[role]
    os.kill(killed, signal.SIGKILL)
    assert gone(killed)
    if role == "service":  # its servers end with their last user
        wait_until(lambda: not served_by(fresh_home))
    assert "kept" in plait("memory", "list", "--repo", "r").stdout
    assert plait("stop").returncode == 0
    nothing_left(fresh_home)


def test_it_rests_then_leaves(plait: Plait, fresh_home: Path) -> None:
    short = {"PLAIT_SERVER__REST_S": "0.5", "PLAIT_SERVER__IDLE_S": "0"}
    plait("repos", **short)
    assert plait("index", ".", "--repo", "it", "--no-embed", **short).returncode == 0
    asked = ("graph", "callers", "ceiling")
    assert "waits" in plait(*asked, **short).stdout
    wait_until(lambda: "graph" not in pids(plait))
    assert "waits" in plait(*asked, **short).stdout  # opened anew
    assert plait("stop").returncode == 0
    plait("repos", PLAIT_SERVER__IDLE_S="1")
    nothing_left(fresh_home)


def test_one_that_is_starting_is_stopped_too(
    plait: Plait, fresh_home: Path, tmp_path: Path
) -> None:
    environment = {**os.environ, **PATIENT, "PLAIT_HOME": str(fresh_home)}
    command = [sys.executable, "-P", "-m", "server.cli", "repos"]
    with subprocess.Popen(
        command, cwd=tmp_path, env={**environment, "PLAIT_CLIENT__AUTOSTART": "true"}
    ) as first:
        wait_until(lambda: [p for p in served_by(fresh_home) if p.pid != first.pid])
        first.kill()
    assert plait("stop").returncode == 0
    nothing_left(fresh_home)


def test_other_settings_are_said(plait: Plait) -> None:
    plait("repos")
    assert "started with other settings" in plait("repos", PLAIT_SEARCH__K="3").stderr
    assert "settings" not in plait("repos").stderr


def test_why_it_cannot_start_is_said(plait: Plait, fresh_home: Path) -> None:
    away = {"PLAIT_POSTGRES__DSN": "postgresql://nobody@127.0.0.1:1/x"}
    done = plait("repos", PLAIT_POSTGRES__CONNECT_TIMEOUT_S="2", **away)
    assert done.returncode == 1
    assert "[STORE_UNAVAILABLE]" in done.stderr
    nothing_left(fresh_home)


def test_what_a_power_cut_left_is_in_nobodys_way(plait: Plait, fresh_home: Path) -> None:
    plait("repos")
    for one in served_by(fresh_home):
        with contextlib.suppress(psutil.NoSuchProcess):  # with its parent
            one.kill()
    wait_until(lambda: not served_by(fresh_home))
    assert left_behind(fresh_home)
    assert plait("repos").returncode == 3
    plait("stop")
    nothing_left(fresh_home)


def test_it_leaves_a_home_that_is_removed(plait: Plait, fresh_home: Path) -> None:
    plait("repos")
    (fresh_home / "server" / "server.json").unlink()
    wait_until(lambda: not served_by(fresh_home))
    assert discovery.running(fresh_home) is None


def test_a_hung_service_is_said(plait: Plait, fresh_home: Path) -> None:
    plait("repos")
    (service,) = pids(plait)["service"]
    os.kill(service, signal.SIGSTOP)
    done = plait("repos", PLAIT_SERVER__TIMEOUT_S="1")
    assert "[SERVER_NOT_ANSWERING]" in done.stderr
    assert "plait stop" in done.stderr
    status = plait("status")
    assert (status.returncode, "does not answer" in status.stderr) == (1, True)
    assert str(service) in status.stdout
    os.kill(service, signal.SIGCONT)


CLASSES = ("graph", "--cypher", "MATCH (f:Function) RETURN f.name AS name ORDER BY name")


def test_the_first_cypher_starts_the_graph_server_and_waits_until_it_has_caught_up(
    plait: Plait, fresh_home: Path
) -> None:
    """The service is killed in the middle of that; the next one goes on where it was."""
    plait("repos", PLAIT_FAILPOINTS="graph.after_batch=kill")
    assert plait("index", ".", "--repo", "it", "--no-embed").returncode == 0
    assert plait("search", "ceiling").returncode == 0
    (service,) = pids(plait)["service"]
    assert "graph" not in pids(plait)
    assert not (fresh_home / "graph").exists()
    answered = plait(*CLASSES, "--repo", "it")
    assert answered.returncode == 0, answered.stderr
    assert "ceiling" in answered.stdout
    assert "waits" in answered.stdout
    assert gone(service)
    (known,) = json.loads(plait("repos", "--json").stdout)["repositories"]
    assert known["revision"]["graph_revision"] == known["revision"]["revision"] == 1
    assert plait("verify", "--repo", "it").returncode == 0


def test_vectors_go_on_at_the_next_start_when_the_service_is_killed_over_them(
    plait: Plait, fresh_home: Path
) -> None:
    plait("repos", PLAIT_FAILPOINTS="vectors.before_commit=kill")
    (service,) = pids(plait)["service"]
    indexed = plait("index", ".", "--repo", "it")
    assert indexed.returncode == 0, indexed.stderr
    assert "0 of " in indexed.stdout
    assert gone(service)

    def complete() -> bool:
        (known,) = json.loads(plait("repos", "--json").stdout)["repositories"]
        return bool(known["revision"]["embedded"] == known["revision"]["total"] > 0)

    wait_until(complete)
    waited = json.loads(plait("index", ".", "--repo", "it", "--wait", "--json").stdout)
    assert waited["embedded"] == waited["chunks"]


def test_a_folder_that_is_named_through_a_link_keeps_its_name(plait: Plait, tmp_path: Path) -> None:
    link = tmp_path.with_name(f"{tmp_path.name}-link")
    link.symlink_to(tmp_path)
    file = tmp_path / "waits.py"
    for text in ("", "\n\ndef pauses():\n    waits()\n"):
        file.write_text(file.read_text() + text)
        done = plait("index", str(link), "--no-embed", "--json")
        assert done.returncode == 0, done.stderr
        (known,) = json.loads(plait("repos", "--json").stdout)["repositories"]
        assert known["name"] == link.name
    assert json.loads(done.stdout)["revision"] == 2


def test_an_index_of_what_is_indexed_is_a_run_of_the_service(
    plait: Plait, fresh_home: Path, tmp_path: Path
) -> None:
    def index(code: int = 0, **more: str) -> dict[str, Any]:
        done = plait("index", ".", "--repo", "it", "--no-embed", "--json", **more)
        assert done.returncode == code, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def runs() -> int:
        return (fresh_home / "server" / "service.log").read_text().count("StartIndex code=OK")

    file, own = tmp_path / "waits.py", index()
    assert plait("repos").returncode == 0  # the service answers now
    file.write_text(file.read_text() + "\n\ndef pauses():\n    waits()\n")
    (tmp_path / "blob.bin").write_bytes(b"\0")
    handed = index()
    assert runs() == 1
    assert handed.keys() == own.keys()
    assert (handed["repo"], handed["root"], handed["changed"]) == ("it", own["root"], True)
    assert (handed["files_parsed"], handed["nodes"]) == (1, own["nodes"] + 1)
    assert (handed["skipped_files"], handed["phases"].keys()) == (
        [["blob.bin", "binary"]],
        own["phases"].keys(),
    )
    assert index()["changed"] is False
    assert runs() == 2
    # One with other settings than the service's is the command's own, and the service goes on from it.
    file.write_text(file.read_text() + "\n\ndef rests():\n    waits()\n")
    assert index(PLAIT_INDEX__WORKERS="1")["changed"] is True
    assert runs() == 2
    file.write_text(file.read_text() + "\n\ndef sleeps():\n    rests()\n")
    assert index()["nodes"] == own["nodes"] + 3
    file.unlink()
    assert index(code=1)["error"]["reason"] == "EMPTY_REPOSITORY"
    assert runs() == 4


def test_what_is_saved_in_a_folder_in_use_is_found_without_a_command(
    plait: Plait, tmp_path: Path
) -> None:
    by_default = {"PLAIT_INDEX__FOLLOW_S": f"{IndexSettings().follow_s:g}"}
    assert plait("index", ".", "--repo", "it", "--no-embed", **by_default).returncode == 0
    assert "waits" in plait("search", "ceiling", **by_default).stdout
    (tmp_path / "waits.py").write_text("def slumbers():\n    return 30\n")
    wait_until(lambda: "slumbers" in plait("search", "slumbers", **by_default).stdout)
