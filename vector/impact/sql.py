"""The SQL of `vector/impact/store.py`. Parameters are bound; nothing is formatted in."""

from __future__ import annotations

from vector.index.visible import chunk, held

_FILES = "repo_id = %(repo)s AND " + held("source_file", "%(number)s")
_CHUNKS = "repo_id = %(repo)s AND " + chunk("files", "%(number)s")

PATHS = f"SELECT DISTINCT path FROM source_file WHERE {_FILES} AND path = ANY(%(paths)s)"

# A diff that was made in a folder of the repository names files from there. One pass over all paths, joined
# by their last part: new files, which are nowhere, are many. Two paths tell "several".
_NAME = "reverse(split_part(reverse({0}.path), '/', 1))"
PATHS_BY_END = f"""
SELECT wanted.path, min(source_file.path), max(source_file.path)
  FROM source_file
  JOIN unnest(%(paths)s::text[]) AS wanted (path)
    ON {_NAME.format("source_file")} = {_NAME.format("wanted")}
   AND right(source_file.path, length(wanted.path) + 1) = '/' || wanted.path
 WHERE {_FILES} GROUP BY wanted.path
"""

CHUNKS = f"""
SELECT path, symbol, kind, start_line, end_line, content, is_test FROM files
 WHERE {_CHUNKS} AND path = ANY(%(paths)s) ORDER BY path, start_line, end_line DESC, symbol
 LIMIT %(limit)s
"""

_VALID = """({0}.valid_from IS NULL OR {0}.valid_from <= coalesce(%(valid)s, now()))
   AND ({0}.valid_to IS NULL OR {0}.valid_to > coalesce(%(valid)s, now()))"""
_KNOWN = """(%(recorded)s::timestamptz IS NULL OR {0}.recorded_from <= %(recorded)s)
   AND ({0}.recorded_to IS NULL OR ({0}.recorded_to > %(recorded)s))"""


def _seen(edge: str) -> str:
    """An edge as the view's two times have it; a closed one is seen only as of a time before."""
    return f"{_VALID} AND {_KNOWN}".format(edge)


# Diffs that touched one of `ends`, the newest first, each with what it is known to fix, cause, and pass.
# A file is touched by whatever touches a function of it: `precise` are the ends that are none.
TOUCHED_BY = f"""
WITH hit AS (
    SELECT e.source, e.episode_id, array_agg(DISTINCT e.target ORDER BY e.target) AS ends
      FROM memory_edge e
     WHERE e.repo_id = %(repo)s AND e.target = ANY(%(ends)s) AND e.relation = 'TOUCHES'
       AND e.source LIKE 'diff/%%' AND {_seen("e")}
     GROUP BY e.source, e.episode_id
), newest AS (
    SELECT h.source, h.ends, p.id, coalesce(p.valid_from, p.recorded_at) AS at, p.outcome
      FROM hit h JOIN episode p ON p.id = h.episode_id AND p.repo_id = %(repo)s
     WHERE (%(recorded)s::timestamptz IS NULL OR p.recorded_at <= %(recorded)s)
       AND coalesce(p.valid_from, p.recorded_at) <= coalesce(%(valid)s, now())
     ORDER BY at DESC, h.source LIMIT %(limit)s
)
SELECT n.source, n.ends, n.at, coalesce(n.outcome->>'status', ''), coalesce(n.outcome->>'summary', ''),
       array(SELECT DISTINCT o.relation || ' ' || o.target FROM memory_edge o
              WHERE o.repo_id = %(repo)s AND o.source = n.source
                AND o.relation IN ('FIXES', 'CAUSES', 'VALIDATED_BY') AND {_seen("o")}
              ORDER BY 1 LIMIT 50)
  FROM newest n ORDER BY n.at DESC, n.source
"""

# For each test that failed: how often, when last, in which item, and what it did since.
FAILED = """
SELECT f.test, f.times, f.last, f.item_id, f.reported,
       (SELECT max(t.ran_at) FROM test_result t JOIN episode p ON p.id = t.episode_id
         WHERE t.repo_id = %(repo)s AND t.test = f.test AND t.test <> '' AND t.status = 'passed'
           AND t.ran_at > f.last AND t.ran_at <= coalesce(%(valid)s, now())
           AND (%(recorded)s::timestamptz IS NULL OR p.recorded_at <= %(recorded)s)) AS green
  FROM (SELECT t.test, count(DISTINCT t.episode_id) AS times, max(t.ran_at) AS last,
               (array_agg(t.item_id ORDER BY t.ran_at DESC, t.item_id DESC))[1] AS item_id,
               (array_agg(t.reported ORDER BY t.ran_at DESC, t.item_id DESC))[1] AS reported
          FROM test_result t JOIN episode p ON p.id = t.episode_id
         WHERE t.repo_id = %(repo)s AND t.test = ANY(%(tests)s) AND t.test <> ''
           AND t.status IN ('failed', 'error') AND t.ran_at <= coalesce(%(valid)s, now())
           AND (%(recorded)s::timestamptz IS NULL OR p.recorded_at <= %(recorded)s)
         GROUP BY t.test) f
 ORDER BY f.last DESC, f.test LIMIT %(limit)s
"""

RUNS_BEHIND = f"""
SELECT i.id, p.id, coalesce(p.outcome->>'status', ''), coalesce(p.outcome->>'summary', ''),
       coalesce(p.valid_from, p.recorded_at),
       array(SELECT n.path FROM memory_node n
              WHERE n.episode_id = p.id AND n.label = 'Diff' ORDER BY n.name LIMIT 20),
       array(SELECT DISTINCT e.target FROM memory_edge e
              WHERE e.repo_id = p.repo_id AND e.episode_id = p.id AND e.source LIKE 'diff/%%'
                AND e.relation IN ('FIXES', 'VALIDATED_BY') AND {_seen("e")}
              ORDER BY 1 LIMIT 20)
  FROM item i JOIN episode p ON p.id = i.episode_id AND p.repo_id = i.repo_id
 WHERE i.id = ANY(%(ids)s) AND i.repo_id = ANY(%(repos)s)
   AND (%(recorded)s::timestamptz IS NULL OR p.recorded_at <= %(recorded)s)
"""
