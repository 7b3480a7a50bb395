-- The look-up of 0011 for processes of an earlier version too, which go on beside the one that brought the
-- schema up to date: they ask with one list for all places, and found only what shares its first five numbers,
-- each at its own place. A number of such a list is compared at every place.
CREATE OR REPLACE FUNCTION similar_memories(repo integer, numbers bigint[], each integer, most integer)
RETURNS TABLE (id uuid, entry_id uuid, agent_id text, session_key text, sketch bigint[])
LANGUAGE sql STABLE SECURITY DEFINER ROWS 50
SET enable_seqscan = off
BEGIN ATOMIC
SELECT DISTINCT ON (m.id) m.id, m.entry_id, m.agent_id, m.session_key, m.sketch
  FROM (SELECT CASE array_ndims(numbers) WHEN 1 THEN ARRAY[numbers, numbers, numbers, numbers, numbers]
               ELSE numbers END) AS given (p)
 CROSS JOIN LATERAL unnest(given.p[1:1], given.p[2:2], given.p[3:3], given.p[4:4], given.p[5:5])
       AS n (n1, n2, n3, n4, n5)
 CROSS JOIN LATERAL (
       (SELECT i.id, i.entry_id, i.agent_id, i.session_key, i.sketch FROM plait.memories i
         WHERE CASE WHEN i.superseded_at IS NULL THEN i.sketch[1] END = n.n1
           AND i.repo_id IS NOT DISTINCT FROM repo LIMIT each)
       UNION ALL
       (SELECT i.id, i.entry_id, i.agent_id, i.session_key, i.sketch FROM plait.memories i
         WHERE CASE WHEN i.superseded_at IS NULL THEN i.sketch[2] END = n.n2
           AND i.repo_id IS NOT DISTINCT FROM repo LIMIT each)
       UNION ALL
       (SELECT i.id, i.entry_id, i.agent_id, i.session_key, i.sketch FROM plait.memories i
         WHERE CASE WHEN i.superseded_at IS NULL THEN i.sketch[3] END = n.n3
           AND i.repo_id IS NOT DISTINCT FROM repo LIMIT each)
       UNION ALL
       (SELECT i.id, i.entry_id, i.agent_id, i.session_key, i.sketch FROM plait.memories i
         WHERE CASE WHEN i.superseded_at IS NULL THEN i.sketch[4] END = n.n4
           AND i.repo_id IS NOT DISTINCT FROM repo LIMIT each)
       UNION ALL
       (SELECT i.id, i.entry_id, i.agent_id, i.session_key, i.sketch FROM plait.memories i
         WHERE CASE WHEN i.superseded_at IS NULL THEN i.sketch[5] END = n.n5
           AND i.repo_id IS NOT DISTINCT FROM repo LIMIT each)) m
 WHERE EXISTS (SELECT FROM plait.repository r
                WHERE r.id = repo AND r.tenant = current_setting('plait.tenant', true))
 ORDER BY m.id LIMIT most;
END;
