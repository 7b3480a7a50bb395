-- Episodes and memories: tenants, two times, versions, links, evidence, retention.
-- docs/schema-postgres.md gives the reason of every table.

-- `name` is the qualified name (plait/domain/scope.py), so it stays unique over all tenants.
ALTER TABLE repository ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT 'default';
CREATE INDEX repository_tenant ON repository (tenant, name);

-- The recorded time of a repository: every write to its memory takes the next tick of this clock in
-- its own transaction (vector/clock.py), so recorded times grow in the order of commits whatever the
-- machine's clock does, and an answer as of a time at or before `at` never changes.
CREATE TABLE repo_clock (
    repo_id integer PRIMARY KEY,
    at      timestamptz NOT NULL
) WITH (fillfactor = 50);

-- When each revision of a repository was published: which one a recorded time means.
CREATE TABLE revision_log (
    repo_id      integer NOT NULL,
    number       integer NOT NULL,
    published_at timestamptz NOT NULL,
    PRIMARY KEY (repo_id, number)
);
INSERT INTO revision_log (repo_id, number, published_at)
SELECT id, published, coalesce(published_at, now()) FROM repository WHERE published > 0;

-- A row of `memories` is one version of an entry; other collections have one version of each item.
ALTER TABLE item ADD COLUMN entry_id   uuid;                          -- memories only
ALTER TABLE item ADD COLUMN version    integer NOT NULL DEFAULT 1;
ALTER TABLE item ADD COLUMN tokens     integer NOT NULL DEFAULT 0;    -- o200k tokens of `content`
ALTER TABLE item ADD COLUMN created_at timestamptz;                   -- the entry's first version
ALTER TABLE item ADD COLUMN superseded_by uuid;                       -- the entry that took its place
-- Numbers that texts of the same words share, the first, or of similar words, one of the others
-- (plait/memory/similar.py); memories only.
ALTER TABLE item ADD COLUMN sketch     bigint[];
ALTER TABLE item ALTER COLUMN sketch SET STATISTICS 0;
UPDATE memories SET entry_id = id, created_at = recorded_at;
-- Without a list of entries that wait: each look-up of a batch would compare it with all it asks for.
CREATE INDEX memories_sketch ON memories USING gin (sketch) WITH (fastupdate = off)
    WHERE superseded_at IS NULL AND sketch IS NOT NULL;

-- Exact duplicates are one entry: equal text, in one scope, alive. Episodes' notes are evidence of
-- their run and stay apart.
CREATE UNIQUE INDEX memories_once ON memories (repo_id, agent_id, session_key, content_hash)
    WHERE superseded_at IS NULL AND episode_id IS NULL;
CREATE INDEX memories_entry ON memories (entry_id, version);
CREATE INDEX memories_newest ON memories (repo_id, created_at DESC, entry_id DESC);
-- What of an agent is alive: summed after each write, to see whether it is time to compact.
CREATE INDEX memories_living ON memories (repo_id, agent_id) INCLUDE (tokens)
    WHERE superseded_at IS NULL;
CREATE INDEX item_episode ON item (episode_id) WHERE episode_id IS NOT NULL;

ALTER TABLE episode ADD COLUMN valid_from timestamptz;     -- when the run began, as far as is known
CREATE INDEX episode_time ON episode (repo_id, recorded_at);
CREATE INDEX episode_began ON episode (repo_id, valid_from);

-- Nodes of the graph that are not code: Issue, Commit, Diff. `name` is the node's id behind `repo:`,
-- as `issue/123`, `commit/ab12…`, `diff/<uuid of the item>/<path>`.
CREATE TABLE memory_node (
    repo_id     integer NOT NULL,
    name        text COLLATE "C" NOT NULL,
    label       text NOT NULL CHECK (label IN ('Issue', 'Commit', 'Diff')),
    title       text NOT NULL DEFAULT '',
    path        text NOT NULL DEFAULT '',
    properties  jsonb NOT NULL DEFAULT '{}',
    episode_id  uuid,                           -- a Diff's; shared nodes have none
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (repo_id, name)
);
CREATE INDEX memory_node_episode ON memory_node (episode_id) WHERE episode_id IS NOT NULL;

