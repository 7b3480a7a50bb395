"""The SQL of `vector/episodes/links.py` and `vector/episodes/chains.py`. Parameters are bound; nothing is formatted in."""

from __future__ import annotations

from vector.index.visible import chunk, held

# With whether any of the episodes has what can be settled.
REPOSITORY = """
SELECT name, published,
       EXISTS (SELECT FROM test_result WHERE episode_id = ANY(%(episodes)s))
    OR EXISTS (SELECT FROM memory_node WHERE episode_id = ANY(%(episodes)s) AND label = 'Diff')
  FROM repository WHERE id = %(repo)s
"""

OPEN_HUNKS = """
SELECT item_id, ordinal, path, old_start, new_start, heading, body FROM hunk
 WHERE repo_id = %(repo)s AND episode_id = ANY(%(episodes)s) AND symbols IS NULL
 ORDER BY path, item_id, ordinal LIMIT %(limit)s
"""

# Lines of a published file by what its chunks hold, and its part of the graph, which has the functions.
CHUNKS = f"""
SELECT path, start_line, end_line, content FROM files
 WHERE repo_id = %(repo)s AND path = ANY(%(paths)s)
   AND {chunk("files", "%(at)s")}
"""
NODES = f"""
SELECT path, nodes FROM file_graph
 WHERE repo_id = %(repo)s AND path = ANY(%(paths)s)
   AND {held("file_graph", "%(at)s")}
"""

OPEN_TESTS = """
SELECT DISTINCT reported, name FROM test_result
 WHERE repo_id = %(repo)s AND episode_id = ANY(%(episodes)s) AND test = '' AND name <> ''
"""
TESTS_NAMED = f"""
SELECT DISTINCT symbol, path, name FROM files
 WHERE repo_id = %(repo)s AND name = ANY(%(names)s) AND is_test AND symbol <> ''
   AND {chunk("files", "%(at)s")}
"""

SET_SYMBOLS = """
UPDATE hunk h SET symbols = found.symbols::text[]
  FROM unnest(%(items)s::uuid[], %(ordinals)s::int4[], %(symbols)s::text[])
       AS found (item, ordinal, symbols)
 WHERE h.item_id = found.item AND h.ordinal = found.ordinal AND h.repo_id = %(repo)s
"""
TOUCHED = """
SELECT DISTINCT episode_id, item_id, path, unnest(symbols) FROM hunk
 WHERE repo_id = %(repo)s AND episode_id = ANY(%(episodes)s) AND symbols <> '{}'
"""
SET_TESTS = """
UPDATE test_result t SET test = found.test
  FROM unnest(%(reported)s::text[], %(tests)s::text[]) AS found (reported, test)
 WHERE t.repo_id = %(repo)s AND t.episode_id = ANY(%(episodes)s) AND t.reported = found.reported
   AND t.test = ''
"""

# Tests that ended well in an episode: the last of their results there.
PASSED = """
SELECT episode_id, test FROM (
    SELECT DISTINCT ON (episode_id, test) episode_id, test, status FROM test_result
     WHERE repo_id = %(repo)s AND episode_id = ANY(%(episodes)s) AND test <> '' AND status <> 'skipped'
     ORDER BY episode_id, test, item_id DESC,
              CASE WHEN status = 'passed' THEN 1 ELSE 0 END, ordinal DESC) last
 WHERE status = 'passed' ORDER BY episode_id, test
"""

# -- histories ---------------------------------------------------------------------------------------

# Tests of some episodes that ever failed: what turned them green, or red, may have changed.
SUSPECTS = """
SELECT DISTINCT t.test, t.episode_id, t.ran_at FROM test_result t
 WHERE t.repo_id = %(repo)s AND t.episode_id = ANY(%(episodes)s) AND t.test <> ''
   AND EXISTS (SELECT FROM test_result f WHERE f.repo_id = t.repo_id AND f.test = t.test
                  AND f.test <> '' AND f.status IN ('failed', 'error'))
 LIMIT %(limit)s
"""
# The episodes that next saw a test pass.
NEXT_PASSES = """
SELECT DISTINCT next.episode_id
  FROM unnest(%(tests)s::text[], %(times)s::timestamptz[]) AS s (test, at),
       LATERAL (SELECT p.episode_id FROM test_result p
                 WHERE p.repo_id = %(repo)s AND p.test = s.test AND p.test <> ''
                   AND p.ran_at >= s.at AND p.status = 'passed'
                 ORDER BY p.ran_at LIMIT 20) next
"""
# The same for diffs that arrive after the runs they stand between: any test that ever failed.
LATER_RUNS = """
SELECT min(e.valid_from) FROM episode e
 WHERE e.id = ANY(%(episodes)s)
   AND EXISTS (SELECT FROM memory_node n WHERE n.episode_id = e.id AND n.label = 'Diff')
   AND EXISTS (SELECT FROM test_result t WHERE t.repo_id = e.repo_id AND t.ran_at >= e.valid_from
                  AND t.episode_id <> e.id)
"""
FAILED_EVER = """
SELECT DISTINCT test FROM test_result
 WHERE repo_id = %(repo)s AND test <> '' AND status IN ('failed', 'error') LIMIT %(limit)s
"""

