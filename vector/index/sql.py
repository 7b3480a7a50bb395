"""The SQL of `vector/index/store.py`. Parameters are bound; nothing is formatted in."""

from __future__ import annotations

import json
from typing import Any

from plait.ports import IndexStats
from vector.index.visible import CHUNKS_OF, held

# Refused once another process has begun a newer draft; waits for one that begins right now.
FENCE = "SELECT draft_writes FROM repository WHERE id = %s AND draft_token = %s FOR SHARE"

# As FENCE, for a transaction that does not wait for the disk: it is counted, so that a loss shows.
COUNTED_FENCE = """
UPDATE repository SET draft_writes = draft_writes + 1 WHERE id = %s AND draft_token = %s
RETURNING draft_writes
"""

STORED_FILES = f"""
SELECT f.path, f.content_hash, f.language, f.lines, coalesce(g.graph_hash, ''::bytea)
  FROM source_file f
  LEFT JOIN file_graph g ON g.repo_id = f.repo_id AND g.path = f.path
       AND {held("g", "%(base)s")}
 WHERE f.repo_id = %(repo)s AND {held("f", "%(base)s")}
"""

FACTS = f"""
SELECT path, v.facts FROM file_member m JOIN file_version v USING (repo_id, path, written)
 WHERE repo_id = %(repo)s AND path = ANY(%(paths)s) AND {held("m", "%(base)s")}
 ORDER BY path
"""

# Versions of files with these contents; of equal ones the newest.
VERSIONS = """
SELECT DISTINCT ON (v.path) v.path, v.content_hash, v.language, v.lines, v.written, v.facts
  FROM unnest(%(paths)s::text[], %(hashes)s::bytea[]) AS w (path, hash)
  JOIN file_version v ON v.path = w.path AND v.content_hash = w.hash
 WHERE v.repo_id = %(repo)s AND v.written < %(number)s
 ORDER BY v.path, v.written DESC
"""
PARTS = """
SELECT DISTINCT ON (p.path) p.path, p.written
  FROM unnest(%(paths)s::text[], %(hashes)s::bytea[]) AS w (path, hash)
  JOIN graph_part p ON p.path = w.path AND p.graph_hash = w.hash
 WHERE p.repo_id = %(repo)s AND p.written < %(number)s
 ORDER BY p.path, p.written DESC
"""
# The newest kept revision that was made from a tree.
TREE = """
SELECT number, stats FROM revision_log
 WHERE repo_id = %(repo)s AND tree = %(tree)s AND number < %(number)s ORDER BY number DESC LIMIT 1
"""

FILE_COLUMNS = (
    ("repo_id", "int4"), ("written", "int4"), ("lines", "int4"), ("size_bytes", "int8"),
    ("is_test", "bool"), ("content_hash", "bytea"), ("language", "text"), ("path", "text"),
    ("facts", "bytea"),
)  # fmt: skip

GRAPH_COLUMNS = (
    ("repo_id", "int4"), ("written", "int4"), ("graph_hash", "bytea"), ("path", "text"),
    ("nodes", "bytea"), ("edges", "bytea"),
)  # fmt: skip

CHUNK_COLUMNS = (
    ("id", "uuid"), ("repo_id", "int4"), ("rev_from", "int4"), ("start_line", "int4"),
    ("end_line", "int4"), ("is_test", "bool"), ("collection", "text"), ("kind", "text"),
    ("language", "text"), ("content_hash", "bytea"), ("path", "text"), ("symbol", "text"),
    ("name", "text"), ("content", "text"),
)  # fmt: skip
NAME_AT = 12

MEMBER_COLUMNS = (
    ("repo_id", "int4"), ("written", "int4"), ("rev_from", "int4"), ("path", "text"),
)  # fmt: skip

_RETIRED = """ SET rev_to = %(number)s
 WHERE repo_id = %(repo)s AND path = ANY(%(paths)s) AND rev_to IS NULL AND rev_from < %(number)s"""
RETIRE_FILE = "UPDATE file_member" + _RETIRED
RETIRE_GRAPH = "UPDATE graph_member" + _RETIRED

_OURS = " WHERE repo_id = %(repo)s AND path = ANY(%(paths)s) AND {} = %(number)s"
UNWRITE_FILES = (
    "DELETE FROM file_member" + _OURS.format("rev_from"),
    "DELETE FROM file_version" + _OURS.format("written"),
    "DELETE FROM files" + _OURS.format("rev_from"),
)
UNWRITE_GRAPH = (
    "DELETE FROM graph_member" + _OURS.format("rev_from"),
    "DELETE FROM graph_part" + _OURS.format("written"),
)

