"""The names of repositories and their packages. They match everything in a repository, so they are neither used as
identifiers of a query nor given as reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from plait.domain.scope import unqualify
from plait.domain.values import Collection, Item
from plait.ports import View
from plait.retrieval.query.analysis import Analysis, QueryKind
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.graph
FEW = 5  # a share of fewer items is no evidence


def of_repositories(view: View) -> frozenset[str]:
    """The names of the repositories in `view`, in lower case."""
    return frozenset(unqualify(view.tenant, r.repo).casefold() for r in view.revisions)


def of_packages(items: Iterable[Item]) -> frozenset[str]:
    """The package of most code in `items`, in lower case; its name may differ from the repository's."""
    code = [i for i in items if i.collection is Collection.FILES and not i.is_test]
    roots = Counter(
        root.casefold() for i in code for root, dot, _ in [i.symbol.partition(".")] if dot
    )
    return frozenset(
        root for root, n in roots.items() if n > WEIGHTS.own_package * max(len(code), FEW)
    )


def without(analysis: Analysis, own: frozenset[str]) -> Analysis:
    """`analysis` without identifiers equal to one of `own`, unless the query is that single word."""
    names = tuple(name for name in analysis.identifiers if name.casefold() not in own)
    if analysis.words < 2 or len(names) == len(analysis.identifiers):
        return analysis
    kind = QueryKind.IDENTIFIERS if names else QueryKind.PLAIN
    return replace(analysis, identifiers=names, kind=kind)
