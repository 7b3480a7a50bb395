"""IndexStore: one repository's next revision, written in small transactions, shown by one.

A file's content is written once, with its chunks, and intervals of revisions hold it. Intervals that begin
or end with a draft carry its number, which means nothing to readers until `publish` raises
`repository.published` to it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from psycopg import errors as pg

from plait.domain import failpoint
from plait.domain.errors import (
    DraftLost,
    PlaitError,
    RepositoryBusy,
    RepositoryNameTaken,
    StoreFull,
    StoreUnavailable,
)
from plait.domain.scope import DEFAULT_TENANT, check_tenant
from plait.domain.values import Chunk, Revision
from plait.ports import (
    Draft,
    FileGraph,
    FileRow,
    IndexStats,
    KeptFile,
    Segment,
    Sibling,
    StoredFile,
)
from vector.connection import locks
from vector.connection.clock import tick
from vector.connection.errors import translated
from vector.connection.pool import Connection, Database, copy_rows
from vector.index import copies, segment_vectors, segments
from vector.index import sql as q
from vector.index.repositories import (
    COLUMNS,
    collect_garbage,
    drop_segments,
    ensure_row,
    to_revision,
)
from vector.projection.store import queue_index

logger = logging.getLogger(__name__)

# Facts travel in portions of this many files: some 5 kB each.
FACTS_ROUND = 500
# A run that wrote more than this share of the chunks changes what the planner should know.
SETTLE_SHARE = 0.2


@dataclass(slots=True)
class _Open:
    """A draft of this process: its lock's connection, and what `publish` has to know."""

    conn: Connection
    token: UUID
    root: str
    wrote: bool = False
    writes: int = 0  # transactions that the server has confirmed
    chunks: int = 0
    copied: bool = False  # words of another repository, perhaps without vectors
    names: set[str] = field(default_factory=set)


