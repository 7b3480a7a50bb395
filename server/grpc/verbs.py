"""Which verb each method needs. A method that is not here is refused to everybody."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.access import Verb

_METHODS: Mapping[Verb, Mapping[str, tuple[str, ...]]] = {
    Verb.READ: {
        "KnowledgeService": ("Search", "Recall", "ReplayRecall", "GraphQuery"),
        "IndexService": ("GetIndexJob", "WatchIndexJob", "ListRepositories"),
        "MemoryService": ("GetMemory", "ListMemories", "QueryMemories", "GetSavings"),
        "AdminService": ("Stats", "ListDeadLetters"),
        # `DescribeFolder` may refresh an index: that needs `admin` too, and is left out without it.
        "HookService": ("DescribeFolder", "AdviseEdit", "NameSymbols"),
    },
    Verb.WRITE: {
        "KnowledgeService": ("AppendEpisode", "IngestEpisodes", "ReportFeedback"),
        # `DeleteMemory` closes an entry, as superseding it does; `Forget` removes.
        "MemoryService": ("StoreMemory", "BatchStoreMemories", "DeleteMemory", "Learn"),
    },
    Verb.ADMIN: {
        "IndexService": ("StartIndex", "DeleteRepository"),
        "AdminService": (
            *("Compact", "UndoCompaction", "Forget"),
            *("Verify", "Rebuild", "RetryDeadLetters"),
        ),
        "AccessService": ("CreateKey", "ListKeys", "RotateKey", "RevokeKey"),
    },
}

VERBS: Mapping[str, Verb] = {
    f"/plait.v1.{service}/{name}": verb
    for verb, services in _METHODS.items()
    for service, names in services.items()
    for name in names
}
