"""Which repository a folder means, and how fresh its index is said to be."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plait.client import folders
from plait.client.folders import locate, root_of
from plait.domain.answers.indexing import Repository
from plait.domain.answers.search import RepositoryRevision

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def indexed(name: str, root: Path | str, published: datetime | None = NOW) -> Repository:
    return Repository(name, str(root), RepositoryRevision(name, 3, 3, 10, 10), 2, published)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder beside what the tests make."""
    found = tmp_path / "home" / "someone"
    found.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(found))
    return found


def work_tree(folder: Path, *, linked: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if linked:
        (folder / ".git").write_text("gitdir: /elsewhere/.git/worktrees/x\n")
    else:
        (folder / ".git").mkdir()
    return folder


# -- roots -------------------------------------------------------------------------------------------------


def test_a_folder_in_a_work_tree_means_its_root(tmp_path: Path) -> None:
    root = work_tree(tmp_path / "app")
    (root / "src" / "deep").mkdir(parents=True)
    assert root_of(root / "src" / "deep") == root_of(root) == root


def test_a_linked_work_tree_or_submodule_is_a_root_of_its_own(tmp_path: Path) -> None:
    root = work_tree(tmp_path / "app")
    inner = work_tree(root / ".claude" / "worktrees" / "x", linked=True)
    (inner / "src").mkdir()
    assert root_of(inner / "src") == inner


def test_without_git_a_folder_means_itself(tmp_path: Path) -> None:
    assert root_of(tmp_path) == tmp_path.resolve()


def test_the_home_folder_is_no_root_though_it_is_kept_in_git(home: Path) -> None:
    work_tree(home)
    folder = home / "notes"
    folder.mkdir()
    assert root_of(folder) == folder


def test_a_link_means_what_it_points_to(tmp_path: Path) -> None:
    root = work_tree(tmp_path / "app")
    (tmp_path / "link").symlink_to(root)
    assert root_of(tmp_path / "link") == root
    assert locate(root, [indexed("app", tmp_path / "link")]).repository is not None


# -- which repository --------------------------------------------------------------------------------------


def test_a_nested_work_tree_is_never_answered_from_the_one_around_it(tmp_path: Path) -> None:
    outer = work_tree(tmp_path / "app")
    inner = work_tree(outer / ".claude" / "worktrees" / "x", linked=True)
    found = locate(inner, [indexed("app", outer)])
    assert (found.repository, found.root, found.around) == (None, inner, "app")
    both = locate(inner, [indexed("app", outer), indexed("x", inner)])
    assert both.repository is not None
    assert (both.name, both.around) == ("x", "")


def test_a_linked_work_tree_is_never_answered_from_its_main_one(tmp_path: Path) -> None:
    main = work_tree(tmp_path / "app")
    beside = work_tree(tmp_path / "branch")
    (beside / ".git").rmdir()
    (beside / ".git").write_text(f"gitdir: {main}/.git/worktrees/branch\n")
    found = locate(beside, [indexed("app", main)])
    assert (found.repository, found.around, found.root) == (None, "app", beside)
    own = indexed("branch", beside)
    assert locate(beside, [indexed("app", main), own]).repository is own
    (beside / ".git").write_bytes(b"gitdir: \xff\0")
    assert locate(beside, [indexed("app", main)]).around == ""


def test_the_innermost_indexed_folder_of_a_work_tree_answers(tmp_path: Path) -> None:
    root = work_tree(tmp_path / "mono")
    (root / "web" / "src").mkdir(parents=True)
    repositories = [indexed("mono", root), indexed("web", root / "web")]
    assert locate(root / "web" / "src", repositories).name == "web"
    assert locate(root, repositories).name == "mono"
    assert locate(root / "web" / "src", repositories[1:]).root == root / "web"


def test_without_git_the_longest_indexed_folder_around_answers(tmp_path: Path) -> None:
    deep = tmp_path / "notes" / "a" / "b"
    deep.mkdir(parents=True)
    repositories = [indexed("all", tmp_path), indexed("notes", tmp_path / "notes")]
    assert locate(deep, repositories).name == "notes"
    assert locate(tmp_path, repositories[1:]).repository is None


def test_a_sibling_whose_path_begins_alike_is_not_around(tmp_path: Path) -> None:
    (tmp_path / "app-two").mkdir()
    found = locate(tmp_path / "app-two", [indexed("app", tmp_path / "app")])
    assert (found.repository, found.around) == (None, "")


# -- names -------------------------------------------------------------------------------------------------


def test_a_name_that_another_folder_has_gets_a_stable_hash(tmp_path: Path) -> None:
    root = work_tree(tmp_path / "app")
    assert locate(root, []).name == "app"
    taken = [indexed("app", "/elsewhere/app")]
    name = locate(root, taken).name
    assert name.startswith("app-")
    assert name == locate(root / ".git", taken).name == locate(root, taken).name
    other = locate(work_tree(tmp_path / "two" / "app"), taken).name
    assert other not in ("app", name)


@pytest.mark.parametrize(
    ("folder", "name"),
    [("my app", "my-app"), ("a:b", "a-b"), ("écrans", "crans"), ("日本", "repository")],
)
def test_a_name_has_only_what_every_store_takes(tmp_path: Path, folder: str, name: str) -> None:
    found = locate(work_tree(tmp_path / folder), [])
    assert found.name == name
    assert found.command().endswith(f" --repo {name}")


def test_the_command_is_what_one_types(tmp_path: Path) -> None:
    root = work_tree(tmp_path / "app")
    (root / "src").mkdir()
    found = locate(root, [])
    assert found.command(root) == "plait index ."
    assert found.command(root / "src") == "plait index .."
    assert found.command() == f"plait index {root}"


# -- what must not be indexed unasked ------------------------------------------------------------------------


def test_no_home_no_system_root_and_no_shared_folder_is_fit(tmp_path: Path, home: Path) -> None:
    assert locate(work_tree(tmp_path / "app"), []).unfit == ""
    assert "home folder" in locate(work_tree(home), []).unfit
    assert "home folder" in locate(home.parent, []).unfit
    assert "root of the file system" in locate(Path("/"), []).unfit
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    assert "everybody" in locate(shared, []).unfit
    assert "can't be read" in locate(tmp_path / "gone", []).unfit


def test_a_home_folder_that_was_indexed_on_purpose_still_answers(home: Path) -> None:
    assert locate(home, [indexed("someone", home)]).name == "someone"


# -- freshness -----------------------------------------------------------------------------------------------


def files(root: Path, *names: str, at: datetime) -> None:
    for name in names:
        (root / name).write_text("x")
        os.utime(root / name, (at.timestamp(), at.timestamp()))


def test_files_written_or_removed_since_are_counted(tmp_path: Path) -> None:
    files(tmp_path, "old.py", at=NOW - timedelta(hours=1))
    files(tmp_path, "new.py", at=NOW + timedelta(minutes=1))
    found = folders.freshness(indexed("app", tmp_path), ["old.py", "new.py", "gone.py", "old.py"])
    assert found.changed == ("gone.py", "new.py")
    assert found.summary(NOW + timedelta(minutes=4)) == (
        "indexed 4 min ago, 2 of 3 shown files changed since"
    )
    checked = NOW + timedelta(minutes=2)
    later = folders.freshness(indexed("app", tmp_path), ["new.py"], checked_at=checked)
    assert (later.changed, later.summary(checked)) == ((), "indexed just now")


def test_a_repository_of_another_machine_has_no_changed_files() -> None:
    found = folders.freshness(indexed("app", "/no/such/folder"), ["a.py"])
    assert found.summary(NOW + timedelta(days=3)) == "indexed 3 days ago"


def test_what_is_still_being_made_is_said() -> None:
    behind = Repository("app", "/no", RepositoryRevision("app", 3, 2, 4, 10), 2, NOW)
    assert folders.freshness(behind).summary(NOW) == "indexed just now, vectors 40 %"
    assert folders.freshness(indexed("app", "/no", None)).summary() == "not indexed yet"


def test_a_path_that_no_system_takes_is_not_changed(tmp_path: Path) -> None:
    assert folders.freshness(indexed("app", tmp_path), ["a\0b"]).changed == ()
