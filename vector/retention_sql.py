"""The SQL of `vector/retention.py`. Parameters are bound; what is formatted in is ours."""

from __future__ import annotations

from vector.memories_read import COLUMNS, FROM

# Alive, and true now: what takes room in its agent's context.
_NOW = """
 i.superseded_at IS NULL AND i.entry_id IS NOT NULL
   AND (i.valid_from IS NULL OR i.valid_from <= now()) AND (i.valid_to IS NULL OR i.valid_to > now())
"""

LIVING = f"""
SELECT {COLUMNS}, i.embedding::text {FROM}
 WHERE r.tenant = %(tenant)s AND r.name = %(name)s AND i.agent_id = %(agent)s AND {_NOW}
 ORDER BY i.created_at, i.entry_id
"""

# Rows from before tokens were counted: a token is about four bytes.
USAGE = f"""
SELECT r.name, i.agent_id,
       sum(CASE WHEN i.tokens > 0 THEN i.tokens ELSE octet_length(i.content) / 4 + 1 END)
 {FROM}
 WHERE r.tenant = %(tenant)s AND (%(name)s = '' OR r.name = %(name)s)
   AND (%(agent)s::text IS NULL OR i.agent_id = %(agent)s) AND {_NOW}
 GROUP BY r.name, i.agent_id
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
