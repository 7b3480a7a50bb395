-- How many transactions of the draft there were, counted by each of them. They do not wait for the disk: a
-- server that crashes may lose the last ones after it has said that they are done. A writer that goes on
-- after a crash finds a smaller count than its own.
ALTER TABLE repository ADD COLUMN draft_writes bigint NOT NULL DEFAULT 0;
