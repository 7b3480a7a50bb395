"""Memories that answer a text: by its words and its meaning, united before anything is cut."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from plait.domain.errors import EmbeddingModelMismatch, InvalidInput
from plait.domain.memory import AsOf, MemoryMatch, MemoryQueryOptions
from plait.domain.off_loop import off_loop
from plait.domain.values import Candidate, Collection, Filter, ItemId
from plait.ports import Standing
from plait.retrieval.gather import all_of
from plait.retrieval.query.analysis import QueryKind, SearchQuery, analyse
from plait.retrieval.ranking import compacted, query_intent, threads, verbatim
from plait.retrieval.ranking.fusion import minmax, order
from plait.retrieval.ranking.weights import DEFAULT
from vector.anchors.freshness import EXTERNAL, OUTSIDE
from vector.connection.clock import hold
from vector.connection.halfvec import half
from vector.connection.pool import Scoped
from vector.connection.uuids import uuids
from vector.index import bm25
from vector.index.bm25 import SegmentRef, Space
from vector.memories.read import COLUMNS, FROM, WIDTH, Where, matching, repositories, see, to_entry
from vector.search.compacted import is_compacted
from vector.search.snapshots import PinnedView
from vector.search.store import AGENT_PLACE_COLUMNS, Lexical, to_place
from vector.search.threads import around

MAX_TOP_K = 1000
# Candidates of an arm for each match wanted, so that what both arms find in the middle can win.
OVER_FETCH = 4
MIN_CANDIDATES = 100
# Up to so many filtered rows are compared one by one; 20,000 of 384 dimensions take 8 ms.
EXACT_ROWS = 20_000
# Up to so many texts every term counts: with few, a word of a third of them still tells them apart.
SMALL = 50_000

SEGMENTS = """
SELECT g.id, g.repo_id, g.docs FROM segment g
 WHERE g.repo_id = ANY(%(repos)s) AND g.collection = 'memories' AND g.rev_to IS NULL
   AND g.replaced_at IS NULL ORDER BY g.id
