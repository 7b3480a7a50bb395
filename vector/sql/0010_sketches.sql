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
CREATE OR REPLACE FUNCTION similar_memories(repo integer, numbers bigint[], each integer, most integer)
RETURNS TABLE (id uuid, entry_id uuid, agent_id text, session_key text, sketch bigint[])
LANGUAGE sql STABLE SECURITY DEFINER ROWS 50
SET enable_seqscan = off SET plan_cache_mode = force_custom_plan
BEGIN ATOMIC
SELECT DISTINCT ON (m.id) m.id, m.entry_id, m.agent_id, m.session_key, m.sketch
  FROM plait.repository r
 CROSS JOIN LATERAL (
       SELECT a.* FROM unnest(numbers[1:1]) AS n (number) CROSS JOIN LATERAL (
              SELECT i.id, i.entry_id, i.agent_id, i.session_key, i.sketch FROM plait.memories i
               WHERE CASE WHEN i.superseded_at IS NULL THEN i.sketch[1] END = n.number
                 AND i.repo_id IS NOT DISTINCT FROM repo LIMIT each) a
       UNION ALL
       SELECT a.* FROM unnest(numbers[2:2]) AS n (number) CROSS JOIN LATERAL (
              SELECT i.id, i.entry_id, i.agent_id, i.session_key, i.sketch FROM plait.memories i
               WHERE CASE WHEN i.superseded_at IS NULL THEN i.sketch[2] END = n.number
                 AND i.repo_id IS NOT DISTINCT FROM repo LIMIT each) a
       UNION ALL
       SELECT a.* FROM unnest(numbers[3:3]) AS n (number) CROSS JOIN LATERAL (
              SELECT i.id, i.entry_id, i.agent_id, i.session_key, i.sketch FROM plait.memories i
               WHERE CASE WHEN i.superseded_at IS NULL THEN i.sketch[3] END = n.number
                 AND i.repo_id IS NOT DISTINCT FROM repo LIMIT each) a
       UNION ALL
       SELECT a.* FROM unnest(numbers[4:4]) AS n (number) CROSS JOIN LATERAL (
              SELECT i.id, i.entry_id, i.agent_id, i.session_key, i.sketch FROM plait.memories i
               WHERE CASE WHEN i.superseded_at IS NULL THEN i.sketch[4] END = n.number
                 AND i.repo_id IS NOT DISTINCT FROM repo LIMIT each) a
       UNION ALL
       SELECT a.* FROM unnest(numbers[5:5]) AS n (number) CROSS JOIN LATERAL (
              SELECT i.id, i.entry_id, i.agent_id, i.session_key, i.sketch FROM plait.memories i
               WHERE CASE WHEN i.superseded_at IS NULL THEN i.sketch[5] END = n.number
                 AND i.repo_id IS NOT DISTINCT FROM repo LIMIT each) a) m
 WHERE r.id = repo AND r.tenant = current_setting('plait.tenant', true)
 ORDER BY m.id LIMIT most;
END;
