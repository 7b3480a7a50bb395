"""Anchors named in agents' texts, resolved when they are stored, with hashes of their code.

A text may name much; its anchors are the names written as code that are unique in the published revision.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from plait.domain.off_loop import off_loop
from plait.text.code_digest import gist
from plait.text.mentions import Mentions
from vector.anchors.anchored import MAX_ANCHORS, MAX_CHUNKS, Anchor, leaf
from vector.connection.pool import Connection
from vector.index.visible import chunk, held

MAX_AN_ITEM = 8
MAX_PLACES = 1_000  # of one name; a more common name is ambiguous
MIN_PLAIN = 4  # letters of a name that is a plain word: shorter ones such as `get` are too common
SIZE = 12  # stored bytes of a hash
MAX_CODE = 40_000  # characters of one definition

# How the anchor `a` (repo_id, number, path, symbol, leaf), all of it as the index has it, reads: as
# `vector.anchors.anchored.HASH`. Who names a module means its file: its own chunk is no definition.
_READS = f"""
 CROSS JOIN LATERAL (
      SELECT sha256(string_agg(c.content_hash, ''::bytea ORDER BY c.content_hash)) AS hash{{code}}
        FROM (SELECT i.content_hash, i.language, i.content, i.start_line FROM plait.files i
               WHERE a.leaf <> '' AND i.repo_id = a.repo_id AND i.name <> '' AND i.path = a.path
                 AND i.name >= a.leaf AND i.name < a.leaf || '$'
                 AND (i.name = a.leaf OR i.name >= a.leaf || '#')
                 AND {chunk("i", "a.number")}
                 AND split_part(i.symbol, '#', 1) = a.symbol AND i.kind <> 'module'
               LIMIT {{most}}) c
      HAVING count(*) > 0
       UNION ALL
      SELECT sha256(f.content_hash){{none}} FROM plait.source_file f
       WHERE a.leaf = '' AND f.repo_id = a.repo_id AND f.path = a.path
         AND {held("f", "a.number")}
    ) h
"""
HASHES = _READS.format(code="", none="", most=MAX_CHUNKS)
_CODE = f""",
             min(c.language) AS language,
             left(string_agg(c.content, E'\\n' ORDER BY c.start_line, c.content_hash), {MAX_CODE}) AS code"""
_PUBLISHED = f"""
SELECT a.path, a.symbol, h.hash, h.language, h.code
  FROM (SELECT r.id AS repo_id, r.published AS number, w.*
          FROM repository r
         CROSS JOIN unnest(%(paths)s::text[], %(symbols)s::text[], %(leaves)s::text[])
               AS w (path, symbol, leaf)
         WHERE r.id = %(repo)s AND r.published > 0) a
{_READS.format(code=_CODE, none=", '', ''", most=MAX_CHUNKS)}
"""

Definition = tuple[str, str]
"""(symbol, path)"""


@dataclass(frozen=True, slots=True)
class Index:
    """The mentions of a batch that a revision contains: paths, definitions by the last part of their name, and
    `at`: the definition at a path and line."""

    paths: AbstractSet[str] = frozenset()
    places: Mapping[str, Sequence[Definition]] = field(default_factory=dict)
    at: Mapping[tuple[str, int], str] = field(default_factory=dict)
    _fitting: dict[str, list[Definition]] = field(default_factory=dict)

    def named(self, mentioned: Mentions, given: Anchor = ("", "")) -> list[Anchor]:
        """The anchors in `mentioned`, without repeats, at most `MAX_AN_ITEM`: `(path, symbol)` of definitions, by name
        or else by line, then the files that contain none of them. `given` is left out."""
        found: dict[Anchor, None] = {}
        for name in mentioned.names:
            if definition := self._only(name, mentioned.paths):
                symbol, path = definition
                found[path, symbol.partition("#")[0]] = None
        held = {path for path, _ in found}
        for path, line in mentioned.lines:
            if path not in held and (there := self.at.get((path, line))):
                found[path, there.partition("#")[0]] = None
        held = {path for path, _ in found} | {given[0]}
        files = [(path, "") for path in mentioned.paths if path in self.paths and path not in held]
        mine = [anchor for anchor in found if not _same(anchor, given)]
        return [*mine, *files][:MAX_AN_ITEM]

    def _only(self, name: str, files: Sequence[str]) -> Definition | None:
        """The definition whose name is `name` or ends with it; of several, the one in a file that the text names."""
        if name.isalpha() and name.islower() and len(name) < MIN_PLAIN:
            return None
        fitting = self._fitting.get(name)
        if fitting is None:
            fitting = self._fitting[name] = _fitting(
                name, self.places.get(name.rpartition(".")[2], ())
            )
        if len(fitting) > 1:
            fitting = [p for p in fitting if any(_is_end(file, p[1]) for file in files)]
        return fitting[0] if len(fitting) == 1 else None


def _fitting(name: str, places: Sequence[Definition]) -> list[Definition]:
    if len(places) > MAX_PLACES:
        return []
    whole = [place for place in places if place[0] == name]
    return whole or [place for place in places if place[0].endswith(f".{name}")]


def _is_end(file: str, path: str) -> bool:
    return path == file or path.endswith(f"/{file}")


def _same(anchor: Anchor, given: Anchor) -> bool:
    """Whether `given` names `anchor` too, by a suffix of its symbol or with a longer prefix."""
    path, symbol = anchor
    if not given[1] or (given[0] and given[0] != path):
        return False
    return f".{symbol}".endswith(f".{given[1]}") or f".{given[1]}".endswith(f".{symbol}")


async def read(
    conn: Connection, repo_id: int, anchors: Iterable[Anchor]
) -> dict[Anchor, tuple[str, str]]:
    """`(hash, gist)` in hex of `anchors` in the published revision, gist "" for a file; without those that it does
    not contain. At most one query."""
    unique = sorted(set(anchors))[:MAX_ANCHORS]
    if not unique:
        return {}
    params: dict[str, Any] = {
        "repo": repo_id,
        "paths": [path for path, _ in unique],
        "symbols": [symbol for _, symbol in unique],
        "leaves": [leaf(symbol) for _, symbol in unique],
    }
    cursor = await conn.execute(_PUBLISHED, params, prepare=False)
    rows = await cursor.fetchall()
    return await off_loop(sum(len(row[4]) for row in rows), _reads, rows)


def _reads(rows: Iterable[Sequence[Any]]) -> dict[Anchor, tuple[str, str]]:
    return {
        (path, symbol): (bytes(hash_)[:SIZE].hex(), gist(code, language).hex() if symbol else "")
        for path, symbol, hash_, language, code in rows
    }


def stored_anchors(
    anchors: Sequence[Anchor],
    reads: Mapping[Anchor, tuple[str, str]],
    changed: AbstractSet[str] = frozenset(),
) -> str | None:
    """The column `anchors` of an item. `changed`: files that its own run changed; they are stored without hashes,
    because the index may be from before the change."""
    rows = [
        [path, symbol, *(("", "") if path in changed else reads[path, symbol])]
        for path, symbol in anchors
        if (path, symbol) in reads
    ]
    return json.dumps(rows, ensure_ascii=False) if rows else None
