"""Where a git work tree begins, read without git."""

from __future__ import annotations

import os

_MOST = 8_192  # characters of a `.git` file; it holds one path


def work_tree(root: str) -> str | None:
    """The nearest folder at or above `root` that holds `.git`."""
    folder = root
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):  # noqa: PTH118
            return folder.rstrip("/")
        parent = os.path.dirname(folder)  # noqa: PTH120
        if parent == folder:
            return None
        folder = parent


def main_of(root: str) -> str | None:
    """The main work tree of the linked one at `root`, as `git worktree add` makes it; None when it is none."""
    try:
        with open(os.path.join(root, ".git"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            told = file.read(_MOST).strip()
    except (OSError, ValueError):
        return None
    folder = os.path.join(root, told.removeprefix("gitdir:").strip())  # noqa: PTH118
    main, found, name = os.path.realpath(folder).rpartition("/.git/worktrees/")
    return main if found and name and "/" not in name else None
