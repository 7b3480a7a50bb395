-- The truth: repositories with revisions, collections, BM25 segments, episodes, outbox.
-- docs/schema-postgres.md gives the reason and the measured cost of every table and index.

-- One row a repository name, kept as a tombstone after a delete so that `id` and numbers never recur.
CREATE TABLE repository (
    id            integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          text COLLATE "C" NOT NULL UNIQUE,
    root          text NOT NULL DEFAULT '',
    published     integer NOT NULL DEFAULT 0,   -- what readers see; 0: nothing
    last_number   integer NOT NULL DEFAULT 0,   -- highest number ever published
    collected     integer NOT NULL DEFAULT 0,   -- rows retired up to here are gone
    draft_token   uuid,                         -- fences writers of a draft that lost its lock
    published_at  timestamptz,
    files         integer NOT NULL DEFAULT 0,
    chunks        integer NOT NULL DEFAULT 0,
    embedded      integer NOT NULL DEFAULT 0,
    stats         jsonb NOT NULL DEFAULT '{}',
    graph_number  integer NOT NULL DEFAULT 0,   -- the revision the graph shows; 0: none
    graph_target  integer NOT NULL DEFAULT 0,   -- the revision a projection is moving to; 0: none
    graph_epoch   bigint NOT NULL DEFAULT 0,    -- grows when the graph starts to change
    graph_busy    boolean NOT NULL DEFAULT false,
    graph_broken  boolean NOT NULL DEFAULT false -- an event went to the dead letters half-way
);

