"""A `SearchStore` over chunks in memory: exact cosine, and `vector/`'s own BM25 without a database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt

from benchmarks.localisation_corpus import Piece
from plait.domain.values import Candidate, Collection, Filter, Item, ItemId, Revision
from plait.models.embedding import static
from plait.ports import Around, ItemState, Place, Spot, Vectors, View
from plait.text.tokenize import tokens
from vector.index import bm25
from vector.index.vocabulary import Vocabulary, going_with, vocabulary_of
from vector.search import located as places


class MemoryStore:
    """One repository's chunks. Filters are not applied: a benchmark asks for everything. `embedded`, of shape
    `(chunks,)`: which of them have the model's vector, all unless it is set."""

    embedded: npt.NDArray[np.bool_]

    def __init__(
        self,
        repo: str,
        pieces: Sequence[Piece],
        vectors: Vectors,
        model: str,
        collection: str = Collection.FILES,
    ) -> None:
        self._repo = repo
        self._pieces = pieces
        self._vectors = vectors
        self._ids = [ItemId(UUID(int=n)) for n in range(len(pieces))]
        self._revision = Revision(1, repo, 1, chunks=len(pieces), embedded=len(vectors))
        self._model = model
        self._by_symbol: dict[tuple[str, str], ItemId] = {}
        self._vocabulary: Vocabulary | None = None
        self._space, self._postings = _index(pieces, collection)
        self.embedded = np.ones(len(pieces), np.bool_)
        self._by_table: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self._pieces)

    def piece(self, id_: ItemId) -> Piece:
        return self._pieces[id_.int]

    async def view(self, where: Filter) -> View:
        revision = replace(self._revision, embedded=int(self.embedded.sum()))
        return View((revision,), self._model, self._vectors.shape[1])

    async def lexical(
        self,
        view: View,
        terms: Sequence[str],
        where: Filter,
        k: int,
        weights: Mapping[str, float] | None = None,
    ) -> list[Candidate]:
        known = {t: self._postings[t] for t in terms if t in self._postings}
        scores = bm25.score(self._space, known, weights=weights)
        docs, _ = bm25.best(self._space, scores, k)
        return [Candidate(self._ids[n], float(scores[n])) for n in docs[:k].tolist()]

    async def counts(
        self, view: View, terms: Sequence[str], where: Filter
    ) -> tuple[int, dict[str, int]]:
        held = {t: len(self._postings[t].docs) if t in self._postings else 0 for t in terms}
        return self._space.living, held

    async def nearest(
        self, view: View, vector: npt.NDArray[np.float32], where: Filter, k: int
    ) -> list[Candidate]:
        scores = np.where(self.embedded, self._vectors @ vector, -2.0)
        best = np.argsort(-scores, kind="stable")[: min(k, int(self.embedded.sum()))].tolist()
        return [Candidate(self._ids[n], float(scores[n])) for n in best]

    async def cosines(
        self, view: View, vector: npt.NDArray[np.float32], ids: Sequence[ItemId]
    ) -> dict[ItemId, float]:
        return {i: float(self._vectors[i.int] @ vector) for i in ids if self.embedded[i.int]}

    async def missed(
        self, view: View, vector: npt.NDArray[np.float32], ids: Sequence[ItemId]
    ) -> dict[ItemId, float]:
        return {}

    async def alike(
        self, view: View, counts: Mapping[str, int], where: Filter, k: int
    ) -> list[Candidate]:
        query = static.shipped().query(counts)
        if query is None:
            return []
        scores = self._table_vectors() @ query
        best = np.argsort(-scores, kind="stable")[:k].tolist()
        return [Candidate(self._ids[n], float(scores[n])) for n in best if scores[n] > 0.0]

    def _table_vectors(self) -> npt.NDArray[np.float32]:
        if self._by_table is None:
            terms = list(self._postings)
            docs = [self._postings[t].docs.astype("<i4").tobytes() for t in terms]
            tfs = [self._postings[t].tfs.tobytes() for t in terms]
            made = static.shipped().encode(len(self._pieces), terms, docs, tfs)
            self._by_table = made.rows.astype(np.float32) * made.scales[:, None]
        return self._by_table

    async def phrase(self, view: View, phrase: str, where: Filter, k: int) -> list[Candidate]:
        low = phrase.lower()
        found = [n for n, piece in enumerate(self._pieces) if low in piece.content.lower()]
        return [Candidate(self._ids[n], 1.0) for n in found[:k]]

    async def identifiers(self, view: View, name: str, where: Filter, k: int) -> list[Candidate]:
        """By shared trigrams, as pg_trgm's `similarity` counts them, above its threshold of 0.3."""
        wanted = _trigrams(name)
        found = []
        for id_, piece in zip(self._ids, self._pieces, strict=True):
            have = _trigrams(piece.symbol.rpartition(".")[2])
            score = len(wanted & have) / max(1, len(wanted | have))
            if score > 0.3:
                found.append(Candidate(id_, score))
        return sorted(found, key=lambda c: (-c.score, c.id.int))[:k]

    async def places(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Place]:
        found = {}
        for id_ in ids:
            p = self.piece(id_)
            found[id_] = Place(
                self._repo,
                Collection.FILES,
                p.path,
                p.symbol,
                p.kind,
                p.is_test,
                p.start_line,
                p.end_line,
            )
        return found

    async def fetch(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Item]:
        found = {}
        for id_ in ids:
            p = self.piece(id_)
            found[id_] = Item(
                id=id_,
                collection=Collection.FILES,
                repo=self._repo,
                kind=p.kind,
                path=p.path,
                symbol=p.symbol,
                language=p.language,
                start_line=p.start_line,
                end_line=p.end_line,
                content=p.content,
                ts=datetime(2026, 1, 1, tzinfo=UTC),
                is_test=p.is_test,
            )
        return found

    async def located(
        self, view: View, spots: Sequence[Spot], where: Filter, k: int
    ) -> list[list[ItemId]]:
        """As `vector/search/located.py` finds them, by its own rules, without its bounds."""
        return [self._at(places._clean(spot))[:k] for spot in spots]

    def _at(self, spot: Spot) -> list[ItemId]:
        fits: set[str] = set()
        if spot.path:
            ends = [(places.fit(spot.path, path), 1, path) for path in self._paths(spot.path)]
            best, sure = places._best(spot, ends)
            fits = {path for _, path in best}
            if not sure:
                spot = replace(spot, start_line=0, end_line=0)
        leaf, owner, first, last = places._columns(spot)
        chunks = []
        for id_, piece in zip(self._ids, self._pieces, strict=True):
            named = piece.symbol.partition("#")[0].rpartition(".")[2] == leaf != ""
            if spot.path:
                held = first and piece.start_line <= last and piece.end_line >= first
                there = piece.path in fits and (named or held or not (first or leaf))
            else:
                there = named and (not owner or f"{owner}." in piece.symbol)
            if there:
                lines = (piece.start_line, piece.end_line)
                chunks.append(places._Chunk(id_, piece.path, piece.symbol, *lines))
        return [ItemId(chunk.id) for chunk in places._ranked(spot, chunks)]

    def _paths(self, named: str) -> set[str]:
        name = named.rpartition("/")[2]
        return {p.path for p in self._pieces if p.path.rpartition("/")[2] == name}

    async def chunks_of(
        self, view: View, symbols: Sequence[tuple[str, str, str]], where: Filter
    ) -> list[ItemId | None]:
        if not self._by_symbol:
            for id_, piece in zip(self._ids, self._pieces, strict=True):
                self._by_symbol.setdefault((piece.path, piece.symbol.partition("#")[0]), id_)
        return [self._by_symbol.get((path, symbol)) for _, path, symbol in symbols]

    async def around(self, view: View, ids: Sequence[ItemId], where: Filter, reach: int) -> Around:
        return {}  # code only

    async def item_states(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, ItemState]:
        return {}

    async def vocabulary(self, view: View, words: Sequence[str], k: int) -> dict[str, list[str]]:
        if self._vocabulary is None:
            symbols = (p.symbol.partition("#")[0] for p in self._pieces if not p.is_test)
            self._vocabulary = vocabulary_of({symbol.rpartition(".")[2] for symbol in symbols})
        found = {word: going_with(word, [self._vocabulary], k) for word in words}
        return {word: terms for word, terms in found.items() if terms}


