"""The MCP entry `plait` in a client's JSON file, and how to tell ours from another of that name."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from server.install import jsonc, splice
from server.install.agents import Form, Server
from server.install.refusal import Refused, line_of

NAME = "plait"
ARGUMENTS = ["mcp"]


def put(text: str | None, server: Server, command: str) -> str:
    """The file with our entry; as it is, where it has it. Raises: Refused."""
    wanted = fields(server.form, command)
    if text is None or jsonc.is_blank(text):
        return splice.fresh(text, {server.key: {NAME: wanted}, **server.seed})
    there = _there(text, server)
    if there is None:
        return splice.add(text, [server.key, NAME], wanted)
    if not is_ours(there):
        raise Refused(
            f'it has a server "{NAME}" that Plait did not write; rename or remove that one first',
            _line(text, server),
        )
    for key in ("command", "args"):
        if key in wanted and there.get(key) != wanted[key]:
            text = splice.replace(text, [server.key, NAME, key], wanted[key])
    return text


def take(text: str | None, server: Server) -> str | None:
    """The file without our entry; None when it was made for it. Raises: Refused."""
    if text is None or jsonc.is_blank(text):
        return text
    there = _there(text, server)
    if there is None or not is_ours(there):
        return text
    refuse_environment(there, _line(text, server))
    return splice.remove_seeded(text, [server.key, NAME], server.seed)


def has(text: str | None, server: Server) -> bool:
    if text is None or jsonc.is_blank(text):
        return False
    there = _there(text, server)
    return there is not None and is_ours(there)


def fields(form: Form, command: str) -> dict[str, Any]:
    """What is written under the name."""
    if form is Form.LOCAL:
        return {"type": "local", "command": [command, *ARGUMENTS], "enabled": True}
    plain = {"command": command, "args": ARGUMENTS}
    return {"type": "stdio", **plain} if form is Form.STDIO else plain


def is_ours(entry: Any) -> bool:
    """Whether an entry starts `plait mcp`, from wherever, as Plait writes it: one with further arguments is
    the user's own."""
    if not isinstance(entry, dict):
        return False
    command, args = entry.get("command"), entry.get("args", [])
    words = [*(command if isinstance(command, list) else [command]), *_list(args)]
    return PurePath(str(words[0])).name == "plait" and words[1:] == ARGUMENTS


def refuse_environment(entry: Any, line: int) -> None:
    """Raises: Refused, where the user added variables to our entry: they would be lost with it."""
    if entry.get("env") or entry.get("environment"):
        raise Refused(
            f'its server "{NAME}" has environment variables that Plait did not write; remove it by hand',
            line,
        )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _there(text: str, server: Server) -> Any:
    """The entry of our name, or None. Raises: Refused, when what should hold it is no object."""
    document = jsonc.parse(text)
    servers = jsonc.inner(document, document.root, server.key)
    if servers is None:
        return None
    if not isinstance(servers.value, dict):
        raise Refused(
            f'"{server.key}" must be an object, written {{ … }}',
            line_of(text, servers.value_start),
        )
    found = jsonc.inner(document, jsonc.container(document, servers.value_start), NAME)
    return None if found is None else found.value


def _line(text: str, server: Server) -> int:
    document = jsonc.parse(text)
    servers = document.root.named(server.key)
    inside = jsonc.container(document, servers.value_start) if servers else document.root
    found = inside.named(NAME)
    return line_of(text, found.start) if found else 0
