"""Our hooks in a client's JSON file: each event has a list, and we add one element to it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from pathlib import PurePath
from typing import Any

from server.install import jsonc, splice
from server.install.agents import Agent, Hook, Hooks

KEY = "hooks"
# A warm answer takes 0.3 s; Codex allows the end of a session 3 s and complains about more.
TIMEOUT_S = 3


def put(text: str | None, agent: Agent, command: str, wanted: Collection[Hook]) -> str | None:
    """The file with the hooks `wanted` and no other of ours. Raises: Refused."""
    hooks = agent.hooks
    if hooks is None:
        return text
    missing = {
        hook: _element(agent, hooks, hook, command) for hook in hooks.events if hook in wanted
    }
    for path, element in reversed(list(_ours(text, hooks))):
        hook = next((h for h in missing if _same(element, missing[h], hooks, h, path)), None)
        if hook is None:
            text = splice.remove_seeded(text or "", path, hooks.seed)
        else:
            del missing[hook]
    for hook, element in missing.items():
        event = hooks.events[hook].name
        if text is None or jsonc.is_blank(text):
            text = splice.fresh(text, {KEY: {event: [element]}, **hooks.seed})
        else:
            text = splice.add(text, [KEY, event], element, to_array=True)
    return text


def take(text: str | None, agent: Agent) -> str | None:
    """The file without any hook of ours; None when it was made for them. Raises: Refused."""
    return put(text, agent, "plait", ())


def is_ours(command: Any) -> bool:
    """Whether a hook's command line runs `plait hook`, from wherever."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    return len(words) > 1 and PurePath(words[0]).name == "plait" and words[1] == "hook"


def _element(agent: Agent, hooks: Hooks, hook: Hook, command: str) -> dict[str, Any]:
    line = f"{shlex.quote(command)} hook {hook} --agent {agent.name}"
    matcher = hooks.events[hook].matcher
    narrowed = {"matcher": matcher} if matcher else {}
    run = {"command": line, "timeout": TIMEOUT_S * hooks.per_second}
    if hooks.flat:
        return {**run, **narrowed}
    return {**narrowed, "hooks": [{"type": "command", **run}]}


def _same(there: Any, wanted: Any, hooks: Hooks, hook: Hook, path: splice.Path) -> bool:
    return path[1] == hooks.events[hook].name and there == wanted


def _ours(text: str | None, hooks: Hooks) -> Iterator[tuple[list[str | int], Any]]:
    """Path and value of what is ours, in the order of the file: an element whose commands are all ours,
    else the commands of ours in it."""
    if text is None or jsonc.is_blank(text):
        return
    document = jsonc.parse(text)
    root = jsonc.inner(document, document.root, KEY)
    if root is None or not isinstance(root.value, dict):
        return
    for event in jsonc.container(document, root.value_start).entries:
        if not isinstance(event.value, list):
            continue
        for index, element in enumerate(_numbers(event.value)):
            yield from _inside([KEY, event.key, index], element, flat=hooks.flat)


def _inside(
    path: list[str | int], element: Any, *, flat: bool
) -> Iterator[tuple[list[str | int], Any]]:
    if not isinstance(element, dict):
        return
    if flat:
        if is_ours(element.get("command")):
            yield path, element
        return
    runs = element.get("hooks")
    if not isinstance(runs, list) or not runs:
        return
    ours = [isinstance(run, dict) and is_ours(run.get("command")) for run in runs]
    if all(ours):
        yield path, element
    else:
        yield from (([*path, "hooks", i], None) for i, yes in enumerate(ours) if yes)


def _numbers(value: Any) -> Any:
    """The value with its whole numbers as numbers; the parser leaves them as text."""
    if isinstance(value, dict):
        return {
            k: int(v) if k == "timeout" and str(v).isdecimal() else _numbers(v)
            for k, v in value.items()
        }
    return [_numbers(v) for v in value] if isinstance(value, list) else value
