"""Every text that the stores hold, to be examined for secrets, and the removal of replaced files."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

from plait.domain.errors import RepositoryBusy
from vector.connection import locks
from vector.connection.errors import translated
from vector.connection.pool import Database
from vector.index.repositories import collect_garbage
from vector.index.visible import chunk

PAGE = 500
_FIRST = UUID(int=0)

# One page each, by id. All give: id, repository, root, place, path, line, language, text.
_ITEMS = f"""
SELECT i.id, r.name, r.root, i.collection, i.path, i.start_line, i.language,
       i.content || E'\\n' || i.context || E'\\n' || i.meta::text,
       coalesce(i.episode_id, i.entry_id, i.id),
       i.collection = 'files' AND i.rev_from <= r.published AND NOT ({chunk("i", "r.published")})
  FROM item i JOIN repository r ON r.id = i.repo_id WHERE i.id > %(after)s ORDER BY i.id LIMIT %(page)s
"""
_EPISODES = """
SELECT e.id, r.name, r.root, 'episode', '', 0, '', e.outcome::text || E'\\n' || e.tags::text, e.id, false
  FROM episode e JOIN repository r ON r.id = e.repo_id WHERE e.id > %(after)s ORDER BY e.id LIMIT %(page)s
"""
_EVIDENCE = """
SELECT e.id, r.name, r.root, 'evidence', e.name, 0, '', e.body, e.episode_id, false
  FROM evidence e JOIN repository r ON r.id = e.repo_id WHERE e.id > %(after)s ORDER BY e.id LIMIT %(page)s
"""
_RECEIPTS = """
SELECT c.id, r.name, r.root, 'receipt', '', 0, '', c.request::text, c.id, false
  FROM recall c JOIN repository r ON r.id = c.repo_id WHERE c.id > %(after)s ORDER BY c.id LIMIT %(page)s
"""


@dataclass(frozen=True, slots=True)
class StoredText:
    """`place`: a collection, episode, evidence or receipt. `id`: what `forget` takes. `replaced`: of a file
    that the published revision no longer has so."""

    repo: str
    root: str
    place: str
    path: str
    line: int  # of the text's first line in its file; 0: of no file
    language: str
    text: str
    id: UUID
    replaced: bool


class Exposed:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def texts(self) -> AsyncIterator[StoredText]:
        """All of them, of every tenant, a page in memory at a time."""
        for query, page in ((_ITEMS, PAGE), (_EPISODES, PAGE), (_EVIDENCE, 4), (_RECEIPTS, PAGE)):
            after = _FIRST
            while rows := await self._db.rows(query, {"after": after, "page": page}):
                for _, repo, root, place, path, line, language, text, id_, replaced in rows:
                    content = (
                        zlib.decompress(text).decode("latin-1") if place == "evidence" else text
                    )
                    yield StoredText(
                        repo, root, place, path, line, language, content, id_, replaced
                    )
                after = rows[-1][0]

    async def drop_replaced(self) -> list[str]:
        """Remove what indexed files were before their published revision, of every repository, and rewrite
        their tables, so that no file holds its bytes. The repositories' names.

        Raises: RepositoryBusy, while one of them is being indexed.
        """
        known = await self._db.rows("SELECT id, name FROM repository WHERE published > 0", {})
        conn = await self._db.dedicated()
        try:
            for repo_id, name in known:
                if not await locks.try_lock(conn, locks.INDEXING, repo_id):
                    raise RepositoryBusy(name)
                with translated():
                    await conn.execute("SET statement_timeout = 0")
                    await collect_garbage(conn, repo_id, replaced=True)
                await locks.unlock(conn, locks.INDEXING, repo_id)
            with translated():
                for table in (
                    "files",
                    "file_version",
                    "graph_part",
                    "segment",
                    "posting",
                    "segment_vector",
                ):
                    await conn.execute(f"VACUUM (FULL, ANALYZE) plait.{table}")
        finally:
            await conn.close()
        return [name for _, name in known]
