"""Repositories that change while they are read, go deeper than paths may, or shadow Python itself."""

from __future__ import annotations

import keyword
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from etl.parsing.pool import Job, ParsePool, hash_files
from etl.source.files import Elsewhere, NotAFile, opened, read_limited
from plait.secrets.rules import BUILT_IN
from tests.processes import LIMIT_S

ROUNDS = 300
SECRET = "SECRET_OF_SOMEBODY_ELSE"
LIMIT = 1_000_000
RULES = BUILT_IN.digest()
# What Python loads on its way to `python -m` from the working folder; whatever we do comes later.
BEFORE_US = [
    "collections", "contextlib", "functools", "importlib", "keyword", "operator", "reprlib", "types", "warnings",
]  # fmt: skip


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A folder outside of the repository, with files named as the repository's are."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("a.py", "b.py"):
        (outside / name).write_text(f"{SECRET} = 1\n")
    return outside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    (made / "pkg").mkdir(parents=True)
    for name in ("a.py", "b.py"):
        (made / "pkg" / name).write_text("ours = 1\n")
    return made


def while_it_changes(change: Callable[[int], None], read: Callable[[], None]) -> None:
    """`read` again and again while another thread changes the tree."""
    stop = threading.Event()
    failed: list[BaseException] = []

    def changing() -> None:
        n = 0
        try:
            while not stop.is_set():
                change(n)
                n += 1
        except BaseException as exc:
            failed.append(exc)

    thread = threading.Thread(target=changing)
    thread.start()
    try:
        for _ in range(ROUNDS):
            read()
    finally:
        stop.set()
        thread.join()
    assert not failed


def put(path: Path, make: Callable[[Path], object]) -> None:
    """Replace `path` in one step."""
    other = path.with_name(f".{path.name}.new")
    make(other)
    other.replace(path)


def read(path: Path) -> bytes | None:
    """What an index run would read."""
    try:
        return read_limited(str(path), LIMIT, real=True)
    except OSError:
        return None


def test_a_file_that_becomes_a_link_a_fifo_or_longer_is_never_read_past_it(
    root: Path, secret: Path
) -> None:
    path = root / "pkg" / "a.py"
    kinds: list[Callable[[Path], object]] = [
        lambda new: new.symlink_to(secret / "a.py"),
        lambda new: os.mkfifo(new),
        lambda new: os.link(root / "pkg" / "b.py", new),
        lambda new: new.write_text("ours = 2\n" * 10_000),
        lambda new: new.write_text(""),
    ]

    def reading() -> None:
        data = read(path)
        assert data is None or SECRET.encode() not in data

    while_it_changes(lambda n: put(path, kinds[n % len(kinds)]), reading)


def test_a_folder_that_becomes_a_link_leads_nowhere(root: Path, secret: Path) -> None:
    pkg, aside = root / "pkg", root / "aside"

    def change(n: int) -> None:
        pkg.rename(aside)
        pkg.symlink_to(secret, target_is_directory=True)
        pkg.unlink()
        aside.rename(pkg)

    def reading() -> None:
        data = read(pkg / "a.py")
        assert data is None or SECRET.encode() not in data

    while_it_changes(change, reading)


def test_behind_a_linked_folder_nothing_is_read(root: Path, secret: Path) -> None:
    (root / "linked").symlink_to(secret, target_is_directory=True)
    with pytest.raises(Elsewhere):
        read_limited(str(root / "linked" / "a.py"), LIMIT, real=True)
    assert hash_files(root, ["linked/a.py", "pkg/a.py"], RULES).keys() == {"pkg/a.py"}
    jobs = [Job(f"{name}/a.py", "python", name, False, 10) for name in ("linked", "pkg")]
    with ParsePool(root, workers=1) as pool:
        batches = list(pool.run(jobs))
    texts = [chunk.content for batch in batches for chunk in batch.chunks]
    assert texts
    assert not [text for text in texts if SECRET in text]


def test_a_repository_reached_by_a_link_is_read(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root, target_is_directory=True)
    assert hash_files(link, ["pkg/a.py"], RULES).keys() == {"pkg/a.py"}
    with ParsePool(link, workers=1) as pool:
        batches = list(pool.run([Job("pkg/a.py", "python", "pkg.a", False, 10)]))
    assert [file.path for batch in batches for file in batch.files] == ["pkg/a.py"]


