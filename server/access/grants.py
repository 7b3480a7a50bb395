"""Which keys a caller may manage, and what it may put into one: never more than it has itself."""

from __future__ import annotations

from datetime import datetime
from typing import NoReturn

from plait.domain.access import Caller, Quota, Verb
from plait.domain.errors import Forbidden, GrantTooWide
from plait.domain.keys import ApiKey


def check_may_manage(giver: Caller) -> None:
    """Raises: Forbidden, for a caller without the verb `admin`."""
    if not giver.may(Verb.ADMIN):
        raise Forbidden(
            "keys are managed with the verb `admin`, which this key lacks", verb="admin"
        )


def covers(giver: Caller, other: Caller) -> bool:
    """Whether `other` reaches nothing that `giver` does not: tenant, repositories, verbs."""
    return _beyond(giver, other) == ""


def check_grant(giver: Caller, key: ApiKey, until: datetime | None) -> None:
    """That `giver`, whose own key ends at `until`, may hold a secret of `key`.

    Raises: GrantTooWide, naming what is more than the giver has.
    """
    if beyond := _beyond(giver, key.caller):
        _refuse(beyond, giver)
    if until is not None and (key.expires_at is None or key.expires_at > until):
        _refuse(f"an end after {until:%Y-%m-%d %H:%M %Z}, its own", giver)
    for name in Quota.__dataclass_fields__:
        most, asked = getattr(giver.quota, name), getattr(key.caller.quota, name)
        if most and not 0 < asked <= most:
            _refuse(f"a {name} of {asked or 'no limit'} where its own is {most}", giver)


def _beyond(giver: Caller, other: Caller) -> str:
    """What of `other` is more than `giver` has, in words; empty: nothing."""
    if giver.tenant and other.tenant != giver.tenant:
        return f"tenant {other.tenant!r}" if other.tenant else "all tenants"
    if giver.repositories and not other.repositories:
        return "all repositories"
    if giver.repositories and (more := other.repositories - giver.repositories):
        return f"repository {min(more)!r}"
    if more_verbs := other.verbs - giver.verbs:
        return f"verb {min(more_verbs).value!r}"
    return ""


def _refuse(what: str, giver: Caller) -> NoReturn:
    raise GrantTooWide(
        f"this key has no right to {what}, so it can't give it to another one", caller=giver.id
    )
