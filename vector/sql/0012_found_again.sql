-- What compaction closes is found nonetheless, below what stands for it: `kept_until` says until when, the
-- end of times while nothing took the closing back (vector/compacted.py). NULL: not closed by compaction, or
-- with the very words of a duplicate that stays. docs/retention.md says what is made of it.
ALTER TABLE item ADD COLUMN kept_until timestamptz;
ALTER TABLE item ALTER COLUMN kept_until SET STATISTICS 0;

-- How many there are, which `plait status` and `plait ingest` say.
CREATE INDEX memories_kept ON memories (repo_id, agent_id) WHERE kept_until IS NOT NULL;

-- What earlier versions closed, as far as it was not undone: the version that the compaction closed.
UPDATE memories m SET kept_until = '9999-12-29 00:00:00+00'
  FROM compaction_step s
  JOIN compaction c ON c.id = s.compaction_id AND c.undone_at IS NULL
 WHERE s.into_id IS NOT NULL AND m.entry_id = s.entry_id AND m.repo_id = s.repo_id
   AND m.version = s.version AND m.superseded_at = c.at
   AND (s.action = 'summarize'
        OR NOT EXISTS (SELECT FROM memories k
                        WHERE k.entry_id = s.into_id AND k.content_hash = m.content_hash));

-- Episodes from before 0002 have no nodes, hunks and results, so nothing is linked by what they say: the projector
-- reads their items again (vector/relink.py).
ALTER TABLE episode ADD COLUMN reread boolean NOT NULL DEFAULT false;
UPDATE episode SET valid_from = least(coalesce(started_at, recorded_at), recorded_at)
 WHERE valid_from IS NULL;
UPDATE episode SET reread = true, projected = false
 WHERE recorded_at < (SELECT applied_at FROM schema_migration WHERE number = 2);
INSERT INTO outbox (repo_id, kind, episode_id)
SELECT e.repo_id, 'episode', e.id FROM episode e
 WHERE e.reread AND NOT EXISTS (SELECT FROM outbox o WHERE o.episode_id = e.id)
 ORDER BY e.recorded_at, e.id;
