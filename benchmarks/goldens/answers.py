"""Answers of searches and recalls as lines: what was found, in which order, with which scores, and the context."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from benchmarks.goldens.wire import Message, Wire

K = 20
WAIT_S = 0.5  # before a question is put again of which a part could not be answered in time
TRIES = 20
CODE = ("COLLECTION_FILES",)
ALL = (
    "COLLECTION_FILES",
    "COLLECTION_DIFFS",
    "COLLECTION_PLANS",
    "COLLECTION_REFLECTIONS",
    "COLLECTION_TESTS",
    "COLLECTION_MEMORIES",
)


def searched(
    wire: Wire, query: str, repos: Sequence[str], collections: Sequence[str] = CODE
) -> list[str]:
    """The hits of a search."""
    where = {"repositories": list(repos), "collections": list(collections)}
    answer = whole(wire, "KnowledgeService.Search", {"query": query, "filter": where, "k": K})
    return ["search", *outcome(answer, "hits", _hit)]


def recalled(
    wire: Wire, query: str, repos: Sequence[str], attached: str = "", **more: Any
) -> list[str]:
    """A recall's items and its context, without a receipt, so that no recall changes the next."""
    request = {
        "query": query,
        "filter": {"repositories": list(repos)},
        "attached": attached,
        "skip_receipt": True,
        **more,
    }
    answer = whole(wire, "KnowledgeService.Recall", request)
    return ["recall", *outcome(answer, "items", _item), *_context(answer)]


def queried(wire: Wire, query: str, repos: Sequence[str]) -> list[str]:
    """The matches of a query over memories."""
    request = {"query": query, "filter": {"repositories": list(repos)}, "top_k": K}
    answer = whole(wire, "MemoryService.QueryMemories", request)
    return ["memories", *outcome(answer, "matches", _match)]


def whole(wire: Wire, method: str, request: Message) -> Message:
    """The answer, asked for again while a part of it is missing: caches fill in the background."""
    for _ in range(TRIES):
        answer = wire.call(method, request)
        if not answer.get("degraded"):
            break
        time.sleep(WAIT_S)
    return answer


def outcome(answer: Message, key: str, line: Callable[[Message], str]) -> Iterator[str]:
    if "error" in answer:
        error = answer["error"]
        yield f"{error['code']} {error['message']}"
    for part in answer.get("degraded", ()):
        yield f"degraded: {part}"
    for found in answer.get(key, ()):
        yield line(found)


def place(item: Mapping[str, Any]) -> str:
    """What an item is, without its id, which is another one in each store."""
    text = item.get("content", "")
    digest = blake2b(text.encode(), digest_size=4).hexdigest() if text else "-"
    lines = f":{item.get('start_line', 0)}-{item.get('end_line', 0)}" if item.get("path") else ""
    where = f"{item.get('path', '')}{lines} {item.get('symbol', '')}".strip()
    collection = item["collection"].removeprefix("COLLECTION_").lower()
    return f"{collection} {item.get('kind', '')} {where or '-'} {digest}"


def _hit(hit: Message) -> str:
    return f"{hit.get('score', 0.0):.6f} {place(hit['item'])}"


def _match(match: Message) -> str:
    memory = match["memory"]
    digest = blake2b(memory["content"].encode(), digest_size=4).hexdigest()
    what = f"{memory['kind']} {digest} {memory['content'].splitlines()[0][:80]}"
    arms = " ".join(f"{arm}={value:.6f}" for arm, value in sorted(match.get("arms", {}).items()))
    return f"{match.get('score', 0.0):.6f} {what} [{arms}]"


def _item(item: Message) -> str:
    said = [
        item[key].partition("_")[2].lower() for key in ("tier", "freshness", "trust") if key in item
    ]
    anchors = [
        f"{a.get('path', '')}::{a.get('symbol', '')} {a['state']}" for a in item.get("anchors", ())
    ]
    joined = len(item.get("joined_item_ids", ()))
    parts = (*said, f"joined {joined}", *item.get("reasons", ()), *anchors)
    return f"{item.get('score', 0.0):.6f} {place(item['item'])} | {'; '.join(parts)}"


def _context(answer: Message) -> Iterator[str]:
    if "error" in answer:
        return
    causes = Counter(o.get("cause", "") for o in answer.get("omitted", ()))
    yield f"omitted: {dict(sorted(causes.items()))}"
    kept = ("tokens", "budget_tokens", "kind", "silence")
    yield ", ".join(f"{key}: {answer[key]}" for key in kept if key in answer)
    for name, reached in answer.get("impact", {}).items():
        if name == "history":
            yield from (f"history: {event.get('kind')} {event.get('title')}" for event in reached)
        elif name != "truncated":
            yield from (_reached(name, node) for node in reached)
    yield from (f"| {line}" for line in undated(answer.get("context", "")).split("\n"))


def undated(text: str) -> str:
    """`text` without the days of this run: what has no time of its own is dated when it is stored."""
    now = datetime.now(UTC)
    for day in (now, now - timedelta(days=1)):
        text = text.replace(f"{day:%Y-%m-%d}", "TODAY")
    return text


def _reached(name: str, node: Message) -> str:
    where = f"{node.get('path', '')}:{node.get('line', 0)}"
    how = f"{node.get('distance', 0)} {node.get('via', '')} {node.get('confidence', 0.0):.6f}"
    return f"{name}: {node.get('name', '')} {where} {how}"
