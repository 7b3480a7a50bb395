"""A key gives no more than its giver has: the laws of `server.access.grants`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.access import ALL_VERBS, OWNER, Caller, Quota, Verb
from plait.domain.errors import Forbidden, GrantTooWide
from plait.domain.keys import ApiKey
from server.access.grants import check_grant, check_may_manage, covers

NOW = datetime(2026, 11, 22, tzinfo=UTC)
SOON = NOW + timedelta(days=1)
LATER = NOW + timedelta(days=2)

quotas = st.builds(
    Quota, *(st.integers(min_value=0, max_value=3) for _ in Quota.__dataclass_fields__)
)
callers = st.builds(
    Caller,
    id=st.sampled_from(["k1", "k2"]),
    verbs=st.frozensets(st.sampled_from(list(Verb)), min_size=1),
    tenant=st.sampled_from(["", "acme", "zeta"]),
    repositories=st.frozensets(st.sampled_from(["app", "lib", "web"]), max_size=3),
    quota=quotas,
)
times = st.sampled_from([None, NOW, SOON, LATER])


def key(caller: Caller, expires_at: datetime | None = None) -> ApiKey:
    return ApiKey(caller, "made", NOW, expires_at=expires_at)


def allowed(giver: Caller, made: ApiKey, until: datetime | None) -> bool:
    try:
        check_grant(giver, made, until)
    except GrantTooWide:
        return False
    return True


def reaches(caller: Caller) -> set[tuple[str, str, Verb]]:
    """Every (tenant, repository, verb) that calls of `caller` may have, of a small world."""
    return {
        (tenant, repository, verb)
        for tenant in ("acme", "zeta", "default")
        for repository in ("app", "lib", "web", "other")
        for verb in caller.verbs
        if (not caller.tenant or caller.tenant == tenant) and caller.sees(repository)
    }


@given(callers, callers, times, times)
def test_nothing_is_given_that_the_giver_has_not(
    giver: Caller, made: Caller, until: datetime | None, expires_at: datetime | None
) -> None:
    given_key = key(made, expires_at)
    if not allowed(giver, given_key, until):
        return
    assert reaches(made) <= reaches(giver)
    assert until is None or (expires_at is not None and expires_at <= until)
    for name in Quota.__dataclass_fields__:
        most = getattr(giver.quota, name)
        assert not most or 0 < getattr(made.quota, name) <= most


@given(callers, callers)
def test_covering_is_reaching(giver: Caller, other: Caller) -> None:
    assert covers(giver, other) == (reaches(other) <= reaches(giver))


@given(callers, callers, callers, times, times)
def test_a_chain_of_givers_gains_nothing(
    first: Caller, second: Caller, third: Caller, until: datetime | None, end: datetime | None
) -> None:
    if allowed(first, key(second, end), until) and allowed(second, key(third, end), end):
        assert allowed(first, key(third, end), until)


@given(callers, times)
def test_the_owner_may_give_anything(made: Caller, expires_at: datetime | None) -> None:
    assert allowed(OWNER, key(made, expires_at), None)


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (Caller("x", tenant="zeta"), "tenant 'zeta'"),
        (Caller("x"), "all tenants"),
        (Caller("x", tenant="acme"), "all repositories"),
        (Caller("x", tenant="acme", repositories=frozenset({"lib"})), "repository 'lib'"),
        (Caller("x", tenant="acme", repositories=frozenset({"app"})), "verb 'write'"),
    ],
)
def test_a_refusal_names_what_is_too_wide(made: Caller, what: str) -> None:
    verbs = frozenset({Verb.READ, Verb.ADMIN})
    giver = Caller("k1", verbs, "acme", frozenset({"app"}))
    with pytest.raises(GrantTooWide, match=what):
        check_grant(giver, key(made), None)


@pytest.mark.parametrize("verbs", [{Verb.READ}, {Verb.WRITE}, {Verb.READ, Verb.WRITE}])
def test_without_the_verb_admin_no_key_is_managed(verbs: set[Verb]) -> None:
    with pytest.raises(Forbidden, match="admin"):
        check_may_manage(Caller("k1", frozenset(verbs)))
    check_may_manage(Caller("k1", ALL_VERBS))
