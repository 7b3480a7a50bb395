"""The static table: the same bytes everywhere, and what a query and a document have in common."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pytest

from plait.domain.values import Candidate, ItemId
from plait.models.embedding import static
from plait.models.embedding.static import StaticTable
from plait.retrieval.ranking.tiers import united
from plait.text.tokenize import query_terms, tokens
from tests.unit.test_search_pipeline import n
from vector.index import segments
from vector.search.alike import Held, cosines, signs_of

TEXTS = (
    "def read_file(path):\n    with open(path) as handle:\n        return handle.read()",
    "class Socket:\n    def connect(self, address): self.peer = address",
    "",
    "zzqx",
    "for row in rows: total += row.price * row.amount",
)


def encoded(table: StaticTable, texts: tuple[str, ...]) -> static.Encoded:
    ids = [n(i) for i in range(len(texts))]
    segment = segments.build(ids, [tokens(text) for text in texts])
    return table.encode(len(texts), segment.terms, segment.docs, segment.tfs)


def toy() -> StaticTable:
    chance = np.random.default_rng(3)
    terms = np.array([b"address", b"file", b"handl", b"path", b"read", b"socket"], "S32")
    rows = chance.integers(-127, 128, (6, 64)).astype(np.int8)
    return StaticTable(terms, rows, chance.integers(1, 32, 6).astype(np.uint8))


def test_a_document_is_as_near_to_itself_as_a_query_as_rounding_allows() -> None:
    made = encoded(toy(), TEXTS)
    for number, text in enumerate(TEXTS):
        query = toy().query(Counter(tokens(text)))
        cosine = 0.0 if query is None else float(made.rows[number] @ query * made.scales[number])
        assert cosine == pytest.approx(0.0 if query is None else 1.0, abs=1e-3)


def test_a_text_without_known_terms_has_no_vector() -> None:
    made = encoded(toy(), ("zzqx yyqx",))
    assert made.scales.tolist() == [0.0]
    assert not made.rows.any()
    assert toy().query({"zzqx": 1}) is None


def test_a_term_longer_than_the_table_is_wide_is_unknown_and_never_cut() -> None:
    terms = np.array([b"a" * 8], "S8")
    table = StaticTable(terms, np.ones((1, 64), np.int8), np.ones(1, np.uint8))
    assert table.find(["a" * 8, "a" * 9, "", "a" * 7, "é" * 8]).tolist() == [0, -1, -1, -1, -1]


def test_vectors_do_not_depend_on_how_documents_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = encoded(toy(), TEXTS * 7)
    monkeypatch.setattr(static, "BLOCK", 2)
    monkeypatch.setattr(static, "SLICE", 3)
    parted = encoded(toy(), TEXTS * 7)
    assert whole.rows.tobytes() == parted.rows.tobytes()
    assert whole.scales.tobytes() == parted.scales.tobytes()


def test_the_shipped_table_gives_the_bytes_that_it_gave_where_it_was_made() -> None:
    made = encoded(static.shipped(), TEXTS)
    digest = hashlib.sha256(made.rows.tobytes() + made.scales.tobytes()).hexdigest()
    assert digest == "53a6e40ccaffb1f75d9de1164be3f5e4635d27b3f650284107c991ceafc05d40"


def test_the_shipped_table_is_small_enough_for_the_wheel() -> None:
    assert sum(f.stat().st_size for f in static.FOLDER.iterdir()) < 12_000_000
    assert static.shipped().dim % 64 == 0


def test_a_question_finds_the_code_that_shares_no_word_with_it() -> None:
    made = encoded(static.shipped(), TEXTS)
    query = static.shipped().query(Counter(query_terms("load the content of a document from disk")))
    assert query is not None
    assert int(np.argmax(made.rows.astype(np.float32) @ query * made.scales)) == 0


def test_the_likeliest_by_sign_are_scored_like_all() -> None:
    chance = np.random.default_rng(5)
    rows = chance.integers(-127, 128, (500, 64)).astype(np.int8)
    scales = (1 / np.linalg.norm(rows.astype(np.float32), axis=1)).astype(np.float32)
    held = Held(static.Encoded(rows, scales), signs_of(rows))
    query = (rows[7] * scales[7]).astype(np.float32)
    alive = np.ones(500, np.bool_)
    alive[9] = False
    every, few = cosines(held, query, alive, 0), cosines(held, query, alive, 50)
    assert int(np.argmax(few)) == 7
    assert every[9] == few[9] == 0.0
    assert np.count_nonzero(few) <= 50
    scored = np.flatnonzero(few)
    assert few[scored] == pytest.approx(every[scored], abs=1e-6)


def test_what_the_model_has_seen_counts_by_the_model_alone() -> None:
    by_model = [Candidate(n(1), 0.9), Candidate(n(2), 0.5)]
    by_table = [Candidate(n(3), 0.8), Candidate(n(2), 0.7), Candidate(n(4), 0.6)]
    found = united(by_model, by_table, {n(4): 0.1}, 10)
    assert [(c.id, c.score) for c in found] == [(n(1), 0.9), (n(3), 0.8), (n(2), 0.5), (n(4), 0.1)]


def test_the_table_is_brought_to_the_scale_of_the_model() -> None:
    """Where both have scored enough: mean and deviation become the same."""
    by_table = [Candidate(n(i), 0.9 - 0.01 * i) for i in range(40)]
    model: dict[ItemId, float] = {c.id: 0.5 * c.score - 0.1 for c in by_table[::2]}
    by_model = [Candidate(id_, score) for id_, score in model.items()]
    found = {c.id: c.score for c in united(by_model, by_table, {}, 40)}
    assert found[n(1)] == pytest.approx(0.5 * 0.89 - 0.1)
    assert len(united(by_model, by_table, {}, 5)) == 5