# What each (episode, test) that passed came from: the last runs up to there, the newest first. One row
# a run: the worst of its results, since the parts of a parametrised test are one test.
HISTORY = """
SELECT mine.episode_id, mine.test, run.ran_at, run.episode_id, run.item_id, run.failed
  FROM (SELECT t.episode_id, t.test, max(t.ran_at) AS ran_at, max(t.item_id::text)::uuid AS item_id
          FROM test_result t
         WHERE t.repo_id = %(repo)s AND t.episode_id = ANY(%(episodes)s) AND t.test <> ''
           AND t.status <> 'skipped'
           AND EXISTS (SELECT FROM test_result f WHERE f.repo_id = t.repo_id AND f.test = t.test
                          AND f.test <> '' AND f.status IN ('failed', 'error'))
         GROUP BY t.episode_id, t.test HAVING bool_or(t.status = 'passed')
         ORDER BY t.episode_id, t.test LIMIT %(limit)s) mine,
       LATERAL (SELECT h.ran_at, h.episode_id, h.item_id, bool_or(h.status <> 'passed') AS failed
                  FROM (SELECT x.ran_at, x.episode_id, x.item_id, x.status FROM test_result x
                         WHERE x.repo_id = %(repo)s AND x.test = mine.test AND x.test <> ''
                           AND x.ran_at <= mine.ran_at AND x.status <> 'skipped'
                         ORDER BY x.ran_at DESC LIMIT 200) h
                 WHERE (h.ran_at, h.episode_id, h.item_id)
                       <= (mine.ran_at, mine.episode_id, mine.item_id)
                 GROUP BY h.ran_at, h.episode_id, h.item_id) run
 ORDER BY mine.episode_id, mine.test, run.ran_at, run.episode_id, run.item_id
"""

DIFFS_BETWEEN = """
SELECT DISTINCT n.name, n.path, e.id, e.valid_from
  FROM unnest(%(from)s::timestamptz[], %(to)s::timestamptz[]) AS gap (low, high),
       LATERAL (SELECT id, valid_from FROM episode x
                 WHERE x.repo_id = %(repo)s AND x.valid_from BETWEEN gap.low AND gap.high
                   AND EXISTS (SELECT FROM memory_node d
                                WHERE d.episode_id = x.id AND d.label = 'Diff')
                 ORDER BY x.valid_from DESC LIMIT 50) e
  JOIN memory_node n ON n.episode_id = e.id AND n.label = 'Diff'
 ORDER BY n.name
"""

# What diffs are said to fix, and what episodes name.
FIXED_BY = """
SELECT source, target FROM memory_edge
 WHERE repo_id = %(repo)s AND source = ANY(%(diffs)s) AND relation = 'FIXES' AND resolver = 'text'
   AND recorded_to IS NULL ORDER BY id
"""
ISSUES_OF = """
SELECT DISTINCT episode_id, target FROM memory_edge
 WHERE episode_id = ANY(%(episodes)s) AND relation IN ('MENTIONS', 'FIXES') AND resolver = 'text'
   AND target LIKE 'issue/%%' AND recorded_to IS NULL
"""
SYMBOLS_OF = """
SELECT item_id, path, symbols FROM hunk
 WHERE repo_id = %(repo)s AND item_id = ANY(%(items)s) AND symbols IS NOT NULL
"""

# -- edges -------------------------------------------------------------------------------------------

# Kept from `forget` until the end: an edge needs its episode.
OWNERS = """
SELECT id, valid_from FROM episode WHERE repo_id = %(repo)s AND id = ANY(%(owners)s) ORDER BY id
   FOR KEY SHARE
"""
STILL_NAMED = "SELECT name FROM memory_node WHERE repo_id = %(repo)s AND name = ANY(%(names)s)"
OPEN_EDGES = """
SELECT id, episode_id, relation, source, target FROM memory_edge
 WHERE episode_id = ANY(%(owners)s) AND resolver = ANY(%(resolvers)s) AND recorded_to IS NULL
"""
CLOSE_EDGES = "UPDATE memory_edge SET recorded_to = %(at)s WHERE id = ANY(%(ids)s)"
QUEUE_AGAIN = """
INSERT INTO outbox (repo_id, kind, episode_id)
SELECT %(repo)s, 'episode', id FROM unnest(%(episodes)s::uuid[]) AS sent (id)
"""

# Before `settled` moves on to `target`: episodes whose open hunks or tests are in files that the revisions
# up to it brought or changed are settled, and projected, again; those that wait, once. Parameters: repo, target.
REQUEUE_OPEN = f"""
WITH fresh AS (
    SELECT path FROM source_file
     WHERE repo_id = %(repo)s AND {held("source_file", "%(target)s")}
       AND rev_from > (SELECT settled FROM repository WHERE id = %(repo)s)
), named AS (
    SELECT DISTINCT f.name FROM files f JOIN fresh USING (path)
     WHERE f.repo_id = %(repo)s AND f.is_test AND f.name <> ''
       AND {chunk("f", "%(target)s")}
), open AS (
    SELECT h.episode_id FROM hunk h JOIN fresh USING (path)
     WHERE h.repo_id = %(repo)s AND h.symbols IS NULL
    UNION
    SELECT t.episode_id FROM test_result t JOIN named USING (name)
     WHERE t.repo_id = %(repo)s AND t.test = '' AND t.name <> ''
), again AS (
    UPDATE outbox o SET settled = false FROM open
     WHERE o.repo_id = %(repo)s AND o.kind = 'episode' AND o.episode_id = open.episode_id
)
INSERT INTO outbox (repo_id, kind, episode_id)
SELECT %(repo)s, 'episode', e.id FROM episode e JOIN open ON open.episode_id = e.id
 WHERE NOT EXISTS (SELECT FROM outbox o WHERE o.repo_id = %(repo)s AND o.episode_id = e.id)
 ORDER BY e.recorded_at, e.id
"""

SETTLED_TO = """
UPDATE repository SET settled = GREATEST(settled, %(target)s) WHERE id = %(repo)s
"""
