"""`located`: the chunks at the code locations that a text names.

A name is found by the index on (repo_id, name). The end of a path is matched in memory against the
paths of the view's revisions, read once a revision: 5,500 paths take 6 ms. A file's chunks are found by
the index on (repo_id, path).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from plait.domain.values import Collection, Filter, ItemId, Revision
from plait.ports import Spot, View
from vector.connection.pool import Scoped
from vector.index.visible import held
from vector.search.filters import condition

MAX_PATHS = 1_000_000  # cached, of all revisions together; a path takes about 200 bytes
MAX_SPOTS = 200
MAX_FILES = 20  # that one end of a path may match; with more it is ambiguous
MAX_NAMED = 100  # chunks of one name that are examined
WHOLE = 1_000  # added to the fit of a path that is the whole end of another

_PATHS = f"""
SELECT w.repo_id, f.path FROM unnest(%(repos)s::int[], %(numbers)s::int[]) AS w (repo_id, number)
  JOIN file_member f ON f.repo_id = w.repo_id AND {held("f", "w.number")}
"""

# Each spot by its own index scan. `at` 1: the chunk holds the spot's lines, or it asks for none.
_CHUNKS = """
SELECT w.spot, f.* FROM unnest(%(spots)s::int[], %(in)s::int[], %(paths)s::text[], %(leaves)s::text[],
         %(owners)s::text[], %(first)s::int[], %(last)s::int[])
       AS w (spot, repo_id, path, leaf, owner, first, last)
 CROSS JOIN LATERAL (
       SELECT i.id, i.repo_id, i.path, i.symbol, i.start_line, i.end_line FROM {table} i
        WHERE {place} AND {where} LIMIT {limit}) f
