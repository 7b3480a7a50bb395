"""Any command may be the first one of a machine, as root in a container and as an ordinary account."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.conftest import KEPT
from tests.processes import LIMIT_S, PATIENT, patient

as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root starts servers as another account"
)
# A command of each door to the stores, and how it ends where nothing is known yet; the others go through
# the same `server.local.connected` as `search` does (tests/unit/test_command_line.py).
FIRST = {
    "index": (["index", "{shop}", "--no-embed"], 0),
    "search": (["search", "total"], 3),
    "graph": (["graph", "--cypher", "MATCH (n:File) RETURN n.path"], 3),
}
# A checkout may lie where an ordinary account can't go: it may read all the same, and no more.
ORDINARY_UID = 65534
SET_ACCOUNT = (
    "setpriv",
    f"--reuid={ORDINARY_UID}",
    f"--regid={ORDINARY_UID}",
    "--clear-groups",
    "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "shop.py").write_text("def total(items):\n    return sum(items)\n")
    return root


def command(words: Sequence[str], shop: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "server.cli",
        *(word.format(shop=shop) for word in patient(*words)),
    ]


def environment(home: Path, **more: str) -> dict[str, str]:
    keep = {name: value for name, value in os.environ.items() if name in KEPT}
    return {**keep, **PATIENT, "PLAIT_HOME": str(home), **more}


def run(
    words: Sequence[str], shop: Path, home: Path, before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, *command(words, shop)],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("name", FIRST)
def test_a_command_is_the_first_one(name: str, shop: Path, fresh_home: Path) -> None:
    words, code = FIRST[name]
    # As hardened machines have it: it would take from a folder what the server's account needs.
    done = run(words, shop, fresh_home, before=("sh", "-c", 'umask 077; exec "$@"', "sh"))
    assert done.returncode == code, done.stderr
    assert mode(fresh_home) == (0o711 if os.geteuid() == 0 else 0o700)


@as_root
def test_a_command_is_the_first_one_of_an_ordinary_account(shop: Path, fresh_home: Path) -> None:
    if shutil.which("setpriv") is None or not may_read(shop):
        pytest.skip("no ordinary account can read this checkout")
    fresh_home.mkdir()
    os.chown(fresh_home, ORDINARY_UID, ORDINARY_UID)
    home = fresh_home / "own"
    done = run(["search", "total"], shop, home, before=SET_ACCOUNT)
    assert done.returncode == 3, done.stderr
    assert (home.stat().st_uid, mode(home)) == (ORDINARY_UID, 0o700)


def may_read(shop: Path) -> bool:
    done = run(["version"], shop, shop / "unused", before=SET_ACCOUNT)
    return done.returncode == 0


def test_serve_is_the_first_one_and_leaves_a_home_that_works(shop: Path, fresh_home: Path) -> None:
    with subprocess.Popen(
        command(["serve", "--json"], shop),
        env=environment(fresh_home),
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            assert json.loads(server.stdout.readline())["pid"] == server.pid
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(LIMIT_S) == 0
    assert mode(fresh_home / "server") == 0o700
    done = run(["repos"], shop, fresh_home)
    assert done.returncode == 3, done.stderr


@as_root
def test_a_home_that_was_left_closed_mends_itself(shop: Path, fresh_home: Path) -> None:
    fresh_home.mkdir(0o700)
    (fresh_home / "server").mkdir(0o700)
    done = run(["repos"], shop, fresh_home)
    assert done.returncode == 3, done.stderr
    assert mode(fresh_home) == 0o701  # to pass through, and nothing else
    assert mode(fresh_home / "server") == 0o700


@as_root
@pytest.mark.parametrize("words", [["repos"], ["serve"]], ids=["repos", "serve"])
@pytest.mark.parametrize("held", [(), ("mine.txt", "server")], ids=["empty", "with files"])
def test_somebodys_own_folder_stays_closed_and_the_fix_that_is_named_works(
    words: list[str], held: Sequence[str], shop: Path, fresh_home: Path
) -> None:
    fresh_home.mkdir(0o700)
    for name in held:
        (fresh_home / name).mkdir(0o700)
    refused = run(words, shop, fresh_home)
    assert refused.returncode == 1
    assert f"`chmod o+x {fresh_home}`" in refused.stderr
    assert "unset PLAIT_HOME, which keeps the data in /var/lib/plait" in refused.stderr
    assert mode(fresh_home) == 0o700
    assert {path.name for path in fresh_home.iterdir()} == set(held)
    fresh_home.chmod(0o701)
    if words == ["repos"] and not held:
        assert run(words, shop, fresh_home).returncode == 3


@as_root
def test_a_home_below_a_closed_folder_is_not_begun(shop: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(0o700)
    refused = run(["repos"], shop, closed / "home")
    assert refused.returncode == 1
    assert "HOME_UNUSABLE" in refused.stderr
    assert not (closed / "home").exists()


def test_an_account_without_a_home_is_told(shop: Path) -> None:
    code = (
        "import pwd\n"
        "def unknown(uid): raise KeyError(uid)\n"
        "pwd.getpwuid = unknown\n"
        "import os; os.geteuid = os.getuid = lambda: 4242\n"
        "from server import cli; raise SystemExit(cli.main(['repos']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 1
    assert "set PLAIT_HOME" in done.stderr
    assert "[BAD_SETTINGS]" in done.stderr
