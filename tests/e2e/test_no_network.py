"""Plait asks nobody: no name is looked up, nothing leaves the machine, nothing is written outside its home.

The commands run in a network namespace in which every address, the name server's too, is the loopback
interface's own: all that is meant for another machine passes there, and is seen.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import LIMIT_S, PATIENT

WITNESS = Path(__file__).parents[1] / "network_witness.py"


def namespace() -> list[str]:
    """The words before a command that put it into a namespace of its own; skips where there can't be one."""
    words = ["unshare", "--net", "--mount", "--propagation", "private"]
    if shutil.which("unshare") and shutil.which("ip"):
        made = subprocess.run(
            [*words, "ip", "link", "set", "lo", "up"], capture_output=True, text=True
        )
        if made.returncode == 0:
            return words
        why = made.stderr.strip()
    else:
        why = "unshare or ip is missing"
    if os.environ.get("CI") == "true":
        pytest.fail(f"no network namespace: {why}")
    pytest.skip(f"no network namespace: {why}")


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of one account: its HOME and its temporary one, both empty, and a repository."""
    top = tmp_path_factory.mktemp("around")
    for name in ("home", "temporary", "shop"):
        (top / name).mkdir()
    (top / "shop" / "shop.py").write_text(
        "def total(items):\n    return sum(items)\n\n\ndef checkout(cart):\n    return total(cart)\n"
    )
    (top / "resolv.conf").write_text("nameserver 192.0.2.53\noptions timeout:1 attempts:1\n")
    return top


@pytest.fixture
def seen(around: Path, fresh_home: Path) -> dict[str, Any]:
    environment = {
        **PATIENT,
        "PATH": os.environ["PATH"],
        "HOME": str(around / "home"),
        "TMPDIR": str(around / "temporary"),
        "PLAIT_HOME": str(fresh_home),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [
            *namespace(),
            *(sys.executable, str(WITNESS)),
            *(str(around / "shop"), str(around / "resolv.conf")),
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_nothing_is_looked_up_sent_or_left(seen: dict[str, Any], around: Path) -> None:
    for name, (code, error, destinations) in seen["commands"].items():
        assert code == 0, (name, error)
        assert destinations == [], f"{name} reached out of the machine"
    # It can be seen: a look-up in the same namespace is.
    assert seen["look-up"] == ["192.0.2.53"]
    for folder, _, names in os.walk(around):
        here = Path(folder).relative_to(around)
        assert {str(here / name) for name in names} <= {"resolv.conf", "shop/shop.py"}
    assert not list((around / "home").iterdir())
    assert not list((around / "temporary").iterdir())
