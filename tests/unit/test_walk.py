"""`etl.source.walk` lists what git lists, says why of the rest, and never blocks."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from etl.source.walk import Walk, walk
from plait.domain.errors import EmptyRepository, NotARepository

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def make(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def listed(root: Path, limit: int = 1_000_000) -> list[str]:
    return [file.path for file in walk(root, max_file_bytes=limit).files]


def skipped(found: Walk) -> dict[str, str]:
    return dict(found.skipped)


def git(root: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", *args],
        cwd=root,
        check=True,
        capture_output=True,
        env={
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "HOME": "/nonexistent",
        },
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def git_files(root: Path) -> list[str]:
    out = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return sorted({name for name in out.split("\0") if name})


# -- what is kept ---------------------------------------------------------------------------------


def test_lists_files_with_sizes_in_order(tmp_path: Path) -> None:
    make(tmp_path, {"b.py": "x = 1\n", "a/z.py": "", "a/.hidden/y.txt": "y"})
    found = walk(tmp_path, max_file_bytes=100)
    assert [(f.path, f.size) for f in found.files] == [
        ("a/.hidden/y.txt", 1),
        ("a/z.py", 0),
        ("b.py", 6),
    ]
    assert found.root == str(tmp_path)
    assert found.skipped == []


@pytest.mark.parametrize(
    ("patterns", "path", "kept"),
    [
        ("*.log", "a/b/x.log", False),
        ("*.log\n!keep.log", "a/keep.log", True),
        ("/build", "build/x", False),
        ("/build", "a/build", True),
        ("build/", "a/build/x", False),
        ("build/", "a/build", True),  # a file, not a folder
        ("a/b", "a/b/c", False),
        ("a/b", "x/a/b/c", True),
        ("**/b", "a/x/b", False),
        ("a/**/b", "a/b", False),
        ("a/**/b", "a/x/y/b", False),
        ("a/**", "a/x", False),
        ("a/*\n!a/keep", "a/keep", True),
        ("a/\n!a/keep", "a/keep", False),  # a folder that is out keeps all in it out
        ("# a", "# a", True),
        ("\\#a", "#a", False),
        ("\\!a", "!a", False),
        ("a  ", "a", False),
        ("a\\ ", "a ", False),
        ("a\r\nb\r", "a", False),
        ("[a-c].txt", "b.txt", False),
        ("[!a-c].txt", "b.txt", True),
        ("[]x].txt", "].txt", False),
        ("[[:digit:]]x", "7x", False),
        ("a?c", "abc", False),
        ("a?c", "a/c", True),
        ("a*c", "a/c", True),
        ("foo/*", "foo/bar/x", False),
        ("[a", "[a", True),  # an unclosed set matches nothing
        ("\ufeffa", "a", False),
    ],
)
def test_reads_patterns_as_git_does(tmp_path: Path, patterns: str, path: str, kept: bool) -> None:
    make(tmp_path, {".gitignore": patterns, path: "x"})
    assert (path in listed(tmp_path)) is kept


def test_deeper_ignore_files_decide_over_higher_ones(tmp_path: Path) -> None:
    make(
        tmp_path,
        {
            ".gitignore": "*.txt\n",
            "docs/.gitignore": "!*.txt\n/only.md\n",
            "docs/a.txt": "",
            "docs/only.md": "",
            "docs/x/only.md": "",
            "a.txt": "",
        },
    )
    assert listed(tmp_path) == [".gitignore", "docs/.gitignore", "docs/a.txt", "docs/x/only.md"]


def test_plaitignore_goes_before_gitignore(tmp_path: Path) -> None:
    make(
        tmp_path,
        {
            ".gitignore": "generated/\n",
            ".plaitignore": "!generated/\n*.po\n",
            "generated/api.py": "",
            "locale/de.po": "",
            "sub/.plaitignore": "x.py\n",
            "sub/x.py": "",
            "x.py": "",
        },
    )
    assert listed(tmp_path) == [
        ".gitignore",
        ".plaitignore",
        "generated/api.py",
        "sub/.plaitignore",
        "x.py",
    ]
    assert skipped(walk(tmp_path, max_file_bytes=10**6)) == {
        "locale/de.po": "ignored",
        "sub/x.py": "ignored",
    }


@needs_git
def test_tracked_files_stay_although_ignored(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "dist/\n*.log\n", "dist/a.js": "", "dist/b.js": "", "x.log": ""})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", ".gitignore", "dist/a.js", "x.log")
    assert listed(tmp_path) == git_files(tmp_path) == [".gitignore", "dist/a.js", "x.log"]


@needs_git
@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_reads_every_version_of_the_index(tmp_path: Path, version: str) -> None:
    names = [f"d{i % 7}/sub/file{i}.py" for i in range(50)]
    make(tmp_path, {".gitignore": "*\n", **dict.fromkeys(names, "")})
    git(tmp_path, "init", "-q")
    git(tmp_path, "update-index", "--index-version", version)
    git(tmp_path, "add", "-f", *names[:30])
    if version == "3":
        git(tmp_path, "add", "-f", "-N", names[30])  # an extended flag
    assert listed(tmp_path) == [p for p in git_files(tmp_path) if (tmp_path / p).exists()]


@pytest.mark.parametrize("index", [b"", b"DIRC", b"DIRC" + b"\0" * 8 + b"\xff" * 400, b"\xff" * 90])
def test_a_damaged_index_leaves_the_patterns(tmp_path: Path, index: bytes) -> None:
    make(tmp_path, {".git/index": index, ".gitignore": "a\n", "a": "", "b": ""})
    assert listed(tmp_path) == [".gitignore", "b"]


@needs_git
def test_info_exclude_and_ignore_files_above_the_root_hold(tmp_path: Path) -> None:
    make(
        tmp_path,
        {
            ".gitignore": "*.log\n/pkg/out\n",
            "pkg/.gitignore": "/sub/tmp\n",
            "pkg/sub/tmp": "",
            "pkg/sub/a.log": "",
            "pkg/sub/out": "",
            "pkg/sub/secret": "",
            "pkg/sub/a.py": "",
        },
    )
    git(tmp_path, "init", "-q")
    (tmp_path / ".git/info").mkdir(exist_ok=True)
    (tmp_path / ".git/info/exclude").write_text("secret\n")
    assert listed(tmp_path / "pkg/sub") == git_files(tmp_path / "pkg/sub") == ["a.py", "out"]


@needs_git
def test_a_linked_work_tree_is_read_through_its_pointer(tmp_path: Path) -> None:
    main = make(tmp_path / "main", {"a.py": "x", ".gitignore": "*.log\n"})
    git(main, "init", "-q")
    git(main, "add", ".")
    git(main, "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "one")
    git(main, "worktree", "add", "-q", "../linked")
    (main / ".git/info").mkdir(exist_ok=True)
    (main / ".git/info/exclude").write_text("secret\n")
    linked = make(tmp_path / "linked", {"t.log": "", "secret": "", "u.log": ""})
    git(linked, "add", "-f", "t.log")
    assert listed(linked) == git_files(linked) == [".gitignore", "a.py", "t.log"]


ALPHABET = ["a", "b", "ab", "x.py", "y.log", "c d", "é", "[z]", "B"]
PIECES = ["a", "b", "*", "?", "**", "*.py", "x*", "[ab]", "[!b]*", "y.log", "B", "c d", "*b*"]


def random_pattern(rng: random.Random) -> str:
    parts = [rng.choice(PIECES) for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))]
    pattern = "/".join(parts)
    pattern = rng.choice(["", "", "/"]) + pattern + rng.choice(["", "", "/"])
    return rng.choice(["", "", "!"]) + pattern


def random_tree(rng: random.Random, root: Path) -> None:
    folders = [root]
    for _ in range(rng.randint(2, 10)):
        folder = rng.choice(folders) / rng.choice(ALPHABET)
        if not folder.exists():
            folder.mkdir()
            folders.append(folder)
    for _ in range(rng.randint(4, 25)):
        path = rng.choice(folders) / rng.choice(ALPHABET)
        if not path.exists():
            path.write_text("x")
    for folder in rng.sample(folders, k=min(len(folders), rng.randint(1, 3))):
        lines = [random_pattern(rng) for _ in range(rng.randint(1, 4))]
        (folder / ".gitignore").write_text("\n".join(lines) + "\n")


@needs_git
@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_git_on_random_trees(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    random_tree(rng, tmp_path)
    git(tmp_path, "init", "-q")
    if rng.random() < 0.5:
        git(tmp_path, "add", ".")
        for ignore in tmp_path.rglob(".gitignore"):
            ignore.write_text(random_pattern(rng) + "\n")
    expected = git_files(tmp_path)
    try:
        assert listed(tmp_path) == expected
    except EmptyRepository:
        assert expected == []


# -- what is skipped, and why -----------------------------------------------------------------------


def test_every_skip_has_a_cause(tmp_path: Path) -> None:
    outside = make(tmp_path / "outside", {"f.py": "x"})
    root = make(
        tmp_path / "repo",
        {
            "a.py": "x",
            "blob": b"\x7fELF\0\0",
            "late": b"x" * 8000 + b"\0",
            "big.py": b"x" * 20_000,
            "sub/.git": "gitdir: ../.git/modules/sub\n",
            "sub/x.py": "x",
            "nested/.git/HEAD": "ref: refs/heads/main\n",
            "nested/y.py": "y",
            ".gitignore": "ignored\n",
            "ignored/z.py": "z",
        },
    )
    (root / "in").symlink_to("a.py")
    (root / "out").symlink_to(outside / "f.py")
    (root / "outdir").symlink_to(outside, target_is_directory=True)
    (root / "broken").symlink_to("nothing")
    (root / "loop").symlink_to("loop")
    (root / "up").symlink_to(".", target_is_directory=True)
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(root)  # a socket's path may have 107 bytes
        try:
            server.bind("sock")
        finally:
            os.chdir(here)
        found = walk(root, max_file_bytes=10_000)
    assert [f.path for f in found.files] == [".gitignore", "a.py", "late"]
    assert skipped(found) == {
        "big.py": "too large",
        "blob": "binary",
        "broken": "broken symlink",
        "ignored/": "ignored",
        "in": "symlink",
        "loop": "broken symlink",
        "nested/": "nested repository",
        "out": "symlink leaves the repository",
        "outdir": "symlink leaves the repository",
        "pipe": "not a regular file",
        "sock": "not a regular file",
        "sub/": "nested repository",
        "up": "symlink",
    }
    assert found.skips["symlink"] == 2


def test_a_fifo_as_ignore_file_does_not_block(tmp_path: Path) -> None:
    make(tmp_path, {"a.py": "x"})
    os.mkfifo(tmp_path / ".gitignore")
    os.mkfifo(tmp_path / ".git")
    assert listed(tmp_path) == ["a.py"]


def test_folders_where_files_belong_are_no_rules(tmp_path: Path) -> None:
    make(tmp_path, {"a.py": "x", ".gitignore/b.py": "", ".git/index/x": "", ".git/info": ""})
    assert listed(tmp_path) == [".gitignore/b.py", "a.py"]


def test_an_oversized_ignore_file_is_told(tmp_path: Path) -> None:
    make(tmp_path, {"a.py": "x", ".gitignore": b"# x\n" * 300_000})
    assert "ignore file too large" in walk(tmp_path, max_file_bytes=10**7).skips


def test_a_name_that_is_not_utf8_is_skipped(tmp_path: Path) -> None:
    make(tmp_path, {"a.py": "x"})
    try:
        (tmp_path / os.fsdecode(b"bad\xff.py")).write_text("x")
    except OSError:
        pytest.skip("this file system takes no such name")
    found = walk(tmp_path, max_file_bytes=100)
    assert found.skipped == [("bad\\xff.py", "name is not UTF-8")]


@pytest.mark.skipif(AS_ROOT, reason="root may read everything")
def test_what_may_not_be_read_is_skipped(tmp_path: Path) -> None:
    make(tmp_path, {"a.py": "x", "locked/b.py": "x", "c.py": "x"})
    (tmp_path / "locked").chmod(0)
    (tmp_path / "c.py").chmod(0)
    try:
        found = walk(tmp_path, max_file_bytes=100)
    finally:
        (tmp_path / "locked").chmod(0o700)
    assert skipped(found) == {"c.py": "unreadable", "locked/": "unreadable"}


def test_a_folder_deeper_than_paths_may_be_is_no_crash(tmp_path: Path) -> None:
    make(tmp_path, {"a.py": "x"})
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(1100):
            os.mkdir("deep", dir_fd=here)
            inner = os.open("deep", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = inner
        found = walk(tmp_path, max_file_bytes=100)
    finally:
        os.close(here)
        subprocess.run(["rm", "-rf", str(tmp_path / "deep")], check=True)
    assert [f.path for f in found.files] == ["a.py"]
    assert found.skips["unreadable"] == 1


@pytest.mark.parametrize(
    "pattern",
    ["*a" * 30 + "*b", "**/a" * 20 + "/b", "a*" * 60 + "b", "*" * 200 + "b", "[a-z]*" * 40 + "9"],
)
@pytest.mark.timeout(300)  # a backtracking matcher would take longer than the universe
def test_no_pattern_is_slow(tmp_path: Path, pattern: str) -> None:
    name = "a" * 200
    make(tmp_path, {".gitignore": pattern + "\n", f"{name}/{name}/{name}": "x"})
    assert len(listed(tmp_path)) == 2


# -- what is refused ---------------------------------------------------------------------------------


def test_refuses_a_path_that_is_not_a_folder(tmp_path: Path) -> None:
    make(tmp_path, {"a.py": "x"})
    with pytest.raises(NotARepository, match="is a file, not a folder"):
        walk(tmp_path / "a.py", max_file_bytes=100)
    with pytest.raises(NotARepository, match="check the path"):
        walk(tmp_path / "missing", max_file_bytes=100)


@pytest.mark.skipif(AS_ROOT, reason="root may read everything")
def test_refuses_a_folder_without_permission(tmp_path: Path) -> None:
    make(tmp_path, {"r/a.py": "x"})
    (tmp_path / "r").chmod(0)
    try:
        with pytest.raises(NotARepository, match="permission"):
            walk(tmp_path / "r", max_file_bytes=100)
    finally:
        (tmp_path / "r").chmod(0o700)


def test_refuses_a_folder_with_nothing_to_index(tmp_path: Path) -> None:
    with pytest.raises(EmptyRepository, match="holds no file"):
        walk(tmp_path, max_file_bytes=100)
    make(tmp_path, {"a.bin": b"\0", "b.bin": b"\0"})
    with pytest.raises(EmptyRepository, match=r"everything in it was skipped \(2 binary\)"):
        walk(tmp_path, max_file_bytes=100)
