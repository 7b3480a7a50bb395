"""What the audit log tells of a call: names and ids out of its messages, and nothing else of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from server.audit import MAX_NAMED, Audit, Entry

PREFIX = "/plait.v1."

# Calls that change something, with the fields that name repositories, and ids of what was written or deleted.
REPOSITORIES: Mapping[str, tuple[str, ...]] = {
    "AppendEpisodeRequest": ("episode.repository",),
    "IngestEpisodesRequest": ("append.episode.repository",),
    "ReportFeedbackRequest": (),
    "StoreMemoryRequest": ("memory.repository",),
    "BatchStoreMemoriesRequest": ("requests.memory.repository",),
    "DeleteMemoryRequest": ("repository",),
    "LearnRequest": ("repository",),
    "StartIndexRequest": ("repository",),
    "DeleteRepositoryRequest": ("name",),
    "CompactRequest": ("repository",),
    "UndoCompactionRequest": (),
    "ForgetRequest": ("repository",),
    "RebuildRequest": ("repositories",),
    "RetryDeadLettersRequest": ("repositories",),
    "CreateKeyRequest": ("repositories",),
    "RotateKeyRequest": (),
    "RevokeKeyRequest": (),
}
IDS: Mapping[str, tuple[str, ...]] = {
    "AppendEpisodeResponse": ("episode_id", "item_ids"),
    "IngestEpisodesResponse": ("response.episode_id", "response.item_ids"),
    "ReportFeedbackRequest": ("recall_id",),
    "StoreMemoryRequest": ("supersedes",),
    "StoreMemoryResponse": ("memory.id",),
    "BatchStoreMemoriesRequest": ("requests.supersedes",),
    "BatchStoreMemoriesResponse": ("results.response.memory.id",),
    "DeleteMemoryRequest": ("id",),
    "LearnResponse": ("memories.id",),
    "StartIndexResponse": ("job.id",),
    "CompactResponse": ("compaction_id",),
    "UndoCompactionRequest": ("compaction_id",),
    "ForgetResponse": ("forget_id", "memory_ids", "episode_ids"),
    "CreateKeyResponse": ("key.id",),
    "RotateKeyRequest": ("key_id",),
    "RevokeKeyRequest": ("key_id",),
}
# An id is one that this server makes. What a caller sends in the place of one may be any text.
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|key-[0-9a-f]{16}")
# Who was turned away; other failures are of those who may.
_REFUSALS = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED"})
_REFUSED = frozenset({"CYPHER_REFUSED"})


@cache
def _told_of(descriptor: Any) -> tuple[Sequence[str], Sequence[str], bool, bool]:
    """Of one kind of message: what it tells of repositories and ids, and whether it has the fields `dry_run` and
    `request_id`. Looked up once: a field that is not there costs an exception."""
    name, fields = descriptor.name, descriptor.fields_by_name
    return (
        REPOSITORIES.get(name, ()),
        IDS.get(name, ()),
        "dry_run" in fields,
        "request_id" in fields,
    )


def is_audited(method: str) -> bool:
    """Whether a call of `method` (as `/plait.v1.Service/Method`) is told of, however it ends."""
    return f"{method.rpartition('/')[2]}Request" in REPOSITORIES


class Noted:
    """What one call said of itself, taken from its messages as they pass; no message is kept."""

    __slots__ = ("_dry", "_ids", "_repositories", "count", "request_id")

    def __init__(self) -> None:
        self._repositories: dict[str, None] = {}
        self._ids: dict[str, None] = {}
        self._dry = False
        self.count = 0
        self.request_id = ""

    def message(self, message: Any) -> None:
        """Note a request or a response."""
        if type(message) is bytes:  # an answer that was kept, of a method that writes nothing
            return
        repositories, ids, dry_run, request_id = _told_of(message.DESCRIPTOR)
        for path in repositories:
            for name in _values(message, path.split(".")):
                if name and len(self._repositories) < MAX_NAMED:
                    self._repositories[name] = None
        for path in ids:
            for id_ in _values(message, path.split(".")):
                if _ID.fullmatch(id_):
                    self.count += 1
                    if len(self._ids) < MAX_NAMED:
                        self._ids[id_] = None
        if dry_run:
            self._dry = self._dry or bool(message.dry_run)
        if request_id:
            self.request_id = message.request_id or self.request_id

    def tell(
        self,
        audit: Audit,
        *,
        method: str,
        caller: str,
        peer: str,
        tenant: str,
        code: str,
        reason: str,
    ) -> None:
        """Record the call, if it changed something, tried to, or was turned away."""
        refused = code in _REFUSALS or reason in _REFUSED
        if not refused and (not is_audited(method) or (self._dry and code == "OK")):
            return
        audit.record(
            Entry(
                caller=caller,
                peer=peer,
                method=method.removeprefix(PREFIX),
                code=code,
                reason=reason,
                refused=refused,
                tenant=tenant,
                repositories=tuple(self._repositories),
                ids=tuple(self._ids),
                count=self.count,
                request_id=self.request_id,
            )
        )


def _values(message: Any, path: list[str]) -> Iterator[str]:
    """The texts that a path of fields leads to, through each of what is repeated."""
    value = getattr(message, path[0])
    several = message.DESCRIPTOR.fields_by_name[path[0]].is_repeated
    for one in value if several else (value,):
        if len(path) == 1:
            yield one
        else:
            yield from _values(one, path[1:])
