"""Which field of a filter keeps an item out: for explanations, the stores filter by themselves."""

from __future__ import annotations

import re

from plait.domain.values import Filter, Item
from plait.ports import Place

_GLOB = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]")


def excluded_by(item: Item, place: Place | None, where: Filter) -> str:
    """The first field of `where` that `item` does not match, "" if it matches all."""
    tags = set(item.tags)
    who = (place.agent_id, place.session_key) if place else ("", "")
    wrong = {
        "collections": where.collections and item.collection not in where.collections,
        "repos": where.repos and item.repo not in where.repos,
        "kinds": where.kinds and item.kind not in where.kinds,
        "languages": where.languages and item.language not in where.languages,
        "path_glob": where.path_glob and not matches(where.path_glob, item.path),
        "tags_any": where.tags_any and tags.isdisjoint(where.tags_any),
        "tags_all": where.tags_all and not tags.issuperset(where.tags_all),
        "since": where.since and item.ts < where.since,
        "until": where.until and item.ts >= where.until,
        "agent_id": where.agent_id and who[0] != where.agent_id,
        "session_key": where.session_key and who[1] != where.session_key,
    }
    return next((field for field, is_wrong in wrong.items() if is_wrong), "")


def matches(glob: str, path: str) -> bool:
    """`*` and `?` stay inside one part of a path, `**` crosses, `**/` may also be nothing. O(len · len):
    no pattern can make it slow."""
    pieces = _GLOB.findall(glob)
    reached = [True] + [False] * len(path)  # the pieces so far may have taken path[:i]
    for piece in pieces:
        step = [False] * (len(path) + 1)
        before = False  # any of reached[:i]
        for i in range(len(path) + 1):
            if piece == "**/":
                step[i] = reached[i] or (before and path[i - 1] == "/")
                before = before or reached[i]
            elif piece in ("*", "**"):
                more = i > 0 and step[i - 1] and (piece == "**" or path[i - 1] != "/")
                step[i] = reached[i] or more
            elif i > 0:
                fits = path[i - 1] != "/" if piece == "?" else path[i - 1] == piece
                step[i] = reached[i - 1] and fits
        reached = step
    return reached[-1]
