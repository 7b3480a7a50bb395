"""The SQL of `vector/index/store.py`. Parameters are bound; nothing is formatted in."""

from __future__ import annotations

import json
from typing import Any

from plait.ports import IndexStats
from vector.index.visible import held

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
SELECT path, facts FROM source_file
 WHERE repo_id = %(repo)s AND path = ANY(%(paths)s)
   AND {held("source_file", "%(base)s")}
 ORDER BY path
"""

FILE_COLUMNS = (
    ("repo_id", "int4"), ("rev_from", "int4"), ("lines", "int4"), ("size_bytes", "int8"),
    ("is_test", "bool"), ("content_hash", "bytea"), ("language", "text"), ("path", "text"),
    ("facts", "bytea"),
)  # fmt: skip

GRAPH_COLUMNS = (
    ("repo_id", "int4"), ("rev_from", "int4"), ("graph_hash", "bytea"), ("path", "text"),
    ("nodes", "bytea"), ("edges", "bytea"),
)  # fmt: skip

CHUNK_COLUMNS = (
    ("id", "uuid"), ("repo_id", "int4"), ("rev_from", "int4"), ("start_line", "int4"),
    ("end_line", "int4"), ("is_test", "bool"), ("collection", "text"), ("kind", "text"),
    ("language", "text"), ("content_hash", "bytea"), ("path", "text"), ("symbol", "text"),
    ("name", "text"), ("content", "text"),
)  # fmt: skip
NAME_AT = 12

_RETIRED = """ SET rev_to = %(number)s
 WHERE repo_id = %(repo)s AND path = ANY(%(paths)s) AND rev_to IS NULL AND rev_from < %(number)s"""
RETIRE_FILE = ("UPDATE source_file" + _RETIRED, "UPDATE files" + _RETIRED)
RETIRE_GRAPH = ("UPDATE file_graph" + _RETIRED,)

_OURS = " WHERE repo_id = %(repo)s AND path = ANY(%(paths)s) AND rev_from = %(number)s"
UNWRITE_FILES = "DELETE FROM source_file" + _OURS
UNWRITE_CHUNKS = "DELETE FROM files" + _OURS
UNWRITE_GRAPH = "DELETE FROM file_graph" + _OURS

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

PUBLISH = """
UPDATE repository SET
       published = %(number)s, last_number = %(number)s, draft_token = NULL,
       root = %(root)s, stats = %(stats)s::jsonb,
       files = (SELECT count(*) FROM source_file
                 WHERE repo_id = %(repo)s AND rev_to IS NULL),
       (chunks, embedded) = (SELECT count(*), count(embedding) FROM files
                              WHERE repo_id = %(repo)s AND rev_to IS NULL)
 WHERE id = %(repo)s
"""

# Which revision a recorded time means; a repeat of a publish that went through never comes here.
LOG = """
WITH logged AS (
    INSERT INTO revision_log (repo_id, number, published_at) VALUES (%(repo)s, %(number)s, %(at)s))
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
            }
        )
    }


# Without the contents of `files`, which no plan depends on and which take ten times as long.
ANALYZE = """
ANALYZE files (repo_id, rev_from, rev_to, path, name, kind, language, is_test, content_hash),
        posting, symbol_name, source_file, file_graph
"""
