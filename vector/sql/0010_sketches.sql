-- Texts alike, looked up number by number: an index for each place of a sketch, and no other way to choose.
-- `memories_sketch` was partial, and so were others with what its look-ups say of `superseded_at`: of a table
-- that has no statistics yet the planner took those for nearly empty, and read all of one, 2,500 times a batch:
-- 800 ms where there were a thousand memories. These hold all rows, and what is closed as NULL, so that no
-- look-up says anything that another index could serve. A look-up in them takes two thirds of the time, an
-- entry too.
DROP INDEX memories_sketch;
CREATE INDEX memories_sketch_1 ON memories ((CASE WHEN superseded_at IS NULL THEN sketch[1] END));
CREATE INDEX memories_sketch_2 ON memories ((CASE WHEN superseded_at IS NULL THEN sketch[2] END));
CREATE INDEX memories_sketch_3 ON memories ((CASE WHEN superseded_at IS NULL THEN sketch[3] END));
CREATE INDEX memories_sketch_4 ON memories ((CASE WHEN superseded_at IS NULL THEN sketch[4] END));
CREATE INDEX memories_sketch_5 ON memories ((CASE WHEN superseded_at IS NULL THEN sketch[5] END));
-- Statistics keep values of columns: none of what may be forgotten.
ALTER INDEX memories_sketch_1 ALTER COLUMN 1 SET STATISTICS 0;
ALTER INDEX memories_sketch_2 ALTER COLUMN 1 SET STATISTICS 0;
ALTER INDEX memories_sketch_3 ALTER COLUMN 1 SET STATISTICS 0;
ALTER INDEX memories_sketch_4 ALTER COLUMN 1 SET STATISTICS 0;
ALTER INDEX memories_sketch_5 ALTER COLUMN 1 SET STATISTICS 0;

-- Living memories whose sketch shares a number with `numbers`, up to `each` for each number. `numbers`: one
-- row a place of the sketch, so that only numbers of the same place are compared; fewer rows ask for fewer.
-- One list for all places is what a process of an earlier version asks with, which goes on beside the one that
-- brought the schema up to date: each of its numbers is compared at every place. Planned once a connection
-- where the server keeps a function's plans (18 and later): each look-up has one index to choose, whatever is
-- asked and however many rows there are. One text alike takes 0.3 CPU ms, planned at each call it took 0.5.
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
