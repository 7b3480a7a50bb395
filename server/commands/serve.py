"""`plait serve`: gRPC on the home's Unix socket, and over TCP when asked, until a signal stops it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from plait.domain.errors import BadSettings
from server.commands import frame
from server.commands.frame import OK

if TYPE_CHECKING:
    from plait.client.discovery import ServerAddress
    from plait.settings import Settings

EXAMPLES = """\
  plait serve                    on a socket in PLAIT_HOME, for this account alone
  plait serve --port 50051       on 127.0.0.1:50051, too; calls there need the token in PLAIT_HOME/server/token
  plait serve --port 0           on a free port, which it prints
  plait serve --rotate-token     another token; the one before is valid for ten more minutes

Clients of this account find the token by themselves; others are given one, or an API key, as
PLAIT_CLIENT__TOKEN. An address that other machines reach needs `server.tls_certificate` and `server.tls_key`.
SIGTERM or Ctrl-C: no new calls, those in flight end within `server.drain_s`. A second one ends it at once.
"""


def main(argv: Sequence[str] | None = None, prog: str = "plait serve") -> int:
    out = frame.parser(prog, "Serve gRPC until stopped.", EXAMPLES, server=False)
    out.add_argument(
        "--host", help="address to listen on, once there is a port (default: `server.host`)"
    )
    out.add_argument(
        "--port",
        type=_port,
        metavar="PORT",
        help="listen on this TCP port, too; 0: a free one (default: `server.port`, which is none)",
    )
    out.add_argument(
        "--workers",
        type=_count,
        metavar="N",
        help="processes that answer calls on the TCP port, up to 64 (default: `server.workers`, which is 1)",
    )
    out.add_argument(
        "--rotate-token",
        action="store_true",
        help="change the tokens of TCP and of `plait mcp --http`, and end",
    )
    out.add_argument(
        "--make-certificate",
        nargs="?",
        const="",
        metavar="NAME,…",
        help="where `server.tls_certificate` is not set: serve TLS with a certificate of this server's own, "
        "made once in PLAIT_HOME/server/tls, for localhost and the names given",
    )
    out.add_argument("--verbose", "-v", action="store_true", help="log each stage, too")
    args = out.parse_args(argv)
    return frame.run(args, lambda: _rotate(args) if args.rotate_token else _serve(args))


def _serve(args: argparse.Namespace) -> int:
    from server.process import logs, serve

    logs.to_stderr(verbose=args.verbose)
    serve.run(_settings(args), lambda address: _ready(args, address))
    return OK


def _rotate(args: argparse.Namespace) -> int:
    """Change the tokens that exist, and make the one of `plait serve` where there is none."""
    from plait.client import discovery
    from plait.supervisor import token_file
    from plait.supervisor.home import make_home

    home = _settings(args).home
    make_home(home)
    mine = discovery.token_path(home)
    paths = [
        path for path in (mine, discovery.mcp_token_path(home)) if path == mine or path.exists()
    ]
    for path in paths:
        token_file.rotate(path)
    if args.json:
        print(json.dumps({"rotated": [str(path) for path in paths], "grace_s": token_file.GRACE_S}))
        return OK
    for path in paths:
        print(
            f"{path} holds another token; the one before is valid for {token_file.GRACE_S / 60:g} more minutes"
        )
    return OK


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise ValueError(text)
    return number


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 64:
        raise ValueError(text)
    return number


def _settings(args: argparse.Namespace) -> Settings:
    import msgspec

    from plait import settings as plait_settings

    settings = plait_settings.load(args.config)
    given = {"host": args.host, "port": args.port, "workers": args.workers}
    changes = {key: value for key, value in given.items() if value is not None}
    server = msgspec.structs.replace(settings.server, **changes)
    if args.make_certificate is not None and not server.tls_certificate:
        from server.access import certificate

        names = [name for name in args.make_certificate.split(",") if name]
        pair = certificate.ensure(settings.home, names)
        server = msgspec.structs.replace(
            server, tls_certificate=str(pair.certificate), tls_key=str(pair.key)
        )
    if server.workers > 1 and server.port is None:
        raise BadSettings(
            "workers share a TCP port, and this server has none; give it one (`--port`, `server.port`), or leave "
            "`--workers` (`server.workers`) at 1",
        )
    return msgspec.structs.replace(settings, server=server)


def _ready(args: argparse.Namespace, address: ServerAddress) -> None:
    if args.json:
        print(json.dumps(json.loads(address.to_json())), flush=True)
        return
    print(
        f"Plait {address.version} serves {address.where}\nCtrl-C stops it",
        file=sys.stderr,
        flush=True,
    )
