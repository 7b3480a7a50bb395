-- What was said next to a thing: turns of one session in the order they were stored.
-- docs/schema-postgres.md gives the reason of every index, docs/recall.md what is made of it.
CREATE INDEX memories_session ON memories (repo_id, session_key, entry_id)
    WHERE session_key <> '' AND superseded_at IS NULL;
