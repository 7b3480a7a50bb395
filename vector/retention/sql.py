"""The SQL of `vector/retention/store.py`. Parameters are bound; what is formatted in is ours."""

from __future__ import annotations

from vector.anchors.freshness import KNOWN_NOW, PROVEN
from vector.memories.read import COLUMNS, FROM

# Alive, and true now: what takes room in its agent's context.
_NOW = """
 i.superseded_at IS NULL AND i.entry_id IS NOT NULL
   AND (i.valid_from IS NULL OR i.valid_from <= now()) AND (i.valid_to IS NULL OR i.valid_to > now())
"""

# As `budget_of` in plait/memory/retention.py.
BUDGET = """
CASE WHEN i.kind IN ('turn', 'note') OR i.kind = 'summary' AND i.meta->>'budget' = 'runs'
     THEN 'runs' ELSE 'stored' END
"""

LIVING = f"""
SELECT {COLUMNS}, i.embedding::text {FROM}
 WHERE r.tenant = %(tenant)s AND r.name = %(name)s AND i.agent_id = %(agent)s AND {_NOW}
   AND {BUDGET} = %(budget)s
 ORDER BY i.created_at, i.entry_id
"""
_VALIDATED = PROVEN.format(known=KNOWN_NOW)
OLDEST = f"""
SELECT {COLUMNS}, NULL {FROM}
 WHERE r.tenant = %(tenant)s AND r.name = %(name)s AND i.agent_id = %(agent)s AND {_NOW}
   AND {BUDGET} = %(budget)s AND NOT {_VALIDATED}
 ORDER BY i.created_at, i.entry_id LIMIT %(most)s
"""

# Contexts that held a version of an entry, as far as receipts are kept, and verdicts, which are kept longer;
# open links that it says, that name it, or that its text has; of a run what it proved.
USE = f"""
WITH mine AS MATERIALIZED (
    SELECT i.* {FROM}
     WHERE r.tenant = %(tenant)s AND r.name = %(name)s AND i.entry_id = ANY(%(entries)s)),
shown AS (
    SELECT m.entry_id, count(*) AS n
      FROM recall c CROSS JOIN LATERAL unnest(c.item_ids) AS u (id) JOIN mine m ON m.id = u.id
     WHERE c.tenant = %(tenant)s GROUP BY m.entry_id),
judged AS (
    SELECT m.entry_id, sum(CASE WHEN f.helped > f.harmed THEN 1 WHEN f.harmed > f.helped THEN -1 ELSE 0 END) AS n
      FROM feedback_item f JOIN mine m ON m.id = f.item_id
     WHERE f.superseded_at IS NULL GROUP BY m.entry_id)
SELECT i.entry_id, greatest(0, coalesce(s.n, 0) + coalesce(j.n, 0))::int,
       (coalesce(jsonb_array_length(i.anchors), 0)
        + (SELECT count(*) FROM memory_edge e WHERE e.entry_id = i.entry_id AND e.recorded_to IS NULL
              AND e.relation NOT IN ('SIMILAR_TO', 'DERIVED_FROM'))
        + (SELECT count(*) FROM memory_edge e
            WHERE e.repo_id = i.repo_id AND e.target = 'memory/' || i.entry_id AND e.recorded_to IS NULL
              AND e.relation NOT IN ('SIMILAR_TO', 'DERIVED_FROM', 'CONTAINS'))
        + (SELECT count(*) FROM memory_edge e
            WHERE e.episode_id = i.episode_id AND e.recorded_to IS NULL
              AND e.relation IN ('FIXES', 'CAUSES', 'VALIDATED_BY')))::int,
       {_VALIDATED}
  FROM mine i LEFT JOIN shown s ON s.entry_id = i.entry_id LEFT JOIN judged j ON j.entry_id = i.entry_id
 WHERE i.superseded_at IS NULL
"""

# Rows from before tokens were counted: a token is about four bytes.
USAGE = f"""
SELECT name, agent_id, budget, sum(tokens), sum(memories), sum(closed) FROM (
    SELECT r.name, i.agent_id, {BUDGET} AS budget, count(*) AS memories, 0 AS closed,
           sum(CASE WHEN i.tokens > 0 THEN i.tokens ELSE octet_length(i.content) / 4 + 1 END) AS tokens
     {FROM}
     WHERE r.tenant = %(tenant)s AND (%(name)s = '' OR r.name = %(name)s)
       AND (%(agent)s::text IS NULL OR i.agent_id = %(agent)s) AND {_NOW}
     GROUP BY 1, 2, 3
    UNION ALL
    SELECT r.name, i.agent_id, {BUDGET}, 0, count(*), 0
     {FROM}
     WHERE r.tenant = %(tenant)s AND (%(name)s = '' OR r.name = %(name)s)
       AND (%(agent)s::text IS NULL OR i.agent_id = %(agent)s) AND i.kept_until > now()
     GROUP BY 1, 2, 3) AS counted
 GROUP BY 1, 2, 3
"""

EPISODES_OF = """
SELECT DISTINCT entry_id, episode_id FROM memories
 WHERE repo_id = %(repo)s AND entry_id = ANY(%(entries)s) AND kind = 'turn' AND episode_id IS NOT NULL
"""

BY_REQUEST = """
SELECT c.id FROM compaction c JOIN repository r ON r.id = c.repo_id
 WHERE r.tenant = %(tenant)s AND r.name = %(name)s AND c.request_id = %(request)s
   AND c.request_id <> ''
"""

COMPACTION = """
SELECT r.name, c.agent_id, c.at, c.undo_until, c.counts
  FROM compaction c JOIN repository r ON r.id = c.repo_id WHERE c.id = %(id)s
"""

STEPS = """
SELECT action, entry_id, into_id, reason, tokens, version FROM compaction_step
 WHERE compaction_id = %(id)s ORDER BY ordinal
"""

SUMMARIES = f"""
SELECT {COLUMNS} {FROM}
 WHERE i.version = 1 AND i.entry_id IN (SELECT into_id FROM compaction_step
                                         WHERE compaction_id = %(id)s AND action = 'summarize')
 ORDER BY i.created_at, i.entry_id
"""

TO_UNDO = """
SELECT c.repo_id, c.at, c.undo_until, c.undone_at
  FROM compaction c JOIN repository r ON r.id = c.repo_id
 WHERE c.id = %(id)s AND r.tenant = %(tenant)s
"""

REPOSITORY_OF = """
SELECT r.name FROM compaction c JOIN repository r ON r.id = c.repo_id
 WHERE c.id = %(id)s AND r.tenant = %(tenant)s
"""

CLOSED_BY = """
SELECT entry_id, into_id, action FROM compaction_step
 WHERE compaction_id = %(id)s AND into_id IS NOT NULL ORDER BY ordinal
"""

LATER = """
SELECT c.id FROM compaction_step s JOIN compaction c ON c.id = s.compaction_id
 WHERE s.entry_id = ANY(%(entries)s) AND s.into_id IS NOT NULL AND s.action = 'summarize'
   AND c.id <> %(id)s AND c.undone_at IS NULL
 ORDER BY c.at DESC LIMIT 1
"""
