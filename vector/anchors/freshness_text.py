"""The state of anchors from agents' texts in the revisions of a view."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from plait.domain.off_loop import off_loop
from plait.domain.recall import AnchorState, NamedAnchor
from plait.text.code_digest import gist
from vector.anchors.anchored import leaf
from vector.anchors.anchored_text import HASHES, MAX_AN_ITEM, MAX_CODE, SIZE
from vector.connection.pool import Scoped
from vector.index.visible import chunk

MAX_ANCHORS = 1_000  # of one query, each look-up some 30 µs; those beyond have no state
# Definitions whose code is read: those changed or gone from their location.
MAX_READ = 200
MAX_CACHED = 20_000  # anchors of all repositories, some 500 bytes each
MAX_SAME_NAME = 40  # definitions of one name that are compared with a missing one
# Code of so many characters is not equal by chance; an empty method is in every class.
MIN_TELLING = 80

_NOW = f"""
SELECT a.n, h.hash
  FROM unnest(%(ns)s::int[], %(repos)s::int[], %(numbers)s::int[], %(paths)s::text[], %(symbols)s::text[],
              %(leaves)s::text[]) AS a (n, repo_id, number, path, symbol, leaf)
{HASHES}
"""
# The definition at its place; of those of one name that are gone all that have the name, and first those
# that have the last two names of one: of a common name not all are looked at.
_CODE = f"""
SELECT a.n, c.path, c.symbol, c.language, c.content
  FROM unnest(%(ns)s::int[], %(repos)s::int[], %(numbers)s::int[], %(paths)s::text[], %(symbols)s::text[],
              %(leaves)s::text[], %(gone)s::bool[], %(tails)s::text[])
       AS a (n, repo_id, number, path, symbol, leaf, gone, tails)
 CROSS JOIN LATERAL (
       SELECT i.path, split_part(i.symbol, '#', 1) AS symbol, min(i.language) AS language,
              left(string_agg(i.content, E'\\n' ORDER BY i.start_line, i.content_hash), {MAX_CODE})
              AS content
         FROM plait.files i
        WHERE i.repo_id = a.repo_id AND i.name <> '' AND i.name >= a.leaf AND i.name < a.leaf || '$'
          AND (i.name = a.leaf OR i.name >= a.leaf || '#') AND i.kind <> 'module'
          AND (a.gone OR i.path = a.path AND split_part(i.symbol, '#', 1) = a.symbol)
          AND {chunk("i", "a.number")}
        GROUP BY i.path, split_part(i.symbol, '#', 1)
        ORDER BY substring(split_part(i.symbol, '#', 1) from '(?:[^.]*[.])?[^.]*$')
                 = ANY(string_to_array(a.tails, E'\\n')) DESC, 1, 2
        LIMIT {MAX_SAME_NAME} + cardinality(string_to_array(a.tails, E'\\n'))) c
