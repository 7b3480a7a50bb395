"""The SQL of `vector/projection/store.py`. Parameters are bound; nothing is formatted in."""

from __future__ import annotations

from vector.episodes.links_sql import REQUEUE_OPEN as REQUEUE_OPEN
from vector.episodes.links_sql import SETTLED_TO as SETTLED_TO

# What is due: `not_before` has come. One that lies further ahead than any wait (`outbox.MAX_WAIT_S`) was
# written while the clock was ahead, and is not waited for.
_DUE = "NOT (not_before > now() AND not_before <= now() + interval '31 seconds')"

# Repositories whose oldest event is due, the longest waiting first. From head to head by the index: a
# backlog of a bulk import is not read through for each claim.
RUNNABLE = f"""
WITH RECURSIVE head AS (
    (SELECT repo_id, id, not_before FROM outbox ORDER BY repo_id, id LIMIT 1)
    UNION ALL
    SELECT next.* FROM head, LATERAL (
        SELECT repo_id, id, not_before FROM outbox WHERE repo_id > head.repo_id
         ORDER BY repo_id, id LIMIT 1) AS next
)
SELECT repo_id FROM head
 WHERE {_DUE} AND repo_id <> ALL(%(held)s::int[]) ORDER BY id
"""

HEAD = f"""
SELECT o.id, r.name, o.kind, o.attempts, o.batch, {_DUE},
       r.graph_number, r.graph_target, r.published
  FROM outbox o JOIN repository r ON r.id = o.repo_id
 WHERE o.repo_id = %(repo)s ORDER BY o.id LIMIT 1 FOR UPDATE OF o
"""

# The events at the head, with about how many nodes and edges each brings.
QUEUE = f"""
SELECT o.id, o.kind, o.batch, {_DUE},
       CASE o.kind WHEN 'episode' THEN
                 1 + (SELECT count(*) FROM memory_edge e WHERE e.episode_id = o.episode_id)
                   + (SELECT count(*) FROM memory_node n WHERE n.episode_id = o.episode_id)
            ELSE coalesce(cardinality(o.entries), 0) + coalesce(cardinality(o.names), 0) END
  FROM outbox o WHERE o.repo_id = %(repo)s ORDER BY o.id LIMIT 500
"""

JOIN = "UPDATE outbox SET batch = %(batch)s WHERE id = ANY(%(ids)s)"

MEMBERS = """
UPDATE outbox SET attempts = attempts + 1, claimed_by = %(who)s
 WHERE repo_id = %(repo)s AND batch = %(batch)s RETURNING id, episode_id, entries, names
"""

# The fence is a time, so that it also grows past what a graph saw of a truth that was restored since.
_FENCE = """
       graph_fence = GREATEST((extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
                              graph_fence + 1)
 WHERE id = %(repo)s RETURNING graph_fence
"""
START = (
    """
UPDATE repository SET graph_busy = true, graph_epoch = graph_epoch + 1,
       graph_target = CASE WHEN %(kind)s = 'index' THEN %(target)s ELSE graph_target END,
"""
    + _FENCE
)
START_MEMORY = (
    """
UPDATE repository SET memory_busy = true, memory_epoch = memory_epoch + 1,
"""
    + _FENCE
)

# Whoever deletes the event has ended it: nobody ends it again.
DELETE = "DELETE FROM outbox WHERE id = %(event)s RETURNING id"

# One delta serves every index event up to its target, but none behind a removal.
DONE = {
    "index": (
        REQUEUE_OPEN,
        SETTLED_TO,
        """
DELETE FROM outbox o WHERE repo_id = %(repo)s AND kind = 'index' AND number <= %(target)s
   AND NOT EXISTS (SELECT FROM outbox b WHERE b.repo_id = o.repo_id AND b.kind = 'remove'
                      AND b.id < o.id)
""",
        """
UPDATE repository SET graph_number = %(target)s, graph_target = 0, graph_busy = false
 WHERE id = %(repo)s
""",
    ),
    "remove": (
        """
UPDATE repository SET graph_number = 0, graph_target = 0, graph_busy = false, graph_broken = false,
       memory_busy = false, memory_epoch = memory_epoch + 1
 WHERE id = %(repo)s
""",
    ),
}

# One statement: at a hundred episodes a second each round trip counts.
DONE_MEMORY = """
WITH gone AS (DELETE FROM outbox WHERE repo_id = %(repo)s AND batch = %(event)s RETURNING episode_id),
     shown AS (UPDATE episode SET projected = true
                WHERE id IN (SELECT episode_id FROM gone) AND NOT projected)
UPDATE repository SET memory_busy = false WHERE id = %(repo)s AND EXISTS (SELECT FROM gone)
"""

# -- without a graph ---------------------------------------------------------------------------------

# Repositories with something to settle: new episodes, or a new revision that older ones may touch.
UNSETTLED = """
SELECT repo_id FROM outbox WHERE kind = 'episode' AND NOT settled
 UNION SELECT id FROM repository WHERE published > settled
"""
PUBLISHED = "SELECT published, published > settled FROM repository WHERE id = %(repo)s"
EPISODES_UNSETTLED = """
SELECT id, episode_id FROM outbox WHERE repo_id = %(repo)s AND kind = 'episode' AND NOT settled
 ORDER BY id LIMIT %(limit)s
"""
SET_SETTLED = "UPDATE outbox SET settled = true WHERE id = ANY(%(ids)s)"

