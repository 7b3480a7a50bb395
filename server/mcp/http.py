"""MCP over streamable HTTP: on loopback, behind a gate that knows the token and no web page."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket as sockets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from plait.client.discovery import mcp_token_path
from plait.domain.errors import McpAddressRefused, PortTaken, TokenUnsafe
from plait.supervisor.home import make_home
from plait.supervisor.token_file import TokenFile
from server.mcp import service
from server.mcp.server import Setup, build

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp, Receive, Scope, Send

    from plait.settings import Settings

PATH = "/mcp"
DEFAULT = "127.0.0.1:50052"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
DRAIN_S = 3
MAX_SESSIONS = 256


@dataclass(frozen=True, slots=True)
class Address:
    """`names`: what clients may call this machine beside the loopback names."""

    host: str
    port: int
    names: tuple[str, ...] = ()


def address(text: str, names: Sequence[str] = ()) -> Address:
    """`HOST:PORT`, `[::1]:PORT`, `:PORT`, `PORT`. Raises: McpAddressRefused."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535 or (colon and ":" in host and "[" not in text):
        raise McpAddressRefused(
            f"{text[:80]!r} is no address; write HOST:PORT, such as {DEFAULT} or [::1]:50052",
            address=text,
        )
    if not names and not _is_loopback(host):
        raise McpAddressRefused(
            f"{host} can be reached from other machines, and there is no TLS here: the token and the code would "
            "cross the network in the clear. Keep to 127.0.0.1 behind a proxy that has TLS or an SSH tunnel; or "
            "say `--name NAME`, the name by which clients call this machine, to do it all the same",
            address=text,
        )
    return Address(host, int(port), tuple(names))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# -- the token -----------------------------------------------------------------------------------------------


def token(home: Path) -> TokenFile:
    """The token of `home`, made at the first start, readable for this account alone.

    Raises: TokenUnsafe, HomeUnusable.
    """
    make_home(home)
    return TokenFile(mcp_token_path(home))


# -- the gate ------------------------------------------------------------------------------------------------


class Gate:
    """Lets a request through that comes from no foreign page (403), under a name of ours (421), and with
    the token (401). It is asked before anything of the request's body is read."""

    def __init__(self, app: ASGIApp, accept: Callable[[str], bool], names: Sequence[str]) -> None:
        self._app = app
        self._accept = accept
        known = (*LOOPBACK, *names)
        self._checks = TransportSecurityMiddleware(
            TransportSecuritySettings(
                allowed_hosts=[h for name in known for h in (name, f"{name}:*")],
                allowed_origins=[
                    f"{scheme}://{name}{port}"
                    for name in known
                    for scheme in ("http", "https")
                    for port in ("", ":*")
                ],
            )
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = await self._checks.validate_request(Request(scope)) or self._stranger(scope)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _stranger(self, scope: Scope) -> PlainTextResponse | None:
        scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        with contextlib.suppress(TokenUnsafe):  # nobody's, until it is mended
            if scheme == "Bearer" and self._accept(token):
                return None
        return PlainTextResponse(
            "The token is missing or wrong: send `Authorization: Bearer TOKEN`; `plait mcp --http` says where "
            "it is.\n",
            401,
            {"WWW-Authenticate": "Bearer"},
        )


# -- the server ----------------------------------------------------------------------------------------------


async def serve(settings: Settings, where: Address, on_ready: Callable[[str, Path], None]) -> None:
    """Serve until SIGTERM or SIGINT. `on_ready` gets the URL and where the token is.

    Raises: PortTaken, TokenUnsafe.
    """
    import uvicorn

    class Web(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Its own way would raise the signal once more when all is closed."""
            yield

        async def startup(self, sockets: list[sockets.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                on_ready(url, mcp_token_path(settings.home))

    known = token(settings.home)
    with _listening(where) as bound:
        server = build(Setup(service.of(settings), Path.cwd(), trusts_roots=False))
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            max_sessions=MAX_SESSIONS,
            # The gate has checked it, before the token.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        web = Web(
            uvicorn.Config(
                Gate(app, known.accept, where.names),
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=DRAIN_S,
            )
        )
        host, port = where.host, bound.getsockname()[1]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
        _stop_on_signals(web)
        await web.serve([bound])


def _stop_on_signals(web: uvicorn.Server) -> None:
    """The first signal lets calls in flight end, the second one doesn't."""

    def stop() -> None:
        web.force_exit = web.should_exit
        web.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)


@contextlib.contextmanager
def _listening(where: Address) -> Iterator[sockets.socket]:
    """Raises: PortTaken."""
    family = sockets.AF_INET6 if ":" in where.host else sockets.AF_INET
    with sockets.socket(family, sockets.SOCK_STREAM) as made:
        made.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        try:
            made.bind((where.host, where.port))
            made.listen(128)  # two that start at once both get as far as here
        except OSError as exc:
            raise PortTaken(
                f"cannot listen on {where.host}:{where.port} ({exc.strerror}); stop what does, or choose another "
                "port: `plait mcp --http 127.0.0.1:0` takes a free one",
                host=where.host,
                port=where.port,
            ) from exc
        yield made
