"""Which runs leave a tree that a later run may take up whole."""

from __future__ import annotations

from pathlib import Path

from etl.plan import make_plan
from etl.run import Run
from etl.trees import tree_of
from plait.settings import load


def test_a_run_that_could_not_read_a_file_leaves_none(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def one():\n    return 1\n")
    (tmp_path / "b.py").write_text("def two():\n    return 2\n")
    todo = make_plan(tmp_path, load(environ={}))
    whole = Run(todo.walk, todo.jobs, todo.rules)
    assert tree_of(whole)
    crashed = Run(todo.walk, todo.jobs, todo.rules, skipped=[("b.py", "parser crashed")])
    assert not tree_of(crashed)
    left_out = Run(todo.walk, todo.jobs, todo.rules, skipped=[("big.py", "too large")])
    assert tree_of(left_out) == tree_of(whole)
