-- The static table's vectors of a BM25 segment's documents, in their order: `docs` rows of int8, then as many
-- float32 scales (little-endian); scale · row has unit length. `model` names the table; rows of another one are
-- made anew by the next index run. They go with their segment.
CREATE TABLE segment_vector (
    segment_id bigint PRIMARY KEY REFERENCES segment (id) ON DELETE CASCADE,
    repo_id    integer NOT NULL,
    model      text NOT NULL,
    body       bytea NOT NULL
);
ALTER TABLE segment_vector ALTER COLUMN body SET STORAGE EXTERNAL;

ALTER TABLE segment_vector ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON segment_vector
    USING (EXISTS (SELECT FROM plait.repository r WHERE r.id = repo_id
                      AND r.tenant = current_setting('plait.tenant', true)))
    WITH CHECK (EXISTS (SELECT FROM plait.repository r WHERE r.id = repo_id
                           AND r.tenant = current_setting('plait.tenant', true)));
GRANT SELECT ON segment_vector TO plait_app;
