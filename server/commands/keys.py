"""`plait keys`: API keys for callers over TCP: make, list, rotate, revoke."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from plait.domain.access import Quota, Verb
from plait.domain.errors import InvalidInput, KeyUnknown
from server.commands import frame
from server.commands.frame import FAILED, NOTHING_FOUND, OK

if TYPE_CHECKING:
    from plait.client import AsyncPlaitClient
    from plait.domain.answers.keys import NewSecret
    from plait.domain.keys import ApiKey
    from plait.settings import Settings

EXAMPLES = """\
  plait keys add ci --repo app --repo lib --verbs read,write --expires 90d --calls-per-minute 600
  plait keys add dashboard --tenant acme --all-repos
  export PLAIT_CLIENT__TOKEN=$(plait keys add laptop --all-repos --verbs read,write,admin)
  plait keys list
  plait keys rotate ci                   another secret; the one before is valid for 24 hours yet
  plait keys rotate ci --grace 0         … ends at once: it leaked
  plait keys revoke ci

The secret is printed once, by `add` and `rotate`, and stored nowhere. It goes to standard output, all else
to standard error. Exit code 3: there is no key to list.
"""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"(\d{1,9})([smhdw])")


def main(argv: Sequence[str] | None = None, prog: str = "plait keys") -> int:
    args = _parser(prog).parse_args(argv)
    return frame.run_async(args, lambda: _keys(args))


def _parser(prog: str) -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog=prog,
        description="API keys: who may call over TCP, and what they may do.",
        epilog=f"examples:\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = out.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_parser(actions, prog)
    _list_parser(actions, prog)
    _rotate_parser(actions, prog)
    _revoke_parser(actions, prog)
    return out


def _action(actions: Any, prog: str, name: str, about: str) -> argparse.ArgumentParser:
    base = frame.parser(f"{prog} {name}", about, "  see `plait keys --help`", add_help=False)
    out: argparse.ArgumentParser = actions.add_parser(
        name, parents=[base], help=about.lower().rstrip("."), description=about
    )
    return out


def _add_parser(actions: Any, prog: str) -> None:
    out = _action(actions, prog, "add", "Make a key and print its secret.")
    out.add_argument("name", metavar="NAME", help="its name, of one living key of a tenant")
    tenant = out.add_mutually_exclusive_group()
    tenant.add_argument(
        "--tenant", dest="key_tenant", default="", metavar="NAME",
        help="whose calls it makes (default: scope.tenant)",
    )  # fmt: skip
    tenant.add_argument(
        "--all-tenants", action="store_true", help="any tenant: the one that each call names"
    )
    repos = out.add_mutually_exclusive_group(required=True)
    repos.add_argument(
        "--repo", action="append", default=[], metavar="NAME",
        help="a repository that it may name (repeatable; it need not be indexed yet)",
    )  # fmt: skip
    repos.add_argument("--all-repos", action="store_true", help="all repositories of the tenant")
    out.add_argument(
        "--verbs", type=_verbs, default=(Verb.READ,), metavar="VERB,…",
        help="read, write, admin (index, forget, delete, keys), each by itself (default: read)",
    )  # fmt: skip
    out.add_argument(
        "--expires", type=_ttl, default=timedelta(days=90), metavar="SPAN",
        help="after so long, as 12h, 90d, 52w, or `never` (default: 90d)",
    )  # fmt: skip
    out.add_argument(
        "--calls-per-minute",
        type=frame.positive,
        default=0,
        metavar="N",
        help="(default: no limit)",
    )
    out.add_argument(
        "--max-request-bytes", type=frame.positive, default=0, metavar="N",
        help="of one request (default: the server's limit)",
    )  # fmt: skip
    out.add_argument(
        "--max-concurrent", type=frame.positive, default=0, metavar="N",
        help="calls at a time (default: the server's limit)",
    )  # fmt: skip


def _list_parser(actions: Any, prog: str) -> None:
    out = _action(actions, prog, "list", "Show the keys that you manage, without secrets.")
    out.add_argument(
        "--tenant", dest="key_tenant", default="", metavar="NAME", help="only this tenant's"
    )
    out.add_argument("--all", action="store_true", help="revoked and expired ones too")


def _rotate_parser(actions: Any, prog: str) -> None:
    out = _action(actions, prog, "rotate", "Give a key another secret and print it.")
    _named(out)
    out.add_argument(
        "--grace", type=_span, default=None, metavar="SPAN",
        help="how long the secret before is valid yet, as 12h; 0: not at all (default: 24h)",
    )  # fmt: skip


def _revoke_parser(actions: Any, prog: str) -> None:
    _named(_action(actions, prog, "revoke", "End a key with all its secrets."))


def _named(out: argparse.ArgumentParser) -> None:
    out.add_argument("key", metavar="KEY", help="its name or its id")
    out.add_argument(
        "--tenant", dest="key_tenant", default="", metavar="NAME",
        help="whose, where several tenants have a key of that name",
    )  # fmt: skip


# -- arguments ---------------------------------------------------------------------------------------------


def _verbs(text: str) -> tuple[Verb, ...]:
    try:
        return tuple(dict.fromkeys(Verb(word.strip()) for word in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text[:60]!r} is no list of verbs; write some of read,write,admin"
        ) from None


def _span(text: str) -> timedelta:
    if text == "0":
        return timedelta(0)
    found = _SPAN.fullmatch(text)
    try:
        if found:
            return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    except OverflowError:
        pass
    raise argparse.ArgumentTypeError(
        f"{text[:60]!r} is no span of time; write a number and one of s, m, h, d, w, as 90d"
    )


def _ttl(text: str) -> timedelta | None:
    return None if text == "never" else _span(text)


# -- the actions -------------------------------------------------------------------------------------------


async def _keys(args: argparse.Namespace) -> int:
    from server.local import connected

    settings = frame.load(args)
    async with connected(settings) as client:
        if args.action == "add":
            return _say_secret(args, await _add(args, settings, client), "Made")
        if args.action == "list":
            return await _list(args, client)
        key = await _find(args, client)
        if args.action == "rotate":
            made = await client.rotate_key(key.id, grace=args.grace)
            return _say_secret(args, made, "Rotated")
        return await _revoke(args, key, client)


async def _add(args: argparse.Namespace, settings: Settings, client: AsyncPlaitClient) -> NewSecret:
    # With a key of our own the new one is of its tenant, unless another is named.
    own = "" if settings.client.token.get_secret_value() else settings.scope.tenant
    return await client.create_key(
        args.name,
        tenant="" if args.all_tenants else args.key_tenant or own,
        all_tenants=args.all_tenants,
        repositories=args.repo,
        all_repositories=args.all_repos,
        verbs=args.verbs,
        quota=Quota(args.calls_per_minute, args.max_request_bytes, args.max_concurrent),
        ttl=args.expires,
    )


def _say_secret(args: argparse.Namespace, made: NewSecret, did: str) -> int:
    until = made.old_until.isoformat() if made.old_until else None
    if args.json:
        print(json.dumps({"key": as_json(made.key), "secret": made.secret, "old_until": until}))
        return OK
    key = made.key
    print(f"{did} {key.name} ({key.id}): {_reach(key)}; {_end(key)}", file=sys.stderr)
    if made.old_until is not None:
        print(f"The secret before ends {_time(made.old_until)}", file=sys.stderr)
    print("The secret, which is shown this once:", file=sys.stderr, flush=True)
    print(made.secret)
    return OK


async def _list(args: argparse.Namespace, client: AsyncPlaitClient) -> int:
    found = await client.list_keys(include_ended=args.all)
    keys = [key for key in found if not args.key_tenant or key.caller.tenant == args.key_tenant]
    if args.json:
        print(json.dumps({"keys": [as_json(key) for key in keys]}, ensure_ascii=False))
    elif keys:
        _show(keys)
    else:
        print("there is no key; `plait keys add --help` shows how to make one", file=sys.stderr)
    return OK if keys else NOTHING_FOUND


async def _revoke(args: argparse.Namespace, key: ApiKey, client: AsyncPlaitClient) -> int:
    revoked = await client.revoke_key(key.id)
    if args.json:
        print(json.dumps({"key": as_json(revoked)}, ensure_ascii=False))
    else:
        print(f"Revoked {revoked.name} ({revoked.id})", file=sys.stderr)
    return OK if revoked.revoked_at else FAILED


async def _find(args: argparse.Namespace, client: AsyncPlaitClient) -> ApiKey:
    """The key of that id, else the living one of that name. Raises: KeyUnknown, InvalidInput."""
    found = [
        key
        for key in await client.list_keys(include_ended=True)
        if not args.key_tenant or key.caller.tenant == args.key_tenant
    ]
    if by_id := [key for key in found if key.id == args.key]:
        return by_id[0]
    return _only([key for key in found if key.name == args.key], args.key)


def _only(named: Sequence[ApiKey], name: str) -> ApiKey:
    """The living one of the keys of one name, else the last that ended."""
    now = datetime.now(UTC)
    living = [key for key in named if key.is_alive(now)] or named[-1:]
    if not living:
        raise KeyUnknown(name)
    if len(living) > 1:
        tenants = ", ".join(f"{key.id} of {key.caller.tenant or 'all tenants'}" for key in living)
        raise InvalidInput(
            f"several tenants have a key named {name!r}: {tenants}; give the id, or --tenant NAME",
            field="key",
        )
    return living[0]


# -- words -------------------------------------------------------------------------------------------------


def _show(keys: Sequence[ApiKey]) -> None:
    from server.commands.output import show as shown

    columns = ("name", "id", "tenant", "repositories", "verbs", "limits", "made by", "end")
    cells = [
        (
            key.name,
            key.id,
            key.caller.tenant or "(any)",
            ", ".join(sorted(key.caller.repositories)) or "(all)",
            _verbs_of(key),
            _limits(key),
            key.made_by,
            _end(key),
        )
        for key in keys
    ]
    shown.rows(columns, cells, shown.console())


def _reach(key: ApiKey) -> str:
    repos = ", ".join(sorted(key.caller.repositories)) or "all repositories"
    whose = f"tenant {key.caller.tenant}" if key.caller.tenant else "all tenants"
    return f"{_verbs_of(key)} in {repos} of {whose}"


def _verbs_of(key: ApiKey) -> str:
    return ",".join(verb.value for verb in Verb if verb in key.caller.verbs)


def _limits(key: ApiKey) -> str:
    quota = key.caller.quota
    limits = (
        (quota.calls_per_minute, "calls a minute"),
        (quota.max_request_bytes, "bytes a request"),
        (quota.max_concurrent, "calls at a time"),
    )
    return ", ".join(f"{limit:,} {what}" for limit, what in limits if limit) or "(none)"


def _end(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {_time(key.revoked_at)}"
    if key.expires_at is None:
        return "never ends"
    ended = not key.is_alive(datetime.now(UTC))
    return f"{'expired' if ended else 'ends'} {_time(key.expires_at)}"


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def as_json(key: ApiKey) -> dict[str, Any]:
    """A key as JSON, without secrets."""
    caller, quota = key.caller, key.caller.quota
    times = {
        "created_at": key.created_at,
        "rotated_at": key.rotated_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
    }
    return {
        "id": key.id,
        "name": key.name,
        "tenant": caller.tenant,
        "repositories": sorted(caller.repositories),
        "verbs": [verb.value for verb in Verb if verb in caller.verbs],
        "made_by": key.made_by,
        "calls_per_minute": quota.calls_per_minute,
        "max_request_bytes": quota.max_request_bytes,
        "max_concurrent": quota.max_concurrent,
        **{name: at.isoformat() if at else None for name, at in times.items()},
    }
