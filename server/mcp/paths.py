"""Paths that an agent names, as the index knows them: relative to the repository, never outside it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from server.mcp.answer import Refused

_LINES = re.compile(r":\d+(?:-\d+)?$")
_WILD = re.compile(r"[*?\[]")


def glob(text: str, root: Path) -> str:
    """`src/**` for `src`, `./src/`, `/path/to/repo/src` or `src/**`. Raises: Refused."""
    text = text.strip()
    if not text:
        return ""
    slash = text.endswith("/")
    path = inside(text, root, "paths")
    if path in ("", "**"):
        return ""
    if not _WILD.search(path) and (slash or _is_folder(root / path)):
        return f"{path}/**"
    return path


def inside(text: str, root: Path, argument: str) -> str:
    """`text` relative to `root`, "" for the root itself. Raises: Refused, for a path outside it."""
    path = text
    if os.path.isabs(path):  # noqa: PTH117  (a glob, too)
        for top in (str(root), os.path.realpath(root)):
            if path == top or path.startswith(f"{top}/"):
                path = path[len(top) :].lstrip("/")
                break
    path = os.path.normpath(path) if path else "."
    if "\0" in path or os.path.isabs(path) or path == ".." or path.startswith("../"):  # noqa: PTH117
        raise Refused(
            f"`{argument}` {text[:80]!r} is outside the repository {root}; give a path inside it, relative "
            "to its root."
        )
    return "" if path == "." else path


def without_lines(text: str) -> str:
    """`a.py` for `a.py:10-20`, which is how answers write a place."""
    return _LINES.sub("", text)


def about(text: str, root: Path) -> tuple[str, str]:
    """`(path, symbol)` of what a note is about; one of them is empty, or both. Raises: Refused."""
    text = text.strip()
    if not text:
        return "", ""
    bare = without_lines(text)
    looks_like_path = "/" in bare or _is_file(root / bare)
    if not looks_like_path:
        return "", text
    path = inside(bare, root, "about")
    if root.is_dir() and not (root / path).exists():
        raise Refused(
            f"`about`: there is no {path[:200]!r} in {root}. Give a file of it, a symbol's name, or leave "
            "`about` out."
        )
    return path, ""


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
