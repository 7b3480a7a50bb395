"""One hook: what it asks the running service, and what of the answer is new to the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from server.hooks.agents import Agent, Event
from server.hooks.payload import Payload
from server.hooks.shown import Shown, sweep

if TYPE_CHECKING:
    from plait.client.hooks import HookClient, Remarks
    from plait.settings import Settings

START_TOKENS, TOKENS = 60, 200
CALL_SHARE = 0.7  # of `hooks.limit_s`; the rest is for starting and for saying it


def answer(event: Event, agent: Agent, payload: Payload, settings: Settings) -> str:
    """What the client reads from the hook's standard output; "" for no output. May raise
    anything: the command says nothing then."""
    if not getattr(settings.hooks, event.name.lower()):
        return ""
    if event is Event.SESSION_END:
        from server.hooks.session_end import begin_ingest

        begin_ingest(agent, payload, settings)
        return ""
    # An agent that takes no text for this event is not asked for.
    if not payload.session or not agent.answer(event, payload.native, "x"):
        return ""
    text = _ASK[event](agent, payload, settings)
    return agent.answer(event, payload.native, text)


def _session_start(agent: Agent, payload: Payload, settings: Settings) -> str:
    sweep(settings.home)
    if not payload.folder or (client := _client(settings)) is None:
        return ""
    with client:
        found = client.describe_folder(
            payload.folder,
            refresh=settings.hooks.refresh,
            budget_tokens=START_TOKENS,
            tokenizer=agent.tokenizer,
        )
    key = _key(f"session-start {found.repository}")
    if not found.text or not Shown(settings.home, payload.session).add([key]):
        return ""
    return found.text


def _after_edit(agent: Agent, payload: Payload, settings: Settings) -> str:
    from server.hooks.edits import edits

    changed = edits(payload)
    if not changed or (client := _client(settings)) is None:
        return ""
    shown = Shown(settings.home, payload.session)
    with client:
        found = client.advise_edit(
            changed, shown.keys(), budget_tokens=TOKENS, tokenizer=agent.tokenizer
        )
    return _new(shown, found)


def _before_search(agent: Agent, payload: Payload, settings: Settings) -> str:
    from server.hooks.searches import search

    wanted = search(payload)
    if wanted is None or (client := _client(settings)) is None:
        return ""
    shown = Shown(settings.home, payload.session)
    with client:
        found = client.name_symbols(
            str(wanted.folder),
            wanted.names,
            shown.keys(),
            budget_tokens=TOKENS,
            tokenizer=agent.tokenizer,
        )
    return _new(shown, found)


_ASK: Mapping[Event, Callable[[Agent, Payload, Settings], str]] = {
    Event.SESSION_START: _session_start,
    Event.AFTER_EDIT: _after_edit,
    Event.BEFORE_SEARCH: _before_search,
}


def _new(shown: Shown, found: Remarks) -> str:
    """The text of what another hook of this session has not said meanwhile."""
    from plait.domain.remarks import composed

    new = set(shown.add([*(one.key for one in found.remarks), *found.edited]))
    return composed(one for one in found.remarks if one.key in new)


def _client(settings: Settings) -> HookClient | None:
    """Of the service of this home, if one runs: a hook starts none."""
    from plait.client import discovery

    address = discovery.running(settings.home)
    if address is None:
        return None
    from plait.client.hooks import HookClient  # gRPC: most of what a hook costs
    from plait.domain.scope import DEFAULT_TENANT

    tenant = settings.scope.tenant
    return HookClient(
        address.target,
        tenant="" if tenant == DEFAULT_TENANT else tenant,
        timeout_s=CALL_SHARE * settings.hooks.limit_s,
    )


def _key(text: str) -> str:
    import hashlib

    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