class Drafts:
    """IndexStore. One object may hold drafts of several repositories."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._drafts: dict[int, _Open] = {}

    async def begin(
        self,
        repo: str,
        root: str,
        *,
        move: bool = False,
        tenant: str = DEFAULT_TENANT,
        wait_s: float = 0.0,
    ) -> Draft:
        return await self._db.retry(lambda _: self._first(repo, root, move, tenant, wait_s))

    async def _first(self, repo: str, root: str, move: bool, tenant: str, wait_s: float) -> Draft:
        """`begin` once. What a lost connection leaves of it, the next one undoes."""
        async with self._db.connection() as conn:
            repo_id = await ensure_row(conn, repo, check_tenant(tenant))
        if repo_id in self._drafts:
            raise RepositoryBusy(repo)
        lock = await self._db.dedicated()
        try:
            free = await locks.try_lock(lock, locks.INDEXING, repo_id)
            with translated(self._db.timeout_s):
                if not free and wait_s:
                    free = await locks.lock_within(lock, locks.INDEXING, repo_id, wait_s)
                if not free:
                    raise RepositoryBusy(repo)
                return await self._begin(lock, repo_id, repo, root, move)
        except BaseException:
            await lock.close()
            raise

    async def _begin(
        self, lock: Connection, repo_id: int, repo: str, root: str, move: bool
    ) -> Draft:
        cursor = await lock.execute(
            "SELECT r.root, r.published, r.last_number, r.draft_token, s.model,"
            " coalesce((r.stats->>'facts_version')::int, 0), r.stats->'timed_out'"
            " FROM repository r LEFT JOIN embedding_space s ON s.filled WHERE r.id = %s",
            (repo_id,),
        )
        known = await cursor.fetchone()
        assert known is not None  # rows of `repository` are never deleted
        indexed_root, published, last, broken, model, facts_version, timed_out = known
        if published and indexed_root not in ("", root) and not move:
            raise RepositoryNameTaken(repo, indexed_root, root)
        token = uuid4()
        # From here on a writer of the broken draft, if one still runs, is refused by the fence.
        await lock.execute(
            "UPDATE repository SET draft_token = %s, draft_writes = 0 WHERE id = %s",
            (token, repo_id),
        )
        if broken is not None:
            await _clean(lock, repo_id)
        index = self._db.settings.index
        await collect_garbage(lock, repo_id, index.keep_s, keep_trees=index.keep_trees)
        if published and indexed_root != root:
            await lock.execute("UPDATE repository SET root = %s WHERE id = %s", (root, repo_id))
        self._drafts[repo_id] = _Open(lock, token, root)
        return Draft(
            repo_id, repo, last + 1, published, model or "", facts_version, timed_out or {}
        )

    async def stored_files(self, draft: Draft) -> dict[str, StoredFile]:
        rows = await self._db.rows(q.STORED_FILES, {"repo": draft.repo_id, "base": draft.base})
        return {
            path: StoredFile(path, content_hash, language, graph_hash, lines)
            for path, content_hash, language, lines, graph_hash in rows
        }

    async def facts(
        self, draft: Draft, paths: Iterable[str] | None = None
    ) -> AsyncIterator[tuple[str, bytes]]:
        selected = sorted(await self.stored_files(draft) if paths is None else set(paths))
        for start in range(0, len(selected), FACTS_ROUND):
            portion = selected[start : start + FACTS_ROUND]
            params = {"repo": draft.repo_id, "base": draft.base, "paths": portion}
            for path, blob in await self._db.rows(q.FACTS, params):
                yield path, blob

    async def write_files(self, draft: Draft, files: Sequence[FileRow]) -> None:
        paths = [file.path for file in files]
        number = draft.number
        rows = [
            (draft.repo_id, number, f.lines, f.size_bytes, f.is_test, f.content_hash, f.language,
             f.path, f.facts)
            for f in files
        ]  # fmt: skip

        async def write(conn: Connection, again: bool) -> None:
            if again:
                await _unwrite(conn, draft, paths)
            if draft.base:
                await _retire(conn, draft, paths, q.RETIRE_FILE)
            await copy_rows(conn, "file_version", q.FILE_COLUMNS, rows)
            await _hold(conn, draft, "file_member", [(path, number) for path in paths])

        await self._write(draft, write)

    async def kept_files(self, draft: Draft, wanted: Mapping[str, bytes]) -> dict[str, KeptFile]:
        paths, found = list(wanted), {}
        for start in range(0, len(paths), FACTS_ROUND):
            portion = paths[start : start + FACTS_ROUND]
            params = {
                "repo": draft.repo_id,
                "number": draft.number,
                "paths": portion,
                "hashes": [wanted[path] for path in portion],
            }
            for row in await self._db.rows(q.VERSIONS, params):
                found[row[0]] = KeptFile(*row)
        return found

    async def restore(self, draft: Draft, files: Sequence[KeptFile]) -> None:
        size = self._db.settings.index.batch_items
        for start in range(0, len(files), size):
            portion = [(file.path, file.written) for file in files[start : start + size]]
            paths = [path for path, _ in portion]

            async def write(
                conn: Connection,
                again: bool,
                portion: list[tuple[str, int]] = portion,
                paths: list[str] = paths,
            ) -> None:
                if again:
                    await _unwrite(conn, draft, paths)
                await _retire(conn, draft, paths, q.RETIRE_FILE)
                await _hold(conn, draft, "file_member", portion)

            await self._write(draft, write)

    async def restore_tree(self, draft: Draft, tree: bytes) -> IndexStats | None:
        params = {"repo": draft.repo_id, "number": draft.number, "tree": tree}
        rows = await self._db.rows(q.TREE, params)
        if not rows:
            return None
        number, stats = rows[0]
        params["tree"] = number

        async def write(conn: Connection, again: bool) -> None:
            for member in q.MEMBERS:
                for undo in q.UNDO if again else ():
                    await conn.execute(undo.format(member=member), params)
                await conn.execute(q.LEAVE_FOR_TREE.format(member=member), params)
                await conn.execute(q.TAKE_TREE.format(member=member), params)

        await self._write(draft, write)
        return q.to_stats(stats)

    async def sibling(
        self, draft: Draft, sample: Mapping[str, bytes], facts_version: int
    ) -> Sibling | None:
        return await copies.sibling(self._db, draft, sample, facts_version)

    async def sibling_files(
        self, sibling: Sibling, wanted: Mapping[str, bytes]
    ) -> dict[str, KeptFile]:
        paths = list(wanted)
        found: dict[str, KeptFile] = {}
        for start in range(0, len(paths), FACTS_ROUND):
            portion = {path: wanted[path] for path in paths[start : start + FACTS_ROUND]}
            found |= await copies.files_of(self._db, sibling, portion)
        return found

    async def copy_files(
        self, draft: Draft, sibling: Sibling, files: Sequence[KeptFile]
    ) -> frozenset[str]:
        paths = [file.path for file in files]
        copied = copies.NOTHING

        async def write(conn: Connection, again: bool) -> None:
            nonlocal copied
            if again:
                await _uncopy(conn, draft, paths)
            copied = await copies.copy_files(conn, draft, sibling, files)
            if draft.base:
                await _retire(conn, draft, list(copied.paths), q.RETIRE_FILE)

        await self._write(draft, write, snapshot=True)
        self._note_copied(draft, copied)
        return copied.paths

    async def copy_tree(self, draft: Draft, sibling: Sibling, tree: bytes) -> IndexStats | None:
        copied = copies.NOTHING

        async def write(conn: Connection, again: bool) -> None:
            nonlocal copied
            if again:
                await _clean(conn, draft.repo_id)
            copied = await copies.copy_tree(conn, draft, sibling, tree)

        await self._write(draft, write, snapshot=True)
        self._note_copied(draft, copied)
        return q.to_stats(dict(copied.stats)) if copied.stats is not None else None

    def _note_copied(self, draft: Draft, copied: copies.Copied) -> None:
        mine = self._open(draft)
        mine.chunks += copied.chunks
        mine.copied = mine.copied or bool(copied.chunks)

    async def write_chunks(self, draft: Draft, chunks: Sequence[Chunk]) -> None:
        rows = [_chunk_row(draft, chunk) for chunk in chunks]

        async def write(conn: Connection, again: bool) -> None:
            if again:
                await conn.execute(
                    "DELETE FROM files WHERE id = ANY(%s)", ([c.id for c in chunks],)
                )
            await copy_rows(conn, "files", q.CHUNK_COLUMNS, rows)
            if draft.embedding_model:
                await conn.execute(q.TAKE_OVER, {"ids": [chunk.id for chunk in chunks]})

        await self._write(draft, write)
        mine = self._open(draft)
        mine.names.update(row[q.NAME_AT] for row in rows)
        mine.chunks += len(rows)

    async def write_segment(self, draft: Draft, segment: Segment) -> None:
        vectors = None
        if self._db.settings.embedding.tiers != "model":
            vectors = await segment_vectors.encoded(
                len(segment.ids), segment.terms, segment.docs, segment.tfs
            )

        # One transaction however many terms: half a segment is of no use to anybody.
        async def write(conn: Connection, again: bool) -> None:
            if again:
                same = "repo_id = %(repo)s AND rev_from = %(number)s AND ids = %(ids)s"
                ids = b"".join(id_.bytes for id_ in segment.ids)
                await drop_segments(
                    conn, same, {"repo": draft.repo_id, "number": draft.number, "ids": ids}
                )
            id_ = await segments.insert(
                conn, draft.repo_id, "files", segment, rev_from=draft.number
            )
            if vectors is not None:
                await segment_vectors.insert(conn, draft.repo_id, id_, vectors)

        await self._write(draft, write)

    async def write_graph(self, draft: Draft, parts: Sequence[FileGraph]) -> None:
        paths = [part.path for part in parts]

        async def write(conn: Connection, again: bool) -> None:
            if again:
                await _run(conn, draft, paths, q.UNWRITE_GRAPH)
            known: dict[str, int] = {}
            if draft.base:
                await _retire(conn, draft, paths, q.RETIRE_GRAPH)
                hashes = [part.graph_hash for part in parts]
                params = {**_keys(draft, paths), "hashes": hashes}
                cursor = await conn.execute(q.PARTS, params)
                known = dict(await cursor.fetchall())
            rows = [
                (draft.repo_id, draft.number, part.graph_hash, part.path, part.nodes, part.edges)
                for part in parts
                if part.path not in known
            ]
            await copy_rows(conn, "graph_part", q.GRAPH_COLUMNS, rows)
            held = [(path, known.get(path, draft.number)) for path in paths]
            await _hold(conn, draft, "graph_member", held)

        await self._write(draft, write)

    async def retire(self, draft: Draft, paths: Sequence[str]) -> None:
        size = self._db.settings.index.batch_items
        for start in range(0, len(paths), size):
            portion = list(paths[start : start + size])

            async def write(conn: Connection, again: bool, portion: list[str] = portion) -> None:
                await _unwrite(conn, draft, portion)
                await _run(conn, draft, portion, q.UNWRITE_GRAPH)
                await _retire(conn, draft, portion, q.RETIRE_FILE)
                await _retire(conn, draft, portion, q.RETIRE_GRAPH)

            await self._write(draft, write)

    async def publish(
        self, draft: Draft, stats: IndexStats, *, tree: bytes = b"", branch: str = ""
    ) -> Revision:
        mine = self._open(draft)
        large = await self._is_large(draft, mine)
        if large:
            # With the numbers of a small repository, publishing a large one would look each of its chunks up.
            await self._settle(q.ANALYZE)
        if draft.base or mine.copied:
            await self._write(draft, lambda conn, again: self._tidy(conn, draft))
        names = sorted(mine.names - {""})
        published = await self._db.retry(
            lambda attempt: self._publish(draft, stats, mine, names, (tree, branch), attempt)
        )
        await self._release(draft)
        if large:
            # New names wait in a list that each trigram search would read: 45 ms after Django.
            await self._settle("SELECT gin_clean_pending_list('symbol_name_trigram')")
        return published

    async def _is_large(self, draft: Draft, mine: _Open) -> bool:
        """Whether what the draft wrote changes what the planner should think of the tables."""
        before = 0
        if draft.base:
            ((before,),) = await self._db.rows(q.CHUNKS, {"repo": draft.repo_id})
        return mine.chunks > SETTLE_SHARE * (before + mine.chunks)

    async def _tidy(self, conn: Connection, draft: Draft) -> None:
        if draft.base:
            await segments.tidy(conn, draft)
        if self._db.settings.embedding.tiers != "model":
            await segment_vectors.complete(conn, draft)

    async def _settle(self, statement: str) -> None:
        """Do at once what autovacuum would do in a minute: tell the planner of a large load, which
        would read whole tables where an index does, or sort new names into their index."""
        try:
            async with self._db.connection() as conn:
                await conn.execute(statement)
        except PlaitError as exc:
            # Slower plans are no reason to call a run failed.
            logger.warning(
                "settling after a load failed", extra={"reason": exc.reason, "error": str(exc)}
            )

    async def _publish(
        self,
        draft: Draft,
        stats: IndexStats,
        mine: _Open,
        names: list[str],
        made_from: tuple[bytes, str],
        attempt: int,
    ) -> Revision:
        async with self._db.transaction() as conn:
            cursor = await conn.execute(q.FENCE, (draft.repo_id, mine.token))
            fenced = await cursor.fetchone()
            if fenced is None:
                return await _published_before(conn, draft, attempt)
            if fenced[0] < mine.writes:
                raise DraftLost(draft.repo)
            params = {
                "repo": draft.repo_id,
                "number": draft.number,
                "base": draft.base,
                "root": mine.root,
                "names": names,
                "tree": made_from[0] or None,
                "branch": made_from[1],
                **q.stats_params(stats),
            }
            await conn.execute(q.ADD_NAMES, params)
            if draft.base:
                await segments.bury(conn, draft)
            await conn.execute(q.PUBLISH, params)
            await queue_index(conn, draft.repo_id, draft.number)
            # Last: whoever writes this repository's memory waits from here on.
            at = await tick(conn, draft.repo_id)
            await conn.execute(q.LOG, {**params, "at": at})
            cursor = await conn.execute(
                f"SELECT {COLUMNS} FROM repository r WHERE r.id = %s", (draft.repo_id,)
            )
            row = await cursor.fetchone()
            assert row is not None
            failpoint.hit("publish.before_commit")
            return to_revision(row)

    async def discard(self, draft: Draft) -> None:
        """Never fails for what the next `begin` mends: what is left of the draft means nothing to
        readers, and this is called on the way out of another error."""
        mine = self._drafts.get(draft.repo_id)
        if mine is None:
            return
        try:
            async with self._db.transaction() as conn:
                cursor = await conn.execute(q.FENCE, (draft.repo_id, mine.token))
                if await cursor.fetchone() is None:
                    return  # the lock was lost, and another process has cleaned up already
                if mine.wrote:
                    await _clean(conn, draft.repo_id)
                await conn.execute(
                    "UPDATE repository SET draft_token = NULL WHERE id = %s", (draft.repo_id,)
                )
        except (StoreUnavailable, StoreFull) as exc:
            logger.warning("a draft is left to the next run", extra={"error": str(exc)})
        finally:
            await self._release(draft)

    async def _release(self, draft: Draft) -> None:
        mine = self._drafts.pop(draft.repo_id, None)
        if mine is not None:
            await locks.release(mine.conn, locks.INDEXING, draft.repo_id)

    async def close(self) -> None:
        """Locks go; the rows go with the next `begin`."""
        for repo_id in list(self._drafts):
            await locks.release(self._drafts.pop(repo_id).conn, locks.INDEXING, repo_id)

    def _open(self, draft: Draft) -> _Open:
        mine = self._drafts.get(draft.repo_id)
        if mine is None:
            raise RepositoryBusy(draft.repo)
        return mine

    async def _write(
        self,
        draft: Draft,
        write: Callable[[Connection, bool], Awaitable[object]],
        *,
        snapshot: bool = False,
    ) -> None:
        """One transaction of a draft, fenced: it fails once another process has begun a newer draft.

        `write(conn, again)`: `again` says that a trial before may have left these very rows. `snapshot`: all its
        statements see the same.
        """
        mine = self._open(draft)
        mine.wrote = True

        async def attempt(number: int, again: bool = False) -> int:
            async with self._db.transaction(durable=False) as conn:
                if snapshot:
                    await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor = await conn.execute(q.COUNTED_FENCE, (draft.repo_id, mine.token))
                row = await cursor.fetchone()
                if row is None:
                    raise RepositoryBusy(draft.repo)
                if row[0] <= mine.writes:
                    raise DraftLost(draft.repo)
                await write(conn, again or number > 1)
                return int(row[0])

        try:
            mine.writes = await self._db.retry(attempt)
        except pg.UniqueViolation:
            # The caller writes something of this draft a second time: the later one counts.
            mine.writes = await self._db.retry(lambda number: attempt(number, again=True))


def _keys(draft: Draft, paths: Sequence[str]) -> dict[str, Any]:
    return {"repo": draft.repo_id, "number": draft.number, "paths": list(paths)}


async def _run(
    conn: Connection, draft: Draft, paths: Sequence[str], statements: Sequence[str]
) -> None:
    for statement in statements:
        await conn.execute(statement, _keys(draft, paths))


async def _retire(conn: Connection, draft: Draft, paths: Sequence[str], statement: str) -> None:
    await conn.execute(statement, _keys(draft, paths))


async def _unwrite(conn: Connection, draft: Draft, paths: Sequence[str]) -> None:
    """Take back what this very draft wrote of `paths`."""
    await _run(conn, draft, paths, q.UNWRITE_FILES)


async def _uncopy(conn: Connection, draft: Draft, paths: Sequence[str]) -> None:
    """Take back what `copy_files` wrote, which comes before all other words of the draft."""
    await _unwrite(conn, draft, paths)
    await drop_segments(conn, "repo_id = %(repo)s AND rev_from = %(number)s", _keys(draft, paths))


async def _hold(
    conn: Connection, draft: Draft, member: str, held: Sequence[tuple[str, int]]
) -> None:
    """From the draft on, hold these versions: `(path, written)`."""
    rows = [(draft.repo_id, written, draft.number, path) for path, written in held]
    await copy_rows(conn, member, q.MEMBER_COLUMNS, rows)


async def _clean(conn: Connection, repo_id: int) -> None:
    """Undo all that was written past the published revision."""
    async with conn.transaction():
        params = {"id": repo_id}
        await conn.execute("SET LOCAL statement_timeout = 0")
        published = "(SELECT published FROM repository WHERE id = %(id)s)"
        future = f"repo_id = %(id)s AND rev_from > {published}"
        retired = f"repo_id = %(id)s AND rev_to > {published}"
        written = f"repo_id = %(id)s AND written > {published}"
        await conn.execute(f"DELETE FROM files WHERE {future}", params)
        for table in ("file_version", "graph_part"):
            await conn.execute(f"DELETE FROM {table} WHERE {written}", params)
        for table in q.MEMBERS:
            await conn.execute(f"DELETE FROM {table} WHERE {future}", params)
            await conn.execute(f"UPDATE {table} SET rev_to = NULL WHERE {retired}", params)
        await drop_segments(conn, future, params)
        await conn.execute(f"UPDATE segment SET rev_to = NULL WHERE {retired}", params)


async def _published_before(conn: Connection, draft: Draft, attempt: int) -> Revision:
    """The revision that an earlier trial committed without hearing of it.

    Raises: RepositoryBusy, when there was none: the lock was lost and another process took over.
    """
    cursor = await conn.execute(
        f"SELECT {COLUMNS} FROM repository r WHERE r.id = %s AND r.published = %s",
        (draft.repo_id, draft.number),
    )
    row = await cursor.fetchone()
    if attempt == 1 or row is None:
        raise RepositoryBusy(draft.repo)
    return to_revision(row)


def _chunk_row(draft: Draft, chunk: Chunk) -> tuple[Any, ...]:
    """In the order of `CHUNK_COLUMNS`. PostgreSQL's text has no NUL."""
    content = chunk.content.replace("\0", "\ufffd") if "\0" in chunk.content else chunk.content
    return (
        chunk.id, draft.repo_id, draft.number, chunk.start_line, chunk.end_line, chunk.is_test,
        "files", chunk.kind, chunk.language, chunk.content_hash, chunk.path, chunk.symbol,
        chunk.symbol.rpartition(".")[2], content,
    )  # fmt: skip
