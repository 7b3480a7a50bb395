-- Files and their parts of the graph by content: written once, and held by revisions through intervals, so
-- that code which comes back (a branch, an undone change) costs two narrow rows a file. docs/schema-postgres.md.

-- One row for each content of a file: `written` is the revision that wrote it, and `rev_from` of its chunks.
ALTER TABLE source_file RENAME TO file_version;
ALTER TABLE file_version RENAME COLUMN rev_from TO written;
ALTER TABLE file_version RENAME CONSTRAINT source_file_pkey TO file_version_pkey;

-- Which revisions hold it, [rev_from, rev_to): several intervals for one that came back.
CREATE TABLE file_member (
    repo_id  integer NOT NULL,
    written  integer NOT NULL,
    rev_from integer NOT NULL,
    rev_to   integer,
    path     text COLLATE "C" NOT NULL,
    PRIMARY KEY (repo_id, path, rev_from)
) WITH (fillfactor = 80);  -- a switch sets `rev_to` of many rows, in their own pages
INSERT INTO file_member (repo_id, written, rev_from, rev_to, path)
SELECT repo_id, written, written, rev_to, path FROM file_version ORDER BY repo_id, path, written;
ALTER TABLE file_version DROP COLUMN rev_to;

ALTER TABLE file_graph RENAME TO graph_part;
ALTER TABLE graph_part RENAME COLUMN rev_from TO written;
ALTER TABLE graph_part RENAME CONSTRAINT file_graph_pkey TO graph_part_pkey;
CREATE TABLE graph_member (
    repo_id  integer NOT NULL,
    written  integer NOT NULL,
    rev_from integer NOT NULL,
    rev_to   integer,
    path     text COLLATE "C" NOT NULL,
    PRIMARY KEY (repo_id, path, rev_from)
) WITH (fillfactor = 80);
INSERT INTO graph_member (repo_id, written, rev_from, rev_to, path)
SELECT repo_id, written, written, rev_to, path FROM graph_part ORDER BY repo_id, path, written;
ALTER TABLE graph_part DROP COLUMN rev_to;

-- What readers use: a row for each interval. With the reader's own rights, so row security holds in them.
CREATE VIEW source_file WITH (security_invoker = true) AS
SELECT m.repo_id, m.rev_from, m.rev_to, m.path, m.written,
       v.lines, v.size_bytes, v.is_test, v.content_hash, v.language
  FROM file_member m JOIN file_version v USING (repo_id, path, written);
CREATE VIEW file_graph WITH (security_invoker = true) AS
SELECT m.repo_id, m.rev_from, m.rev_to, m.path, m.written, p.graph_hash, p.nodes, p.edges
  FROM graph_member m JOIN graph_part p USING (repo_id, path, written);

-- A chunk is held by the revisions that hold its file's version; `rev_from` says which one that is.
DROP FUNCTION similar_names;
ALTER TABLE item DROP COLUMN rev_to;
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
              AND EXISTS (SELECT FROM plait.file_member m
                           WHERE m.repo_id = i.repo_id AND m.path = i.path AND m.written = i.rev_from
                             AND m.rev_from <= s.number AND (m.rev_to IS NULL OR m.rev_to > s.number)
                          OFFSET 0)
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
           AND EXISTS (SELECT FROM plait.file_member m
                        WHERE m.repo_id = i.repo_id AND m.path = i.path AND m.written = i.rev_from
                          AND m.rev_from <= s.number AND (m.rev_to IS NULL OR m.rev_to > s.number)
                       OFFSET 0)
         LIMIT 1) held ON true
  ORDER BY n.score DESC, n.name LIMIT most);
END;
REVOKE EXECUTE ON FUNCTION similar_names FROM PUBLIC;
GRANT EXECUTE ON FUNCTION similar_names TO plait_app;

-- From here on a row lists all of the segment's documents that are not in revision `rev`, and holds until the
-- next row of the segment: documents may come back.
UPDATE segment_dead d SET docs = w.docs
  FROM (SELECT segment_id, rev, string_agg(docs, ''::bytea) OVER (PARTITION BY segment_id ORDER BY rev) AS docs
          FROM segment_dead) w
 WHERE w.segment_id = d.segment_id AND w.rev = d.rev;

-- The tree that a revision was made from (a digest over paths and contents), while it is kept to be taken up
-- again; the branch it was, and the counts that its run found.
ALTER TABLE revision_log ADD COLUMN tree bytea, ADD COLUMN branch text NOT NULL DEFAULT '', ADD COLUMN stats jsonb;

DO $$
DECLARE
    t text;
    owned text := 'EXISTS (SELECT FROM plait.repository r WHERE r.id = repo_id'
               || ' AND r.tenant = current_setting(''plait.tenant'', true))';
BEGIN
    FOREACH t IN ARRAY ARRAY['file_member', 'graph_member'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY tenant ON %I USING (%s) WITH CHECK (%s)', t, owned, owned);
    END LOOP;
END $$;
GRANT SELECT ON file_member, graph_member, source_file, file_graph TO plait_app;
GRANT SELECT (repo_id, written, path, lines, size_bytes, is_test, content_hash, language)
    ON file_version TO plait_app;
CREATE INDEX revision_log_tree ON revision_log (repo_id, number) WHERE tree IS NOT NULL;
