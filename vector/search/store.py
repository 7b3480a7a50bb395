"""SearchStore: the arms of a search over one view."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

import numpy as np

from plait.domain.values import Candidate, Collection, Filter, Item, ItemId
from plait.ports import Place, View
from plait.text.tokenize import query_terms, tokens
from vector.connection.arrays import uuid_array
from vector.connection.pool import Scoped
from vector.connection.uuids import uuids
from vector.index import bm25
from vector.index.bm25 import LoadedSegment, SegmentRef, Space, TermPostings
from vector.index.segments import Bools, split_body
from vector.search import tagged
from vector.search.filters import Condition, condition
from vector.search.places import Places
from vector.search.snapshots import PinnedView, read_view

T = TypeVar("T")
Docs = np.typing.NDArray[np.int64]

# Candidates checked against a filter for each one wanted, at first and how many times as many then; chosen by hand.
FEW_MORE, OVER_FETCH = 1.25, 4
# Ids checked one by one against a filter; for more it is cheaper to read all that match.
MAX_ROUND = 4_000
# Texts in which a phrase is searched for, best BM25 first.
PHRASE_TEXTS = 1_000
# Of those that hold it, parsed to be ranked: 0.1 ms each.
PHRASE_PARSED = 100
MAX_PHRASE = 500  # characters
SIMILAR_NAMES = 50
TURNS = 6
# Up to so many texts of agents every term counts: among few, a word in a third of them still discriminates.
FEW = 50_000

SEGMENTS = """
SELECT s.id, s.lengths, s.ids,
       (SELECT d.docs FROM segment_dead d WHERE d.segment_id = s.id AND d.rev = w.dead_rev)
  FROM unnest(%(ids)s::bigint[], %(dead)s::int[]) AS w (id, dead_rev) JOIN segment s USING (id)
"""

# The bodies of terms that are in too many documents to count stay where they are: `octet_length` of a
# value kept out of line reads none of it. `most` allows for the dead, so nothing is left out wrongly.
POSTINGS = """
SELECT term, segment_id,
       CASE WHEN sum(octet_length(body)) OVER (PARTITION BY term) <= %(most)s THEN body END
  FROM posting WHERE segment_id = ANY(%(segments)s) AND term = ANY(%(terms)s)
"""

# `octet_length` of a value kept out of line reads none of it.
FREQUENCIES = """
SELECT term, sum(octet_length(body))::bigint FROM posting
 WHERE segment_id = ANY(%(segments)s) AND term = ANY(%(terms)s) GROUP BY term
"""
# Bounded by id, so that an index finds them.
LATER = """
SELECT coalesce(string_agg(uuid_send(i.id), ''::bytea), ''::bytea) FROM item i
 WHERE i.repo_id = ANY(%(repos)s) AND i.collection = ANY(%(collections)s) AND i.id >= %(floor)s
   AND i.recorded_at > %(recorded)s
