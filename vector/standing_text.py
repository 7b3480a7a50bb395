"""How the anchors that were read from agents' texts read in the revisions that answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plait.domain.recall import AnchorState, NamedAnchor
from plait.reading.gist import gist
from vector.anchored import leaf
from vector.anchored_text import HASHES, MAX_AN_ITEM, MAX_CODE, SIZE
from vector.pool import Scoped

MAX_ANCHORS = 1_000  # of one question, each look-up some 30 µs; items behind them stay as they are
# Definitions of which the code is read: what changed, or is gone from its place.
MAX_READ = 200
MAX_SAME_NAME = 40  # definitions of one name that are looked at for one that is gone
# Characters of code that is not found elsewhere by chance: an empty method is in every class.
MIN_TELLING = 80

_NOW = f"""
SELECT a.n, h.hash
  FROM unnest(%(ns)s::int[], %(repos)s::int[], %(numbers)s::int[], %(paths)s::text[], %(symbols)s::text[],
              %(leaves)s::text[]) AS a (n, repo_id, number, path, symbol, leaf)
{HASHES}
"""
# Definitions of the same name; those of its own place first.
_CODE = f"""
SELECT a.n, c.path, c.symbol, c.language, c.content
  FROM unnest(%(ns)s::int[], %(repos)s::int[], %(numbers)s::int[], %(paths)s::text[], %(symbols)s::text[],
              %(leaves)s::text[]) AS a (n, repo_id, number, path, symbol, leaf)
 CROSS JOIN LATERAL (
       SELECT i.path, split_part(i.symbol, '#', 1) AS symbol, min(i.language) AS language,
              left(string_agg(i.content, E'\\n' ORDER BY i.start_line, i.content_hash), {MAX_CODE})
              AS content
         FROM plait.files i
        WHERE i.repo_id = a.repo_id AND i.name <> '' AND i.name >= a.leaf AND i.name < a.leaf || '$'
          AND (i.name = a.leaf OR i.name >= a.leaf || '#') AND i.kind <> 'module'
          AND i.rev_from <= a.number AND (i.rev_to IS NULL OR i.rev_to > a.number)
        GROUP BY i.path, split_part(i.symbol, '#', 1)
        ORDER BY i.path = a.path AND split_part(i.symbol, '#', 1) = a.symbol DESC, 1, 2
        LIMIT {MAX_SAME_NAME}) c
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """An anchor as it was stored; hash and gist in hex. `hash` "": of a file that its own run changed."""

    repo_id: int
    number: int
    path: str
    symbol: str
    hash: str
    gist: str


def kept(repo_id: int, number: int, column: Any) -> list[Kept]:
    """The column `anchors` of one item."""
    if not column or number < 1:
        return []
    return [Kept(repo_id, number, *map(str, row)) for row in column[:MAX_AN_ITEM] if len(row) == 4]


async def read(app: Scoped, tenant: str, asked: Iterable[Kept]) -> dict[Kept, NamedAnchor]:
    """How each reads now; one without a hash is SAME where it is there. A query, another where some
    changed or went."""
    wanted = list(dict.fromkeys(asked))[:MAX_ANCHORS]
    if not wanted:
        return {}
    rows = await app.rows(_NOW, _params(wanted), tenant=tenant)
    now = {wanted[n]: bytes(hash_)[:SIZE].hex() for n, hash_ in rows}
    unsure = [k for k in wanted if k.symbol and k.hash and now.get(k) != k.hash][:MAX_READ]
    code: dict[Kept, list[_Code]] = defaultdict(list)
    if unsure:
        for n, *found in await app.rows(_CODE, _params(unsure), tenant=tenant):
            code[unsure[n]].append(_Code(*found))
    return {k: _named(k, now.get(k), code.get(k, ())) for k in wanted}


@dataclass(frozen=True, slots=True)
class _Code:
    path: str
    symbol: str
    language: str
    content: str

    @property
    def gist(self) -> str:
        return gist(self.content, self.language).hex()


def _named(anchor: Kept, now: str | None, code: Sequence[_Code]) -> NamedAnchor:
    def is_now(state: AnchorState, to: str = "") -> NamedAnchor:
        return NamedAnchor(anchor.path, anchor.symbol, state, to)

    if now == anchor.hash or (now and not anchor.hash):
        return is_now(AnchorState.SAME)
    if now is not None:
        own = [c for c in code if (c.path, c.symbol) == (anchor.path, anchor.symbol)]
        same = any(c.gist == anchor.gist for c in own)
        return is_now(AnchorState.SAME if same else AnchorState.CHANGED)
    near = [c for c in code if _tail(c.symbol) == _tail(anchor.symbol)]
    telling = [c for c in code if len(c.content) >= MIN_TELLING]
    same_code = [c for c in (near or telling) if c.gist == anchor.gist]
    if len(same_code) == 1:
        return is_now(AnchorState.MOVED, same_code[0].path)
    # `Class.name` or `module.name` is in one other place, and reads otherwise there.
    if len(near) == 1:
        return is_now(AnchorState.CHANGED, near[0].path)
    return is_now(AnchorState.GONE)


def _tail(symbol: str) -> tuple[str, ...]:
    return tuple(symbol.split(".")[-2:])


def _params(anchors: Sequence[Kept]) -> Mapping[str, Any]:
    return {
        "ns": list(range(len(anchors))),
        "repos": [k.repo_id for k in anchors],
        "numbers": [k.number for k in anchors],
        "paths": [k.path for k in anchors],
        "symbols": [k.symbol for k in anchors],
        "leaves": [leaf(k.symbol) for k in anchors],
    }