def test_a_file_that_grows_and_shrinks_costs_its_limit_at_most(root: Path) -> None:
    path = root / "pkg" / "a.py"

    def change(n: int) -> None:
        with path.open("r+b") as file:
            file.truncate((0, 10, LIMIT, LIMIT + 1, 50 * LIMIT)[n % 5])

    def reading() -> None:
        data = read(path)
        assert data is None or len(data) <= LIMIT

    while_it_changes(change, reading)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_no_file(tmp_path: Path) -> None:
    device = tmp_path / "zero.py"
    try:
        os.mknod(device, 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:  # a container without the right to
        pytest.skip("no device can be made here")
    with pytest.raises((NotAFile, PermissionError)), opened(str(device)):
        pass


def test_a_folder_20_000_deep_is_said_and_does_not_end_the_run(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "app.py").write_text("def app(): return 1\n")
    here = os.open(root, os.O_RDONLY)
    try:
        for _ in range(20_000):
            os.mkdir("d", dir_fd=here)
            inner = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = inner
        with os.fdopen(os.open("x.py", os.O_WRONLY | os.O_CREAT, dir_fd=here), "w") as file:
            file.write("def deep(): return 1\n")
        done = _export(root)
        assert done.returncode == 0, done.stderr
        assert "app.app" in done.stdout
    finally:
        os.close(here)
        subprocess.run(["rm", "-rf", str(root / "d")], check=True)


def _export(root: Path, *python: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *(python or ("-P",)), "-m", "etl.index_repo", ".", "--export", "-"],
        cwd=root,
        env={"PATH": os.environ["PATH"], "PLAIT_HOME": str(root.parent / "home"), **environ},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


# -- folders that shadow Python ---------------------------------------------------------------------------------


def shadowing(root: Path, names: list[str]) -> Path:
    """A repository whose modules leave a mark when they run, and then are what they stand for."""
    root.mkdir()
    for name in names:
        (root / f"{name}.py").write_text(
            f"open({str(root / 'MARKER')!r}, 'a').write({name!r} + '\\n')\n"
            f"import sys\nsys.path.remove({str(root)!r}) if {str(root)!r} in sys.path else None\n"
            f"del sys.modules[{name!r}]\nimport {name}\nsys.path.insert(0, {str(root)!r})\n"
        )
    (root / "app.py").write_text("def app(): return 1\n")
    return root


def plain_python() -> dict[str, str]:
    """Of a Python that loads nothing by itself, as one that Plait was installed into from a wheel."""
    ours = Path(__file__).resolve().parents[2]
    packages = Path(psycopg.__file__).parents[1]
    return {"PYTHONPATH": f"{ours}:{packages}"}


def test_what_python_loads_after_us_does_not_run(tmp_path: Path) -> None:
    names = sorted(
        sys.stdlib_module_names - {*BEFORE_US, *sys.builtin_module_names, "antigravity", "this"}
    )
    root = shadowing(tmp_path / "hostile", names)
    done = _export(root, "-S", **plain_python())
    assert not (root / "MARKER").exists(), (root / "MARKER").read_text()
    assert done.returncode == 0, done.stderr


def test_what_python_loads_before_us_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    root = tmp_path / "hostile"
    root.mkdir()
    # As the real one, so that Python goes on and reaches us.
    source = Path(keyword.__file__).read_text()
    (root / "keyword.py").write_text(
        source + f"\nopen({str(root / 'MARKER')!r}, 'a').write('ran')\n"
    )
    done = _export(root, "-S", **plain_python())
    assert (root / "MARKER").exists(), "Python has got safer: say so in the docs, and drop this"
    assert done.returncode == 1
    assert "'keyword' of this folder" in done.stderr
    assert "plait index" in done.stderr
    assert "FOLDER_SHADOWS_PYTHON" in done.stderr
    assert done.stdout == ""


def test_with_a_safe_path_nothing_of_the_folder_runs(tmp_path: Path) -> None:
    root = shadowing(tmp_path / "hostile", [*BEFORE_US, "etl", "plait", "server"])
    done = _export(root, "-P", "-S", **plain_python())
    assert not (root / "MARKER").exists(), (root / "MARKER").read_text()
    assert done.returncode == 0, done.stderr