-- What episodes and memories say of each other and of code: an edge of the graph while both ends are
-- there. Both ends are named as node ids without `repo:`. Closed by `recorded_to`, never deleted but
-- by `forget`.
CREATE TABLE memory_edge (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repo_id       integer NOT NULL,
    episode_id    uuid REFERENCES episode ON DELETE CASCADE,   -- who says so: an episode …
    entry_id      uuid,                                        -- … or a memory
    relation      text NOT NULL,
    source        text NOT NULL,
    target        text NOT NULL,
    path          text COLLATE "C" NOT NULL DEFAULT '',        -- the file the target is said to be in
    resolver      text NOT NULL DEFAULT '',                    -- the rule that made it
    confidence    real NOT NULL DEFAULT 1,
    valid_from    timestamptz,
    valid_to      timestamptz,
    recorded_from timestamptz NOT NULL,
    recorded_to   timestamptz,
    UNIQUE NULLS NOT DISTINCT (repo_id, episode_id, entry_id, relation, source, target, recorded_from)
);
CREATE INDEX memory_edge_episode ON memory_edge (episode_id) WHERE episode_id IS NOT NULL;
CREATE INDEX memory_edge_entry   ON memory_edge (entry_id) WHERE entry_id IS NOT NULL;
CREATE INDEX memory_edge_target  ON memory_edge (repo_id, target);
CREATE INDEX memory_edge_source  ON memory_edge (repo_id, source);

INSERT INTO memory_edge (repo_id, episode_id, relation, source, target, path, recorded_from)
SELECT l.repo_id, l.episode_id, l.relation, 'episode/' || l.episode_id, l.target, l.path, e.recorded_at
  FROM episode_link l JOIN episode e ON e.id = l.episode_id;
DROP TABLE episode_link;

-- Hunks of diffs; `symbols` are the functions that the published revision has there, NULL until the
-- file is indexed.
CREATE TABLE hunk (
    repo_id    integer NOT NULL,
    episode_id uuid NOT NULL REFERENCES episode ON DELETE CASCADE,
    item_id    uuid NOT NULL,
    ordinal    integer NOT NULL,
    path       text COLLATE "C" NOT NULL,       -- after the change; before it for a deletion
    old_start  integer NOT NULL,
    old_lines  integer NOT NULL,
    new_start  integer NOT NULL,
    new_lines  integer NOT NULL,
    heading    text NOT NULL DEFAULT '',
    body       text NOT NULL,                   -- the hunk's lines, each with its ' ', '-' or '+'
    symbols    text[],
    PRIMARY KEY (item_id, ordinal)
);
CREATE INDEX hunk_episode ON hunk (episode_id);
CREATE INDEX hunk_open ON hunk (repo_id, path) WHERE symbols IS NULL;

-- Each test an episode ran, as its tool named it; `test` is the qualified name in the repository.
CREATE TABLE test_result (
    repo_id    integer NOT NULL,
    episode_id uuid NOT NULL REFERENCES episode ON DELETE CASCADE,
    item_id    uuid NOT NULL,
    ordinal    integer NOT NULL,                -- order inside the episode
    reported   text NOT NULL,
    test       text COLLATE "C" NOT NULL DEFAULT '',
    status     text NOT NULL CHECK (status IN ('passed', 'failed', 'error', 'skipped')),
    took_ms    double precision,
    name       text COLLATE "C" NOT NULL DEFAULT '',  -- the function's own name, as far as `reported` tells
    ran_at     timestamptz NOT NULL,            -- when the run began: histories are read in this order
    PRIMARY KEY (item_id, ordinal)
);
CREATE INDEX test_result_episode ON test_result (episode_id);
CREATE INDEX test_result_time ON test_result (repo_id, ran_at);
CREATE INDEX test_result_test ON test_result (repo_id, test, ran_at) WHERE test <> '';
-- Few tests ever fail: only their histories are looked at.
CREATE INDEX test_result_failed ON test_result (repo_id, test)
    WHERE test <> '' AND status IN ('failed', 'error');
CREATE INDEX test_result_open ON test_result (repo_id, name) WHERE test = '' AND name <> '';

-- Raw evidence behind an episode: a transcript, a report, as it came. Compressed by its writer.
CREATE TABLE evidence (
    id          uuid PRIMARY KEY,
    repo_id     integer NOT NULL,
    episode_id  uuid NOT NULL REFERENCES episode ON DELETE CASCADE,
    name        text NOT NULL,
    media_type  text NOT NULL,
    size_bytes  bigint NOT NULL,                -- before compression
    sha256      bytea NOT NULL,
    body        bytea NOT NULL                  -- zlib
);
CREATE INDEX evidence_episode ON evidence (episode_id);
ALTER TABLE evidence ALTER COLUMN body SET STORAGE EXTERNAL;

