-- The turns next to a turn as of an earlier recorded time, too: closed ones have their place in the order.
-- Without them in the index such a question read the whole repository for each turn that it asked about.
-- `superseded_at` behind the order: what is closed is stepped over without reading its row.
DROP INDEX memories_session;
CREATE INDEX memories_session ON memories (repo_id, session_key, entry_id, superseded_at)
    WHERE session_key <> '';
