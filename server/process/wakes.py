"""What a worker tells the first process of its service, where the background jobs run: one JSON line each."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from plait.domain.scope import Scope


@dataclass(frozen=True, slots=True)
class Wake:
    """`repos`, `scopes`: what agents keep was committed there. `published`: a revision was. `level`: the graph is asked
    for, and is to be started if need be. In every case something may wait to be projected."""

    repos: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
    published: bool = False
    level: bool = False

    @classmethod
    def of(cls, repos: Collection[str], scopes: Collection[Scope]) -> Wake:
        return cls(tuple(sorted(repos)), tuple(scopes))

    def line(self) -> bytes:
        scopes = [[s.tenant, s.repo, s.agent_id, s.session_key] for s in self.scopes]
        parts = {
            "repos": self.repos,
            "scopes": scopes,
            "published": self.published,
            "level": self.level,
        }
        return json.dumps(parts).encode() + b"\n"


def parsed(line: bytes) -> Wake:
    """Raises: ValueError, for a line that no worker of this version writes."""
    try:
        parts = json.loads(line)
        scopes = tuple(Scope(*scope) for scope in parts["scopes"])
        return Wake(tuple(parts["repos"]), scopes, parts["published"], parts["level"])
    except (KeyError, TypeError) as exc:
        raise ValueError(f"not a worker's line: {line[:100]!r}") from exc
