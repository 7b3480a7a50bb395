-- The second wall: the role `plait_app`, which serving works as, sees one tenant's rows, the one that
-- the setting `plait.tenant` names on its connection; none where it names none. The owner of the tables
-- (indexing, projection, retention) is not held. vector/migrate.py makes the role.
-- docs/schema-postgres.md says what this costs.

ALTER TABLE repository ADD CONSTRAINT repository_tenant_check CHECK (tenant <> '');

-- A posting names no repository but through its segment, whose look-up for each would cost more than
-- the look-up of the posting.
ALTER TABLE posting ADD COLUMN repo_id integer;
UPDATE posting p SET repo_id = s.repo_id FROM segment s WHERE s.id = p.segment_id;
ALTER TABLE posting ALTER COLUMN repo_id SET NOT NULL;
-- With the repository, so that no tenant learns from a clash of keys what a segment of another's holds.
ALTER TABLE posting DROP CONSTRAINT posting_pkey;
ALTER TABLE posting ADD PRIMARY KEY (segment_id, term, repo_id);

-- Policies on a parent don't hold reads that name a partition: each has its own.
-- EXISTS, so that the planner chooses: look a few rows' repositories up, hash the tenant's for many.
-- Of a tenant with 2,000 repositories IN cost a phrase 7 ms, an array 0.5, this 0.1.
DO $$
DECLARE
    t record;
    owned text;
BEGIN
    FOR t IN
        SELECT c.oid::regclass AS name, bool_or(a.attname = 'repo_id') AS repo,
               bool_or(a.attname = 'tenant') AND c.relname LIKE '%request' AS tenant
          FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
         WHERE c.relnamespace = 'plait'::regnamespace AND c.relkind IN ('r', 'p')
           AND c.relname NOT IN ('schema_migration', 'embedding_space', 'repository', 'segment_dead')
         GROUP BY c.oid, c.relname
    LOOP
        IF NOT t.repo THEN
            RAISE EXCEPTION 'table % has no repo_id, and no policy of its own', t.name;
        END IF;
        owned := 'EXISTS (SELECT FROM plait.repository r WHERE r.id = repo_id'
              || ' AND r.tenant = current_setting(''plait.tenant'', true))';
        IF t.tenant THEN
            owned := 'tenant = current_setting(''plait.tenant'', true) AND ' || owned;
        END IF;
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t.name);
        EXECUTE format('CREATE POLICY tenant ON %s USING (%s) WITH CHECK (%s)', t.name, owned, owned);
    END LOOP;
END $$;

-- Code is written by indexing alone.
CREATE POLICY not_code ON item AS RESTRICTIVE FOR INSERT WITH CHECK (collection <> 'files');
CREATE POLICY still_not_code ON item AS RESTRICTIVE FOR UPDATE USING (collection <> 'files');

ALTER TABLE repository ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON repository
    USING (tenant = current_setting('plait.tenant', true))
    WITH CHECK (tenant = current_setting('plait.tenant', true));

ALTER TABLE segment_dead ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON segment_dead
    USING (EXISTS (SELECT FROM plait.segment s WHERE s.id = segment_id));

-- Trigram operators are not leakproof, so behind row security they would be evaluated row by row, after
-- the policy, with no index: 27,000 names a look-up. This works as the owner, and asks for the tenant
-- itself. A name counts while a revision that is read has it; one that exists is not misspelt.
CREATE FUNCTION similar_names(repos integer[], numbers integer[], wanted text, most integer)
RETURNS TABLE (repo_id integer, name text, score real)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 50
BEGIN ATOMIC
WITH seen AS MATERIALIZED (
    SELECT a.repo_id, a.number FROM unnest(repos, numbers) AS a (repo_id, number)
      JOIN plait.repository r ON r.id = a.repo_id AND r.tenant = current_setting('plait.tenant', true)),
