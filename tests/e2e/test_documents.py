"""What README.md and docs/ show is run: each block as it stands there, against one server and real folders."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from plait.settings import load
from tests import documents
from tests.documents import ROOT, Block, How, Treatment
from tests.processes import LIMIT_S, PATIENT, remove_home

DECLARED = [
    (block, found)
    for name in documents.documents()
    for block in documents.blocks(name)
    for found in [documents.treatment(block)]
]
RUN = {How.SHELL, How.CONSOLE, How.PYTHON, How.CYPHER, How.EPISODE}
FLASK = '''\
class Flask:
    """An application."""

    def handle_http_exception(self, error):
        """Errors are handled by the handler of their code."""
        return error

    def handle_exception(self, error):
        """Handle an exception in a view that nothing else handled."""
        return self.handle_http_exception(error)

    def full_dispatch_request(self):
        """Where retries are configured."""
        return None

    def wsgi_app(self, environ):
        try:
            return self.full_dispatch_request()
        except Exception as error:
            return self.handle_exception(error)
'''
TRACEBACK = """\
Traceback (most recent call last):
  File "{path}", line {line}, in {name}
    return None
ValueError: no
"""
CART = "def total(items, discount):\n    return sum(items) - discount\n"
FIXED = "def total(items, discount):\n    return sum(items) * (100 - discount) / 100\n"
CART_TEST = (
    "from shop.cart import total\n\n\ndef test_total():\n    assert total([200], 10) == 180\n"
)
REPORT = '<testsuite name="pytest" tests="1" failures="{failures}" timestamp="{time}"><testcase classname="tests.test_cart" name="test_total" file="tests/test_cart.py">{inside}</testcase></testsuite>\n'
HTTP = '''\
def download(url):
    """Download a page; make the download retry here."""
    return take(url)


def take(url):
    return url
'''
TASK = "task = 'Make the download retry.'\n"


@dataclass
class World:
    """Folders, a home and a server that all blocks share; `told`: what commands printed so far."""

    top: Path
    environment: dict[str, str]
    told: list[str] = field(default_factory=list)

    def sh(self, line: str, where: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self.top / where,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        self.told.append(done.stdout + done.stderr)
        return done

    def filled(self, text: str, made: Treatment) -> str:
        for word, pattern in made.fill.items():
            if re.search(rf"{word}\b", text):
                found = [hit for told in self.told for hit in re.findall(pattern, told)]
                assert found, f"nothing printed so far stands for {word.strip()}"
                text = re.sub(rf"{word}\b", word.replace(word.strip(), found[-1]), text)
        return text


def write(top: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)


def make_folders(top: Path) -> None:
    activate = f'export PATH="{Path(sys.executable).parent}:$PATH"\n'
    write(top, {".venv/bin/activate": activate, "bin/my-agent": "#!/bin/sh\ncat >/dev/null\n"})
    (top / "bin" / "my-agent").chmod(0o755)
    trace = TRACEBACK.format(path="src/flask/app.py", line=14, name="full_dispatch_request")
    write(
        top / "flask",
        {"src/flask/__init__.py": "", "src/flask/app.py": FLASK, "traceback.txt": trace},
    )
    trace = TRACEBACK.format(path="app/http.py", line=3, name="download")
    write(top / "app", {"app/http.py": HTTP, "task.md": "Retry.\n", "traceback.txt": trace})
    failed = '<failure message="assert 190 == 180">tests/test_cart.py:5: AssertionError</failure>'
    report = REPORT.format(failures=1, time="2026-11-20T10:00:00", inside=failed)
    write(
        top / "shop",
        {
            "shop/cart.py": CART,
            "tests/test_cart.py": CART_TEST,
            "red.xml": report,
            "report.xml": report,
            "green.xml": REPORT.format(failures=0, time="2026-11-20T12:00:00", inside=""),
        },
    )
    data = ROOT / "tests" / "data" / "transcripts"
    shutil.copy(data / "marshmallow-code__marshmallow-1359.traj", top / "shop" / "fix.traj")
    sessions = top / "home" / ".claude" / "projects" / "-home-ana-src-shop"
    sessions.mkdir(parents=True)
    shutil.copy(data / "claude_code.jsonl", sessions / "session.jsonl")


HISTORY = """
git init -q . && git config user.email ana@example.org && git config user.name Ana
git add -A && git commit -qm Begin
"""
FIX = """
git tag v1 && cp ../fixed.py shop/cart.py
git commit -qam 'Discount is in percent' -m 'Fixes #12' && git format-patch -q v1..
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    top = tmp_path_factory.mktemp("documents")
    make_folders(top)
    (top / "fixed.py").write_text(FIXED)
    home = Path(tempfile.mkdtemp(prefix="plait-test-", dir="/tmp"))
    if os.geteuid() == 0:
        home.chmod(0o711)
    places = (str(top / "bin"), str(Path(sys.executable).parent), os.environ["PATH"])
    made = World(
        top,
        {
            **PATIENT,
            "PATH": os.pathsep.join(places),
            "HOME": str(top / "home"),
            "PLAIT_HOME": str(home / "home"),
            # What is to be compacted, and by command alone.
            "PLAIT_MEMORY__BUDGET_TOKENS": "150",
            "PLAIT_MEMORY__AUTOMATIC": "false",
            "PLAIT_MEMORY__PIN_RECENT": "0",
            "PLAIT_MEMORY__SUMMARY_TOKENS": "40",
        },
    )
    for line, where in ((HISTORY, "app"), (HISTORY, "shop"), (FIX, "shop")):
        done = made.sh(line, where)
        assert done.returncode == 0, done.stderr
    with (top / "app" / "app" / "http.py").open("a") as changed:
        changed.write("\n\ndef again(url):\n    return download(url)\n")
    server = subprocess.Popen(
        [sys.executable, "-m", "server.cli", "serve", "--json"],
        env=made.environment,
        cwd=top,
        stdout=subprocess.PIPE,
    )
    with server:
        assert server.stdout is not None
        assert server.stdout.readline(), "the server did not start"
        yield made
        server.send_signal(signal.SIGTERM)
    remove_home(home)


