"""Names of repositories on their way through the door: whose they are, and what the caller sees."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.errors import InvalidInput, RepositoryNotIndexed, ScopeMissing
from plait.domain.scope import check_own
from plait.domain.values import Filter
from plait.settings import ScopeSettings
from server.grpc.messages import scope

TENANTS = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,10}", fullmatch=True)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,20}", fullmatch=True)


def call(*metadata: tuple[str, str]) -> SimpleNamespace:
    return SimpleNamespace(invocation_metadata=lambda: metadata)


def test_the_tenant_is_the_calls_else_the_settings() -> None:
    settings = ScopeSettings(tenant="house")
    assert scope.tenant_of(call(("plait-tenant", "acme")), settings) == "acme"
    assert scope.tenant_of(call(("other", "x")), settings) == "house"
    assert scope.tenant_of(call(), ScopeSettings()) == "default"


@pytest.mark.parametrize(
    "metadata",
    [
        (("plait-tenant", ""),),
        (("plait-tenant", "A"),),
        (("plait-tenant", "a@b"),),
        (("plait-tenant", "a" * 65),),
        (("plait-tenant", "a"), ("plait-tenant", "b")),
    ],
)
def test_a_tenant_that_is_none_is_refused(metadata: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(InvalidInput, match="plait-tenant"):
        scope.tenant_of(call(*metadata), ScopeSettings())


@given(TENANTS, TENANTS, NAMES, NAMES)
def test_two_tenants_never_share_a_qualified_name(a: str, b: str, one: str, two: str) -> None:
    left, right = scope.name_in(a, one), scope.name_in(b, two)
    assert (left == right) == ((a, one) == (b, two))
    assert scope.name_out(a, left) == one
    check_own(a, left)
    if a != b:
        with pytest.raises(InvalidInput):
            check_own(b, left)


def test_a_name_may_not_reach_into_another_tenant() -> None:
    with pytest.raises(InvalidInput, match=r"repositories\[1\]"):
        scope.names_in("acme", ["web", "other@web"])
    with pytest.raises(InvalidInput, match="tenant 'acme'"):
        check_own("default", "acme@web")


def test_a_filter_names_its_repositories_or_says_all() -> None:
    with pytest.raises(ScopeMissing, match="all_repositories"):
        scope.filter_in("acme", Filter())
    with pytest.raises(InvalidInput, match="leave one"):
        scope.filter_in("acme", Filter(repos=("a",), all_repos=True))
    assert scope.filter_in("acme", Filter(repos=("a", "a"))).repos == ("acme@a",)
    assert scope.filter_in("acme", Filter(all_repos=True)).tenant == "acme"


def test_errors_leave_under_the_callers_names() -> None:
    told = scope.error_out("acme", RepositoryNotIndexed("acme@web"))
    assert isinstance(told, RepositoryNotIndexed)
    assert "acme@" not in str(told) + told.message
    assert told.metadata["repository"] == "web"
