"""What an item's place and name say about it, beside its text: bounded factors on the fused score."""

from __future__ import annotations

import re
from collections.abc import Mapping

from plait.domain.values import Item
from plait.retrieval.query import Analysis

DEFINES = 1.5
TEST = 0.6
PROSE = 0.6
EXAMPLE = 0.7

_TEST_PATH = re.compile(
    r"(^|/)(tests?|testing|spec|__tests__)/|(^|/)(test_[^/]*|[^/]*_test\.[a-z]+|conftest\.py)$"
)
_DOC_PATH = re.compile(r"(^|/)docs?/|\.(md|rst|txt|adoc)$")
_EXAMPLE_PATH = re.compile(r"(^|/)(examples?|samples?|demos?|benchmarks?)/")
_ASKS_TESTS = {"test", "tests", "testing", "fixture", "fixtures"}
_ASKS_DOCS = {
    "doc",
    "docs",
    "documentation",
    "readme",
    "changelog",
    "tutorial",
    "guide",
    "example",
    "examples",
}


def factors(item: Item, asked: Analysis) -> Mapping[str, float]:
    """The factors that apply to `item`, by name; a factor of 1 is left out."""
    found = {}
    if asked.identifiers and _defines(item.symbol, asked.identifiers):
        found["definition"] = DEFINES
    terms = set(asked.terms)
    if (item.is_test or _TEST_PATH.search(item.path)) and not terms & _ASKS_TESTS:
        found["test"] = TEST
    elif _DOC_PATH.search(item.path) and not terms & _ASKS_DOCS:
        found["prose"] = PROSE
    elif _EXAMPLE_PATH.search(item.path) and not terms & _ASKS_DOCS:
        found["example"] = EXAMPLE
    return found


def _defines(symbol: str, names: tuple[str, ...]) -> bool:
    """Whether `symbol` is one of `names`, or ends in it (`Session.get` names `pkg.api.Session.get`)."""
    symbol = symbol.partition("#")[0]
    return any(symbol == name or symbol.endswith("." + name) for name in names)
