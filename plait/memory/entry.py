"""A memory on its way in: held to its limits, brought to one form, counted and hashed.

Limits are part of the contract (proto/plait/v1/memory_service.proto and docs/memories.md state them
too). `check` is the only way in: what it returns can be stored.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NoReturn

import numpy as np

from plait.domain.errors import MemoryInvalid
from plait.domain.memory import NO_ID, MemoryEntry, MemoryId, MemoryMetadata, MemoryWrite, made_id
from plait.text.token_count import count

MAX_CONTENT_BYTES = 2**20
MAX_NAME_BYTES = 256  # agent, session
MAX_TAGS = 50
MAX_TAG_BYTES = 128
MAX_CUSTOM_BYTES = 65_536
MAX_CUSTOM_DEPTH = 16
MAX_PATH_BYTES = 4096
MAX_SYMBOL_BYTES = 1024
MAX_DIM = 4000
MAX_EXACT_INTEGER = 2**53  # JSON numbers travel as doubles
# Times that every part of the way can hold, whatever zone it shows them in.
EARLIEST = datetime(1, 1, 3, tzinfo=UTC)
LATEST = datetime(9999, 12, 29, tzinfo=UTC)

KINDS = ("memory", "turn", "summary")  # a note comes with its episode

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")


def fail(field: str, problem: str, fix: str) -> NoReturn:
    """Raise MemoryInvalid: where, what, and what to write instead."""
    raise MemoryInvalid(f"{field}: {problem}; {fix}", field=field)


def check(
    entry: MemoryEntry, request_id: str = "", supersedes: MemoryId | None = None
) -> MemoryWrite:
    """`entry` within every limit and in its one form, with its tokens counted, its body hashed, and a
    request id made from that hash where none is given. The repository's name is its caller's to check.

    Raises: MemoryInvalid, naming the field at fault.
    """
    checked = replace(
        entry,
        id=NO_ID,
        content=_content(entry.content),
        agent_id=check_text(entry.agent_id, "agent_id", MAX_NAME_BYTES),
        metadata=_metadata(entry.metadata),
        kind=_kind(entry.kind),
        path=_path(entry.path),
        symbol=_symbol(entry.symbol),
        embedding=_unit(entry.embedding),
        valid_from=_time(entry.valid_from, "valid_from"),
        valid_to=_time(entry.valid_to, "valid_to"),
        tokens=count(entry.content),
    )
    start, end = checked.valid_from, checked.valid_to
    if start is not None and end is not None and end <= start:
        fail("valid_to", f"{end.isoformat()} is not after valid_from", "it is the exclusive end")
    body_hash = hash_body(checked, supersedes)
    return MemoryWrite(checked, check_request_id(request_id, body_hash), body_hash, supersedes)


def check_request_id(request_id: str, body_hash: bytes) -> str:
    """`request_id`, or one made from the body where it is empty. Raises: MemoryInvalid."""
    if not request_id:
        return made_id(body_hash)
    if not _REQUEST_ID.fullmatch(request_id):
        fail(
            "request_id",
            "is not 1 to 128 printable ASCII characters without spaces",
            "use a UUID, or leave it out to have one made from the body",
        )
    return request_id


# -- one field each ----------------------------------------------------------------------------------


def _content(content: str) -> str:
    if not content.strip():
        fail("content", "is empty", "say what is to be remembered")
    return check_text(content, "content", MAX_CONTENT_BYTES)


def _metadata(metadata: MemoryMetadata) -> MemoryMetadata:
    importance = float(metadata.importance)
    if not 0.0 <= importance <= 1.0:
        fail("importance", f"{importance!r} is outside 0 to 1", "leave it out for 0.5")
    custom = check_json(metadata.custom, "custom")
    size = len(canonical(custom))
    if size > MAX_CUSTOM_BYTES:
        fail("custom", f"is {size:,} bytes of JSON, more than {MAX_CUSTOM_BYTES:,}", "shorten it")
    return replace(
        metadata,
        session_key=check_text(metadata.session_key, "session_key", MAX_NAME_BYTES),
        tags=_tags(metadata.tags),
        # As a `real` keeps it, so that what is read equals what was written.
        importance=float(np.float32(importance)),
        custom=custom,
    )


def _tags(tags: Sequence[str]) -> tuple[str, ...]:
    if len(tags) > MAX_TAGS:
        fail("tags", f"has {len(tags)} tags, more than {MAX_TAGS}", "keep those you filter by")
    for tag in tags:
        if not tag.strip():
            fail("tags", "has an empty tag", "leave it out")
        check_text(tag, "tags", MAX_TAG_BYTES)
    return tuple(sorted(set(tags)))


def _kind(kind: str) -> str:
    if kind not in KINDS:
        fail("kind", f"{kind[:40]!r} is not a kind", f"write one of {', '.join(KINDS)}")
    return kind


def _path(path: str) -> str:
    check_text(path, "path", MAX_PATH_BYTES)
    if path.startswith("/") or "\\" in path or ".." in path.split("/"):
        fail(
            "path",
            f"{path[:80]!r} does not stay inside the repository",
            "write it relative to the repository's root, with '/' and without '..'",
        )
    return path.removeprefix("./")


def _symbol(symbol: str) -> str:
    check_text(symbol, "symbol", MAX_SYMBOL_BYTES)
    if symbol.startswith("/") or any(c.isspace() for c in symbol):
        fail(
            "symbol", f"{symbol[:80]!r} is no qualified name", "write it as `pkg.mod.Class.method`"
        )
    return symbol


def _unit(embedding: tuple[float, ...] | None) -> tuple[float, ...] | None:
    """To length 1; its dimension is compared with the index's by the store."""
    if embedding is None:
        return None
    if not 1 <= len(embedding) <= MAX_DIM:
        fail("embedding", f"has {len(embedding)} numbers", f"send 1 to {MAX_DIM}")
    vector = np.asarray(embedding, np.float64)
    length = float(np.linalg.norm(vector))
    if not math.isfinite(length) or length == 0.0:
        fail(
            "embedding",
            "is zero, or holds what is no finite number",
            "leave it out to have one made",
        )
    return tuple((vector / length).astype(np.float32).tolist())


