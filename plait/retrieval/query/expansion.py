"""Query expansion: BM25 terms from the repository's names that are related to the query's words."""

from __future__ import annotations

from plait.ports import SearchStore, View
from plait.retrieval.query.analysis import Analysis
from plait.retrieval.ranking.weights import DEFAULT
from plait.text.tokenize import stem, words

WEIGHTS = DEFAULT.expansion
PER_WORD = 3
MAX_WORDS = 48  # of a query; an issue's first lines
MAX_JOINED = 3


async def expanded(analysis: Analysis, view: View, store: SearchStore) -> dict[str, float]:
    """Weights by further term, without the query's own terms."""
    joined = joins(analysis.text)
    terms_to_find = dict.fromkeys((*analysis.terms[:MAX_WORDS], *joined))
    found = await store.vocabulary(view, list(terms_to_find), PER_WORD)
    terms = {
        t: WEIGHTS.related for word in analysis.terms for t in found.get(word, ()) if t != word
    }
    terms |= {name: WEIGHTS.joined for name in joined if name in found.get(name, ())}
    return {term: weight for term, weight in terms.items() if term not in analysis.terms}


def joins(text: str) -> tuple[str, ...]:
    """Two or three adjacent words joined to one name, as BM25 terms."""
    row = [w.decode() if isinstance(w, bytes) else w for w in words(text)][:MAX_WORDS]
    lower = [word.lower() for word in row]
    return tuple(
        dict.fromkeys(
            stem(joint.join(lower[i : i + n]))
            for n in range(2, MAX_JOINED + 1)
            for i in range(len(lower) - n + 1)
            for joint in ("_", "")
        )
    )
