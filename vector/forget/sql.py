"""The SQL of forgetting. Parameters are bound; what is formatted in is ours."""

from __future__ import annotations

# -- what goes ----------------------------------------------------------------------------------------

_RECORDED = """
   AND (%(agent)s = '' OR {t}.agent_id = %(agent)s)
   AND (%(from)s::timestamptz IS NULL OR {t}.recorded_at >= %(from)s)
   AND (%(to)s::timestamptz IS NULL OR {t}.recorded_at < %(to)s)
"""
# An entry goes whole when one of its versions is meant.
ENTRIES = f"""
SELECT DISTINCT i.entry_id FROM memories i
 WHERE i.repo_id = %(repo)s AND i.entry_id IS NOT NULL
   AND (cardinality(%(ids)s::uuid[]) = 0 OR i.entry_id = ANY(%(ids)s)
        OR i.entry_id IN (SELECT w.entry_id FROM memories w WHERE w.id = ANY(%(ids)s)))
   AND (%(source)s = '' OR i.source = %(source)s) {_RECORDED.format(t="i")}
"""
# Episodes are what agents say.
EPISODES = f"""
SELECT e.id FROM episode e
 WHERE e.repo_id = %(repo)s AND (cardinality(%(ids)s::uuid[]) = 0 OR e.id = ANY(%(ids)s))
   AND %(source)s IN ('', 'agent') {_RECORDED.format(t="e")}
"""
OF_EPISODES = """
SELECT DISTINCT entry_id FROM memories
 WHERE repo_id = %(repo)s AND episode_id = ANY(%(episodes)s) AND entry_id IS NOT NULL
"""
# Duplicates that were closed in favour of one that goes, and summaries that hold its words.
BOUND = """
SELECT s.entry_id FROM compaction_step s JOIN compaction c ON c.id = s.compaction_id
 WHERE s.repo_id = %(repo)s AND s.into_id = ANY(%(entries)s) AND s.action = 'deduplicate'
   AND c.undone_at IS NULL
UNION
SELECT e.entry_id FROM memory_edge e
 WHERE e.repo_id = %(repo)s AND e.relation = 'DERIVED_FROM' AND e.target = ANY(%(names)s)
   AND e.entry_id IS NOT NULL
"""
# What a summary that goes stood for.
STOOD_FOR = """
SELECT DISTINCT s.entry_id FROM compaction_step s JOIN compaction c ON c.id = s.compaction_id
 WHERE s.repo_id = %(repo)s AND s.into_id = ANY(%(entries)s) AND s.action = 'summarize'
   AND c.undone_at IS NULL AND s.entry_id <> ALL(%(entries)s)
"""
# `(collection, id, episode)`: every row of the items.
ITEMS = """
SELECT i.collection, i.id, i.episode_id FROM memories i
 WHERE i.repo_id = %(repo)s AND i.entry_id = ANY(%(entries)s)
UNION
SELECT i.collection, i.id, i.episode_id FROM item i
 WHERE i.repo_id = %(repo)s AND i.episode_id = ANY(%(episodes)s)
"""
NODES = "SELECT name FROM memory_node WHERE repo_id = %(repo)s AND episode_id = ANY(%(episodes)s)"
EDGES = """
SELECT id, relation, source, target, episode_id FROM memory_edge
 WHERE repo_id = %(repo)s
   AND (episode_id = ANY(%(episodes)s) OR entry_id = ANY(%(entries)s) OR source = ANY(%(names)s)
        OR target = ANY(%(names)s))
"""
# What stands before an item of a run goes with the run, and stays where only the item goes.
_CONTENT = (
    "CASE WHEN episode_id = ANY(%(episodes)s) THEN context || ' ' ELSE '' END || content AS content"
)
TEXTS = f"""
SELECT left(content, 4000) FROM (
    SELECT {_CONTENT}, id FROM memories WHERE repo_id = %(repo)s AND id = ANY(%(items)s)
    UNION ALL
    SELECT {_CONTENT}, id FROM item
     WHERE repo_id = %(repo)s AND collection <> 'files' AND collection <> 'memories'
       AND id = ANY(%(items)s)) AS going
 ORDER BY id LIMIT 200
"""
BRANCHES = "SELECT DISTINCT outcome->>'branch' FROM episode WHERE id = ANY(%(episodes)s)"

# -- removal: each with the name its count goes under ----------------------------------------------------

