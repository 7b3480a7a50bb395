"""The caller of the call that is being answered."""

from __future__ import annotations

from contextvars import ContextVar

from plait.domain.access import Caller

# Before anybody is recognised: may do nothing, and sees no repository.
NO_ID = Caller("nobody", verbs=frozenset(), repositories=frozenset({"\0"}))
_CALLER: ContextVar[Caller] = ContextVar("caller", default=NO_ID)


def caller() -> Caller:
    """Who calls. What a call starts in the background sees its caller too."""
    return _CALLER.get()


def answer(caller: Caller) -> None:
    """From now on this call, a task of its own, is `caller`'s."""
    _CALLER.set(caller)
