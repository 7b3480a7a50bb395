"""From what people call a symbol to its node: an id, a qualified name, a path, or the end of one."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graph.bolt import Bolt
from graph.templates import Template
from plait.domain.deadline import Deadline
from plait.domain.errors import AmbiguousSymbol, DeadlineExceeded, UnknownSymbol
from plait.domain.graph import Label

_SYMBOLS = (Label.FUNCTION, Label.CLASS, Label.MODULE, Label.FILE)
# What is no code: found by its id alone, as `issue/123`, or by a commit's first digits.
_LAYER = (Label.ISSUE, Label.COMMIT, Label.EPISODE, Label.MEMORY, Label.DIFF)
_SHA = re.compile(r"(?:commit/)?([0-9a-f]{7,40})")
_BY_SHA = (
    "MATCH (n:Commit) WHERE ($repo = '' OR n.repo = $repo) AND n.qualified_name STARTS WITH $start "
    "RETURN n.id, elementId(n) ORDER BY n.id LIMIT 50"
)
_BY_ID = "UNWIND $ids AS i MATCH (n:`{label}` {{id: i}}) RETURN n.id, elementId(n)"
_REPOS = "MATCH (r:Repo) RETURN r.repo"
_WHERE_REPO = "($repo = '' OR n.repo = $repo)"
_BY_NAME = (
    "MATCH (n:`{label}` {{name: $name}}) WHERE "
    + _WHERE_REPO
    + " AND (n.qualified_name = $text OR n.qualified_name ENDS WITH $tail) "
    "RETURN n.id, elementId(n) ORDER BY n.id LIMIT 50"
)
_BY_TAIL = (
    "MATCH (n:`{label}`) WHERE "
    + _WHERE_REPO
    + " AND n.{key} ENDS WITH $tail RETURN n.id, elementId(n) ORDER BY n.id LIMIT 50"
)
_NEAR = (
    "MATCH (n:`{label}`) WHERE "
    + _WHERE_REPO
    + " AND toLower(n.name) STARTS WITH $start RETURN DISTINCT n.name LIMIT 5000"
)
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Found:
    id: str
    server_id: str  # valid for the next query, never stored


async def resolved(
    template: Template, given: Mapping[str, Any], bolt: Bolt, deadline: Deadline
) -> dict[str, Any]:
    """`given` with every symbol and file replaced by its server id.

    Raises: UnknownSymbol with near names, AmbiguousSymbol with the candidates, DeadlineExceeded.
    """
    out = dict(given)
    finder = _Finder(bolt, str(given["repo"]))
    try:
        async with asyncio.timeout(deadline.left_s):
            for param in template.params:
                if param.kind != "int":
                    out[param.name] = (await finder.find(given[param.name], param.kind)).server_id
    except TimeoutError:
        raise DeadlineExceeded("looking up a symbol", deadline.limit_s) from None
    return out


class _Finder:
    def __init__(self, bolt: Bolt, repo: str) -> None:
        self._bolt = bolt
        self._repo = repo

    async def find(self, text: str, kind: str) -> Found:
        """An exact id or qualified name wins over a name that ends alike."""
        labels: Sequence[str] = (Label.FILE,) if kind == "file" else _SYMBOLS
        attempts = [self._exact, self._ending]
        if kind == "anything":
            attempts = [self._layer, *attempts]
        for attempt in attempts:
            found = await attempt(text, labels)
            if len(found) == 1:
                return found[0]
            if found:
                raise self._ambiguous(text, found)
        raise await self._unknown(text, labels)

    async def _layer(self, text: str, labels: Sequence[str]) -> list[Found]:
        """`issue/12`, `#12`, `episode/…`; with a repository's name before it or without."""
        names = [text, f"issue/{text.removeprefix('#')}", f"commit/{text}"]
        repos = [self._repo] if self._repo else [r for (r,) in await self._bolt.read(_REPOS)]
        ids = [text, *(f"{repo}:{name}" for repo in repos for name in names)]
        found = await self._by_id(ids, _LAYER)
        if not found and (sha := _SHA.fullmatch(text)):
            start = f"commit/{sha[1]}"
            for id_, server_id in await self._bolt.read(_BY_SHA, repo=self._repo, start=start):
                found.append(Found(id_, server_id))
        return found

    async def _exact(self, text: str, labels: Sequence[str]) -> list[Found]:
        repos = [self._repo] if self._repo else [r for (r,) in await self._bolt.read(_REPOS)]
        ids = [text] if ":" in text else []
        ids += [f"{repo}:{text}" for repo in repos] + [f"{repo}:/{text}" for repo in repos]
        return await self._by_id(ids, labels)

    async def _by_id(self, ids: Sequence[str], labels: Sequence[str]) -> list[Found]:
        found: dict[str, Found] = {}
        for label in labels:
            for id_, server_id in await self._bolt.read(_BY_ID.format(label=label), ids=list(ids)):
                found[id_] = Found(id_, server_id)
        if self._repo:
            found = {i: f for i, f in found.items() if i.startswith(f"{self._repo}:")}
        return list(found.values())

    async def _ending(self, text: str, labels: Sequence[str]) -> list[Found]:
        found: dict[str, Found] = {}
        for label in labels:
            if label == Label.FILE:
                query, tail = _BY_TAIL.format(label=label, key="path"), f"/{text.lstrip('/')}"
            elif label == Label.MODULE:
                query, tail = _BY_TAIL.format(label=label, key="qualified_name"), f".{text}"
            else:
                query, tail = _BY_NAME.format(label=label), f".{text}"
            given = {
                "repo": self._repo,
                "text": text,
                "tail": tail,
                "name": text.rpartition(".")[2],
            }
            for id_, server_id in await self._bolt.read(query, **given):
                found[id_] = Found(id_, server_id)
        return sorted(found.values(), key=lambda one: one.id)

    def _ambiguous(self, text: str, found: Sequence[Found]) -> AmbiguousSymbol:
        shown = ", ".join(one.id for one in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return AmbiguousSymbol(
            f"{text!r} can be any of {len(found)}: {shown}{more}; give one of these ids, "
            "or more of the qualified name",
            field="parameters",
            symbol=text,
        )

    async def _unknown(self, text: str, labels: Sequence[str]) -> UnknownSymbol:
        name = text.replace("/", ".").rpartition(".")[2] or text
        near: set[str] = set()
        for label in labels:
            query = _NEAR.format(label=label)
            rows = await self._bolt.read(query, repo=self._repo, start=name[:2].lower())
            near |= {str(row[0]) for row in rows}
        close = difflib.get_close_matches(name, near, n=5, cutoff=0.6)
        hint = f"near it: {', '.join(close)}" if close else "`plait search` finds symbols by words"
        scope = f" in the repository {self._repo!r}" if self._repo else ""
        return UnknownSymbol(f"nothing is called {text!r}{scope}; {hint}", symbol=text)
