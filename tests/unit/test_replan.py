"""What a plan is after a few files changed, without another walk."""

from __future__ import annotations

from pathlib import Path

import pytest

from etl.plan import IndexPlan, make_plan, replan
from plait.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for path in ("pkg/__init__.py", "pkg/a.py", "out/made.txt", "b.txt"):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text\n")
    (root / ".gitignore").write_text("out/\n")
    return root


@pytest.fixture
def plan(root: Path, settings: Settings) -> IndexPlan:
    return make_plan(root, settings)


def same(one: IndexPlan | None, other: IndexPlan) -> bool:
    return one is not None and (one.walk, one.jobs) == (other.walk, other.jobs)


def test_a_known_file_is_looked_at_alone(root: Path, plan: IndexPlan, settings: Settings) -> None:
    (root / "pkg/a.py").write_text("longer text\n")
    assert same(replan(plan, {"pkg/a.py"}, settings), make_plan(root, settings))
    (root / "b.txt").write_bytes(b"\0binary")
    assert same(replan(plan, {"b.txt", "pkg/a.py"}, settings), make_plan(root, settings))
    (root / "b.txt").unlink()
    assert same(replan(plan, {"b.txt", "pkg/a.py"}, settings), make_plan(root, settings))


def test_what_is_left_out_needs_no_walk(root: Path, plan: IndexPlan, settings: Settings) -> None:
    (root / "out/more.txt").write_text("text\n")
    assert same(replan(plan, {"out/more.txt", "out/made.txt", "gone.swp"}, settings), plan)


@pytest.mark.parametrize(
    "touched", ["new.py", ".gitignore", ".git/HEAD", "pkg/__init__.py", "b.txt"]
)
def test_what_decides_over_others_needs_a_walk(
    root: Path, plan: IndexPlan, settings: Settings, touched: str
) -> None:
    (root / "new.py").write_text("text\n")
    (root / "pkg/__init__.py").unlink()
    (root / "b.txt").unlink()
    (root / "b.txt").symlink_to("new.py")
    assert replan(plan, {touched}, settings) is None


def test_what_may_be_more_than_was_told_is_walked(
    root: Path, plan: IndexPlan, settings: Settings
) -> None:
    moved = root / "elsewhere"
    (root / "pkg").rename(moved)
    assert replan(plan, {"pkg"}, settings) is None, "a folder of known files is gone"
    moved.rename(root / "pkg")
    (root / "pkg/__init__.py").write_bytes(b"\0")
    assert replan(plan, {"pkg/__init__.py"}, settings) is None, "modules have other names now"
    (root / "pkg/__init__.py").write_text("")
    (root / "b.txt").write_bytes(b"\0binary")
    without = make_plan(root, settings)
    (root / "b.txt").write_text("text\n")
    assert replan(without, {"b.txt"}, settings) is None, "it was left out before"