# Where the graph lags so far that projecting all of it costs less than what is kept for the difference:
# more events than `most`, or more parts of old revisions than the published one has.
TOO_LONG = """
SELECT repo_id FROM outbox o GROUP BY repo_id
HAVING count(*) > %(most)s AND NOT bool_or(kind = 'episode' AND NOT settled)
 UNION
SELECT r.id FROM repository r, LATERAL (
       SELECT count(*) FILTER (WHERE rev_to IS NOT NULL) AS old,
              count(*) FILTER (WHERE rev_to IS NULL) AS live
         FROM graph_member f WHERE f.repo_id = r.id) AS parts
 WHERE r.graph_number > 0 AND r.graph_number < r.published
   AND parts.old > GREATEST(parts.live, %(most)s)
"""
ANEW = """
UPDATE repository SET graph_anew = true, graph_number = 0, graph_target = 0 WHERE id = %(repo)s
"""
WAS_ANEW = """
UPDATE repository SET graph_anew = false WHERE id = %(repo)s AND graph_anew RETURNING id
"""

# Whether what waited at event `last` is projected, and no code waits that came meanwhile.
BEHIND = """
SELECT EXISTS (SELECT FROM outbox WHERE (id <= %(last)s OR kind IN ('index', 'remove')) AND {which})
"""
_OF_NAMED = "repo_id IN (SELECT id FROM repository WHERE name = ANY(%(repos)s))"
BEHIND_NAMED = BEHIND.format(which=_OF_NAMED)
BEHIND_ALL = BEHIND.format(which="true")
LAST_EVENT = "SELECT coalesce(max(id), 0) FROM outbox"

LATER = """
UPDATE outbox SET not_before = now() + make_interval(secs => %(wait)s), claimed_by = NULL,
       cause = %(cause)s
 WHERE id = ANY(%(ids)s)
"""

SPLIT = """
UPDATE outbox SET batch = %(batch)s, attempts = 0, not_before = now(), claimed_by = NULL,
       cause = %(cause)s
 WHERE id = ANY(%(ids)s)
"""

BURY = """
WITH dead AS (DELETE FROM outbox WHERE id = %(event)s RETURNING *)
INSERT INTO dead_letter
       (event_id, repo_id, kind, number, episode_id, entries, names, attempts, cause, created_at)
SELECT id, repo_id, kind, number, episode_id, entries, names, attempts, %(cause)s, created_at
  FROM dead
    ON CONFLICT (event_id) DO UPDATE SET cause = EXCLUDED.cause
RETURNING event_id
"""

STEADY = "UPDATE repository SET memory_busy = false WHERE id = %(repo)s"

BROKEN = """
UPDATE repository SET graph_busy = false, graph_broken = true, graph_number = 0, graph_target = 0,
       memory_busy = false
 WHERE id = %(repo)s
"""

QUEUE_PUBLISHED = """
INSERT INTO outbox (repo_id, kind, number)
SELECT id, 'index', published FROM repository WHERE id = %(repo)s AND published > 0
"""

QUEUE_EPISODES = """
INSERT INTO outbox (repo_id, kind, episode_id)
SELECT repo_id, 'episode', id FROM episode WHERE repo_id = %(repo)s ORDER BY recorded_at, id
"""

QUEUE_MEMORIES = """
INSERT INTO outbox (repo_id, kind, entries)
SELECT %(repo)s, 'memory', array_agg(entry_id ORDER BY entry_id)
  FROM (SELECT entry_id, row_number() OVER (ORDER BY entry_id) - 1 AS n
          FROM (SELECT DISTINCT entry_id FROM memories
                 WHERE repo_id = %(repo)s AND entry_id IS NOT NULL AND episode_id IS NULL) AS once
       ) AS numbered
 GROUP BY n / 500 ORDER BY n / 500
"""

DEAD = """
SELECT d.event_id, r.name, d.kind, d.attempts, d.cause, d.died_at
  FROM dead_letter d JOIN repository r ON r.id = d.repo_id {where} ORDER BY d.event_id
"""
DEAD_ALL = DEAD.format(where="")
DEAD_NAMED = DEAD.format(where="WHERE r.name = ANY(%(repos)s)")

# Repositories whose dead letters left the graph half-way, and the others'.
DEAD_REPOS = """
SELECT repo_id, bool_or(kind IN ('index', 'remove')), count(*) FROM dead_letter
 WHERE %(all)s OR repo_id IN (SELECT id FROM repository WHERE name = ANY(%(repos)s))
 GROUP BY repo_id ORDER BY repo_id
"""
REVIVE = """
WITH dead AS (DELETE FROM dead_letter WHERE repo_id = %(repo)s RETURNING *)
INSERT INTO outbox (repo_id, kind, number, episode_id, entries, names, cause)
SELECT repo_id, kind, number, episode_id, entries, names, cause FROM dead ORDER BY event_id
"""
BURIED_NO_MORE = "DELETE FROM dead_letter WHERE repo_id = %(repo)s"

EPOCH = """
SELECT coalesce(sum(graph_epoch + memory_epoch), 0), coalesce(bool_or(graph_busy OR memory_busy), false)
  FROM repository
"""
EPOCH_NAMED = EPOCH + " WHERE name = ANY(%(repos)s)"

WAITING_NAMED = """
SELECT count(*) FROM outbox WHERE repo_id IN (SELECT id FROM repository WHERE name = ANY(%(repos)s))
"""
