"""Which repositories callers on this machine use: the service follows their folders (`background_jobs/follow.py`)."""

from __future__ import annotations

from collections.abc import Collection

from plait.domain.access import Verb
from server.access import current
from server.app import App


def note(app: App, tenant: str, repositories: Collection[str]) -> None:
    """A call about `repositories`, by the tenant's names for them, was answered. One about all is about none."""
    if _may():
        app.follower.used(tenant, repositories)


def edited(app: App, tenant: str, repository: str, paths: Collection[str]) -> None:
    """Files of `repository`, by their paths in it, were just saved."""
    if _may():
        app.follower.edited(tenant, repository, paths)


def _may() -> bool:
    """Whether the caller may index, and is the owner of this home: what comes over TCP may be from elsewhere."""
    caller = current.caller()
    return caller.local and caller.may(Verb.ADMIN)