-- Request ids are a tenant's own.
ALTER TABLE request ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT 'default';
ALTER TABLE request DROP CONSTRAINT request_pkey;
ALTER TABLE request ADD PRIMARY KEY (tenant, request_id);
CREATE INDEX request_episode ON request (episode_id);
CREATE TABLE memory_request (
    tenant     text COLLATE "C" NOT NULL,
    request_id text NOT NULL,
    repo_id    integer NOT NULL,
    body_hash  bytea NOT NULL,
    entry_ids  uuid[] NOT NULL,                 -- Learn makes several
    duplicate  boolean[] NOT NULL,
    versions   integer[] NOT NULL DEFAULT '{}', -- of the entries, as they were answered
    note       text NOT NULL DEFAULT '',        -- why nothing was kept, if nothing was
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, request_id)
);

-- Projection: memories and removals besides episodes. `entries`: memories; `names`: what to take out of
-- the graph, nodes by their id without `repo:`, edges as `link/ID/RELATION/SOURCE`. `batch`: events that
-- one graph delta covers; fixed at the first claim, so that a second try after a crash covers the same.
ALTER TABLE outbox DROP CONSTRAINT outbox_kind_check;
ALTER TABLE outbox ADD CHECK (kind IN ('index', 'episode', 'remove', 'memory', 'forget'));
ALTER TABLE outbox ADD COLUMN entries uuid[];
ALTER TABLE outbox ADD COLUMN names text[];
ALTER TABLE outbox ADD COLUMN batch bigint;
ALTER TABLE dead_letter ADD COLUMN entries uuid[];
ALTER TABLE dead_letter ADD COLUMN names text[];
-- Statistics keep values of columns: none of what names something that is being forgotten.
ALTER TABLE outbox ALTER COLUMN names SET STATISTICS 0, ALTER COLUMN entries SET STATISTICS 0,
      ALTER COLUMN cause SET STATISTICS 0, ALTER COLUMN episode_id SET STATISTICS 0;
ALTER TABLE dead_letter ALTER COLUMN names SET STATISTICS 0, ALTER COLUMN entries SET STATISTICS 0,
      ALTER COLUMN cause SET STATISTICS 0, ALTER COLUMN episode_id SET STATISTICS 0;
-- Episodes and memories have an epoch of their own, so that readers of code never wait for them.
-- `graph_fence` grows with every claim: the graph takes nothing older than it has seen.
ALTER TABLE repository ADD COLUMN memory_epoch bigint NOT NULL DEFAULT 0;
ALTER TABLE repository ADD COLUMN memory_busy boolean NOT NULL DEFAULT false;
ALTER TABLE repository ADD COLUMN graph_fence bigint NOT NULL DEFAULT 0;

-- One run of retention: what it did, so that it can be undone until `undo_until`.
CREATE TABLE compaction (
    id         uuid PRIMARY KEY,
    repo_id    integer NOT NULL,
    agent_id   text NOT NULL DEFAULT '',
    request_id text NOT NULL DEFAULT '',
    at         timestamptz NOT NULL,
    undo_until timestamptz NOT NULL,
    undone_at  timestamptz,
    counts     jsonb NOT NULL
);
CREATE INDEX compaction_repo ON compaction (repo_id, at);
CREATE UNIQUE INDEX compaction_once ON compaction (repo_id, request_id) WHERE request_id <> '';
CREATE TABLE compaction_step (
    compaction_id uuid NOT NULL REFERENCES compaction ON DELETE CASCADE,
    repo_id       integer NOT NULL,
    ordinal       integer NOT NULL,
    action        text NOT NULL CHECK (action IN ('summarize', 'deduplicate', 'pin')),
    entry_id      uuid NOT NULL,                -- closed, or pinned
    into_id       uuid,                         -- the summary, or the duplicate that stays
    reason        text NOT NULL,
    tokens        integer NOT NULL,             -- of the entry
    version       integer NOT NULL,             -- of the entry, as it was closed
    PRIMARY KEY (compaction_id, ordinal)
);
CREATE INDEX compaction_step_entry ON compaction_step (entry_id);
CREATE INDEX compaction_step_into ON compaction_step (into_id) WHERE into_id IS NOT NULL;

-- What was forgotten: never the text, only that it is gone. `proof`: counts by place.
CREATE TABLE forgotten (
    id       uuid PRIMARY KEY,
    repo_id  integer NOT NULL,
    at       timestamptz NOT NULL,
    selector jsonb NOT NULL,
    entries  uuid[] NOT NULL,
    episodes uuid[] NOT NULL,
    proof    jsonb NOT NULL,
    -- Whether the planner's statistics were taken anew since: they keep values of columns.
    refreshed boolean NOT NULL DEFAULT false
);
CREATE INDEX forgotten_stale ON forgotten (id) WHERE NOT refreshed;
