"""What a worker tells the first process of its service, where the background jobs run: one JSON line each."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from plait.domain.scope import Scope
from plait.domain.values import ItemId


@dataclass(frozen=True, slots=True)
class Wake:
    """`repos`, `scopes`: what agents keep was committed there. `published`: a revision was. `level`: the graph is asked
    for, and is to be started if need be. In every case something may wait to be projected, except that with `touched`
    nothing was written: a search came upon these chunks of a repository, which want their vectors first."""

    repos: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
    published: bool = False
    level: bool = False
    touched: tuple[str, tuple[ItemId, ...]] | None = None

    @classmethod
    def of(cls, repos: Collection[str], scopes: Collection[Scope]) -> Wake:
        return cls(tuple(sorted(repos)), tuple(scopes))

    @classmethod
    def touching(cls, repo: str, ids: Sequence[ItemId]) -> Wake:
        return cls(touched=(repo, tuple(ids)))

    def line(self) -> bytes:
        scopes = [[s.tenant, s.repo, s.agent_id, s.session_key] for s in self.scopes]
        parts = {
            "repos": self.repos,
            "scopes": scopes,
            "published": self.published,
            "level": self.level,
            "touched": self.touched and [self.touched[0], [id_.hex for id_ in self.touched[1]]],
        }
        return json.dumps(parts).encode() + b"\n"


def parsed(line: bytes) -> Wake:
    """Raises: ValueError, for a line that no worker of this version writes."""
    try:
        parts = json.loads(line)
        scopes = tuple(Scope(*scope) for scope in parts["scopes"])
        touched = parts["touched"] and _touched(*parts["touched"])
        return Wake(tuple(parts["repos"]), scopes, parts["published"], parts["level"], touched)
    except (KeyError, TypeError) as exc:
        raise ValueError(f"not a worker's line: {line[:100]!r}") from exc


def _touched(repo: str, ids: Sequence[str]) -> tuple[str, tuple[ItemId, ...]]:
    return repo, tuple(ItemId(UUID(hex=id_)) for id_ in ids)