"""


@dataclass(frozen=True, slots=True)
class StoredAnchor:
    """An anchor as it was stored; hash and gist in hex. `hash` "": of a file that its own run changed."""

    repo_id: int
    number: int
    path: str
    symbol: str
    hash: str
    gist: str


def stored_anchors(repo_id: int, number: int, column: Any) -> list[StoredAnchor]:
    """The anchors in the column `anchors` of one item."""
    if not column or number < 1:
        return []
    return [
        StoredAnchor(repo_id, number, *map(str, row))
        for row in column[:MAX_AN_ITEM]
        if len(row) == 4
    ]


class Cache:
    """States of anchors, immutable for a revision; drops the least recently used."""

    def __init__(self, most: int = MAX_CACHED) -> None:
        self._most = most
        self._known: OrderedDict[StoredAnchor, NamedAnchor] = OrderedDict()

    def get(self, anchor: StoredAnchor) -> NamedAnchor | None:
        if anchor in self._known:
            self._known.move_to_end(anchor)
        return self._known.get(anchor)

    def put(self, found: Mapping[StoredAnchor, NamedAnchor]) -> None:
        self._known.update(found)
        while len(self._known) > self._most:
            self._known.popitem(last=False)


async def read(
    app: Scoped, tenant: str, anchors: Iterable[StoredAnchor], cache: Cache
) -> dict[StoredAnchor, NamedAnchor]:
    """The state of each anchor; one without a hash is SAME if it exists. One query, another if some changed or are
    gone; cached anchors need none."""
    known = {anchor: cache.get(anchor) for anchor in anchors}
    missing = [anchor for anchor, now in known.items() if now is None][:MAX_ANCHORS]
    found = await _read(app, tenant, missing) if missing else {}
    cache.put(found)
    return {anchor: now for anchor, now in known.items() if now is not None} | found


async def _read(
    app: Scoped, tenant: str, anchors: Sequence[StoredAnchor]
) -> dict[StoredAnchor, NamedAnchor]:
    rows = await app.rows(_NOW, _params(anchors), tenant=tenant)
    now = {anchors[n]: bytes(hash_)[:SIZE].hex() for n, hash_ in rows}
    unsure = [k for k in anchors if k.symbol and k.hash and now.get(k) != k.hash]
    left = set(unsure[MAX_READ:])  # without a state this time
    code = await _code(app, tenant, unsure[:MAX_READ], now)
    texts = {id(found): sum(len(c.content) for c in found) for found in code.values()}
    chars = sum(texts.values())
    sure = [k for k in anchors if k not in left]
    return await off_loop(chars, lambda: {k: _named(k, now.get(k), code.get(k, ())) for k in sure})


async def _code(
    app: Scoped, tenant: str, unsure: Sequence[StoredAnchor], now: Mapping[StoredAnchor, str]
) -> dict[StoredAnchor, Sequence[_Code]]:
    """By anchor, the definitions that it may be now. Missing anchors of one name share one look-up and one list, whose
    gists are computed once."""
    by_key: dict[tuple[object, ...], StoredAnchor] = {}
    keys = {}
    for k in unsure:
        gone = k not in now
        keys[k] = (k.repo_id, k.number, leaf(k.symbol)) if gone else (k,)
        by_key.setdefault(keys[k], k)
    if not by_key:
        return {}
    first = list(by_key.values())
    tails = {key: set[str]() for key in by_key}
    for k, key in keys.items():
        tails[key].add(".".join(_tail(k.symbol)))
    params = {
        **_params(first),
        "gone": [k not in now for k in first],
        "tails": ["\n".join(sorted(tails[keys[k]])) for k in first],
    }
    code: dict[tuple[object, ...], list[_Code]] = {key: [] for key in by_key}
    for n, *found in await app.rows(_CODE, params, tenant=tenant):
        code[keys[first[n]]].append(_Code(*found))
    return {k: code[key] for k, key in keys.items()}


@dataclass(frozen=True)
class _Code:
    path: str
    symbol: str
    language: str
    content: str

    @cached_property
    def gist(self) -> str:
        return gist(self.content, self.language).hex()


def _named(anchor: StoredAnchor, now: str | None, code: Sequence[_Code]) -> NamedAnchor:
    def is_now(state: AnchorState, to: str = "") -> NamedAnchor:
        return NamedAnchor(anchor.path, anchor.symbol, state, to)

    if now == anchor.hash or (now and not anchor.hash):
        return is_now(AnchorState.SAME)
    if now is not None:
        same = any(c.gist == anchor.gist for c in code)
        return is_now(AnchorState.SAME if same else AnchorState.CHANGED)
    near = [c for c in code if _tail(c.symbol) == _tail(anchor.symbol)]
    telling = [c for c in code if len(c.content) >= MIN_TELLING]
    same_code = [c for c in (near or telling) if c.gist == anchor.gist]
    if len(same_code) == 1:
        return is_now(AnchorState.MOVED, same_code[0].path)
    # `Class.name` or `module.name` exists at one other location, with different code.
    if len(near) == 1:
        return is_now(AnchorState.CHANGED, near[0].path)
    return is_now(AnchorState.GONE)


def _tail(symbol: str) -> tuple[str, ...]:
    return tuple(symbol.split(".")[-2:])


def _params(anchors: Sequence[StoredAnchor]) -> Mapping[str, Any]:
    return {
        "ns": list(range(len(anchors))),
        "repos": [k.repo_id for k in anchors],
        "numbers": [k.number for k in anchors],
        "paths": [k.path for k in anchors],
        "symbols": [k.symbol for k in anchors],
        "leaves": [leaf(k.symbol) for k in anchors],
    }
