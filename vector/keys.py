"""KeyStore: API keys and the digests of their secrets, by the owner's pool alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from plait.domain.access import Caller, Quota, Verb
from plait.domain.errors import KeyEnded, KeyNameTaken, KeyUnknown, TooManyKeys
from plait.domain.keys import ApiKey, KeySecret
from vector.connection.pool import Connection, Database

# Of one tenant, ended ones included: what a list answers, and what a caller that may make keys can fill.
MAX_KEYS = 10_000
# How long an ended key can still be listed.
KEEP = timedelta(days=90)

_KEY = (
    "k.id, k.name, k.tenant, k.repositories, k.verbs, k.calls_per_minute, k.max_request_bytes,"
    " k.max_concurrent, k.made_by, k.created_at, k.rotated_at, k.expires_at, k.revoked_at"
)
_ALL = f"SELECT {_KEY} FROM api_key k ORDER BY k.created_at, k.id"
_SECRET = (
    f"SELECT s.digest, s.valid_until, {_KEY} FROM api_key_secret s JOIN api_key k ON k.id = s.key_id"
    " WHERE s.digest = %(digest)s"
)
_ONE = f"SELECT {_KEY} FROM api_key k WHERE k.id = %(id)s FOR UPDATE"
# Nobody reads past it to add a second key of the name; reads go on.
_ALONE = "LOCK TABLE api_key IN SHARE ROW EXCLUSIVE MODE"
_FORGET = "DELETE FROM api_key WHERE least(expires_at, revoked_at) < %(ended)s"
_TAKEN = (
    "SELECT count(*), count(*) FILTER (WHERE name = %(name)s AND revoked_at IS NULL"
    " AND (expires_at IS NULL OR expires_at > %(now)s)) FROM api_key WHERE tenant = %(tenant)s"
)
_ADD = (
    "INSERT INTO api_key (id, name, tenant, repositories, verbs, calls_per_minute, max_request_bytes,"
    " max_concurrent, made_by, created_at, expires_at) VALUES (%(id)s, %(name)s, %(tenant)s,"
    " %(repositories)s, %(verbs)s, %(calls_per_minute)s, %(max_request_bytes)s, %(max_concurrent)s,"
    " %(made_by)s, %(created_at)s, %(expires_at)s)"
)
_ADD_SECRET = "INSERT INTO api_key_secret (digest, key_id) VALUES (%(digest)s, %(id)s)"  # noqa: S105
# `least` leaves NULL out: one that ends earlier goes on ending then.
_END_SECRETS = (
    "UPDATE api_key_secret SET valid_until = least(valid_until, %(until)s) WHERE key_id = %(id)s"
)
_ROTATED = "UPDATE api_key k SET rotated_at = %(now)s WHERE id = %(id)s RETURNING " + _KEY
_REVOKE = (
    "UPDATE api_key k SET revoked_at = coalesce(revoked_at, %(now)s) WHERE id = %(id)s RETURNING "
    + _KEY
)


class Keys:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, key: ApiKey, digest: bytes) -> None:
        """See `KeyStore.add_key`."""
        caller, quota = key.caller, key.caller.quota
        given = {
            "id": key.id,
            "name": key.name,
            "tenant": caller.tenant,
            "repositories": sorted(caller.repositories),
            "verbs": sorted(verb.value for verb in caller.verbs),
            "calls_per_minute": quota.calls_per_minute,
            "max_request_bytes": quota.max_request_bytes,
            "max_concurrent": quota.max_concurrent,
            "made_by": key.made_by,
            "created_at": key.created_at,
            "expires_at": key.expires_at,
            "digest": digest,
            "now": key.created_at,
            "ended": key.created_at - KEEP,
        }
        async with self._db.transaction() as conn:
            await conn.execute(_ALONE)
            await conn.execute(_FORGET, given)
            cursor = await conn.execute(_TAKEN, given)
            ((total, taken),) = await cursor.fetchall()
            if taken:
                raise KeyNameTaken(key.name, caller.tenant)
            if total >= MAX_KEYS:
                raise TooManyKeys(
                    f"there are {total} keys of this tenant, ended ones of the last {KEEP.days} days "
                    "included, and no more can be made",
                    keys=total,
                )
            await conn.execute(_ADD, given)
            await conn.execute(_ADD_SECRET, given)

    async def list(self) -> Sequence[ApiKey]:
        """See `KeyStore.keys`."""
        return [_key(row) for row in await self._db.rows(_ALL, {})]

    async def secret_of(self, digest: bytes) -> KeySecret | None:
        """See `KeyStore.secret_of`."""
        rows = await self._db.rows(_SECRET, {"digest": digest})
        if not rows:
            return None
        found, until, *key = rows[0]
        return KeySecret(_key(key), bytes(found), until)

    async def replace_secret(self, key_id: str, digest: bytes, old_until: datetime) -> ApiKey:
        """See `KeyStore.replace_secret`."""
        now = datetime.now(UTC)
        given = {"id": key_id, "digest": digest, "until": old_until, "now": now}
        async with self._db.transaction() as conn:
            key = await _locked(conn, key_id)
            if not key.is_alive(now):
                raise KeyEnded(key.id, key.name)
            await conn.execute(_END_SECRETS, given)
            await conn.execute(_ADD_SECRET, given)
            cursor = await conn.execute(_ROTATED, given)
            (row,) = await cursor.fetchall()
            return _key(row)

    async def revoke(self, key_id: str) -> ApiKey:
        """See `KeyStore.revoke_key`."""
        rows = await self._db.rows(_REVOKE, {"id": key_id, "now": datetime.now(UTC)})
        if not rows:
            raise KeyUnknown(key_id)
        return _key(rows[0])


async def _locked(conn: Connection, key_id: str) -> ApiKey:
    """Raises: KeyUnknown."""
    cursor = await conn.execute(_ONE, {"id": key_id})
    rows = await cursor.fetchall()
    if not rows:
        raise KeyUnknown(key_id)
    return _key(rows[0])


def _key(row: Sequence[Any]) -> ApiKey:
    id_, name, tenant, repositories, verbs, calls, size, concurrent, made_by, *times = row
    created_at, rotated_at, expires_at, revoked_at = times
    caller = Caller(
        id=id_,
        verbs=frozenset(Verb(verb) for verb in verbs),
        tenant=tenant,
        repositories=frozenset(repositories),
        quota=Quota(calls, size, concurrent),
    )
    return ApiKey(caller, name, created_at, made_by, rotated_at, expires_at, revoked_at)
