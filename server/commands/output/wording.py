"""Errors of the contract in the words of the command line: options instead of request fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from plait.domain.errors import PlaitError

# Request fields, whole or by their last part.
OPTIONS: Mapping[str, str] = {
    "as_of.valid": "--as-of",
    "as_of.recorded": "--recorded-as-of",
    "as_of.time_zone": "TZ",
    "as_of": "--as-of",
    "agent_id": "--agent",
    "all_repositories": "--all-repos",
    "assistant_reasoning": "--assistant",
    "attached": "--diff, --trace or --issue",
    "budget_tokens": "--budget",
    "collections": "--in",
    "compaction_id": "--undo",
    "content": "the text",
    "cooldown": "--cooldown",
    "created_after": "--since",
    "created_before": "--until",
    "custom": "--meta",
    "cypher.text": "--cypher",
    "format": "--format",
    "fusion": "--fusion",
    "id": "the ID",
    "ids": "the ID",
    "importance": "--importance",
    "importance_min": "--importance-min",
    "items": "--helped",
    "k": "-k",
    "kinds": "--kind",
    "languages": "--language",
    "max_items": "-n",
    "max_rows": "--rows",
    "meta": "--meta",
    "min_score": "--min-score",
    "outcome": "--outcome",
    "outcome.commit": "--commit",
    "outcome.summary": "--summary",
    "parameters": "--param",
    "path": "--path",
    "path_glob": "--path",
    "proof": "--proof",
    "query": "the query",
    "recall_id": "the RECALL_ID",
    "recorded_from": "--since",
    "recorded_to": "--until",
    "repositories": "--repo",
    "repository": "--repo",
    "request_id": "--request-id",
    "session_key": "--session",
    "since": "--since",
    "source": "--source",
    "sources": "--source",
    "stages_off": "--off",
    "supersedes": "--supersedes",
    "symbol": "--symbol",
    "tags": "--tag",
    "tags_all": "--all-tags",
    "tags_any": "--tag",
    "tokenizer": "--model",
    "tool_outcomes": "--tool",
    "top_k": "-k",
    "types": "--type",
    "undo_window": "--undo-days",
    "until": "--until",
    "user_message": "--user",
    "valid_from": "--valid-from",
    "valid_to": "--valid-to",
    "why_not": "--why-not",
    "window_tokens": "--window",
}
COMMANDS: Mapping[str, str] = {
    "`ListMemories`": "`plait memory list`",
    "`ListRepositories`": "`plait repos`",
    "`StartIndex`": "`plait index`",
}

_START = re.compile(r"[a-z][a-z_]*(?:\.[a-z][a-z_]*|\[[^\]\s]{0,80}\])*(?![\w-])")
_WIRE = "|".join(re.escape(name) for name in OPTIONS if "_" in name)
_INNER = re.compile(rf"(?<![\w.`'\"-])(?:{_WIRE})(?![\w`'\"])")


def message(exc: PlaitError) -> str:
    """The message of `exc` as the user of a command reads it."""
    text = exc.message
    for call, command in COMMANDS.items():
        text = text.replace(call, command)
    if not (getattr(exc, "fields", None) or getattr(exc, "field", "")):
        return text
    start = _START.match(text)
    if start is not None and (option := option_of(start[0])):
        text = option + text[start.end() :]
    return _INNER.sub(lambda found: OPTIONS[found[0]], text)


def option_of(field: str) -> str:
    """`filter.tags_any[0]` → `--tag`; "" for what no option says."""
    path = re.sub(r"\[[^\]]*\]", "", field)
    if path.startswith("episode."):
        return ""  # of a file's JSON, where the path says which part
    return next((OPTIONS[name] for name in _names(path.split(".")) if name in OPTIONS), "")


def _names(parts: list[str]) -> Iterable[str]:
    """The path and its ends, the longest first; then without its last part (`words`, `time`)."""
    for i in range(len(parts)):
        yield ".".join(parts[i:])
    if len(parts) > 1:
        yield ".".join(parts[:-1])
