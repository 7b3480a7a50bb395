-- Memories by tag: a search for a tag that few have read every row of its repository, 170 CPU ms of 100,000.
-- Without a list of entries that wait, which each look-up would read.
CREATE INDEX memories_tags ON memories USING gin (tags) WITH (fastupdate = off);

-- Operators of arrays are not leakproof, so behind row security no index serves them. This works as the owner, and
-- asks for the tenant itself. Up to `most` memories of `repos`, living or closed, with all of `all_of`, or with one of
-- `any_of` where that is empty; the caller holds them against everything else that it asks for. The repository is
-- said in words that no other index serves.
CREATE FUNCTION tagged_memories(repos integer[], any_of text[], all_of text[], most integer)
RETURNS TABLE (id uuid)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 100
SET enable_seqscan = off
BEGIN ATOMIC
SELECT m.id FROM (
       SELECT i.id, i.repo_id FROM plait.memories i
        WHERE cardinality(all_of) > 0 AND i.tags @> all_of AND (i.repo_id = ANY(repos)) IS TRUE
       UNION ALL
       SELECT i.id, i.repo_id FROM plait.memories i
        WHERE cardinality(all_of) = 0 AND i.tags && any_of AND (i.repo_id = ANY(repos)) IS TRUE) m
 WHERE EXISTS (SELECT FROM plait.repository r
                WHERE r.id = m.repo_id AND r.tenant = current_setting('plait.tenant', true))
 LIMIT most;
END;
REVOKE EXECUTE ON FUNCTION tagged_memories FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tagged_memories TO plait_app;
