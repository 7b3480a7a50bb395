"""Which repository a call means: the one it names, else that of the client's folder."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from mcp.types import ListRootsRequest, ListRootsResult

from plait.client.folders import Here, locate
from server.mcp.answer import Refused

if TYPE_CHECKING:
    from plait.domain.answers.indexing import Repository
    from server.mcp.service import Service

ROOTS_TIMEOUT_S = 2.0


async def folder_of(ctx: Any, default: Path | None) -> Path | None:
    """The client's first root that is a folder here (the protocol before 2026-07-28 asks for it), else
    `default`."""
    for root in await _roots(ctx):
        parts = urlsplit(root)
        path = Path(unquote(parts.path))
        if parts.scheme == "file" and parts.netloc in ("", "localhost") and _is_folder(path):
            return path
    return default


async def _roots(ctx: Any) -> list[str]:
    session = ctx.session
    capabilities = session.client_capabilities
    if not session.can_send_request or capabilities is None or capabilities.roots is None:
        return []
    from mcp.shared.exceptions import MCPError
    from mcp.shared.message import ServerMessageMetadata
    from pydantic import ValidationError

    try:
        async with asyncio.timeout(ROOTS_TIMEOUT_S):
            # On the stream of this very call: over HTTP a client need not listen on another one.
            found = await session.send_request(
                ListRootsRequest(),
                ListRootsResult,
                metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
            )
    except (TimeoutError, MCPError, ValidationError):
        return []  # it said it could, and doesn't
    return [str(root.uri) for root in found.roots]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_absolute() and path.is_dir()
    except (OSError, ValueError):
        return False


async def find(service: Service, folder: Path | None, repo: str) -> Here:
    """The repository of the name `repo`; without one that of `folder`, else the only one indexed.

    Raises: Refused, with the names there are.
    """
    indexed = await service.ask(lambda client: client.list_repositories())
    if repo:
        return _named(indexed, repo)
    if folder is not None:
        here = locate(folder, indexed)
        if here.repository is not None or not here.unfit:
            return here
    if len(indexed) == 1:
        return Here(Path(indexed[0].root), indexed[0].name, indexed[0])
    where = f"{here.root}: {here.unfit}" if folder is not None else "no folder is known"
    raise Refused(f"No repository is meant ({where}). {_names(indexed)}")


def _named(indexed: Sequence[Repository], repo: str) -> Here:
    for one in indexed:
        if one.name == repo:
            return Here(Path(one.root), one.name, one)
    close = difflib.get_close_matches(repo, [one.name for one in indexed], n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise Refused(
        f"No repository {repo[:80]!r} is indexed.{hint} {_names(indexed)} Leave `repo` out for the folder "
        "you are in."
    )


def _names(indexed: Sequence[Repository]) -> str:
    if not indexed:
        return "Nothing is indexed yet: `plait index PATH` in a shell indexes a repository."
    shown = ", ".join(one.name for one in indexed[:10])
    more = f" and {len(indexed) - 10} more" if len(indexed) > 10 else ""
    return f"Say `repo`: {shown}{more}."