"""
BYTES_A_POSTING = 5  # an int32 document and a uint8 frequency

# ASCII punctuation: what separates the words of a phrase, besides spaces.
MARKS = "".join(c for c in map(chr, range(33, 127)) if not c.isalnum())
_UNMARKED = str.maketrans(MARKS, " " * len(MARKS))
_MARKS_CLASS = "!-/:-@\\[-`{-~"

_COLLECTIONS = {c.value: c for c in Collection}
_NOT_CODE = tuple(c for c in Collection if c is not Collection.FILES)

ITEM_COLUMNS = (
    "i.id, i.collection, r.name, i.kind, i.path, i.symbol, i.language, i.start_line, i.end_line,"
    " i.content, i.ts, i.meta, i.tags, i.is_test"
)

PLACE_COLUMNS = (
    "i.id, i.repo_id, i.collection, i.path, i.symbol, i.kind, i.is_test, i.start_line, i.end_line"
)
# What only agents' items have, in the order of `Place`. A chat that is learned later is as old as it is.
AGENT_PLACE_COLUMNS = (
    f"{PLACE_COLUMNS}, i.importance, coalesce(i.valid_from, i.ts), i.type, i.source, i.agent_id,"
    f" i.session_key, i.tags, i.episode_id, i.tokens, i.is_question, i.announces_step"
)


class Lexical:
    """The arms that work on text."""

    def __init__(self, app: Scoped, spaces: bm25.SpaceCache) -> None:
        self._app = app
        self._spaces = spaces
        self._places = Places()

    async def view(self, where: Filter) -> View:
        return await read_view(self._app, where)

    async def lexical(
        self,
        view: View,
        terms: Sequence[str],
        where: Filter,
        k: int,
        weights: Mapping[str, float] | None = None,
    ) -> list[Candidate]:
        less = {term for term, weight in (weights or {}).items() if weight < 1.0}
        every = _every_term_counts(view, where)
        space, postings = await self._postings(view, terms, where, all_of_them=every, beside=less)
        if space is None:
            return []
        await _give_way()
        scores = bm25.score(space, postings, 0.0 if every else bm25.MIN_IDF, weights)
        await _give_way()
        return await self.filtered(view, where, space, scores, k)

    async def counts(
        self, view: View, terms: Sequence[str], where: Filter
    ) -> tuple[int, dict[str, int]]:
        """By the sizes of posting lists, without reading them."""
        refs = segments_of(view, where)
        unique = sorted({term.replace("\0", "") for term in terms} - {""})
        if not refs or not unique:
            return 0, dict.fromkeys(unique, 0)
        space = await self.space(view, refs)
        later = await self._later(view, refs, space)
        if later is not None:
            everything = await self._read_postings(view, refs, unique, 1 << 40)
            counted = {t: _counted(space, bodies, later) for t, bodies in everything.items()}
            living = bm25.without(space, later).living
            return living, {t: min(living, counted.get(t, 0)) for t in unique}
        params = {"segments": [ref.id for ref in refs], "terms": unique}
        found = dict(await self._app.rows(FREQUENCIES, params, tenant=view.tenant))
        # Dead documents are included: they are few, and excluding them would mean reading the lists.
        return space.living, {
            term: min(space.living, found.get(term, 0) // BYTES_A_POSTING) for term in unique
        }

    async def phrase(self, view: View, phrase: str, where: Filter, k: int) -> list[Candidate]:
        """The words of `phrase` are first looked up as BM25 terms; only texts that hold all of them
        become a tsvector. No index of tsvectors is kept: see docs/experiments/indexing.md for its cost."""
        # A phrase of stop words alone is looked up by them.
        terms = query_terms(phrase[:MAX_PHRASE]) or sorted(set(tokens(phrase[:MAX_PHRASE])))
        space, postings = await self._postings(view, terms, where, all_of_them=True)
        if space is None or any(t not in postings or not len(postings[t].docs) for t in terms):
            return []
        scores = bm25.score(space, postings)
        holding = np.zeros(len(scores), np.int32)
        for term in terms:
            holding[postings[term].docs] += 1
        # A common term may have added nothing to the score: what holds all of them is a candidate.
        scores = np.where(holding == len(terms), scores + np.float32(1e-6), np.float32(0))
        held = await self.filtered(view, where, space, scores, PHRASE_TEXTS)
        if not held:
            return []
        cond = condition(view, where)
        params = {
            **cond.params,
            "phrase": phrase.replace("\0", " ")[:MAX_PHRASE],
            "pattern": _phrase_pattern(phrase.replace("\0", " ")[:MAX_PHRASE]),
            "marks": MARKS,
            "blanks": " " * len(MARKS),
            "k": k,
            "texts": max(2 * k, PHRASE_PARSED),
            "ids": [c.id for c in held],
        }
        rows = await self._app.rows(_phrase_query(cond), params, tenant=view.tenant)
        return [Candidate(ItemId(id_), float(rank)) for id_, rank in rows]

    async def identifiers(self, view: View, name: str, where: Filter, k: int) -> list[Candidate]:
        cond = condition(view, where)
        last_part = name.replace("\0", "").rpartition(".")[2][:200]
        if not last_part:
            return []
        params = {
            **cond.params,
            "name": last_part,
            "k": k,
            "in": [r.repo_id for r in view.revisions],
            "at": [r.number for r in view.revisions],
            "names": SIMILAR_NAMES,
        }
        rows = await self._app.rows(_identifier_query(cond), params, tenant=view.tenant)
        return [Candidate(ItemId(id_), float(similarity)) for id_, similarity in rows]

    async def places(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Place]:
        assert isinstance(view, PinnedView), "views come from `view`"
        found = self._places.known(view, ids)
        missing = [id_ for id_ in ids if id_ not in found] if len(found) < len(ids) else []
        if missing:
            rows = await self._by_id(
                view, missing, tuple, PLACE_COLUMNS, agents=AGENT_PLACE_COLUMNS
            )
            repos = {r.repo_id: r.repo for r in view.revisions}
            read = {id_: (row[1], to_place(repos[row[1]], row)) for id_, row in rows.items()}
            self._places.keep(view, read)
            found |= {id_: place for id_, (_, place) in read.items()}
            found = {id_: found[id_] for id_ in ids if id_ in found}
        return found

    async def fetch(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Item]:
        join = " JOIN repository r ON r.id = i.repo_id"
        return await self._by_id(view, ids, to_item, ITEM_COLUMNS, join)

    async def _by_id(
        self,
        view: View,
        ids: Sequence[ItemId],
        make: Callable[[tuple[Any, ...]], T],
        columns: str,
        join: str = "",
        *,
        agents: str = "",
    ) -> dict[ItemId, T]:
        """What `make` makes of `columns`, the id first, of the `ids` that `view` sees, in the order of
        `ids`; of agents' items the columns `agents`, if given."""
        found: dict[ItemId, T] = {}
        missing = ids
        for collections in _likeliest(view):
            if not missing:
                break
            cond = condition(view, Filter(collections=collections))
            selected = columns if Collection.FILES in collections else agents or columns
            query = (
                f"SELECT {selected} FROM {cond.table} i{join}"
                f" WHERE i.id = ANY(%(ids)s) AND {cond.where}"
            )
            params = {**cond.params, "ids": uuid_array(missing)}
            for row in await self._app.rows(query, params, tenant=view.tenant):
                found[row[0]] = make(row)
            missing = [id_ for id_ in missing if id_ not in found]
        return {id_: made for id_ in ids if (made := found.get(id_)) is not None}

    async def _postings(
        self,
        view: View,
        terms: Sequence[str],
        where: Filter,
        *,
        all_of_them: bool = False,
        beside: Container[str] = (),
    ) -> tuple[Space | None, dict[str, TermPostings]]:
        """The space of the view's segments and the postings that scoring needs. Terms `beside` the
        query's own never make a common one of those superfluous."""
        refs = segments_of(view, where)
        unique = sorted({term.replace("\0", "") for term in terms} - {""})
        if not refs or not unique:
            return None, {}
        space = await self.space(view, refs)
        later = await self._later(view, refs, space)
        if later is not None:
            space = bm25.without(space, later)
        everything = 1 << 40
        rare = bm25.common_from(space.living) - 1 + space.dead
        found = await self._read_postings(
            view, refs, unique, everything if all_of_them else 5 * rare
        )
        postings = _gathered(space, found)
        own = {term: p for term, p in postings.items() if term not in beside}
        if len(postings) < len(found) and not bm25.has_rare(space, own):
            # With only common terms, all of them count.
            found = await self._read_postings(view, refs, unique, everything)
            postings = _gathered(space, found)
        return space, postings

    async def _read_postings(
        self, view: View, refs: Sequence[SegmentRef], terms: list[str], most: int
    ) -> dict[str, list[tuple[int, bytes | None]]]:
        params = {"segments": [ref.id for ref in refs], "terms": terms, "most": most}
        found: dict[str, list[tuple[int, bytes | None]]] = {}
        for term, segment_id, body in sorted(
            await self._app.rows(POSTINGS, params, tenant=view.tenant), key=lambda row: row[:2]
        ):
            found.setdefault(term, []).append((segment_id, body))
        return found

    async def space(self, view: View, refs: Sequence[SegmentRef]) -> Space:
        space = self._spaces.get(refs)
        if space is None:
            # Of those that changed since the last search, most segments are known.
            known = self._spaces.segments(refs)
            new = [ref for ref in refs if ref.key not in known]
            params = {"ids": [ref.id for ref in new], "dead": [ref.dead_rev for ref in new]}
            found = await self._app.rows(SEGMENTS, params, tenant=view.tenant)
            rows = {row[0]: row for row in found}
            # A segment that was collected since the view was pinned has no documents any more.
            known |= {ref.key: _loaded(ref, rows.get(ref.id)) for ref in new}
            space = bm25.space_of(refs, [known[ref.key] for ref in refs])
            self._spaces.put(refs, space)
        return space

    async def _later(self, view: View, refs: Sequence[SegmentRef], space: Space) -> Bools | None:
        """Documents recorded after the time of `view`, which a score as of then excludes; None if there are none. Code is
        handled by revisions instead."""
        timed = sorted({ref.collection for ref in refs if ref.collection != Collection.FILES})
        if view.recorded is None or not timed:
            return None
        # Ids grow with time, by the clock of who made them: the index finds the few that may be later.
        since = max(0, int((view.recorded.timestamp() - 86_400) * 1000))
        params = {
            "repos": sorted({ref.repo_id for ref in refs}),
            "collections": timed,
            "recorded": view.recorded,
            "floor": UUID(int=since << 80),
        }
        ((ids,),) = await self._app.rows(LATER, params, tenant=view.tenant)
        marked = bm25.only(space, np.ones(len(space.norm), np.float32), ids) > 0
        return marked if ids and marked.any() else None

    async def filtered(
        self, view: View, where: Filter, space: Space, scores: bm25.Floats, k: int
    ) -> list[Candidate]:
        """The `k` best that match `where`; examines more candidates while too few match."""
        cond = condition(view, where)
        if not cond.checked:
            docs, _ = bm25.best(space, scores, k)
            return _candidates(space, scores, docs[:k])
        docs, complete = bm25.best(space, scores, k)
        if not cond.restrictive and not bm25.is_not_code(space, docs).any():
            return _candidates(space, scores, docs[:k])  # code alone
        # A few more than wanted at first, which is enough where next to all match; then as many as the yield suggests.
        depth = math.ceil(FEW_MORE * k)
        while depth <= MAX_ROUND:
            docs, complete = bm25.best(space, scores, depth)
            matching = await self._matching(view, where, cond, space, scores, docs)
            if len(matching) >= k or complete:
                return matching[:k]
            if tagged.applies(where) and len(matching) * space.living <= MAX_ROUND * len(docs):
                cond = await tagged.narrowed(self._app, view, where, cond)
                break
            by_yield = math.ceil(1.5 * k * len(docs) / max(len(matching), 1))
            depth = max(OVER_FETCH * depth, by_yield)
        ((ids,),) = await self._app.rows(
            "SELECT coalesce(string_agg(uuid_send(i.id), ''::bytea), ''::bytea)"
            f" FROM {cond.table} i WHERE {cond.in_bulk}",
            cond.params,
            tenant=view.tenant,
        )
        docs, _ = bm25.best(space, bm25.only(space, scores, ids), k)
        return _candidates(space, scores, docs[:k])

    async def _matching(
        self,
        view: View,
        where: Filter,
        cond: Condition,
        space: Space,
        scores: bm25.Floats,
        docs: Docs,
    ) -> list[Candidate]:
        """Those of `docs` that match `where`, whose condition is `cond`. Code that only times could exclude matches: it
        has no times, and the segments know which of it is alive."""
        portion = _candidates(space, scores, docs)
        checked = portion
        if not cond.restrictive:
            mask = bm25.is_not_code(space, docs).tolist()
            checked = [c for c, is_not_code in zip(portion, mask, strict=True) if is_not_code]
            if not checked:
                return portion
            theirs = tuple(c for c in where.collections or Collection if c is not Collection.FILES)
            cond = condition(view, replace(where, collections=theirs))
        query = (
            "SELECT coalesce(string_agg(uuid_send(i.id), ''::bytea), ''::bytea)"
            f" FROM {cond.table} i WHERE i.id = ANY(%(ids)s) AND {cond.where}"
        )
        params = {**cond.params, "ids": uuid_array([c.id for c in checked])}
        ((found,),) = await self._app.rows(query, params, tenant=view.tenant)
        if len(found) == 16 * len(checked):
            return portion
        matching = set(uuids(found))
        left_out = {c.id for c in checked if c.id not in matching}
        return [c for c in portion if c.id not in left_out]