exact AS MATERIALIZED (
    SELECT s.repo_id, wanted AS name, 1::real AS score
      FROM seen s JOIN LATERAL (
           SELECT FROM plait.files i
            WHERE i.repo_id = s.repo_id AND i.name = wanted AND i.name <> ''
              AND i.rev_from <= s.number AND (i.rev_to IS NULL OR i.rev_to > s.number)
            LIMIT 1) held ON true),
near AS MATERIALIZED (
    SELECT n.repo_id, n.name, similarity(n.name, wanted) AS score FROM plait.symbol_name n
     WHERE NOT EXISTS (SELECT FROM exact) AND n.name % wanted
       AND n.repo_id = ANY(ARRAY(SELECT s.repo_id FROM seen s)))
SELECT e.repo_id, e.name, e.score FROM exact e
UNION ALL
(SELECT n.repo_id, n.name, n.score
   FROM (SELECT * FROM near ORDER BY near.score DESC, near.name) n
   JOIN seen s ON s.repo_id = n.repo_id
   JOIN LATERAL (
        SELECT FROM plait.files i
         WHERE i.repo_id = n.repo_id AND i.name = n.name AND i.name <> ''
           AND i.rev_from <= s.number AND (i.rev_to IS NULL OR i.rev_to > s.number)
         LIMIT 1) held ON true
  ORDER BY n.score DESC, n.name LIMIT most);
END;
REVOKE EXECUTE ON FUNCTION similar_names FROM PUBLIC;
GRANT EXECUTE ON FUNCTION similar_names TO plait_app;

-- Nor are those of arrays: living memories whose sketch shares a number with `numbers`, up to `each`
-- for each number. One look-up a number: `&&` with all of a batch's 2,500 compares each row with each.
-- Planned at each call, and with nothing but that look-up to choose: a plan from when the table was
-- small would read all of it.
CREATE FUNCTION similar_memories(repo integer, numbers bigint[], each integer, most integer)
RETURNS TABLE (id uuid, entry_id uuid, agent_id text, session_key text, sketch bigint[])
LANGUAGE sql STABLE SECURITY DEFINER ROWS 50
SET enable_seqscan = off SET plan_cache_mode = force_custom_plan
BEGIN ATOMIC
SELECT DISTINCT ON (m.id) m.id, m.entry_id, m.agent_id, m.session_key, m.sketch
  FROM plait.repository r
 CROSS JOIN unnest(numbers) AS n (number)
 CROSS JOIN LATERAL (
       SELECT i.id, i.entry_id, i.agent_id, i.session_key, i.sketch FROM plait.memories i
        WHERE i.sketch @> ARRAY[n.number] AND i.sketch IS NOT NULL AND i.superseded_at IS NULL
          AND i.repo_id IS NOT DISTINCT FROM repo LIMIT each) m
 WHERE r.id = repo AND r.tenant = current_setting('plait.tenant', true)
 ORDER BY m.id LIMIT most;
END;
REVOKE EXECUTE ON FUNCTION similar_memories FROM PUBLIC;
GRANT EXECUTE ON FUNCTION similar_memories TO plait_app;

-- What serving needs, and no more: code, outbox and history are read, never written; nothing is
-- deleted (`forget` and merging work as the owner).
GRANT USAGE ON SCHEMA plait TO plait_app;
GRANT SELECT ON repository, embedding_space, item, files, diffs, plans,
      reflections, tests, memories, symbol_name, segment, posting, segment_dead, episode, memory_node,
      memory_edge, hunk, test_result, evidence, request, memory_request, repo_clock, revision_log,
      compaction, compaction_step, forgotten, outbox TO plait_app;
GRANT SELECT (repo_id, rev_from, rev_to, path) ON source_file TO plait_app;
GRANT INSERT (name, tenant) ON repository TO plait_app;
GRANT INSERT ON segment, posting, outbox TO plait_app;
GRANT INSERT, UPDATE ON item, diffs, plans, reflections, tests, memories, episode, memory_node,
      memory_edge, hunk, test_result, evidence, request, memory_request, repo_clock TO plait_app;