REMOVALS = (
    ("memory_edge", "DELETE FROM memory_edge WHERE repo_id = %(repo)s AND id = ANY(%(edges)s)"),
    ("hunk", "DELETE FROM hunk WHERE repo_id = %(repo)s AND"
             " (episode_id = ANY(%(episodes)s) OR item_id = ANY(%(items)s))"),
    ("test_result", "DELETE FROM test_result WHERE repo_id = %(repo)s AND"
                    " (episode_id = ANY(%(episodes)s) OR item_id = ANY(%(items)s))"),
    # Of an episode that stays but loses a part: the raw evidence may hold that part.
    ("evidence", "DELETE FROM evidence WHERE repo_id = %(repo)s AND episode_id = ANY(%(touched)s)"),
    ("memory_node", "DELETE FROM memory_node WHERE repo_id = %(repo)s AND"
                    " episode_id = ANY(%(episodes)s)"),
    ("compaction_step", "DELETE FROM compaction_step WHERE repo_id = %(repo)s AND"
                        " (entry_id = ANY(%(entries)s) OR into_id = ANY(%(entries)s))"),
    ("dead_letter", "DELETE FROM dead_letter WHERE repo_id = %(repo)s AND"
                    " (episode_id = ANY(%(episodes)s) OR entries && %(entries)s)"),
    ("episode", "DELETE FROM episode WHERE repo_id = %(repo)s AND id = ANY(%(episodes)s)"),
)  # fmt: skip
# Receipts that held some of it, or were asked in its words; they may be of several repositories. Reports
# on them keep nothing but their id, as the requests below. First, since they name the receipts.
_RECEIPTS = """
SELECT c.id FROM recall c
 WHERE %(repo)s = ANY(c.repo_ids)
   AND (c.item_ids && %(items)s OR c.shown && %(items)s OR lower(c.request::text) LIKE ANY(%(patterns)s)
        OR lower(c.session_key) LIKE ANY(%(patterns)s) OR lower(c.agent_id) LIKE ANY(%(patterns)s))
"""
RECALLS = (
    ("feedback", f"""
UPDATE feedback SET body_hash = '', proof = '{{}}', unknown = '{{}}'
 WHERE recall_id IN ({_RECEIPTS})
    OR repo_id = %(repo)s
       AND (unknown && %(items)s OR lower(proof::text) LIKE ANY(%(patterns)s))
"""),
    ("feedback_item", """
DELETE FROM feedback_item
 WHERE repo_id = %(repo)s
   AND (item_id = ANY(%(items)s) OR lower(agent_id) LIKE ANY(%(patterns)s)
        OR lower(session_key) LIKE ANY(%(patterns)s))
"""),
    ("comments", """
UPDATE feedback_item SET comment = '' WHERE repo_id = %(repo)s AND lower(comment) LIKE ANY(%(patterns)s)
"""),
    ("recall", f"DELETE FROM recall WHERE id IN ({_RECEIPTS})"),
)  # fmt: skip
REMOVE_ITEMS = "DELETE FROM {table} WHERE repo_id = %(repo)s AND id = ANY(%(items)s)"

# A request that is repeated must not bring back what is forgotten: its id stays, and nothing else. An
# empty hash is no body's.
REQUESTS = (
    ("request", """
UPDATE request SET body_hash = '', item_ids = '{}', episode_id = '00000000-0000-0000-0000-000000000000'
 WHERE repo_id = %(repo)s AND (episode_id = ANY(%(episodes)s) OR item_ids && %(items)s)
"""),
    ("memory_request", """
UPDATE memory_request SET body_hash = '', entry_ids = '{}', duplicate = '{}', versions = '{}', note = ''
 WHERE repo_id = %(repo)s AND entry_ids && %(entries)s
"""),
)  # fmt: skip

# Events that wait hold ids alone and go when they are projected, before the removal that is queued now.
CAUSES = """
UPDATE outbox SET cause = NULL
 WHERE repo_id = %(repo)s AND cause IS NOT NULL
   AND (episode_id = ANY(%(episodes)s) OR entries && %(entries)s)
"""
SUCCESSORS = """
UPDATE memories SET superseded_by = NULL
 WHERE repo_id = %(repo)s AND superseded_by = ANY(%(entries)s)
"""
# Issues and commits are everybody's: they go when nobody names them any more.
ORPHANS = """
DELETE FROM memory_node n
 WHERE n.repo_id = %(repo)s AND n.name = ANY(%(shared)s) AND n.episode_id IS NULL
   AND NOT EXISTS (SELECT FROM memory_edge e WHERE e.repo_id = n.repo_id AND e.source = n.name)
   AND NOT EXISTS (SELECT FROM memory_edge e WHERE e.repo_id = n.repo_id AND e.target = n.name)
RETURNING n.name
"""
# Their title is a branch that some episode was on.
UNTITLED = """
UPDATE memory_node SET title = '' WHERE repo_id = %(repo)s AND name = ANY(%(shared)s)
   AND title <> '' AND title = ANY(%(branches)s) RETURNING name
"""
# What other episodes were the evidence of together with one that goes is derived again.
AGAIN = """
INSERT INTO outbox (repo_id, kind, episode_id)
SELECT repo_id, 'episode', id FROM episode WHERE repo_id = %(repo)s AND id = ANY(%(owners)s)
 ORDER BY recorded_at, id
"""
RECORD = """
INSERT INTO forgotten (id, repo_id, at, selector, entries, episodes, proof)
VALUES (%(id)s, %(repo)s, %(at)s, %(selector)s, %(entries)s, %(episodes)s, %(proof)s)
"""

STALE = "SELECT id FROM forgotten WHERE NOT refreshed"
REFRESHED = "UPDATE forgotten SET refreshed = true WHERE id = ANY(%(ids)s)"

# ANALYZE leaves the statistics of a table that became empty as they were.
EMPTY_STATISTICS = """
SELECT s.tablename, s.attname, s.inherited FROM pg_stats s
 WHERE s.schemaname = 'plait' AND s.tablename = ANY(%(tables)s)
"""
CLEAR = "SELECT pg_clear_attribute_stats('plait', %s, %s, %s)"
CAN_CLEAR = "SELECT to_regproc('pg_catalog.pg_clear_attribute_stats') IS NOT NULL"  # from 18 on

# Tables that forgetting takes rows from.
TOUCHED = (
    "memories", "diffs", "plans", "reflections", "tests", "segment", "posting", "segment_dead",
    "episode", "memory_node", "memory_edge", "hunk", "test_result", "evidence", "request",
    "memory_request", "compaction_step", "outbox", "dead_letter", "recall", "feedback",
    "feedback_item",
)  # fmt: skip
ANALYZED = (*TOUCHED, "item")
