"""API keys: what their holders may do, and what they may be given."""

from __future__ import annotations

from plait.domain.errors.families import Conflict, Exhausted, Forbidden, NotFound, Precondition


class VerbNotAllowed(Forbidden):
    """The caller's key does not have the verb of the method."""

    reason = "VERB_NOT_ALLOWED"


class TenantNotAllowed(Forbidden):
    """The call names another tenant than its key's."""

    reason = "TENANT_NOT_ALLOWED"


class RepositoryNotAllowed(Forbidden):
    """The call names a repository that its key does not have; whether it exists is not revealed."""

    reason = "REPOSITORY_NOT_ALLOWED"


class CypherNotAllowed(Forbidden):
    """Raw Cypher reads the whole graph, and the caller's key does not."""

    reason = "CYPHER_NOT_ALLOWED"


class PathNotAllowed(Forbidden):
    """The folder to index lies outside the roots of this caller."""

    reason = "PATH_NOT_ALLOWED"


class QuotaExceeded(Exhausted):
    """A limit of the caller's key. `retry_s`: when it may do again; 0: never as it is."""

    reason = "QUOTA_EXCEEDED"

    def __init__(self, message: str, *, retry_s: float = 0.0, **metadata: object) -> None:
        super().__init__(message, **metadata)
        self.retry_s = retry_s


class KeyUnknown(NotFound):
    """No such API key, or none that this caller may manage."""

    reason = "KEY_UNKNOWN"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"there is no key {key[:80]!r} that you may manage; `plait keys list --all` has them",
            key=key[:80],
        )


class KeyNameTaken(Conflict):
    """A living key of the tenant has that name."""

    reason = "KEY_NAME_TAKEN"

    def __init__(self, name: str, tenant: str) -> None:
        whose = f"tenant {tenant!r} has" if tenant else "there is"
        super().__init__(
            f"{whose} a living key named {name!r}; choose another name, `plait keys rotate {name}` for a "
            f"new secret, or `plait keys revoke {name}` first",
            name=name,
            tenant=tenant,
        )


class KeyEnded(Precondition):
    """The key was revoked or has expired, and can't get another secret."""

    reason = "KEY_ENDED"

    def __init__(self, key: str, name: str) -> None:
        super().__init__(
            f"the key {name!r} ({key}) was revoked or has expired; make another with `plait keys add`",
            key=key,
            name=name,
        )


class TooManyKeys(Exhausted):
    reason = "TOO_MANY_KEYS"


class GrantTooWide(Forbidden):
    """A key may not be given more than its giver has."""

    reason = "GRANT_TOO_WIDE"
