-- Recall: how a memory's anchor read when it was recorded, receipts, feedback.
-- docs/schema-postgres.md gives the reason of every table.

-- Recall follows the code graph from the truth; its policy is from 0003.
GRANT SELECT ON file_graph TO plait_app;

-- BLAKE2b of the anchored chunks' content hashes at the time of recording; NULL: no anchor, or not known.
ALTER TABLE item ADD COLUMN anchor_hash bytea;
ALTER TABLE item ALTER COLUMN anchor_hash SET STATISTICS 0;