async def _give_way() -> None:
    """Yield to the event loop, so that the semantic arm (the slowest) can proceed: between the thread that computes
    the query's vector and its statement lie `TURNS` turns of the loop."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


def _counted(space: Space, bodies: Sequence[tuple[int, bytes | None]], later: Bools) -> int:
    """Documents of a term that are not `later`; the dead are counted, as by the sizes of lists."""
    found = [split_body(body)[0] + space.offsets[n] for n, body in bodies if body is not None]
    return sum(int(np.count_nonzero(~later[docs])) for docs in found)


def to_place(repo: str, row: tuple[Any, ...]) -> Place:
    """From a row of `PLACE_COLUMNS` or `AGENT_PLACE_COLUMNS`."""
    if len(row) == 9:
        return Place(repo, _COLLECTIONS[row[2]], *row[3:])
    values = (*row[3:15], tuple(row[15]), *row[16:])
    return Place(repo, _COLLECTIONS[row[2]], *values)


def to_item(row: tuple[Any, ...]) -> Item:
    """From a row of `ITEM_COLUMNS`."""
    return Item(
        id=ItemId(row[0]),
        collection=Collection(row[1]),
        repo=row[2],
        kind=row[3],
        path=row[4],
        symbol=row[5],
        language=row[6],
        start_line=row[7],
        end_line=row[8],
        content=row[9],
        ts=row[10],
        meta=row[11],
        tags=tuple(row[12]),
        is_test=row[13],
    )


def _every_term_counts(view: View, where: Filter) -> bool:
    refs = segments_of(view, where)
    no_code = all(ref.collection != Collection.FILES for ref in refs)
    return no_code and sum(ref.docs for ref in refs) <= FEW


def _likeliest(view: View) -> tuple[tuple[Collection, ...], ...]:
    """All collections, code apart from the others, the likelier ones first: few answers need the rest."""
    assert isinstance(view, PinnedView), "views come from `view`"
    code = (Collection.FILES,)
    if not any(revision.number for revision in view.revisions):
        return (_NOT_CODE,)
    if not view.collections or Collection.FILES in view.collections:
        return code, _NOT_CODE
    others = tuple(c for c in _NOT_CODE if c not in view.collections)
    return (view.collections, others, code) if others else (view.collections, code)


def segments_of(view: View, where: Filter) -> tuple[SegmentRef, ...]:
    assert isinstance(view, PinnedView), "views come from `view`"
    collections = set(where.collections or Collection)
    return tuple(s for s in view.segments if s.collection in collections)


def _gathered(
    space: Space, found: Mapping[str, Sequence[tuple[int, bytes | None]]]
) -> dict[str, TermPostings]:
    """Postings of the terms whose bodies were read."""
    return {
        term: bm25.gather(space, [(segment, body) for segment, body in bodies if body is not None])
        for term, bodies in found.items()
        if bodies[0][1] is not None
    }


def _loaded(ref: SegmentRef, row: tuple[Any, ...] | None) -> LoadedSegment:
    if row is None:
        return LoadedSegment(
            bytes(16 * ref.docs), np.zeros(ref.docs, np.int32), np.zeros(ref.docs, np.bool_)
        )
    _, lengths, ids, dead = row
    alive = None
    if dead:
        alive = np.ones(ref.docs, np.bool_)
        alive[np.frombuffer(dead, "<i4")] = False
    return LoadedSegment(bytes(ids), np.frombuffer(bytes(lengths), "<i4"), alive)


def _ids(space: Space, docs: np.typing.NDArray[np.int64]) -> list[UUID]:
    return uuids(space.ids[docs].tobytes())


def _candidates(
    space: Space, scores: bm25.Floats, docs: np.typing.NDArray[np.int64]
) -> list[Candidate]:
    return [
        Candidate(ItemId(id_), float(score))
        for id_, score in zip(_ids(space, docs), scores[docs], strict=True)
    ]


def _phrase_query(cond: Condition) -> str:
    """Texts that hold the words in a row by a plain pattern, then `ts_rank` of those.

    Punctuation goes before the text is parsed: PostgreSQL would take `a.b` for a host and `a/b` for a
    file. A tsvector holds 1 MB at most.
    """
    plain = "translate({}, %(marks)s, %(blanks)s)"
    return (
        "WITH held AS MATERIALIZED (SELECT i.id, left(i.content, 250000) AS content"
        f" FROM unnest(%(ids)s) WITH ORDINALITY AS w (id, place) JOIN {cond.table} i USING (id)"
        f" WHERE {cond.where} AND i.content ~* %(pattern)s ORDER BY w.place LIMIT %(texts)s),"
        # Materialized, or the planner parses each text twice: to match it and to rank it.
        f" parsed AS MATERIALIZED (SELECT id, to_tsvector('simple', {plain.format('content')}) AS words"
        " FROM held)"
        " SELECT p.id, ts_rank(p.words, q.query) AS rank FROM parsed p,"
        f" (SELECT phraseto_tsquery('simple', {plain.format('%(phrase)s')}) AS query) q"
        " WHERE p.words @@ q.query ORDER BY rank DESC, p.id LIMIT %(k)s"
    )


def _phrase_pattern(phrase: str) -> str:
    """The words of `phrase` in a row with anything but letters and digits between them; a superset of
    what the tsquery finds."""
    words = phrase.translate(_UNMARKED).split()
    return f"[{_MARKS_CLASS}[:space:]]+".join(words)


def _identifier_query(cond: Condition) -> str:
    # Trigrams are compared inside the function: behind row security no index serves them.
    return (
        "SELECT i.id, s.score FROM similar_names(%(in)s, %(at)s, %(name)s, %(names)s) s"
        f" JOIN {cond.table} i ON i.repo_id = s.repo_id AND i.name = s.name AND i.name <> ''"
        f" WHERE {cond.where} ORDER BY s.score DESC, i.id LIMIT %(k)s"
    )