def _index(
    pieces: Sequence[Piece], collection: str
) -> tuple[bm25.Space, dict[str, bm25.TermPostings]]:
    """The words of each chunk's content and path, and its name's twice, as the indexer counts them."""
    docs: dict[str, list[int]] = {}
    tfs: dict[str, list[int]] = {}
    lengths = []
    for n, piece in enumerate(pieces):
        name = piece.function.partition("::")[2]
        counts = Counter(tokens(piece.content) + tokens(piece.path) + 2 * tokens(name))
        lengths.append(counts.total())
        for term, count in counts.items():
            docs.setdefault(term, []).append(n)
            tfs.setdefault(term, []).append(min(count, 255))
    ids = b"".join(n.to_bytes(16) for n in range(len(pieces)))
    segment = bm25.LoadedSegment(ids, np.array(lengths, np.int32), None)
    ref = bm25.SegmentRef(1, 1, collection, len(pieces), 0)
    postings = {
        term: bm25.TermPostings(np.array(docs[term], np.int64), np.array(tfs[term], np.uint8))
        for term in docs
    }
    return bm25.space_of([ref], [segment]), postings


def _trigrams(name: str) -> set[str]:
    padded = f"  {name.lower()} "
    return {padded[i : i + 3] for i in range(len(padded) - 2)}
