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

-- Policies on a parent don't hold reads that name a partition: each has its own.
-- IN, which hashes the tenant's repositories once a statement: an array would be walked for each row.
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
        owned := 'repo_id IN (SELECT id FROM plait.repository'
              || ' WHERE tenant = current_setting(''plait.tenant'', true))';
        IF t.tenant THEN
            owned := 'tenant = current_setting(''plait.tenant'', true) AND ' || owned;
        END IF;
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t.name);
        EXECUTE format('CREATE POLICY tenant ON %s USING (%s) WITH CHECK (%s)', t.name, owned, owned);
    END LOOP;
END $$;

ALTER TABLE repository ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON repository
    USING (tenant = current_setting('plait.tenant', true))
    WITH CHECK (tenant = current_setting('plait.tenant', true));

ALTER TABLE segment_dead ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON segment_dead USING (segment_id IN (SELECT id FROM plait.segment));

-- What serving needs, and no more: code, outbox and history are read, never written; nothing is
-- deleted (`forget` and merging work as the owner).
GRANT USAGE ON SCHEMA plait TO plait_app;
GRANT SELECT ON repository, embedding_space, source_file, file_graph, item, files, diffs, plans,
      reflections, tests, memories, symbol_name, segment, posting, segment_dead, episode, memory_node,
      memory_edge, hunk, test_result, evidence, request, memory_request, repo_clock, revision_log,
      compaction, compaction_step, forgotten, outbox TO plait_app;
GRANT INSERT (name, tenant) ON repository TO plait_app;
GRANT INSERT ON segment, posting, outbox TO plait_app;
GRANT INSERT, UPDATE ON item, diffs, plans, reflections, tests, memories, episode, memory_node,
      memory_edge, hunk, test_result, evidence, request, memory_request, repo_clock TO plait_app;
