-- Episodes from before 0002 are in the graph without what it has of them now: numbered links, nodes of
-- notes, times. The graph of their repositories is made anew, as `plait rebuild` does.
CREATE TEMPORARY TABLE anew ON COMMIT DROP AS
SELECT DISTINCT repo_id FROM episode
 WHERE recorded_at < (SELECT applied_at FROM schema_migration WHERE number = 2);

DELETE FROM outbox WHERE repo_id IN (SELECT repo_id FROM anew);
DELETE FROM dead_letter WHERE repo_id IN (SELECT repo_id FROM anew);
UPDATE episode SET projected = false WHERE repo_id IN (SELECT repo_id FROM anew);
INSERT INTO outbox (repo_id, kind) SELECT repo_id, 'remove' FROM anew ORDER BY repo_id;
INSERT INTO outbox (repo_id, kind, number)
SELECT id, 'index', published FROM repository
 WHERE published > 0 AND id IN (SELECT repo_id FROM anew) ORDER BY id;
INSERT INTO outbox (repo_id, kind, episode_id)
SELECT repo_id, 'episode', id FROM episode WHERE repo_id IN (SELECT repo_id FROM anew)
 ORDER BY recorded_at, id;
INSERT INTO outbox (repo_id, kind, entries)
SELECT repo_id, 'memory', array_agg(entry_id ORDER BY entry_id)
  FROM (SELECT repo_id, entry_id, row_number() OVER (PARTITION BY repo_id ORDER BY entry_id) - 1 AS n
          FROM (SELECT DISTINCT repo_id, entry_id FROM memories
                 WHERE entry_id IS NOT NULL AND episode_id IS NULL
                   AND repo_id IN (SELECT repo_id FROM anew)) AS once) AS numbered
 GROUP BY repo_id, n / 500 ORDER BY repo_id, n / 500;
