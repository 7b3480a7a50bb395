"""`plait mcp`: the tools for agents, over stdio or HTTP."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from server.commands import frame
from server.commands.frame import OK

EXAMPLES = """\
  plait mcp                              over stdio: what an agent's configuration starts
  plait mcp --http                       over HTTP on 127.0.0.1:50052/mcp, with a token
  plait mcp --http 127.0.0.1:0 --json    on a free port; prints the URL and where the token is
  plait mcp --http 0.0.0.0:50052 --name build.example.com    for other machines, without TLS

Over stdio it ends with its standard input. docs/mcp.md has the tools and the clients' configuration.
"""


def main(argv: Sequence[str] | None = None, prog: str = "plait mcp") -> int:
    out = frame.parser(prog, "Serve recall, search, graph and remember to agents (MCP).", EXAMPLES)
    out.add_argument(
        "--http",
        nargs="?",
        const="",
        metavar="HOST:PORT",
        help="streamable HTTP instead of stdio (default 127.0.0.1:50052)",
    )
    out.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="NAME",
        help="with --http: a name that clients beyond this machine, or a proxy, call it by (repeatable)",
    )
    frame.add_tenant(out)
    args = out.parse_args(argv)
    if args.name and args.http is None:
        out.error("--name is for --http")
    return frame.run(args, lambda: _stdio(args) if args.http is None else _http(args))


def _stdio(args: argparse.Namespace) -> int:
    if sys.stdin is None:  # closed by who started us: the session has ended
        return OK
    if sys.stdin.isatty():
        raise frame.Usage(
            "this speaks MCP on standard input, for an agent to start; see `plait mcp --help`"
        )
    _log()
    from server.mcp import stdio

    stdio.run(frame.load(args))
    return OK


def _http(args: argparse.Namespace) -> int:
    import asyncio

    from server.mcp import http

    _log()
    where = http.address(args.http or http.DEFAULT, args.name)

    def ready(url: str, token: Path) -> None:
        if args.json:
            print(json.dumps({"url": url, "token": str(token)}), flush=True)
            return
        print(
            f"Plait answers MCP at {url}\n"
            f"Clients send the token in {token}, as `Authorization: Bearer TOKEN`. Ctrl-C stops it",
            file=sys.stderr,
            flush=True,
        )

    asyncio.run(http.serve(frame.load(args), where, ready))
    return OK


def _log() -> None:
    """Standard output is the protocol's; of the libraries' words only what is wrong goes to standard error."""
    import logging

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="plait mcp: %(message)s")
    # What a client sends wrong is answered, not logged: agents show standard error as a failure.
    logging.getLogger("mcp").setLevel(logging.ERROR)
