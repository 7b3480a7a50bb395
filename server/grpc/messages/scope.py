"""Whose call it is, and names of repositories as the caller knows them ↔ as the stores know them.

The tenant comes in the call's metadata, else from the settings. Every name that enters is qualified
here, every name that leaves is put back; see `plait.domain.scope`. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from plait.domain.errors import (
    InvalidInput,
    PlaitError,
    RepositoryNotAllowed,
    ScopeMissing,
    TenantNotAllowed,
)
from plait.domain.scope import DEFAULT_TENANT, check_tenant, qualify, unqualify
from plait.domain.values import Filter
from plait.settings import ScopeSettings
from server.access import current

TENANT_KEY = "plait-tenant"  # of the metadata; its values are ASCII


def tenant_of(context: Any, settings: ScopeSettings) -> str:
    """The tenant of a call: its caller's, where that has one, else the one that it names.

    Raises: InvalidInput, for a name that is none, and for two of them; TenantNotAllowed.
    """
    said = {value for key, value in context.invocation_metadata() or () if key == TENANT_KEY}
    if len(said) > 1:
        raise InvalidInput(
            f"metadata `{TENANT_KEY}` is there {len(said)} times with different values; send it once",
            field=TENANT_KEY,
        )
    named = check_tenant(str(next(iter(said))), TENANT_KEY) if said else ""
    own = current.caller().tenant
    if own and named not in ("", own):
        raise TenantNotAllowed(
            f"this key is of tenant {own!r}, and the call names {named!r}; leave `{TENANT_KEY}` out, or use "
            "a key of that tenant",
            tenant=named,
        )
    return own or named or check_tenant(settings.tenant, "scope.tenant")


def name_in(tenant: str, name: str, at: str = "repository") -> str:
    """A repository's name from a request, as the stores know it.

    Raises: InvalidInput; RepositoryNotAllowed, before anything says whether it exists.
    """
    try:
        qualified = qualify(tenant, name)
    except InvalidInput as exc:
        raise InvalidInput(f"{at}: {exc.message}", field=at) from exc
    if name and not current.caller().sees(name):
        raise RepositoryNotAllowed(
            f"{at}: this key does not have the repository {name[:200]!r}; `plait keys list` shows which it has",
            repository=name[:200],
        )
    return qualified


def names_in(tenant: str, names: Iterable[str], at: str = "repositories") -> tuple[str, ...]:
    """As `name_in`, for several; repeats go. Raises: InvalidInput."""
    return tuple(dict.fromkeys(name_in(tenant, name, f"{at}[{i}]") for i, name in enumerate(names)))


def id_in(tenant: str, text: str, at: str) -> str:
    """The id of a node as a caller knows it (`repo:name`), as the stores know it.

    Raises: InvalidInput, RepositoryNotAllowed.
    """
    repo, _, rest = text.partition(":")
    if not rest.startswith(":"):  # C++ and Rust have names like a::b
        name_in(tenant, repo, at)
    try:
        return qualify(tenant, text)
    except InvalidInput as exc:
        raise InvalidInput(f"{at}: {exc.message}", field=at) from exc


def name_out(tenant: str, name: str) -> str:
    """A qualified name, or a node's id that starts with one, as `tenant` knows it."""
    return unqualify(tenant, name)


def filter_in(tenant: str, where: Filter, at: str = "filter.repositories") -> Filter:
    """A search's filter inside the stores. Raises: InvalidInput, ScopeMissing."""
    check_named(where.repos, where.all_repos, at)
    return replace(where, tenant=tenant, repos=names_in(tenant, where.repos, at))


def check_named(names: Sequence[str], everywhere: bool, at: str = "repositories") -> None:
    """A call names its repositories or says "all" out loud, never both and never neither.

    Raises: ScopeMissing, InvalidInput.
    """
    if names and everywhere:
        raise InvalidInput(
            f"{at} names repositories and all_repositories is set; leave one of them out", field=at
        )
    if not names and not everywhere:
        raise ScopeMissing(
            f"{at} is empty: name the repositories this is about, or set all_repositories for every "
            "one of the tenant (`ListRepositories` has them)",
            field=at,
        )


def error_out(tenant: str, exc: PlaitError) -> PlaitError:
    """`exc` with the caller's names in its text and metadata; its class and reason stay."""
    if tenant == DEFAULT_TENANT:
        return exc
    prefix = f"{tenant}@"
    exc.message = exc.message.replace(prefix, "")
    exc.args = (exc.message, *exc.args[1:])
    exc.metadata = {key: value.replace(prefix, "") for key, value in exc.metadata.items()}
    return exc
