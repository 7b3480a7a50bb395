"""Signals of a candidate's location and name, beside its text.

`score = (fused + Σ bonuses) · Π factors`. Bonuses and factors are few and
bounded; each improved the figures of benchmarks/localisation.py, see docs/experiments/localisation.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from plait.domain.values import Collection
from plait.ports import Place
from plait.retrieval.query.analysis import Analysis
from plait.retrieval.ranking.weights import DEFAULT
from plait.text.tokenize import query_terms, tokens

WEIGHTS = DEFAULT.signals


_TEST_PATH = re.compile(
    r"(^|/)(tests?|testing|specs?|__tests__|t|testsuite|testdata)/"
    r"|(^|/)(test_[^/]*|[^/]*_tests?\.\w+|conftest\.py)$"
)
_DOC_PATH = re.compile(r"(^|/)docs?(_src)?/|\.(md|rst|txt|adoc)$")
_EXAMPLE_PATH = re.compile(
    r"(^|/)(examples?|samples?|demos?|bench|benches|benchsuite|benchmarks?)/"
)
_STUB_PATH = re.compile(r"\.(pyi|d\.[cm]?ts)$")
_MINIFIED_PATH = re.compile(r"[.-]min\.[cm]?(js|css)$|\.bundle\.[cm]?js$")
_CONFIG_KINDS = frozenset({"config", "data"})  # of chunks of files that aren't parsed
_PROSE = frozenset(
    query_terms("doc docs documentation readme changelog tutorial guide example sample demo")
)
# Terms by which a short query asks for a kind.
_ASKS: Mapping[str, frozenset[str]] = {
    "test": frozenset(query_terms("test tests testing fixture fixtures spec specs")),
    "prose": _PROSE,
    "example": _PROSE,
    "config": frozenset(
        query_terms(
            "config configuration toml yaml yml ini cfg json xml csv sql lock workflow ci pipeline"
            " pyproject dependency dependencies requirement requirements version"
            " docker dockerfile makefile cmake terraform translation"
        )
    ),
    "stub": frozenset(query_terms("stub stubs pyi declaration typing")),
}
_METHODS = frozenset({"method", "constructor"})
_CLASSES = frozenset({"class", "interface", "trait"})  # whose methods have chunks of their own


@dataclass(frozen=True, slots=True)
class Signals:
    """The bonuses and factors of one candidate by name, without neutral ones."""

    bonuses: Mapping[str, float]
    factors: Mapping[str, float]

    def apply(self, fused: float) -> float:
        value = fused + sum(self.bonuses.values())
        for factor in self.factors.values():
            value *= factor
        return value

    def explained(self) -> dict[str, float]:
        """For `explain`."""
        bonuses = {f"bonus.{name}": value for name, value in self.bonuses.items()}
        return bonuses | {f"factor.{name}": value for name, value in self.factors.items()}


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query, prepared once for all its candidates."""

    words: frozenset[str]
    leaves: frozenset[str]  # last parts of identifiers, lower case
    qualified: tuple[str, ...]  # ".class.method", lower case
    joined: frozenset[str]  # its words as one name, without `_`
    requested_kinds: frozenset[str]  # the kinds of `WEIGHTS.factors` that it asks for
    long: bool = False


def prepared(analysis: Analysis) -> PreparedQuery:
    # Terms of a report's quoted text (weight below 1) do not name its subject.
    terms = frozenset(term for term in analysis.terms if analysis.weights.get(term, 1.0) >= 1.0)
    names = [name.lower() for name in analysis.identifiers]
    return PreparedQuery(
        words=terms,
        leaves=frozenset(name.rpartition(".")[2] for name in names),
        qualified=tuple("." + name for name in names if "." in name),
        joined=frozenset(map(_bare, analysis.joined)),
        requested_kinds=frozenset(
            kind
            for kind, words in _ASKS.items()
            if analysis.words <= WEIGHTS.short_words and terms & words
        ),
        long=analysis.words >= WEIGHTS.long_words,
    )


def signals(place: Place, query: PreparedQuery) -> Signals:
    """The signals of `place`; none for agents' items, which have no location in code."""
    if place.collection is not Collection.FILES:
        return Signals({}, {})
    return Signals(_bonuses(place, query), _factors(place, query))


def _bonuses(place: Place, query: PreparedQuery) -> dict[str, float]:
    bonuses = {}
    if place.symbol and (query.leaves or query.joined):
        symbol = place.symbol.partition("#")[0].lower()
        leaf = symbol.rpartition(".")[2]
        if leaf in query.leaves or _bare(leaf) in query.joined:
            bonus = WEIGHTS.definition_in_long if query.long else WEIGHTS.definition
            qualified = any(symbol.endswith(name) for name in query.qualified)
            bonuses["definition"] = bonus * (1 + qualified)
    name = 0.0
    share = WEIGHTS.name
    for part in names(place.path, place.symbol, place.kind):
        if not query.words.isdisjoint(part):
            name += share * len(part & query.words) / len(part)
        share = WEIGHTS.name / 2
    if name:
        bonuses["name"] = name
    return bonuses


def _factors(place: Place, query: PreparedQuery) -> dict[str, float]:
    kind = _kind(place)
    factors = {kind: WEIGHTS.factors[kind]} if kind and kind not in query.requested_kinds else {}
    if query.long and place.kind in _CLASSES:
        factors["class"] = WEIGHTS.class_in_long
    return factors


def _kind(place: Place) -> str:
    """One of `WEIGHTS.factors`, or "" for ordinary code."""
    kind = path_kind(place.path)
    if place.is_test:
        return "test"
    if place.kind == "doc" and kind != "test":
        return "prose"
    return kind or ("config" if place.kind in _CONFIG_KINDS else "")


def names(path: str, symbol: str, kind: str) -> Sequence[frozenset[str]]:
    """The terms of a symbol's own name, of its class's, and of its file's."""
    parts = symbol.partition("#")[0].split(".")
    owner = parts[-2] if kind in _METHODS and len(parts) > 1 else ""
    file = path.rpartition("/")[2].partition(".")[0]
    return _terms(parts[-1]), _terms(owner), _terms(file)


def _bare(name: str) -> str:
    """`parse_header`, `parseHeader`, `parse-header` and `parse_header?` are one name in lower case."""
    return name.replace("_", "").replace("-", "").rstrip("?!'=")


# Cached by name, not by symbol: files and classes recur with each of their methods.
@lru_cache(maxsize=65_536)
def _terms(name: str) -> frozenset[str]:
    return frozenset(tokens(name))


@lru_cache(maxsize=16_384)
def path_kind(path: str) -> str:
    """test, prose, example, minified, stub, or "" for anything else."""
    low = path.lower()
    if _TEST_PATH.search(low):
        return "test"
    if _DOC_PATH.search(low):
        return "prose"
    if _EXAMPLE_PATH.search(low):
        return "example"
    if _MINIFIED_PATH.search(low):
        return "minified"
    return "stub" if _STUB_PATH.search(low) else ""