"""


class MemoryQuery:
    def __init__(self, app: Scoped, lexical: Lexical) -> None:
        self._app = app
        self._lexical = lexical

    async def query(
        self,
        text: str,
        vector: npt.NDArray[np.float32] | None,
        options: MemoryQueryOptions,
    ) -> list[MemoryMatch]:
        """See `MemoryStore.query`. Scores are comparable inside one answer only.

        Raises: ScopeMissing, InvalidInput, EmbeddingModelMismatch.
        """
        _check(text, vector, options)
        where = options.filter
        repo_ids = await repositories(self._app, where)
        if not repo_ids:
            return []
        await hold(self._app, where.tenant, where.repos, options.as_of.recorded)
        cond = see(matching(where, repo_ids), options.as_of, compacted=True)
        k = max(MIN_CANDIDATES, OVER_FETCH * options.top_k)
        asked = analyse(SearchQuery(text)) if text.strip() else None
        terms, exact = (asked.terms, asked.exact) if asked else ((), ())
        lexical, semantic, numbered = await all_of(
            self._by_words(terms, cond, where.tenant, repo_ids, k) if terms else _nothing(),
            self._by_meaning(vector, cond, where.tenant, k) if vector is not None else _nothing(),
            self._by_words(exact, cond, where.tenant, repo_ids, DEFAULT.arms.most_exact + 1)
            if exact
            else _nothing(),
        )
        rankings = {"lexical": lexical, "semantic": semantic}
        if len(numbered) <= DEFAULT.arms.most_exact:
            rankings["exact"] = numbered
        # As a search ranks what agents wrote, see plait/retrieval/stages/score.py.
        plain = asked is None or asked.kind is QueryKind.PLAIN
        weight = (
            DEFAULT.arms.memories_semantic
            if plain
            else DEFAULT.arms.semantic[QueryKind.IDENTIFIERS]
        )
        weights = {"lexical": 1.0 - weight, "semantic": weight, "exact": DEFAULT.arms.exact}
        fused = minmax(rankings, weights)
        scores = await self._in_sessions(
            text,
            order(fused, rankings),
            fused,
            threads.by_words(rankings, weights),
            cond,
            where.tenant,
            options.top_k,
            options.as_of.recorded is not None,
        )
        best = [i for i in scores if scores[i] >= options.min_score]
        return await self._matches(
            best[: options.top_k], scores, rankings, where.tenant, options.as_of
        )

    async def unembedded(self, options: MemoryQueryOptions) -> bool:
        """See `MemoryStore.unembedded`. Raises: ScopeMissing, InvalidInput."""
        where = options.filter
        repo_ids = await repositories(self._app, where)
        cond = see(matching(where, repo_ids), options.as_of)
        ((some,),) = await self._app.rows(
            f"SELECT EXISTS (SELECT 1 FROM memories i WHERE {cond.sql} AND i.embedding IS NULL)",
            cond.params,
            tenant=where.tenant,
        )
        return bool(some)

    async def _in_sessions(
        self,
        text: str,
        ranked: Sequence[ItemId],
        fused: Mapping[ItemId, float],
        words: Mapping[ItemId, float],
        cond: Where,
        tenant: str,
        top_k: int,
        timed: bool,
    ) -> dict[ItemId, float]:
        """New scores, best first, by what was said next to the best, by what turns are, by what of a run
        `text` asks for, and by what compaction closed; the best keeps its score. `timed`: as of the recorded
        time that is bound as `known`."""
        head = ranked[: max(DEFAULT.arms.placed, 2 * top_k)]
        was = is_compacted("%(known)s" if timed else None)
        rows = await self._app.rows(
            f"SELECT {EXTERNAL}, i.entry_id, {was}, i.superseded_by, {AGENT_PLACE_COLUMNS}"
            " FROM memories i WHERE i.id = ANY(%(ids)s)",
            {**cond.params, "ids": list(head), "outside": OUTSIDE},
            tenant=tenant,
        )
        places = {ItemId(row[4]): to_place("", row[4:]) for row in rows}
        external = frozenset(ItemId(row[4]) for row in rows if row[0])
        standing = {
            ItemId(row[4]): Standing(False, entry=row[1], compacted=row[2], replaced_by=row[3])
            for row in rows
        }
        there = [id_ for id_ in head if id_ in places]
        seeds = threads.seeds(there, places, words)
        scores = {id_: fused[id_] for id_ in ranked}
        lower = compacted.factors(standing)
        held = await self._verbatim(text, there, tenant)
        if not seeds and not lower and not held:
            return scores
        beside = await around(
            self._app, seeds, DEFAULT.threads.reach, cond.sql, cond.params, tenant
        )
        said = [id_ for id_ in there if threads.in_thread(places[id_])]
        lifted = threads.lifted(beside, fused, said, words)
        factors = threads.factors(places)
        asked_for = query_intent.factors(text, places, external, threads.openings(beside))
        for id_ in there:
            factor = factors.get(id_, 1.0) * asked_for.get(id_, 1.0) * lower.get(id_, 1.0)
            factor *= held.get(id_, 1.0)
            scores[id_] = lifted.get(id_, fused[id_]) * factor
        # The rest was not looked at: it stays behind, whatever was held against the others.
        rest = [id_ for id_ in ranked if id_ not in places]
        least, most = min(scores[i] for i in there), max((fused[i] for i in rest), default=0.0)
        if most > least:
            scores |= {id_: fused[id_] * least / most for id_ in rest}
        top = max(scores.values())
        scale = max(fused.values()) / top if top > 0.0 else 1.0
        again = sorted(scores.items(), key=lambda entry: -entry[1])  # stable: ties as they were
        return compacted.behind({id_: min(1.0, s * scale) for id_, s in again}, standing)

    async def _verbatim(
        self, text: str, ids: Sequence[ItemId], tenant: str
    ) -> Mapping[ItemId, float]:
        """Of a pasted passage what multiplies the scores of texts that hold it; else nothing is read."""
        wanted_text = verbatim.passage(text)
        if not wanted_text:
            return {}
        rows = await self._app.rows(
            "SELECT i.id, i.content FROM memories i WHERE i.id = ANY(%(ids)s)",
            {"ids": list(ids)},
            tenant=tenant,
        )
        texts = {ItemId(id_): content for id_, content in rows}
        chars = sum(map(len, texts.values()))
        return await off_loop(chars, verbatim.factors, wanted_text, texts)

    async def _by_words(
        self, terms: Sequence[str], cond: Where, tenant: str, repo_ids: Sequence[int], k: int
    ) -> list[Candidate]:
        """The `k` best by BM25 among the rows of `cond`, looking further down as long as too few are."""
        found = await self._app.rows(SEGMENTS, {"repos": list(repo_ids)}, tenant=tenant)
        refs = tuple(SegmentRef(id_, repo, "memories", docs, 0) for id_, repo, docs in found)
        small = sum(ref.docs for ref in refs) <= SMALL
        where = Filter(collections=(Collection.MEMORIES,), tenant=tenant)
        view = PinnedView((), "", 0, tenant=tenant, segments=refs)
        space, postings = await self._lexical.postings(view, terms, where, all_of_them=small)
        if space is None:
            return []
        scores = bm25.score(space, postings, 0.0 if small else bm25.MIN_IDF)
        docs, complete = bm25.best(space, scores, OVER_FETCH * k)
        kept = await self._kept(space, scores, docs, cond, tenant)
        if len(kept) >= k or complete:
            return kept[:k]
        ((ids,),) = await self._app.rows(
            "SELECT coalesce(string_agg(uuid_send(i.id), ''::bytea), ''::bytea) FROM memories i"
            f" WHERE {cond.sql}",
            cond.params,
            tenant=tenant,
        )
        docs, _ = bm25.best(space, bm25.only(space, scores, ids), k)
        return _candidates(space, scores, docs[:k])

    async def _kept(
        self,
        space: Space,
        scores: bm25.Floats,
        docs: npt.NDArray[np.int64],
        cond: Where,
        tenant: str,
    ) -> list[Candidate]:
        candidates = _candidates(space, scores, docs)
        rows = await self._app.rows(
            f"SELECT i.id FROM memories i WHERE i.id = ANY(%(ids)s) AND {cond.sql}",
            {**cond.params, "ids": [c.id for c in candidates]},
            tenant=tenant,
        )
        there = {row[0] for row in rows}
        return [c for c in candidates if c.id in there]

    async def _by_meaning(
        self, vector: npt.NDArray[np.float32], cond: Where, tenant: str, k: int
    ) -> list[Candidate]:
        """The `k` nearest among the rows of `cond`: exactly, unless they are very many."""
        space = await self._app.rows(
            "SELECT model, dim FROM embedding_space WHERE filled", {}, tenant=tenant
        )
        if not space:
            return []
        model, dim = space[0]
        if vector.shape != (dim,):
            raise EmbeddingModelMismatch(model, dim, "the query's", vector.size)
        params = {**cond.params, "query": half(vector), "k": k, "limit": EXACT_ROWS + 1}
        rows = await self._app.rows(_exact(cond, dim, EXACT_ROWS + 1), params, tenant=tenant)
        if rows and rows[0][2] > EXACT_ROWS:
            params["more"] = math.ceil(OVER_FETCH * k)
            # Planned for these values: else the sixth call could find other rows than the first.
            rows = await self._app.rows(_by_index(cond, dim), params, tenant=tenant, prepare=False)
            if len(rows) < k:  # a filter that keeps few of many: one by one after all
                rows = await self._app.rows(_exact(cond, dim, None), params, tenant=tenant)
        return [Candidate(ItemId(row[0]), float(row[1])) for row in rows]

    async def _matches(
        self,
        best: Sequence[ItemId],
        scores: dict[ItemId, float],
        rankings: dict[str, list[Candidate]],
        tenant: str,
        as_of: AsOf,
    ) -> list[MemoryMatch]:
        if not best:
            return []
        rows = await self._app.rows(
            f"SELECT {COLUMNS}, i.id {FROM} WHERE i.id = ANY(%(ids)s)",
            {"ids": list(best)},
            tenant=tenant,
        )
        found = {ItemId(row[WIDTH]): to_entry(row, as_of.recorded) for row in rows}
        arms: dict[ItemId, dict[str, float]] = {}
        for arm, ranking in rankings.items():
            for candidate in ranking:
                arms.setdefault(candidate.id, {})[arm] = candidate.score
        return [MemoryMatch(found[i], scores[i], arms[i]) for i in best if i in found]


async def _nothing() -> list[Candidate]:
    return []


def _check(text: str, vector: npt.NDArray[np.float32] | None, options: MemoryQueryOptions) -> None:
    if not text.strip() and vector is None:
        raise InvalidInput("the query is empty; say what to look for", field="query")
    if not 1 <= options.top_k <= MAX_TOP_K:
        raise InvalidInput(f"top_k is {options.top_k}; use 1 to {MAX_TOP_K}", field="top_k")
    if not 0.0 <= options.min_score <= 1.0:
        raise InvalidInput(f"min_score is {options.min_score}; use 0 to 1", field="min_score")


def _candidates(space: Space, scores: bm25.Floats, docs: npt.NDArray[np.int64]) -> list[Candidate]:
    ids = [ItemId(id_) for id_ in uuids(space.ids[docs].tobytes())]
    return [Candidate(i, float(s)) for i, s in zip(ids, scores[docs], strict=True)]


def _exact(cond: Where, dim: int, limit: int | None) -> str:
    """The rows of `cond` one by one; their number comes with each row, `limit` at most."""
    cut = "" if limit is None else "LIMIT %(limit)s"
    return (
        "WITH kept AS MATERIALIZED (SELECT i.id, i.embedding FROM memories i"
        f" WHERE {cond.sql} AND i.embedding IS NOT NULL {cut})"
        f" SELECT id, 1 - (embedding <=> %(query)s::halfvec({dim})) AS score,"
        " (SELECT count(*) FROM kept) FROM kept ORDER BY score DESC, id LIMIT %(k)s"
    )


def _by_index(cond: Where, dim: int) -> str:
    # The inner query orders by distance alone: a second sort key loses the HNSW index.
    distance = f"i.embedding::halfvec({dim}) <=> %(query)s::halfvec({dim})"
    return (
        f"SELECT id, 1 - distance AS score FROM (SELECT i.id, {distance} AS distance"
        f" FROM memories i WHERE {cond.sql} ORDER BY {distance} LIMIT %(more)s) near"
        " WHERE distance IS NOT NULL ORDER BY score DESC, id LIMIT %(k)s"
    )
