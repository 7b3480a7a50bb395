"""The MCP entry `plait` in a TOML file: a table of its own at the end, which is valid after anything.

Written and removed as text, so that no other byte moves; checked before and after by a parser. An entry
in another shape (an inline table, say) goes through tomlkit, which keeps comments and order.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any

from server.install import entry, splice
from server.install.agents import Server
from server.install.refusal import Refused

_AT = re.compile(r"at line (\d+)")
_BODY = re.compile(r"[ \t]*[A-Za-z0-9_\"'-]")


def put(text: str | None, server: Server, command: str) -> str:
    """The file with our table; as it is, where it has it. Raises: Refused."""
    there = _there(_parsed(text or ""), server)
    if there is None:
        return _appended(text, server, command)
    if not entry.is_ours(there):
        raise Refused(
            f'it has a server "{entry.NAME}" that Plait did not write; rename or remove that one first',
            _line(text or "", server),
        )
    if there.get("command") == command and there.get("args") == entry.ARGUMENTS:
        return text or ""
    return _with_command(text or "", server, command)


def take(text: str | None, server: Server) -> str | None:
    """The file without our table; None when it was made for it. Raises: Refused."""
    if text is None:
        return None
    parsed = _parsed(text)
    there = _there(parsed, server)
    if not entry.is_ours(there):
        return text
    entry.refuse_environment(there, _line(text, server))
    left = _removed(text, server, _without(parsed, server))
    # A file that was there and empty has a line break before the table.
    return None if not left and text.startswith("[") else left


def has(text: str | None, server: Server) -> bool:
    return text is not None and entry.is_ours(_there(_parsed(text), server))


def _appended(text: str | None, server: Server, command: str) -> str:
    eol = splice.eol_of(text or "")
    rows = (
        f"[{server.key}.{entry.NAME}]",
        f"command = {_string(command)}",
        "args = [" + ", ".join(_string(a) for a in entry.ARGUMENTS) + "]",
    )
    added = ("" if text is None else text + eol) + eol.join(rows) + eol
    if _parsed_or_none(added) is None or take(added, server) != text:
        raise Refused(
            f"no table can be added behind what is there ({server.key} is not made of tables); "
            f"add {server.key}.{entry.NAME} with command = {_string(command)}, args = "
            f"{entry.ARGUMENTS} by hand",
            _line(text or "", server),
        )
    return added


def _removed(text: str, server: Server, wanted: dict[str, Any]) -> str:
    """The text without the table: the first way that leaves the rest of what the file says as it is.

    Raises: Refused.
    """
    header = re.compile(
        rf"^\[{re.escape(server.key)}\.{entry.NAME}(?:\.[^\r\n]*)?\][^\r\n]*", re.MULTILINE
    )
    found = [match.span() for match in header.finditer(text)]
    # What looks like a header in a text of several lines stays: then the last one is meant.
    for cut in (found, found[-1:]):
        left = _cut(text, cut)
        if _parsed_or_none(left) == wanted:
            return left
    left = _by_tomlkit(text, server)
    if _parsed_or_none(left) == wanted:
        return left
    raise Refused(
        f"the table {server.key}.{entry.NAME} can't be removed safely; remove it by hand",
        _line(text, server),
    )


def _cut(text: str, headers: Sequence[tuple[int, int]]) -> str:
    """The text without these tables: each a header and the lines up to a blank one, a comment or the next
    header; with the line break that was put before."""
    for start, header_end in reversed(headers):
        end = _line_end(text, header_end)
        while end < len(text) and _BODY.match(text, end):
            end = _line_end(text, end)
        before, after = text[:start], text[end:]
        shorter = before.removesuffix("\r\n" if before.endswith("\r\n") else "\n")
        if not after or not shorter or shorter.endswith("\n") or after.startswith(("\n", "\r\n")):
            before = shorter
        text = before + after
    return text


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _by_tomlkit(text: str, server: Server) -> str:
    bom, document = _opened(text)
    del document[server.key][entry.NAME]
    if not document[server.key]:
        del document[server.key]
    return bom + str(document.as_string())


def _with_command(text: str, server: Server, command: str) -> str:
    """Another place of this installation in an entry of ours; the rest of it stays."""
    bom, document = _opened(text)
    table = document[server.key][entry.NAME]
    table["command"] = command
    table["args"] = list(entry.ARGUMENTS)
    return bom + str(document.as_string())


def _opened(text: str) -> tuple[str, Any]:
    """The byte order mark, and the document with its comments and order. Raises: Refused."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    bom = "\ufeff" if text.startswith("\ufeff") else ""
    try:
        return bom, tomlkit.parse(text.removeprefix(bom))
    except TOMLKitError as exc:
        raise Refused(f"this is not valid TOML: {exc}") from None


def _without(parsed: dict[str, Any], server: Server) -> dict[str, Any]:
    servers = {k: v for k, v in parsed[server.key].items() if k != entry.NAME}
    rest = {k: v for k, v in parsed.items() if k != server.key}
    return {**rest, server.key: servers} if servers else rest


def _there(parsed: dict[str, Any], server: Server) -> Any:
    servers = parsed.get(server.key)
    if servers is not None and not isinstance(servers, dict):
        raise Refused(f"{server.key} must be a table")
    return None if servers is None else servers.get(entry.NAME)


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"), parse_float=str)  # nan equals nan
    except tomllib.TOMLDecodeError as exc:
        found = _AT.search(str(exc))
        raise Refused(f"this is not valid TOML: {exc}", int(found[1]) if found else 0) from None
    except RecursionError:
        raise Refused("the values are nested too deeply to be read") from None


def _parsed_or_none(text: str) -> dict[str, Any] | None:
    try:
        return _parsed(text)
    except Refused:
        return None


def _string(value: str) -> str:
    return json.dumps(value)  # a TOML basic string takes the same escapes


def _line(text: str, server: Server) -> int:
    """The line that first speaks of the table, or of the one that holds it; 0: none does."""
    for name in (rf"{re.escape(server.key)}\s*\.\s*\"?{entry.NAME}\b", re.escape(server.key)):
        if found := re.search(rf"^\s*\[?\s*{name}", text, re.MULTILINE):
            return text.count("\n", 0, found.end()) + 1
    return 0