@pytest.fixture(scope="module", autouse=True)
def rest_between_files() -> None:
    """As in conftest, of which nothing is used here."""


def test_every_block_is_declared_and_every_declaration_has_a_block() -> None:
    unknown = [f"{b.document}:{b.line}: {b.begins}" for b, found in DECLARED if found is None]
    assert not unknown, f"say in tests/documents.py what is to be done with {unknown}"
    used = {found[0] for _, found in DECLARED if found is not None}
    used.discard((documents.EXPERIMENTS, ""))
    assert used == set(documents.TREATMENTS), "these have no block any more"


CASES = [(block, found[1]) for block, found in DECLARED if found is not None]


@pytest.mark.parametrize(
    ("block", "made"),
    [case for case in CASES if case[1].how in RUN],
    ids=[f"{b.document}:{b.line}" for b, made in CASES if made.how in RUN],
)
def test_a_block_runs(block: Block, made: Treatment, world: World) -> None:
    for line in made.first:
        done = world.sh(line, made.where)
        assert done.returncode == 0, f"before {block.document}:{block.line}: {line}\n{done.stderr}"
    for line in lines(block, made, world):
        command = world.filled(line, made)
        done = world.sh(command, made.where)
        said = f"{block.document}:{block.line}: {command}\n{done.stdout}{done.stderr}"
        assert done.returncode == made.code, said


def lines(block: Block, made: Treatment, world: World) -> list[str]:
    """The commands of a block; for what is no shell, one that runs it."""
    text = block.text.replace("\\\n", " ")
    file = world.top / "block"
    match made.how:
        case How.SHELL:
            return [line for line in text.splitlines() if line.strip()]
        case How.CONSOLE:
            return [line[2:] for line in text.splitlines() if line.startswith("$ ")]
        case How.PYTHON:
            file.write_text(TASK + block.text)
            return [f"python {file}"]
        case How.CYPHER:
            file.write_text(block.text)
            return [f'plait graph --cypher "$(cat {file})" --recorded-as-of now']
        case How.EPISODE:
            file.write_text(block.text)
            return [f"plait ingest {file} --dry-run"]
    raise AssertionError(made.how)


@pytest.mark.parametrize(
    ("block", "how"),
    [(block, made.how) for block, made in CASES if made.how not in RUN],
    ids=[f"{b.document}:{b.line}" for b, made in CASES if made.how not in RUN],
)
def test_a_block_that_is_not_run_names_what_there_is(
    block: Block, how: How, tmp_path: Path
) -> None:
    if how is How.SETTINGS:
        config = tmp_path / "plait.yaml"
        config.write_text(block.text)
        assert load(config, environ={}).search.k == 20
    for module in re.findall(r"python -m ([\w.]+)", block.text):
        assert find_spec(module) is not None, module
    for program in re.findall(r"python (benchmarks/\S+\.py)", block.text):
        assert (ROOT / program).is_file(), program
    assert how is not How.PROGRAMS or "python" in block.text
