-- What waits for a vector, oldest first: a round of 256 reads its 256 entries, where it read and sorted all that
-- wait before. docs/experiments/memory-speed.md has what it gave.
DROP INDEX diffs_waiting, plans_waiting, reflections_waiting, tests_waiting, memories_waiting;
CREATE INDEX diffs_waiting       ON diffs (repo_id, id) WHERE embedding IS NULL;
CREATE INDEX plans_waiting       ON plans (repo_id, id) WHERE embedding IS NULL;
CREATE INDEX reflections_waiting ON reflections (repo_id, id) WHERE embedding IS NULL;
CREATE INDEX tests_waiting       ON tests (repo_id, id) WHERE embedding IS NULL;
CREATE INDEX memories_waiting    ON memories (repo_id, id) WHERE embedding IS NULL;