def _time(time: datetime | None, field: str) -> datetime | None:
    if time is None:
        return None
    if time.tzinfo is None:
        fail(field, "has no offset from UTC", "write RFC 3339, as 2026-11-22T09:30:00Z")
    try:
        utc = time.astimezone(UTC)
    except OverflowError:
        utc = None
    if utc is None or not EARLIEST <= utc <= LATEST:
        fail(field, "is outside the years 1 to 9999", "leave it out where it is not known")
    return utc


def check_text(text: str, field: str, limit: int) -> str:
    """`text`, when a store can hold it and it is not too long. Raises: MemoryInvalid."""
    if "\0" in text:
        fail(field, "holds a NUL character", "take it out; text stores refuse it")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        fail(
            field, "holds half of a surrogate pair", "write whole characters; it is not valid UTF-8"
        )
    if size > limit:
        fail(field, f"is {size:,} bytes, more than {limit:,}", "shorten it, or split it")
    return text


# -- JSON and the hash --------------------------------------------------------------------------------


def check_json(value: Any, field: str, depth: int = 0) -> Any:
    """A JSON value in its one form: whole floats become integers, as JSON and protobuf mix them.

    Raises: MemoryInvalid.
    """
    if depth > MAX_CUSTOM_DEPTH:
        fail(field, f"is more than {MAX_CUSTOM_DEPTH} levels deep", "flatten it")
    if isinstance(value, Mapping):
        return {_key(k, field): check_json(v, field, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [check_json(v, field, depth + 1) for v in value]
    if isinstance(value, str):
        return check_text(value, field, MAX_CUSTOM_BYTES)
    if value is None or isinstance(value, bool):
        return value
    if not isinstance(value, int | float):
        fail(field, f"holds a {type(value).__name__}", "write JSON values only")
    return _number(value, field)


def _key(key: Any, field: str) -> str:
    if not isinstance(key, str):
        fail(field, "has a key that is no string", "write JSON objects only")
    return check_text(key, field, MAX_CUSTOM_BYTES)


def _number(value: int | float, field: str) -> int | float:
    if isinstance(value, float) and not math.isfinite(value):
        fail(field, "holds a number that is not finite", "leave it out when it is not known")
    if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
        fail(field, "holds an integer that a double can't hold exactly", "write it as a string")
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT_INTEGER:
        return int(value)
    return value


def canonical(value: object) -> bytes:
    """JSON with sorted keys and no white space, in UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def hash_body(entry: MemoryEntry, supersedes: MemoryId | None = None) -> bytes:
    """32 bytes of BLAKE2b over the canonical JSON of all that a caller says, but the request id."""
    meta = entry.metadata
    vector = entry.embedding
    body = [
        *(entry.repo, entry.agent_id, entry.content, str(entry.type), entry.kind),
        *(entry.path, entry.symbol, entry.pinned),
        *(str(meta.source), meta.session_key, list(meta.tags), meta.importance, meta.custom),
        np.asarray(vector, "<f4").tobytes().hex() if vector is not None else "",
        *(time.isoformat() if time else "" for time in (entry.valid_from, entry.valid_to)),
        str(supersedes or ""),
    ]
    return hashlib.blake2b(canonical(body), digest_size=32).digest()
