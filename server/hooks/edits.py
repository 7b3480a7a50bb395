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
    patch = _patch(payload.given)
    if patch:
        for name, hunks in applied(patch):
            if (path := payload.path(name)) is not None:
                yield path, hunks
        return
    path = payload.path(_first(payload.given, _PATHS) or _first(payload.result, _PATHS))
    if path is not None:
        yield path, _hunks(payload, path)


def _patch(given: Mapping[str, Any]) -> str:
    """The patch in the form of `apply_patch` that a tool was given, "" without one."""
    for key in _PATCHES:
        value = given.get(key)
        for text in (
            value if isinstance(value, list) else [value]
        ):  # `["apply_patch", "*** Begin…"]`
            if isinstance(text, str) and _BEGIN in text[:20_000]:
                return text
    return ""


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
    for name, lines in _updated(patch):
        if hunks := [line for part in _parts(lines) for line in _hunk(part)]:
            yield name, "\n".join(hunks)


def _updated(patch: str) -> Iterable[tuple[str, list[str]]]:
    """The lines below each header of an updated file; a header of a move belongs to the file before it."""
    name, lines = "", list[str]()
    for line in patch.splitlines():
        if not line.startswith("*** "):
            lines.append(line)
            continue
        if name:
            yield name, lines
        lines = []
        if not line.startswith("*** Move to: "):
            name = line[17:].strip() if line.startswith("*** Update File: ") else ""
    if name:
        yield name, lines


def _parts(lines: Iterable[str]) -> Iterable[list[str]]:
    """The lines between two `@@`; what is no line of a hunk is left out."""
    part: list[str] = []
    for line in lines:
        if line.startswith("@@"):
            yield part
            part = []
        elif not line or line[0] in "+- ":
            part.append(line or " ")
    yield part


def _hunk(lines: list[str]) -> list[str]:
    """A unified hunk of `lines`; none where nothing changes. Its place in the file is not known."""
    added, removed = (sum(line[0] == sign for line in lines) for sign in "+-")
    if not added + removed:
        return []
    return [f"@@ -1,{len(lines) - added} +1,{len(lines) - removed} @@", *lines]


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
