"""What an edit tool changed, as hunks by file: from its result where that has them, else from its input."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.hooks.payload import Payload

if TYPE_CHECKING:
    from plait.client.hooks import FileEdit

MAX_FILES = 20
MAX_FILE_BYTES = 2 * 2**20  # of a file that is read for the lines around an edit
MAX_HUNKS = 128 * 1024  # characters of one file's hunks
MAX_PAIRS = 50
AROUND = 8  # lines on either side: a signature is often above what is changed

_PATHS = ("file_path", "filePath", "path", "absolute_path", "target_file")
_OLD, _NEW = ("old_string", "oldString", "old_str"), ("new_string", "newString", "new_str")
_PATCHES = ("command", "input", "patch")
_BEGIN = "*** Begin Patch"


def edits(payload: Payload) -> list[FileEdit]:
    """The files that were edited, at most `MAX_FILES`; new and deleted ones are left out: nothing calls
    what is new."""
    from plait.client.hooks import FileEdit

    found: list[FileEdit] = []
    for path, hunks in _hunks_by_path(payload):
        if hunks and len(hunks) <= MAX_HUNKS and len(found) < MAX_FILES and _sendable(hunks):
            found.append(FileEdit(str(path), hunks))
    return found


def _hunks_by_path(payload: Payload) -> Iterable[tuple[Path, str]]:
    for key in _PATCHES:
        patch = payload.given.get(key)
        if isinstance(patch, list):  # `["apply_patch", "*** Begin Patch…"]`
            patch = next((x for x in patch if isinstance(x, str) and _BEGIN in x), None)
        if isinstance(patch, str) and _BEGIN in patch[:20_000]:
            for name, hunks in applied(patch):
                if (path := payload.path(name)) is not None:
                    yield path, hunks
            return
    named = _first(payload.given, _PATHS) or _first(payload.result, _PATHS)
    path = payload.path(named)
    if path is not None:
        yield path, _hunks(payload, path)


def _hunks(payload: Payload, path: Path) -> str:
    from etl.ingest.importers import edits as diffs

    if payload.result.get("type") == "create":
        return ""
    if patched := diffs.patched("f", payload.result.get("structuredPatch")):
        return _body(patched)
    shown = payload.result.get("returnDisplay")
    if isinstance(shown, Mapping) and isinstance(shown.get("fileDiff"), str):
        return _body(shown["fileDiff"])
    pairs = list(_pairs(payload.given))
    if not pairs:
        return ""
    now = _contents(path)
    return _body(diffs.replaced("f", [_widened(old, new, now) for old, new in pairs]))


def _pairs(given: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Old and new texts, at most `MAX_PAIRS`."""
    listed = given.get("edits")
    for one in (listed if isinstance(listed, list) else [given])[:MAX_PAIRS]:
        if isinstance(one, Mapping):
            old, new = _first(one, _OLD), _first(one, _NEW)
            if old and len(old) + len(new) <= MAX_HUNKS:
                yield old, new


def _widened(old: str, new: str, now: str) -> tuple[str, str]:
    """Both texts with what stands round the new one in the file as it is now, so that they are whole lines
    and their place is told; as they are where the new one stands in no or in several places."""
    at = now.find(new) if new else -1
    if at < 0 or now.find(new, at + 1) >= 0:
        return old, new
    start, end = at, at + len(new)
    for _ in range(AROUND):
        start = now.rfind("\n", 0, max(0, start - 1)) + 1 if start else 0
        end = now.find("\n", end) + 1 or len(now) if end < len(now) else end
    return now[start:at] + old + now[at + len(new) : end], now[start:end]


def _contents(path: Path) -> str:
    """The text of a plain file, "" for anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    with os.fdopen(handle, "rb") as stream:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_FILE_BYTES:
            return ""
        try:
            return stream.read(MAX_FILE_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""


def applied(patch: str) -> Iterable[tuple[str, str]]:
    """`(path, hunks)` of each updated file of a patch in the form of `apply_patch`."""
    name = ""
    lines: list[str] = []
    hunks: list[str] = []

    def close() -> None:
        old = sum(line[0] != "+" for line in lines)
        if lines and old < len(lines) + sum(line[0] == "-" for line in lines):
            new = sum(line[0] != "-" for line in lines)
            hunks.extend([f"@@ -1,{old} +1,{new} @@", *lines])
        lines.clear()

    for line in patch.splitlines():
        if line.startswith("*** "):
            close()
            if name and hunks:
                yield name, "\n".join(hunks)
            hunks.clear()
            if line.startswith("*** Move to: "):
                continue
            name = line[17:].strip() if line.startswith("*** Update File: ") else ""
        elif name and line.startswith("@@"):
            close()
        elif name and line[:1] in ("+", "-", " "):
            lines.append(line)
        elif name and not line:
            lines.append(" ")
    close()
    if name and hunks:
        yield name, "\n".join(hunks)


def _body(diff: str) -> str:
    """From the first hunk on."""
    at = 0 if diff.startswith("@@") else diff.find("\n@@") + 1
    return diff[at:] if at or diff.startswith("@@") else ""


def _first(tree: Mapping[str, Any], keys: Iterable[str]) -> str:
    return next((v for k in keys if isinstance(v := tree.get(k), str) and v), "")


def _sendable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
