"""A client's hook JSON as a value. It is hostile input: whatever its shape, reading it raises nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAX_BYTES = 16 * 2**20  # an edit's result holds the whole file
MAX_TEXT = 4096  # characters of a path or an id


@dataclass(frozen=True, slots=True)
class Payload:
    """What clients say under their various names. What is missing or of another type is empty.

    `session`: the id of the conversation. `native`: the client's own name of the event. `source`: how a
    session started or why it ended."""

    session: str = ""
    folder: str = ""
    native: str = ""
    source: str = ""
    transcript: str = ""
    tool: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)  # the tool's input
    result: Mapping[str, Any] = field(default_factory=dict)  # what it returned

    def path(self, name: object) -> Path | None:
        """`name` as an absolute path; relative ones are of the session's folder."""
        if not isinstance(name, str) or not 0 < len(name) <= MAX_TEXT or "\0" in name:
            return None
        path = Path(self.folder, name)
        return path if path.is_absolute() else None


def read(raw: bytes) -> Payload:
    """The payload in `raw`; an empty one where that is no JSON object or too large."""
    if len(raw) > MAX_BYTES:
        return Payload()
    try:
        tree = json.loads(raw)
    except (ValueError, RecursionError):
        return Payload()
    if not isinstance(tree, dict):
        return Payload()
    return Payload(
        session=_text(tree, "session_id") or _text(tree, "conversation_id"),
        folder=_folder(tree),
        native=_text(tree, "hook_event_name"),
        source=_text(tree, "source"),
        transcript=_text(tree, "transcript_path"),
        tool=_text(tree, "tool_name"),
        given=_given(tree),
        result=_mapping(tree.get("tool_response")) or _mapping(tree.get("tool_output")),
    )


def _folder(tree: Mapping[str, Any]) -> str:
    """The session's folder, else the first root of its workspace, as an absolute path; else ""."""
    roots = tree.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots else ""
    folder = _text(tree, "cwd") or (first if isinstance(first, str) else "")
    return folder if folder.startswith("/") and "\0" not in folder else ""


def _given(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    given = _mapping(tree.get("tool_input"))
    if given or not isinstance(tree.get("file_path"), str):
        return given
    return tree  # Cursor's `afterFileEdit` has the edit beside the event


def _text(tree: Mapping[str, Any], key: str) -> str:
    """A string of sane length that can be written as UTF-8, else ""."""
    value = tree.get(key)
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return ""
    return value


def _mapping(value: object) -> Mapping[str, Any]:
    """An object, or a string that holds one in JSON."""
    if isinstance(value, str) and value[:1] == "{":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
