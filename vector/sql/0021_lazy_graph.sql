-- What an index run leaves to the background (docs/architecture.md, "An index run").

-- Whether the last index run asked for vectors: the service fills them in, also after a restart.
ALTER TABLE repository ADD COLUMN vectors_wanted boolean NOT NULL DEFAULT false;
-- The revision against which what episodes touch and validate was settled last; no graph is needed for it.
ALTER TABLE repository ADD COLUMN settled integer NOT NULL DEFAULT 0;
-- Too much waited for a graph that nobody asked: its removal is queued, and all of it again after that.
ALTER TABLE repository ADD COLUMN graph_anew boolean NOT NULL DEFAULT false;
UPDATE repository SET vectors_wanted = embedded > 0, settled = graph_number;

ALTER TABLE outbox ADD COLUMN settled boolean NOT NULL DEFAULT false;
CREATE INDEX outbox_unsettled ON outbox (repo_id, id) WHERE kind = 'episode' AND NOT settled;
