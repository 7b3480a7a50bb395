"""The repository's own name leads nowhere in it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from plait.domain.values import Collection, Item, ItemId, Revision
from plait.ports import View
from plait.retrieval.packing.reasons import words_of
from plait.retrieval.query import own_names
from plait.retrieval.query.analysis import QueryKind, SearchQuery, analyse
from tests.unit.test_recall_block import block_of, context

WHEN = datetime(2026, 3, 1, tzinfo=UTC)


def code(number: int, symbol: str, content: str = "pass") -> Item:
    path = f"src/{'/'.join(symbol.split('.')[:2])}.py"
    id_ = ItemId(UUID(int=number))
    return Item(id_, Collection.FILES, "r", "function", path, symbol, "python", 1, 2, content, WHEN)


MODELS = [code(n, f"requests.models.f{n}") for n in range(1, 7)]


def test_a_repository_is_called_as_its_owner_calls_it() -> None:
    view = View((Revision(1, "acme@Requests", 1), Revision(2, "acme@shop", 1)), "m", 2, "acme")
    assert own_names.of_repositories(view) == {"requests", "shop"}


@pytest.mark.parametrize(
    ("items", "own"),
    [
        (MODELS, {"requests"}),
        ([*MODELS[:4], code(9, "tools.a.b"), code(10, "tools.a.c")], {"requests"}),
        ([*MODELS[:3], *(code(n, "tools.a.b") for n in (7, 8, 9))], set()),
        (MODELS[:2], set()),
        ([replace(item, is_test=True) for item in MODELS], set()),
        ([code(n, "main") for n in range(9)], set()),
    ],
)
def test_a_package_is_what_most_code_is_in(items: list[Item], own: set[str]) -> None:
    assert own_names.of_packages(items) == own


def test_its_name_is_no_identifier_beside_other_words() -> None:
    own = frozenset(["requests"])
    asked = analyse(SearchQuery("`requests` follows no redirect"))
    assert asked.identifiers == ("requests",)
    told = own_names.without(asked, own)
    assert (told.identifiers, told.kind) == ((), QueryKind.PLAIN)
    both = own_names.without(analyse(SearchQuery("`requests` and max_redirects")), own)
    assert (both.identifiers, both.kind) == (("max_redirects",), QueryKind.IDENTIFIERS)
    alone = analyse(SearchQuery("requests"))
    assert own_names.without(alone, own) == alone, "there is nothing else to look for"


def test_its_name_is_no_reason() -> None:
    items = [*MODELS, code(9, "requests.sessions.redirect"), code(10, "requests.api.requests_for")]
    items.append(code(11, "requests.models.g", "requests are prepared"))
    block = block_of(context(*items, text="how does requests redirect"), *items)
    reasons = {one.item.id.int: one.reasons for one in block.items}
    assert reasons[9] == ("name matches redirect",)
    assert reasons[1] == reasons[10] == reasons[11] == ("close in meaning",)
    assert words_of(analyse(SearchQuery("requests redirect")), ["requests"]).stems == {
        "redire": "redirect"
    }