-- The index's one embedding space.
CREATE TABLE embedding_space (
    singleton  boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    model      text NOT NULL,
    dim        integer NOT NULL CHECK (dim BETWEEN 1 AND 4000),
    filled     boolean NOT NULL DEFAULT false,  -- a vector was stored: chunks may take it over
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Files by revision. `facts`: what the extractor found, opaque here.
CREATE TABLE source_file (
    repo_id      integer NOT NULL,
    rev_from     integer NOT NULL,
    rev_to       integer,
    lines        integer NOT NULL,
    size_bytes   bigint NOT NULL,
    is_test      boolean NOT NULL,
    content_hash bytea NOT NULL,
    language     text NOT NULL,
    path         text COLLATE "C" NOT NULL,
    facts        bytea NOT NULL,
    PRIMARY KEY (repo_id, path, rev_from)
);
-- Already msgpack: compressing it again cost CPU and won little.
ALTER TABLE source_file ALTER COLUMN facts SET STORAGE EXTERNAL;

-- Each file's part of the graph by revision; it can change while the file does not.
CREATE TABLE file_graph (
    repo_id    integer NOT NULL,
    rev_from   integer NOT NULL,
    rev_to     integer,
    graph_hash bytea NOT NULL,
    path       text COLLATE "C" NOT NULL,
    nodes      bytea NOT NULL,
    edges      bytea NOT NULL,
    PRIMARY KEY (repo_id, path, rev_from)
);
ALTER TABLE file_graph ALTER COLUMN nodes SET STORAGE EXTERNAL;
ALTER TABLE file_graph ALTER COLUMN edges SET STORAGE EXTERNAL;

-- The collections. rev_from/rev_to: which revisions of the repository hold the row (code);
-- valid_*: when it was true, recorded_*: when we knew it (memories).
CREATE TABLE item (
    id            uuid NOT NULL,
    repo_id       integer NOT NULL,
    rev_from      integer NOT NULL DEFAULT 0,
    rev_to        integer,
    start_line    integer NOT NULL DEFAULT 0,
    end_line      integer NOT NULL DEFAULT 0,
    is_test       boolean NOT NULL DEFAULT false,
    pinned        boolean NOT NULL DEFAULT false,
    importance    real NOT NULL DEFAULT 0.5 CHECK (importance BETWEEN 0 AND 1),
    ts            timestamptz NOT NULL DEFAULT now(),
    recorded_at   timestamptz NOT NULL DEFAULT now(),
    superseded_at timestamptz,
    valid_from    timestamptz,
    valid_to      timestamptz,
    collection    text NOT NULL,
    kind          text NOT NULL,
    language      text NOT NULL DEFAULT '',
    content_hash  bytea NOT NULL,
    path          text COLLATE "C" NOT NULL DEFAULT '',
    symbol        text COLLATE "C" NOT NULL DEFAULT '',
    name          text COLLATE "C" NOT NULL DEFAULT '',     -- last part of `symbol`
    tenant        text NOT NULL DEFAULT '',
    agent_id      text NOT NULL DEFAULT '',
    session_key   text NOT NULL DEFAULT '',
    source        text NOT NULL DEFAULT 'system' CHECK (source IN ('agent', 'user', 'system')),
    type          text NOT NULL DEFAULT 'semantic'
                  CHECK (type IN ('episodic', 'semantic', 'procedural')),
    episode_id    uuid,
    tags          text[] NOT NULL DEFAULT '{}',
    meta          jsonb NOT NULL DEFAULT '{}',
    content       text NOT NULL,
    embedding_model text,
    embedding     halfvec
) PARTITION BY LIST (collection);

-- Embeddings stay in the row, long texts leave it first: an exact scan reads rows, not TOAST.
ALTER TABLE item ALTER COLUMN embedding SET STORAGE MAIN;

CREATE TABLE files       PARTITION OF item FOR VALUES IN ('files');
CREATE TABLE diffs       PARTITION OF item FOR VALUES IN ('diffs');
CREATE TABLE plans       PARTITION OF item FOR VALUES IN ('plans');
CREATE TABLE reflections PARTITION OF item FOR VALUES IN ('reflections');
CREATE TABLE tests       PARTITION OF item FOR VALUES IN ('tests');
CREATE TABLE memories    PARTITION OF item FOR VALUES IN ('memories');

-- Parents give their indexes to the partitions; a primary key would have to hold `collection` too.
ALTER TABLE files       ADD PRIMARY KEY (id);
ALTER TABLE diffs       ADD PRIMARY KEY (id);
ALTER TABLE plans       ADD PRIMARY KEY (id);
ALTER TABLE reflections ADD PRIMARY KEY (id);
ALTER TABLE tests       ADD PRIMARY KEY (id);
ALTER TABLE memories    ADD PRIMARY KEY (id);
CREATE INDEX item_path ON item (repo_id, path);
CREATE INDEX item_content_hash ON item (content_hash);
-- What of the agents' items waits for a vector: next to nothing, so next to no cost.
CREATE INDEX diffs_waiting       ON diffs (repo_id) WHERE embedding IS NULL;
CREATE INDEX plans_waiting       ON plans (repo_id) WHERE embedding IS NULL;
CREATE INDEX reflections_waiting ON reflections (repo_id) WHERE embedding IS NULL;
CREATE INDEX tests_waiting       ON tests (repo_id) WHERE embedding IS NULL;
CREATE INDEX memories_waiting    ON memories (repo_id) WHERE embedding IS NULL;

-- Distinct symbol names for trigram search: Django has 46,000 chunks and 14,000 names.
CREATE TABLE symbol_name (
    repo_id integer NOT NULL,
    name    text COLLATE "C" NOT NULL,
    PRIMARY KEY (repo_id, name)
);
CREATE INDEX symbol_name_trigram ON symbol_name USING gin (name gin_trgm_ops);
CREATE INDEX item_name ON item (repo_id, name) WHERE name <> '';

-- BM25: immutable segments; document i of a segment is ids[16i:16i+16].
CREATE TABLE segment (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repo_id     integer NOT NULL,
    rev_from    integer NOT NULL DEFAULT 0,
    rev_to      integer,
    docs        integer NOT NULL,
    tokens      bigint NOT NULL,
    replaced_at timestamptz,                    -- episodes' segments: merged into another then
    collection  text NOT NULL,
    lengths     bytea NOT NULL,                 -- int32 a document
    ids         bytea NOT NULL
);
CREATE INDEX segment_repo ON segment (repo_id, collection);
ALTER TABLE segment ALTER COLUMN lengths SET STORAGE EXTERNAL;
ALTER TABLE segment ALTER COLUMN ids SET STORAGE EXTERNAL;

-- One row a (segment, term): int32 documents ascending, then uint8 frequencies.
CREATE TABLE posting (
    segment_id bigint NOT NULL,
    term       text COLLATE "C" NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (segment_id, term)
);
ALTER TABLE posting ALTER COLUMN body SET STORAGE EXTERNAL;

-- Documents of a segment that are gone from revision `rev` on, int32.
CREATE TABLE segment_dead (
    segment_id bigint NOT NULL,
    rev        integer NOT NULL,
    docs       bytea NOT NULL,
    PRIMARY KEY (segment_id, rev)
);

CREATE TABLE episode (
    id          uuid PRIMARY KEY,
    repo_id     integer NOT NULL,
    started_at  timestamptz,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    projected   boolean NOT NULL DEFAULT false, -- its links are in the graph
    agent_id    text NOT NULL DEFAULT '',
    session_key text NOT NULL DEFAULT '',
    tags        text[] NOT NULL DEFAULT '{}',
    outcome     jsonb NOT NULL
);
CREATE INDEX episode_repo ON episode (repo_id);

-- What an episode points at; the edge exists in the graph while the target node does.
CREATE TABLE episode_link (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repo_id    integer NOT NULL,
    episode_id uuid NOT NULL REFERENCES episode ON DELETE CASCADE,
    relation   text NOT NULL,
    target     text NOT NULL,                   -- qualified name, or `/path` of a file
    path       text COLLATE "C" NOT NULL,       -- the file it is said to be in; '' when unknown
    UNIQUE (episode_id, relation, target)
);
CREATE INDEX episode_link_repo ON episode_link (repo_id);

-- Answers already given, so that a repeated request gets the same one.
CREATE TABLE request (
    request_id text PRIMARY KEY,
    repo_id    integer NOT NULL,
    body_hash  bytea NOT NULL,
    episode_id uuid NOT NULL,
    item_ids   uuid[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- What waits to be projected, oldest first within a repository.
CREATE TABLE outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repo_id    integer NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('index', 'episode', 'remove')),
    number     integer NOT NULL DEFAULT 0,
    episode_id uuid,
    attempts   integer NOT NULL DEFAULT 0,
    not_before timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    claimed_by text,
    cause      text
);
CREATE INDEX outbox_repo ON outbox (repo_id, id);

CREATE TABLE dead_letter (
    event_id   bigint PRIMARY KEY,
    repo_id    integer NOT NULL,
    kind       text NOT NULL,
    number     integer NOT NULL,
    episode_id uuid,
    attempts   integer NOT NULL,
    cause      text NOT NULL,
    created_at timestamptz NOT NULL,
    died_at    timestamptz NOT NULL DEFAULT now()
);

-- Statistics of what is sought by, from 3,000 rows instead of 30,000 and without the wide columns:
-- ANALYZE after Django takes 0.04 CPU s instead of 0.34.
ALTER TABLE item
    ALTER COLUMN content SET STATISTICS 0, ALTER COLUMN embedding SET STATISTICS 0,
    ALTER COLUMN meta SET STATISTICS 0, ALTER COLUMN id SET STATISTICS 0,
    ALTER COLUMN tenant SET STATISTICS 0, ALTER COLUMN source SET STATISTICS 0,
    ALTER COLUMN type SET STATISTICS 0, ALTER COLUMN importance SET STATISTICS 0,
    ALTER COLUMN pinned SET STATISTICS 0, ALTER COLUMN recorded_at SET STATISTICS 0,
    ALTER COLUMN start_line SET STATISTICS 0, ALTER COLUMN end_line SET STATISTICS 0,
    ALTER COLUMN embedding_model SET STATISTICS 0, ALTER COLUMN valid_from SET STATISTICS 0,
    ALTER COLUMN valid_to SET STATISTICS 0, ALTER COLUMN episode_id SET STATISTICS 0,
    ALTER COLUMN collection SET STATISTICS 0, ALTER COLUMN content_hash SET STATISTICS 10,
    ALTER COLUMN repo_id SET STATISTICS 10, ALTER COLUMN rev_from SET STATISTICS 10,
    ALTER COLUMN rev_to SET STATISTICS 10, ALTER COLUMN superseded_at SET STATISTICS 10,
    ALTER COLUMN is_test SET STATISTICS 10, ALTER COLUMN ts SET STATISTICS 10,
    ALTER COLUMN kind SET STATISTICS 10, ALTER COLUMN language SET STATISTICS 10,
    ALTER COLUMN path SET STATISTICS 10, ALTER COLUMN symbol SET STATISTICS 0,
    ALTER COLUMN name SET STATISTICS 10, ALTER COLUMN agent_id SET STATISTICS 10,
    ALTER COLUMN session_key SET STATISTICS 10, ALTER COLUMN tags SET STATISTICS 10;
ALTER TABLE posting
    ALTER COLUMN segment_id SET STATISTICS 10, ALTER COLUMN term SET STATISTICS 10,
    ALTER COLUMN body SET STATISTICS 0;
ALTER TABLE source_file
    ALTER COLUMN facts SET STATISTICS 0, ALTER COLUMN content_hash SET STATISTICS 0;
ALTER TABLE file_graph
    ALTER COLUMN nodes SET STATISTICS 0, ALTER COLUMN edges SET STATISTICS 0,
    ALTER COLUMN graph_hash SET STATISTICS 0;
