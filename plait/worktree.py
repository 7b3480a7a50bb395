"""Where a git work tree begins, read without git."""

from __future__ import annotations

import os


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
