"""The SQL of receipts and feedback. Parameters are bound; nothing is formatted in."""

from __future__ import annotations

from plait.domain.graph import Relation
from vector.index.visible import chunk

BATCH = 5_000  # rows that retention takes at once

# -- receipts ------------------------------------------------------------------------------------------

# One statement in autocommit, so that it is one round trip; tried again, it finds its own row. Nothing
# comes back when the trigger refused it.
KEEP = """
WITH kept AS (
    INSERT INTO recall (id, tenant, repo_id, repo_ids, session_key, agent_id, request, revisions, at,
                        item_ids, scores, shown, tokens, digest, complete)
    VALUES (%(id)s, %(tenant)s, %(repo)s, %(repos)s, %(session)s, %(agent)s, %(request)s, %(revisions)s,
            %(at)s, %(items)s, %(scores)s, %(shown)s, %(tokens)s, %(digest)s, %(complete)s)
        ON CONFLICT (id) DO NOTHING RETURNING id)
SELECT id FROM kept UNION ALL SELECT id FROM recall WHERE id = %(id)s
"""
REPOSITORIES = "SELECT name, id FROM repository WHERE tenant = %(tenant)s AND name = ANY(%(names)s)"
RECEIPT = """
SELECT c.tenant, ARRAY(SELECT name FROM repository n WHERE n.id = ANY(c.repo_ids) ORDER BY name),
       c.session_key, c.agent_id, c.request, c.revisions, c.at, c.item_ids, c.scores, c.shown, c.tokens,
       c.digest, c.complete, c.repo_ids
  FROM recall c
 WHERE c.id = %(id)s AND c.tenant = %(tenant)s
   AND c.created_at >= now() - make_interval(secs => %(keep)s)
"""
# Of a session of hundreds of recalls the newest count.
SHOWN = """
SELECT item_ids FROM recall
 WHERE tenant = %(tenant)s AND session_key = %(session)s AND session_key <> '' AND created_at >= %(since)s
   AND (cardinality(%(names)s::text[]) = 0
        OR repo_ids && ARRAY(SELECT id FROM repository WHERE name = ANY(%(names)s)))
 ORDER BY created_at DESC LIMIT 200
"""

# -- feedback ------------------------------------------------------------------------------------------

# Of one source no more than the cap, to each side; what is older weighs less. The exponent is bounded:
# PostgreSQL calls it an error when a power gets too small.
EVIDENCE = """
SELECT item_id, sum(LEAST(helped, %(cap)s)), sum(LEAST(harmed, %(cap)s))
  FROM (SELECT f.item_id, sum(f.helped * d.left) AS helped, sum(f.harmed * d.left) AS harmed
          FROM feedback_item f
         CROSS JOIN LATERAL (
               SELECT power(0.5::float8, LEAST(200.0, GREATEST(0.0,
                        extract(epoch FROM coalesce(%(at)s::timestamptz, now()) - f.recorded_at))
                        / %(half_life)s)::float8) AS left) d
         WHERE f.item_id = ANY(%(ids)s)
           AND (%(recorded)s::timestamptz IS NULL AND f.superseded_at IS NULL
                OR f.recorded_at <= %(recorded)s
                   AND (f.superseded_at IS NULL OR f.superseded_at > %(recorded)s))
         GROUP BY f.item_id, f.agent_id, f.session_key) AS source
 GROUP BY item_id
"""
ANSWERED = """
SELECT id, body_hash, accepted, unknown, attributed, links FROM feedback
 WHERE tenant = %(tenant)s AND request_id = %(request)s
"""
RECORD = """
INSERT INTO feedback (tenant, request_id, id, repo_id, recall_id, body_hash, outcome, proof, accepted,
                      unknown, attributed, links)
VALUES (%(tenant)s, %(request)s, %(id)s, %(repo)s, %(recall)s, %(hash)s, %(outcome)s, %(proof)s,
        %(accepted)s, %(unknown)s, %(attributed)s, %(links)s)
    ON CONFLICT DO NOTHING RETURNING id
"""
# What is linked in the graph: a memory, or the episode that an item is a part of. Notes are memories.
ITEMS = """
SELECT id, repo_id, CASE WHEN entry_id IS NOT NULL AND (episode_id IS NULL OR kind = 'note')
                         THEN entry_id END, episode_id
  FROM item WHERE id = ANY(%(ids)s)
"""
# A verdict is not taken back by an outcome that is told later.
OPEN_NAMED = """
SELECT item_id FROM feedback_item
 WHERE item_id = ANY(%(ids)s) AND recall_id = %(recall)s AND superseded_at IS NULL AND named
"""
CLOSE = """
UPDATE feedback_item SET superseded_at = %(at)s
 WHERE recall_id = %(recall)s AND repo_id = %(repo)s AND item_id = ANY(%(ids)s) AND superseded_at IS NULL
"""


