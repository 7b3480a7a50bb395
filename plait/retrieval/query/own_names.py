"""What a repository and its package are called. In a repository everything is of that name, so it leads nowhere:
it is no name that a query asks for, and no reason why an item is in an answer."""

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
FEW = 5  # of fewer, what they share says nothing of the rest


def of_repositories(view: View) -> frozenset[str]:
    """The names of the repositories that are asked, in lower case."""
    return frozenset(unqualify(view.tenant, r.repo).casefold() for r in view.revisions)


def of_packages(items: Iterable[Item]) -> frozenset[str]:
    """The package that most code of `items` is in, in lower case: a repository may be called otherwise."""
    code = [i for i in items if i.collection is Collection.FILES and not i.is_test]
    roots = Counter(
        root.casefold() for i in code for root, dot, _ in [i.symbol.partition(".")] if dot
    )
    return frozenset(
        root for root, n in roots.items() if n > WEIGHTS.own_package * max(len(code), FEW)
    )


def without(asked: Analysis, own: frozenset[str]) -> Analysis:
    """`asked` without identifiers that are one of `own` alone; a query of that one word keeps it."""
    names = tuple(name for name in asked.identifiers if name.casefold() not in own)
    if asked.words < 2 or len(names) == len(asked.identifiers):
        return asked
    kind = QueryKind.IDENTIFIERS if names else QueryKind.PLAIN
    return replace(asked, identifiers=names, kind=kind)