# All of a kept tree in place of what the draft starts from: {member} is `file_member` or `graph_member`.
LEAVE_FOR_TREE = """
UPDATE {member} m SET rev_to = %(number)s
 WHERE m.repo_id = %(repo)s AND m.rev_to IS NULL AND m.rev_from < %(number)s
   AND NOT EXISTS (SELECT FROM {member} k WHERE k.repo_id = m.repo_id AND k.path = m.path
                      AND k.written = m.written AND k.rev_from <= %(tree)s
                      AND (k.rev_to IS NULL OR k.rev_to > %(tree)s))
"""
TAKE_TREE = """
INSERT INTO {member} (repo_id, written, rev_from, path)
SELECT k.repo_id, k.written, %(number)s, k.path FROM {member} k
 WHERE k.repo_id = %(repo)s AND k.rev_from <= %(tree)s AND k.rev_to > %(tree)s
   AND NOT EXISTS (SELECT FROM {member} m WHERE m.repo_id = k.repo_id AND m.path = k.path
                      AND m.written = k.written AND m.rev_to IS NULL)
 ORDER BY k.path
"""
UNDO = (
    "DELETE FROM {member} WHERE repo_id = %(repo)s AND rev_from = %(number)s",
    "UPDATE {member} SET rev_to = NULL WHERE repo_id = %(repo)s AND rev_to = %(number)s",
)
MEMBERS = ("file_member", "graph_member")

# A chunk whose text is embedded already, in any repository or revision, takes the vector over.
TAKE_OVER = """
UPDATE files AS new SET embedding = old.embedding, embedding_model = old.embedding_model
  FROM (SELECT DISTINCT ON (content_hash) content_hash, embedding, embedding_model
          FROM item WHERE embedding IS NOT NULL AND content_hash IN
               (SELECT content_hash FROM files WHERE id = ANY(%(ids)s))) AS old
 WHERE new.id = ANY(%(ids)s) AND new.content_hash = old.content_hash
"""

ADD_NAMES = """
INSERT INTO symbol_name (repo_id, name)
SELECT %(repo)s, name FROM unnest(%(names)s::text[]) AS name ON CONFLICT DO NOTHING
"""

# Counts grow by what comes and shrink by what leaves, so that a small change costs little.
PUBLISH = f"""
UPDATE repository SET
       published = %(number)s, last_number = %(number)s, draft_token = NULL,
       root = %(root)s, stats = %(stats)s::jsonb,
       files = (SELECT count(*) FROM file_member WHERE repo_id = %(repo)s AND rev_to IS NULL),
       (chunks, embedded) = (
       SELECT CASE WHEN %(base)s > 0 THEN repository.chunks ELSE 0 END + coalesce(sum(c.sign), 0),
              CASE WHEN %(base)s > 0 THEN repository.embedded ELSE 0 END
              + coalesce(sum(c.sign) FILTER (WHERE c.has_vector), 0)
         FROM (SELECT CASE WHEN m.rev_from = %(number)s THEN 1 ELSE -1 END AS sign,
                      f.embedding IS NOT NULL AS has_vector
                 FROM file_member m JOIN files f ON {CHUNKS_OF}
                WHERE m.repo_id = %(repo)s AND (m.rev_from = %(number)s OR m.rev_to = %(number)s)) c)
 WHERE id = %(repo)s
"""

# Which revision a recorded time means; a repeat of a publish that went through never comes here.
LOG = """
WITH logged AS (
    INSERT INTO revision_log (repo_id, number, published_at, tree, branch, stats)
    VALUES (%(repo)s, %(number)s, %(at)s, %(tree)s, %(branch)s, %(stats)s::jsonb))
UPDATE repository SET published_at = %(at)s WHERE id = %(repo)s
"""


def stats_params(stats: IndexStats) -> dict[str, Any]:
    return {
        "stats": json.dumps(
            {
                "nodes": stats.nodes,
                "edges": stats.edges,
                "unresolved": stats.unresolved,
                "languages": dict(stats.languages),
                "skipped": dict(stats.skipped),
                "facts_version": stats.facts_version,
                "timed_out": dict(stats.timed_out),
                "symbols": stats.symbols,
                "relations": dict(stats.relations),
                "causes": dict(stats.causes),
                "unread": dict(stats.unread),
            }
        )
    }


def to_stats(stored: dict[str, Any]) -> IndexStats:
    """What `stats_params` stored."""
    known = {name: stored[name] for name in IndexStats.__dataclass_fields__ if name in stored}
    return IndexStats(**known)


# Without the contents of `files`, which no plan depends on and which take ten times as long.
ANALYZE = """
ANALYZE files (repo_id, rev_from, path, name, kind, language, is_test, content_hash),
        posting, symbol_name, file_version, file_member, graph_part, graph_member
"""
CHUNKS = "SELECT chunks FROM repository WHERE id = %(repo)s"