# -- links ---------------------------------------------------------------------------------------------

TESTS_NAMED = f"""
SELECT DISTINCT f.symbol, f.path, f.name FROM files f JOIN repository r ON r.id = f.repo_id
 WHERE f.repo_id = %(repo)s AND f.name = ANY(%(names)s) AND f.is_test AND f.symbol <> ''
   AND {chunk("f", "r.published")}
"""
# Only what is there still: `forget` has the clock when it removes it, and so does who writes this.
LINK = f"""
WITH wanted AS (
    SELECT DISTINCT entry, episode, test
      FROM unnest(%(entries)s::uuid[], %(episodes)s::uuid[]) AS o (entry, episode)
     CROSS JOIN unnest(%(tests)s::text[]) AS t (test)
     WHERE EXISTS (SELECT FROM memories m WHERE m.entry_id = o.entry AND m.repo_id = %(repo)s
                      AND m.superseded_at IS NULL)
        OR EXISTS (SELECT FROM episode e WHERE e.id = o.episode AND e.repo_id = %(repo)s))
INSERT INTO memory_edge (repo_id, entry_id, episode_id, relation, source, target, resolver,
                         valid_from, recorded_from)
SELECT %(repo)s, w.entry, w.episode, '{Relation.VALIDATED_BY}',
       coalesce('memory/' || w.entry, 'episode/' || w.episode), w.test, %(resolver)s, %(at)s, %(at)s
  FROM wanted w
 WHERE NOT EXISTS (
       SELECT FROM memory_edge e
        WHERE e.repo_id = %(repo)s AND e.target = w.test AND e.relation = '{Relation.VALIDATED_BY}'
          AND e.source = coalesce('memory/' || w.entry, 'episode/' || w.episode)
          AND e.resolver = %(resolver)s AND e.recorded_to IS NULL)
 ORDER BY w.entry, w.episode, w.test
RETURNING entry_id, episode_id
"""
QUEUE_EPISODES = """
INSERT INTO outbox (repo_id, kind, episode_id)
SELECT %(repo)s, 'episode', id FROM unnest(%(episodes)s::uuid[]) AS sent (id)
"""

# -- retention: as the owner ---------------------------------------------------------------------------

OLD_RECEIPTS = f"""
DELETE FROM recall WHERE id IN (
    SELECT id FROM recall WHERE created_at < now() - make_interval(secs => %(keep)s) LIMIT {BATCH})
"""
# Feedback outlives its receipt while it weighs anything; what was said in words does not.
OLD_COMMENTS = f"""
UPDATE feedback_item f SET comment = '' WHERE f.id IN (
    SELECT i.id FROM feedback_item i
     WHERE i.comment <> '' AND i.recorded_at < now() - make_interval(secs => %(keep)s) LIMIT {BATCH})
"""
OLD_FEEDBACK = f"""
DELETE FROM feedback_item WHERE id IN (
    SELECT id FROM feedback_item WHERE recorded_at < now() - make_interval(secs => %(weighs)s) LIMIT {BATCH})
"""
OLD_ANSWERS = f"""
DELETE FROM feedback WHERE (tenant, request_id) IN (
    SELECT tenant, request_id FROM feedback
     WHERE created_at < now() - make_interval(secs => %(weighs)s) LIMIT {BATCH})
"""
