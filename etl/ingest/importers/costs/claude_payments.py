"""Lines of a Claude Code session as payments: model calls, look-ups and their results, hooks, summaries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from etl.ingest.importers.costs import look_ups
from etl.ingest.importers.costs.payments import Payments, Window
from etl.ingest.importers.jsonl import items, message_text, text
from plait.domain.savings import Looked

# Events whose hooks put their plain output into the context. What a hook says as JSON stands in an entry
# of its own, `hook_additional_context`.
_PLAIN = frozenset({"SessionStart", "UserPromptSubmit"})


def take(payments: Payments, entry: Mapping[str, Any]) -> None:
    """Count one line, whatever its type."""
    kind = text(entry, "type")
    if kind not in ("user", "assistant", "system", "attachment"):
        return
    window = _window(payments, entry)
    if kind == "assistant":
        _assistant(window, entry)
    elif kind == "user":
        _user(window, entry)
    elif kind == "attachment":
        _attachment(window, entry)
    elif text(entry, "subtype") == "compact_boundary":
        window.summarised()
    elif text(entry, "subtype") == "microcompact_boundary":
        window.cleared(items(entry, "microcompactMetadata", "compactedToolIds"))


def _window(payments: Payments, entry: Mapping[str, Any]) -> Window:
    """Each subagent has a context of its own. Where it has no id, its first line has no parent."""
    if entry.get("isSidechain") is not True:
        return payments.window()
    if agent := text(entry, "agentId")[:200]:
        return payments.window(f"agent {agent}")
    return payments.window("side", anew=not entry.get("parentUuid"))


def _assistant(window: Window, entry: Mapping[str, Any]) -> None:
    message = entry.get("message")
    if not isinstance(message, dict) or entry.get("isApiErrorMessage") is True:
        return
    if text(message, "model") == "<synthetic>":  # written by the program: no model was called
        return
    window.call(text(message, "id"), message.get("usage"))
    content = message.get("content")
    if isinstance(content, str):
        window.wrote(content)
        return
    for block in items(message, "content"):
        kind = text(block, "type")
        if kind == "text":
            window.wrote(text(block, "text"))
        elif kind == "tool_use":
            given = block.get("input")
            given = given if isinstance(given, dict) else {}
            written = json.dumps(given, ensure_ascii=False, default=str)
            window.tool_called(
                text(block, "id"), written, look_ups.of_tool(text(block, "name"), given)
            )
        else:
            window.unmeasured()


def _user(window: Window, entry: Mapping[str, Any]) -> None:
    if entry.get("isCompactSummary") is True:
        window.summarised()
    content = entry["message"].get("content") if isinstance(entry.get("message"), dict) else None
    if isinstance(content, str):
        window.text_added(content)
        return
    for block in content if isinstance(content, list) else []:
        kind = text(block, "type")
        if kind == "tool_result":
            if any(text(part, "type") == "image" for part in items(block, "content")):
                window.unmeasured()
            window.tool_returned(text(block, "tool_use_id"), message_text(block.get("content")))
        elif kind == "text":
            window.text_added(text(block, "text"))
        else:
            window.unmeasured()


def _attachment(window: Window, entry: Mapping[str, Any]) -> None:
    """What a hook put into the context; other attachments have no text of their own here."""
    found = entry.get("attachment")
    kind = text(found, "type")
    if not isinstance(found, dict):
        return
    if kind == "hook_additional_context":
        pushed = message_text(found.get("content"))
    elif kind == "hook_success" and text(found, "hookEvent") in _PLAIN:
        # `content` is what was put in, `stdout` the same or the JSON that it came in.
        pushed = text(found, "content" if "content" in found else "stdout").strip()
        if not pushed or pushed.startswith("{"):
            return
    else:
        window.unmeasured()
        return
    if look_ups.pushed_by_plait(pushed):
        window.pushed(pushed, Looked.PLAIT)
    else:
        window.text_added(pushed)
