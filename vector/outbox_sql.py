"""The SQL of `vector/outbox.py`. Parameters are bound; nothing is formatted in."""

from __future__ import annotations

# Repositories whose oldest event is due, the longest waiting first.
RUNNABLE = """
SELECT repo_id FROM (
    SELECT DISTINCT ON (repo_id) repo_id, id, not_before FROM outbox
     WHERE repo_id <> ALL(%(held)s::int[]) ORDER BY repo_id, id) head
 WHERE not_before <= now() ORDER BY id
"""

HEAD = """
SELECT o.id, r.name, o.kind, o.episode_id, o.attempts, o.not_before <= now(),
       r.graph_number, r.graph_target, r.published
  FROM outbox o JOIN repository r ON r.id = o.repo_id
 WHERE o.repo_id = %(repo)s ORDER BY o.id LIMIT 1 FOR UPDATE OF o
"""

START = """
UPDATE repository SET graph_busy = true, graph_epoch = graph_epoch + 1,
       graph_target = CASE WHEN %(kind)s = 'index' THEN %(target)s ELSE graph_target END
 WHERE id = %(repo)s
"""

_DELETE = "DELETE FROM outbox WHERE id = %(event)s"

# One delta serves every index event up to its target, but none behind a removal.
DONE = {
    "index": (
        _DELETE,
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
    "episode": (
        _DELETE,
        "UPDATE episode SET projected = true WHERE id = %(episode)s",
        "UPDATE repository SET graph_busy = false WHERE id = %(repo)s",
    ),
    "remove": (
        _DELETE,
        """
UPDATE repository SET graph_number = 0, graph_target = 0, graph_busy = false, graph_broken = false
 WHERE id = %(repo)s
""",
    ),
}

LATER = """
UPDATE outbox SET not_before = now() + make_interval(secs => %(wait)s), claimed_by = NULL,
       cause = %(cause)s
 WHERE id = %(event)s
"""

BURY = """
WITH dead AS (DELETE FROM outbox WHERE id = %(event)s RETURNING *)
INSERT INTO dead_letter (event_id, repo_id, kind, number, episode_id, attempts, cause, created_at)
SELECT id, repo_id, kind, number, episode_id, attempts, %(cause)s, created_at FROM dead
    ON CONFLICT (event_id) DO UPDATE SET cause = EXCLUDED.cause
"""

STEADY = "UPDATE repository SET graph_busy = false WHERE id = %(repo)s"

BROKEN = """
UPDATE repository SET graph_busy = false, graph_broken = true, graph_number = 0, graph_target = 0
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

EPOCH_ALL = """
SELECT coalesce(sum(graph_epoch), 0), coalesce(bool_or(graph_busy), false) FROM repository
"""
EPOCH_NAMED = EPOCH_ALL + " WHERE name = ANY(%(repos)s)"
