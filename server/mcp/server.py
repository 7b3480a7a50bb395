"""The MCP server: one object for stdio, HTTP and tests, for protocol 2026-07-28 and the ones before it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
)

import plait
from plait.client.folders import Here, freshness
from plait.domain.errors import PlaitError
from server.mcp import calls, place
from server.mcp.answer import Answer, Refused, failed, refused
from server.mcp.indexing import QUIET_S, WAIT_S, Indexer
from server.mcp.service import Service
from server.mcp.tools import INSTRUCTIONS, KINDS, TOOLS, Graph, Recall, Remember, Search, read

logger = logging.getLogger(__name__)

_NOT_IN_AGENT = re.compile(r"[^A-Za-z0-9._-]+")
# The list of tools never changes while a server of one version runs.
_CACHED = CacheHint(ttl_ms=3_600_000, scope="public")


@dataclass(frozen=True, slots=True)
class Setup:
    """`folder`: what the server was started in. `trusts_roots`: whether a folder that the client names may
    be indexed; over HTTP it can only choose among what is. `text_wait_s`: how long an answer waits for the
    text of a new folder; `quiet_s`: how soon a folder is looked at again."""

    service: Service
    folder: Path | None
    trusts_roots: bool = True
    text_wait_s: float = WAIT_S
    quiet_s: float = QUIET_S


def build(setup: Setup) -> Server[Any]:
    """A server of `setup`; it closes the service's connection when it ends."""
    door = _Door(setup)

    @asynccontextmanager
    async def lifespan(_: Server[Any]) -> AsyncIterator[dict[str, Any]]:
        try:
            yield {}
        finally:
            await door.close()

    async def list_tools(ctx: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        door.greet(ctx)
        return ListToolsResult(tools=list(TOOLS))

    async def call_tool(ctx: Any, params: CallToolRequestParams) -> CallToolResult:
        return await door.call(ctx, params.name, params.arguments)

    server: Server[Any] = Server(
        "plait",
        version=plait.__version__,
        title="Plait",
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        cache_hints={"tools/list": _CACHED},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    # The SDK's tracing: whatever exporter a user's environment sets up, calls are nobody else's business.
    server.middleware.clear()

    async def roots_changed(ctx: Any, params: NotificationParams) -> None:
        door.greet(ctx)

    server.add_notification_handler(
        "notifications/roots/list_changed", NotificationParams, roots_changed
    )
    return server


class _Door:
    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._service = setup.service
        self._indexer = Indexer(setup.service, wait_s=setup.text_wait_s, quiet_s=setup.quiet_s)
        self._tasks: set[asyncio.Task[None]] = set()
        self._greeted: set[Path | None] = set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._service.close()

    # -- the session's start ---------------------------------------------------------------------------

    def greet(self, ctx: Any) -> None:
        """Bring the index of the session's folder up to date, behind whatever the client does next."""
        self._behind(self._greet(ctx))

    async def _greet(self, ctx: Any) -> None:
        folder = await place.folder_of(ctx, self._setup.folder)
        if folder in self._greeted:
            return
        self._greeted.add(folder)
        here = await place.find(self._service, folder, "")
        if self._may_index(here):
            await self._indexer.begin(here)

    def _may_index(self, here: Here) -> bool:
        """Over HTTP only what is indexed already, and the folder that the server was started in."""
        if self._setup.trusts_roots or here.repository is not None:
            return True
        folder = self._setup.folder
        return folder is not None and folder.resolve().is_relative_to(here.root)

    def _behind(self, work: Coroutine[Any, Any, None]) -> None:
        async def quiet() -> None:
            try:
                await work
            except (Refused, PlaitError) as exc:  # the next call says it to who asks
                logger.debug("not brought up to date: %s", exc)
            except Exception:
                logger.exception("a task behind the session failed")

        task = asyncio.create_task(quiet())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- calls -----------------------------------------------------------------------------------------

    async def call(self, ctx: Any, name: str, arguments: dict[str, Any] | None) -> CallToolResult:
        """What the tool `name` answers; whatever goes wrong is an answer that says what to do next."""
        try:
            kind = KINDS.get(name)
            if kind is None:
                raise Refused(f"There is no tool {name[:80]!r}; there are {', '.join(KINDS)}.")
            asked = read(kind, arguments)
            folder = await place.folder_of(ctx, self._setup.folder)
            here = await place.find(self._service, folder, asked.repo)
            if here.repository is None:
                waiting = await self._first_index(here)
                if waiting is not None:
                    return waiting.result()
                here = await place.find(self._service, here.root, "")
            if here.repository is None:
                raise Refused(f"{here.root} is not indexed yet; ask again in a few seconds.")
            call = calls.Called(self._service, here, here.repository, _agent(ctx))
            answer = await self._answer(call, asked)
            return (await self._with_freshness(call, answer)).result()
        except Refused as exc:
            return refused(exc)
        except PlaitError as exc:
            return failed(exc)
        except Exception as exc:
            logger.exception("a tool failed")
            return failed(PlaitError(f"a fault of Plait ({type(exc).__name__}: {exc})"))

    async def _answer(self, call: calls.Called, asked: Any) -> Answer:
        match asked:
            case Recall():
                return await calls.recall(call, asked)
            case Search():
                return await calls.search(call, asked)
            case Graph():
                return await calls.ask_graph(call, asked)
            case Remember():
                return await calls.remember(call, asked)
        raise AssertionError(asked)

    async def _first_index(self, here: Here) -> Answer | None:
        """How far the first index of a folder is; None once its text can be asked."""
        if not self._may_index(here):
            raise Refused(
                f"{here.root} is not indexed on this server. Run `{here.command()}` there, or say `repo`."
            )
        if await self._indexer.until_text(here):
            return None
        return _waiting(f"{here.root} is being indexed for the first time", await self._far(here))

    async def _far(self, here: Here) -> str:
        return await self._indexer.progress(here.root) or "indexing"

    async def _with_freshness(self, call: calls.Called, answer: Answer) -> Answer:
        """`answer` with how fresh it is; where shown files changed since, a run is begun behind it."""
        if "shown" not in answer.meta:
            return answer
        shown = answer.meta["shown"]
        root = call.here.root
        fresh = freshness(call.repository, shown, checked_at=self._indexer.checked_at(root))
        running = ""
        if fresh.changed or fresh.vectors < 100:
            running = await self._indexer.progress(root)
            if not running:
                self._behind(self._indexer.begin(call.here))
                running = "indexing again"
        meta = {
            **answer.meta,
            "repository": call.repository.name,
            "revision": call.repository.revision.revision,
            "indexed_at": fresh.indexed_at.isoformat() if fresh.indexed_at else None,
            "changed": list(fresh.changed),
        }
        return replace(answer, notes=(*answer.notes, fresh.summary(), running), meta=meta)


def _waiting(what: str, far: str) -> Answer:
    said = f"{what} ({far}). Ask again in some seconds; use grep meanwhile."
    return Answer([said], {"state": "indexing", "said": said})


def _agent(ctx: Any) -> str:
    """The client's name, as the agent that a note is from."""
    params = ctx.session.client_params
    name = params.client_info.name if params is not None and params.client_info else ""
    return _NOT_IN_AGENT.sub("-", name).strip("-")[:64]
