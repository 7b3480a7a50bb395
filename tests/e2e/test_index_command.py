"""`plait index` as its users run it: a process of its own, real stores, real repositories, bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import LIMIT_S, PATIENT, cpu_s, wait_until

Index = Callable[..., subprocess.CompletedProcess[str]]

APP = {
    "shop/__init__.py": "",
    "shop/cart.py": (
        "from shop.price import total\n\n\n"
        "class Cart:\n"
        '    """Holds what a customer wants to buy."""\n\n'
        "    def checkout(self):\n"
        "        return total([1, 2])\n"
    ),
    "shop/price.py": "def total(items):\n    return sum(items)\n",
    "tests/test_cart.py": (
        "from shop.cart import Cart\n\n\ndef test_checkout():\n    assert Cart().checkout() == 3\n"
    ),
    "README.md": "# Shop\n\nA small shop.\n",
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return write(tmp_path / "shop-repo", APP)


@pytest.fixture(scope="module")
def environment(plait_home: Path) -> dict[str, str]:
    return {
        **os.environ,
        **PATIENT,
        "PLAIT_HOME": str(plait_home),
        "PLAIT_EMBEDDED__LINGER_S": "5",
    }


@pytest.fixture(scope="module")
def index(environment: dict[str, str]) -> Index:
    def run(*args: str | Path, cwd: Path | None = None, module: bool = False) -> Any:
        command = [sys.executable, "-m", "etl.index_repo"] if module else [plait()]
        words = [*command, *([] if module else ["index"]), *map(str, args)]
        return subprocess.run(
            words, env=environment, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S
        )

    return run


def plait() -> str:
    return str(Path(sys.executable).with_name("plait"))


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    body: dict[str, Any] = json.loads(done.stdout)
    return body


def refused(done: subprocess.CompletedProcess[str], reason: str) -> str:
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert f"[{reason}]" in done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_first_run_then_nothing_then_one_file_then_a_deletion(index: Index, repo: Path) -> None:
    first = result(index(repo, "--no-embed", "--json"))
    assert (first["changed"], first["files"], first["graph_revision"]) == (True, 5, 0)
    assert first["edges"]["CALLS"] >= 2

    again = result(index(repo, "--no-embed", "--json"))
    assert (again["changed"], again["revision"]) == (False, first["revision"])

    write(repo, {"shop/price.py": "def total(items, tax=0):\n    return sum(items) + tax\n"})
    edited = result(index(repo, "--no-embed", "--json"))
    assert (edited["files_parsed"], edited["revision"]) == (1, first["revision"] + 1)

    (repo / "README.md").unlink()
    removed = result(index(repo, "--no-embed", "--json"))
    assert (removed["files"], removed["files_removed"]) == (4, 1)


def test_vectors_fill_in_behind_and_the_report_says_the_coverage(
    index: Index, tmp_path: Path
) -> None:
    root = write(tmp_path / "vectors", APP)
    assert result(index(root, "--no-embed", "--json"))["embedded"] == 0
    full = result(index(root, "--wait", "--json"))
    assert full["embedded"] == full["chunks"] > 0


def test_the_module_and_the_console_script_are_the_same(index: Index, tmp_path: Path) -> None:
    root = write(tmp_path / "both-ways", APP)
    assert result(index(root, "--no-embed", "--json", module=True))["changed"] is True
    assert result(index(root, "--no-embed", "--json"))["changed"] is False


def test_the_export_has_the_documented_shape_and_needs_no_store(repo: Path, tmp_path: Path) -> None:
    file, home = tmp_path / "graph.jsonl", tmp_path / "unused"
    done = subprocess.run(
        [plait(), "index", str(repo), "--repo", "shop", "--export", str(file)],
        env={**os.environ, "PLAIT_HOME": str(home)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not home.exists()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    nodes = {row["id"]: row for row in rows if row["type"] == "node"}
    edges = [row for row in rows if row["type"] == "edge"]
    checkout = nodes["shop:shop.cart.Cart.checkout"]
    assert checkout == {
        "type": "node",
        "id": "shop:shop.cart.Cart.checkout",
        "label": "Function",
        "name": "checkout",
        "qualified_name": "shop.cart.Cart.checkout",
        "path": "shop/cart.py",
        "start_line": 7,
        "end_line": 8,
        "language": "python",
    }
    (call,) = [e for e in edges if e["relation"] == "CALLS" and e["from"] == checkout["id"]]
    assert (call["to"], call["lines"]) == ("shop:shop.price.total", [8])
    assert call["confidence"] > 0.9
    assert set(call) == {"type", "relation", "from", "to", "lines", "resolver", "confidence"}
    assert all(e["from"] in nodes and e["to"] in nodes for e in edges)


def test_two_repositories_of_one_name_are_refused_and_the_fix_works(
    index: Index, tmp_path: Path
) -> None:
    one, two = write(tmp_path / "a/same", APP), write(tmp_path / "b/same", APP)
    result(index(one, "--no-embed", "--json"))
    message = refused(index(two, "--no-embed"), "REPOSITORY_NAME_TAKEN")
    assert "--repo" in message
    result(index(two, "--no-embed", "--json", "--repo", "same-b"))
    assert result(index(two, "--no-embed", "--json", "--move"))["changed"] is False


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda p: p / "missing", "NOT_A_REPOSITORY"),
        (lambda p: write(p, {"file.py": "x = 1\n"}) / "file.py", "NOT_A_REPOSITORY"),
        (lambda p: write(p, {".gitignore": "*\n", "a.py": "x = 1\n"}), "EMPTY_REPOSITORY"),
        (lambda p: write(p, {"a.py": "print(1)\n", "b.py": "print(2)\n"}), "NO_SYMBOLS"),
    ],
    ids=["missing", "a file", "all ignored", "no symbols"],
)
def test_what_cannot_be_indexed_says_why(
    index: Index, tmp_path: Path, make: Callable[[Path], Path], reason: str
) -> None:
    refused(index(make(tmp_path), "--no-embed"), reason)


def test_awkward_files_are_indexed_or_reported_and_stop_nothing(
    index: Index, tmp_path: Path
) -> None:
    root = write(tmp_path / "awkward", APP)
    (root / "latin.py").write_bytes(b"# caf\xe9\ndef latin():\n    return 1\n")
    (root / "one_line.js").write_text("var a=1;" * 700_000)
    (root / "deep.py").write_text("x = " + "(" * 5000 + "1" + ")" * 5000 + "\n")
    (root / "broken.py").write_text("def ok():\n    return 1\n\ndef broken(:\n    pass\n")
    (root / "blob.bin").write_bytes(bytes(range(256)) * 10)
    (root / "nul.txt").write_bytes(b"a\0b")
    (root / "outside").symlink_to("/etc")
    os.mkfifo(root / "pipe")
    report = result(index(root, "--no-embed", "--json"))
    skipped = dict(report["skipped_files"])
    assert {"one_line.js", "blob.bin", "nul.txt", "outside", "pipe"} <= skipped.keys()
    assert report["syntax_errors"] >= 1
    assert result(index(root, "--no-embed", "--json"))["changed"] is False


def test_a_reader_that_has_enough_is_no_error(environment: dict[str, str], repo: Path) -> None:
    read, write_end = os.pipe()
    os.close(read)
    done = subprocess.run(
        [plait(), "index", str(repo), "--repo", "piped", "--no-embed"],
        env=environment,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_that_can_no_longer_be_parsed_is_not_found_as_it_was(
    index: Index, environment: dict[str, str], tmp_path: Path
) -> None:
    root = write(tmp_path / "slow", {**APP, "slow.py": "def quick():\n    return 1\n"})
    assert result(index(root, "--no-embed", "--json"))["files"] == 6
    write(
        root, {"slow.py": "".join(f"def f{i}(): return f{i}(f{i + 1}())\n" for i in range(25000))}
    )
    environment = {**environment, "PLAIT_INDEX__PARSE_TIMEOUT_S": "0.3"}
    done = subprocess.run(
        [plait(), "index", str(root), "--no-embed", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    report = result(done)
    assert ["slow.py", "parse timeout"] in report["skipped_files"]
    assert (report["files"], report["files_removed"]) == (5, 1)

    def again(**more: str) -> Any:
        words = [plait(), "index", str(root), "--no-embed", "--json"]
        with_these = {**environment, **more}
        done = subprocess.run(
            words, env=with_these, capture_output=True, text=True, timeout=LIMIT_S
        )
        return result(done)

    # The same content is not waited for again, whatever it is called; with more time it is.
    for _ in range(2):
        report = again()
        assert ["slow.py", "timed out before"] in report["skipped_files"]
        assert (report["changed"], report["files_parsed"]) == (False, 0)
    (root / "slow.py").rename(root / "moved.py")
    assert ["moved.py", "timed out before"] in again()["skipped_files"]
    # It is tried once more with more time, which is still not enough, and not after that.
    more = {"PLAIT_INDEX__PARSE_TIMEOUT_S": "0.4"}
    assert ["moved.py", "parse timeout"] in again(**more)["skipped_files"]
    assert ["moved.py", "timed out before"] in again(**more)["skipped_files"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("index", ""), "is empty"),
        (("index", ".", "--repo", "a:b"), "[INVALID_INPUT]"),
        (("index", ".", "--repo", "a\nb"), "[INVALID_INPUT]"),
        (("index", b"nonu\xff"), "not valid UTF-8"),
        (("search", b"nonu\xff"), "not valid UTF-8"),
        (("search", "x", "--since", "when I was young"), "names no one time"),
    ],
)
def test_words_that_cannot_be_meant_are_refused_before_a_server_starts(
    repo: Path, tmp_path: Path, words: tuple[str | bytes, ...], says: str
) -> None:
    home = tmp_path / "unused"
    done = subprocess.run(
        [plait(), *words],
        cwd=repo,
        env={**os.environ, "PLAIT_HOME": str(home)},
        capture_output=True,
    )
    errors = done.stderr.decode()
    assert done.returncode in (1, 2)
    assert says in errors
    assert "Traceback" not in errors
    assert not home.exists()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("after_s", [0.3, 0.8, 1.6])
def test_a_run_that_is_stopped_half_way_is_completed_by_the_next(
    index: Index, environment: dict[str, str], tmp_path: Path, sign: signal.Signals, after_s: float
) -> None:
    """`after_s`: of CPU time. By the clock a busy machine is somewhere else each time, and before its
    first line has run, Python itself answers Ctrl-C with a traceback."""
    many = {f"pkg/m{i}.py": f"def f{i}():\n    return f{i}()\n" * 20 for i in range(400)}
    root = write(tmp_path / f"half-{sign.name}-{after_s}", {**APP, **many})
    process = subprocess.Popen(
        [plait(), "index", str(root), "--no-embed"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: process.poll() is not None or cpu_s(process.pid) >= after_s)
    process.send_signal(sign)
    _, errors = process.communicate(timeout=LIMIT_S)
    assert "Traceback" not in errors
    ran: list[subprocess.CompletedProcess[str]] = []

    def let_go() -> bool:
        """A statement that the killed run was at holds the repository until the store has ended it."""
        ran.append(index(root, "--no-embed", "--json"))
        return "[REPOSITORY_BUSY]" not in ran[-1].stderr

    wait_until(let_go)
    report = result(ran[-1])
    assert (report["files"], report["graph_revision"]) == (405, 0)
    assert result(index(root, "--no-embed", "--json"))["changed"] is False


def test_none_of_a_hostile_repositorys_code_runs(
    index: Index, environment: dict[str, str], tmp_path: Path
) -> None:
    root, marker = write(tmp_path / "hostile", APP), tmp_path / "it-ran"
    bomb = f"open({str(marker)!r}, 'a').write(__name__ + '\\n')\n"
    names = (
        "graph vector server plait proto configs numpy multiprocessing yaml msgspec psycopg neo4j"
    )
    for name in [*names.split(), "tree_sitter", "onnxruntime", "asyncio", "json", "site", "etl"]:
        write(root, {f"{name}/__init__.py": bomb, f"{name}/__main__.py": bomb})
    write(root, {"sitecustomize.py": bomb, "usercustomize.py": bomb, "conftest.py": bomb})
    assert result(index(".", "--repo", "hostile", "--json", cwd=root))["changed"] is True
    # With an `etl/` of its own, Python itself would find that first: -P is the documented way.
    done = subprocess.run(
        [sys.executable, "-P", "-m", "etl.index_repo", ".", "--repo", "hostile", "--no-embed"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not marker.exists(), marker.read_text()


def test_python_m_does_not_run_a_repositorys_packages(index: Index, tmp_path: Path) -> None:
    root, marker = write(tmp_path / "hostile-m", APP), tmp_path / "it-ran"
    bomb = f"open({str(marker)!r}, 'a').write(__name__ + '\\n')\n"
    for name in [
        "graph",
        "vector",
        "server",
        "plait",
        "numpy",
        "yaml",
        "msgspec",
        "psycopg",
        "neo4j",
        "tree_sitter",
    ]:
        write(root, {f"{name}/__init__.py": bomb})
    done = index(".", "--repo", "hostile-m", "--no-embed", "--json", cwd=root, module=True)
    assert result(done)["changed"] is True
    assert not marker.exists(), marker.read_text()