"""
_IN_FILE = (
    "i.repo_id = w.repo_id AND i.path = w.path AND (w.first = 0 AND w.leaf = ''"
    " OR w.first > 0 AND i.start_line <= w.last AND i.end_line >= w.first OR i.name = w.leaf)"
)
_BY_NAME = "i.repo_id = w.repo_id AND i.name = w.leaf AND i.name <> '' AND (w.owner = '' OR strpos(i.symbol, w.owner || '.') > 0)"


@dataclass(frozen=True, slots=True)
class _Chunk:
    id: UUID
    path: str
    symbol: str
    start_line: int
    end_line: int

    @property
    def lines(self) -> int:
        return self.end_line - self.start_line


class PathCache:
    """The paths of revisions by their last part; drops the least recently used revisions."""

    def __init__(self, most: int = MAX_PATHS) -> None:
        self._most = most
        self._size = 0
        self._cached: OrderedDict[tuple[int, int], tuple[int, Mapping[str, Sequence[str]]]] = (
            OrderedDict()
        )

    def get(self, key: tuple[int, int]) -> Mapping[str, Sequence[str]] | None:
        if key not in self._cached:
            return None
        self._cached.move_to_end(key)
        return self._cached[key][1]

    def put(self, key: tuple[int, int], paths: Sequence[str]) -> Mapping[str, Sequence[str]]:
        by_name: dict[str, list[str]] = {}
        for path in paths:
            by_name.setdefault(path.rpartition("/")[2], []).append(path)
        if key in self._cached:
            self._size -= self._cached.pop(key)[0]
        self._cached[key] = (len(paths), by_name)
        self._size += len(paths)
        while self._size > self._most and len(self._cached) > 1:
            self._size -= self._cached.popitem(last=False)[1][0]
        return by_name


class Located:
    def __init__(self, app: Scoped) -> None:
        self._app = app
        self._path_cache = PathCache()

    async def located(
        self, view: View, spots: Sequence[Spot], where: Filter, k: int
    ) -> list[list[ItemId]]:
        """As `SearchStore.located`. One read for names, one for files, and the revision's paths once.
        A name that more than 100 chunks have, or an end that more than 20 files have, finds nothing."""
        revisions = [r for r in view.revisions if r.number > 0]
        if not spots or not revisions or Collection.FILES not in (where.collections or Collection):
            return [[] for _ in spots]
        clean = [_clean(spot) for spot in spots[:MAX_SPOTS]]
        only = replace(where, collections=(Collection.FILES,))
        files = await self._fitting(view, revisions, clean)
        for n, (_, sure) in enumerate(files):
            if not sure:  # then its lines do not count, only a name
                clean[n] = replace(clean[n], start_line=0, end_line=0)
        found: list[list[_Chunk]] = [[] for _ in spots]
        rows = [
            (n, repo_id, path, *_columns(clean[n]))
            for n, (fits, _) in enumerate(files)
            for repo_id, path in fits
        ]
        for n, chunk in await self._chunks(view, rows, only, _IN_FILE, 2_000):
            found[n].append(chunk)
        rows = [
            (n, r.repo_id, "", *_columns(spot))
            for n, spot in enumerate(clean)
            if spot.symbol and not spot.path
            for r in revisions
            if spot.repo in ("", r.repo)
        ]
        for n, chunk in await self._chunks(view, rows, only, _BY_NAME, MAX_NAMED + 1):
            found[n].append(chunk)
        return [
            [ItemId(chunk.id) for chunk in _ranked(spot, chunks)[:k]]
            for spot, chunks in zip(clean, found, strict=False)
        ] + [[] for _ in spots[MAX_SPOTS:]]

    async def _chunks(
        self, view: View, rows: Sequence[tuple[Any, ...]], where: Filter, place: str, limit: int
    ) -> list[tuple[int, _Chunk]]:
        if not rows:
            return []
        cond = condition(view, where)
        columns = ("spots", "in", "paths", "leaves", "owners", "first", "last")
        params = {
            name: list(values)
            for name, values in zip(columns, zip(*rows, strict=True), strict=True)
        }
        query = _CHUNKS.format(table=cond.table, place=place, where=cond.where, limit=limit)
        found = await self._app.rows(query, {**cond.params, **params}, tenant=view.tenant)
        return [(row[0], _Chunk(row[1], *row[3:])) for row in found]

    async def _fitting(
        self, view: View, revisions: Sequence[Revision], spots: Sequence[Spot]
    ) -> list[tuple[list[tuple[int, str]], bool]]:
        """For each spot `(repo_id, path)` of the files that its path fits best, and whether it fits whole."""
        if not any(spot.path for spot in spots):
            return [([], True) for _ in spots]
        known = await self._known(view, revisions)
        out = []
        for spot in spots:
            fits: list[tuple[int, int, str]] = []
            name = spot.path.rpartition("/")[2]
            for r in revisions if name else ():
                if spot.repo not in ("", r.repo):
                    continue
                for path in known[r.repo_id].get(name, ()):
                    fits.append((fit(spot.path, path), r.repo_id, path))
            out.append(_best(spot, fits))
        return out

    async def _known(
        self, view: View, revisions: Sequence[Revision]
    ) -> dict[int, Mapping[str, Sequence[str]]]:
        out = {r.repo_id: self._path_cache.get((r.repo_id, r.number)) for r in revisions}
        missing = [r for r in revisions if out[r.repo_id] is None]
        if missing:
            params = {
                "repos": [r.repo_id for r in missing],
                "numbers": [r.number for r in missing],
            }
            read: dict[int, list[str]] = {r.repo_id: [] for r in missing}
            for repo_id, path in await self._app.rows(_PATHS, params, tenant=view.tenant):
                read[repo_id].append(path)
            for r in missing:
                out[r.repo_id] = self._path_cache.put((r.repo_id, r.number), read[r.repo_id])
        return {repo_id: paths or {} for repo_id, paths in out.items()}


async def chunks_of(
    app: Scoped, view: View, symbols: Sequence[tuple[str, str, str]], where: Filter
) -> list[ItemId | None]:
    """As `SearchStore.chunks_of`."""
    if not symbols or Collection.FILES not in (where.collections or Collection):
        return [None] * len(symbols)
    ids = {revision.repo: revision.repo_id for revision in view.revisions}
    unique = [
        (ids[repo], path.replace("\0", ""), symbol.replace("\0", ""))
        for repo, path, symbol in dict.fromkeys(symbols)
        if repo in ids
    ]
    cond = condition(view, replace(where, collections=(Collection.FILES,)))
    given = {
        **cond.params,
        "in": [repo_id for repo_id, _, _ in unique],
        "paths": [path for _, path, _ in unique],
        "symbols": [symbol for _, _, symbol in unique],
    }
    # The parts of a long symbol all have its name; `#n` is its n-th definition.
    query = (
        "SELECT DISTINCT ON (i.repo_id, i.path, i.symbol) i.repo_id, i.path, i.symbol, i.id"
        " FROM unnest(%(in)s::int[], %(paths)s::text[], %(symbols)s::text[])"
        " AS w (repo_id, path, symbol)"
        f" JOIN {cond.table} i ON i.repo_id = w.repo_id AND i.path = w.path"
        f" AND i.symbol = w.symbol WHERE {cond.where}"
        " ORDER BY i.repo_id, i.path, i.symbol, i.start_line, i.id"
    )
    rows = await app.rows(query, given, tenant=view.tenant)
    found = {(repo, path, symbol): ItemId(id_) for repo, path, symbol, id_ in rows}
    return [found.get((ids.get(repo, 0), path, symbol)) for repo, path, symbol in symbols]


def fit(named: str, path: str) -> int:
    """How well a path as a text has it fits a repository's: the parts that agree, from the end on, and
    `WHOLE` more where one is the whole end of the other."""
    one, other = named.split("/")[::-1], path.split("/")[::-1]
    common = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        common += 1
    # A file in the root fits every path that ends in its name: `node_modules/x/index.js` is none of ours.
    whole = common == len(one) or 1 < common == len(other)
    return common + (WHOLE if whole else 0)


def _best(spot: Spot, fits: Sequence[tuple[int, int, str]]) -> tuple[list[tuple[int, str]], bool]:
    """The files of the best fit. An end that is in part another's (a folder has another name there)
    counts where only one file has it, and where two parts agree or a function is to be found there."""
    best = max((score for score, _, _ in fits), default=0)
    chosen = sorted((repo_id, path) for score, repo_id, path in fits if score == best)
    if best >= WHOLE:
        return (chosen if len(chosen) <= MAX_FILES else []), True
    if len(chosen) > 1 or (best < 2 and not spot.symbol):
        return [], True
    return chosen, best >= 2


def _columns(spot: Spot) -> tuple[str, str, int, int]:
    """`(leaf, owner, first, last)`."""
    head, _, leaf = spot.symbol.rpartition(".")
    first = spot.start_line
    return leaf, head.rpartition(".")[2], first, max(spot.end_line, first)


def _clean(spot: Spot) -> Spot:
    path = spot.path.replace("\0", "").strip("/")[:4096]
    return replace(spot, path=path, symbol=spot.symbol.replace("\0", "")[:600])


def _ranked(spot: Spot, chunks: Sequence[_Chunk]) -> list[_Chunk]:
    """What of `chunks` the spot means, surest first."""
    if spot.path:
        return _in_file(spot, chunks)
    if len(chunks) > MAX_NAMED:
        return []
    levels = [(names(spot.symbol, chunk.symbol), chunk) for chunk in chunks]
    best = max((level for level, _ in levels), default=0)
    chosen = [chunk for level, chunk in levels if level == best > 0]
    return sorted(chosen, key=lambda c: (c.path, c.start_line, c.id.int))


def _in_file(spot: Spot, chunks: Sequence[_Chunk]) -> list[_Chunk]:
    first, last = spot.start_line, max(spot.end_line, spot.start_line)

    def away(chunk: _Chunk) -> int:
        if not first:
            return 0
        return max(chunk.start_line - last, first - chunk.end_line, 0)

    if not spot.symbol:
        order = (
            (lambda c: (c.lines, c.start_line, c.id.int))
            if first
            else (lambda c: (c.start_line, c.lines, c.id.int))
        )
        return sorted((c for c in chunks if away(c) == 0), key=order)
    leaf = spot.symbol.rpartition(".")[2]
    named = [c for c in chunks if c.symbol.partition("#")[0].rpartition(".")[2] == leaf]
    best = max((names(spot.symbol, c.symbol) for c in named), default=0)
    if best:
        named = [c for c in named if names(spot.symbol, c.symbol) == best]
    if named:
        # Lines move from version to version, names seldom: the nearest of that name.
        return sorted(named, key=lambda c: (away(c), c.lines, c.start_line, c.id.int))
    held = [c for c in chunks if first and away(c) == 0]
    return sorted(held, key=lambda c: (c.lines, c.start_line, c.id.int))


def names(name: str, symbol: str) -> int:
    """How well `name` matches `symbol`: 3 equal or its suffix, 2 if `symbol` is a suffix of it, 1 if it leaves parts
    out, as re-exports do (`requests.Session.get`), else 0."""
    symbol = symbol.partition("#")[0]
    if symbol == name or symbol.endswith(f".{name}"):
        return 3
    if name.endswith(f".{symbol}"):
        return 2
    parts, rest = name.split("."), iter(symbol.split("."))
    within = all(part in rest for part in parts) and symbol.endswith(f".{parts[-1]}")
    return 1 if within and len(parts) > 1 else 0
