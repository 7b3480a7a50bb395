-- Recall: how a memory's anchor read when it was recorded, receipts, feedback.
-- docs/schema-postgres.md gives the reason of every table.

-- Recall follows the code graph from the truth; its policy is from 0003.
GRANT SELECT ON file_graph TO plait_app;

-- SHA-256 of the anchored chunks' content hashes at the time of recording (vector/anchored.py); NULL: no
-- anchor, or not known.
ALTER TABLE item ADD COLUMN anchor_hash bytea;
ALTER TABLE item ALTER COLUMN anchor_hash SET STATISTICS 0;
-- A path alone is anchored in its file; its policy is from 0003.
GRANT SELECT (content_hash) ON source_file TO plait_app;

-- What a recall answered: enough to attribute feedback, to keep a session from being shown the same
-- again, and to answer once more as of its times. Written once, by one statement; collected after
-- `recall.keep_s`. Arrays instead of a row an item: a receipt is written with every recall, and read
-- rarely.
CREATE TABLE recall (
    id          uuid PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    repo_id     integer NOT NULL,               -- the first of `repo_ids`
    repo_ids    integer[] NOT NULL DEFAULT '{}',
    session_key text COLLATE "C" NOT NULL DEFAULT '',
    agent_id    text COLLATE "C" NOT NULL DEFAULT '',
    request     jsonb NOT NULL DEFAULT '{}',
    revisions   jsonb NOT NULL DEFAULT '{}',    -- by qualified name
    at          timestamptz NOT NULL,           -- valid and recorded time of the answer
    item_ids    uuid[] NOT NULL DEFAULT '{}',   -- best first
    scores      real[] NOT NULL DEFAULT '{}',
    shown       uuid[] NOT NULL DEFAULT '{}',   -- what the cool-down left out
    tokens      integer NOT NULL DEFAULT 0,
    digest      bytea NOT NULL DEFAULT '',
    complete    boolean NOT NULL DEFAULT true,
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX recall_session ON recall (tenant, session_key, created_at) WHERE session_key <> '';
CREATE INDEX recall_created ON recall (created_at);
-- Statistics keep values of columns: none of what an agent asked, or was shown.
ALTER TABLE recall ALTER COLUMN request SET STATISTICS 0, ALTER COLUMN item_ids SET STATISTICS 0,
      ALTER COLUMN shown SET STATISTICS 0, ALTER COLUMN digest SET STATISTICS 0,
      ALTER COLUMN scores SET STATISTICS 0;

-- Nobody keeps a receipt of what is being forgotten: `forget` has the lock (vector/locks.py, RECALLING)
-- from before it removes receipts until it is committed, so that this one is refused, and what it
-- committed since `at` is seen here, since each statement of this function reads anew. A memory that was
-- written or closed since `at` may or may not be in the answer, so that a replay may differ.
-- A recall that read while `forget` or the removal of a repository was not committed yet has a later time
-- than what they record, so times alone don't tell that it holds some of what went: whether all of its
-- items are still there does.
CREATE FUNCTION recall_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The answer waits for this, and a flush takes longer than the rest of it: a receipt is seen by all at
    -- once and on disk within three rounds of the log's writer, 0.6 s, or with the next durable commit.
    -- Should the server itself be killed before that, feedback on it is answered RECALL_UNKNOWN.
    PERFORM set_config('synchronous_commit', 'off', true);
    IF EXISTS (SELECT FROM unnest(NEW.repo_ids) AS r
                WHERE NOT pg_try_advisory_xact_lock_shared(1347158020, r)) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM plait.forgotten f
                WHERE f.repo_id = ANY(NEW.repo_ids) AND f.at > NEW.at) THEN
        RETURN NULL;
    END IF;
    IF (SELECT count(DISTINCT id) FROM unnest(NEW.item_ids || NEW.shown) AS asked (id))
       > (SELECT count(*) FROM plait.item i WHERE i.id = ANY(NEW.item_ids || NEW.shown)) THEN
        RETURN NULL;
    END IF;
    NEW.complete := NEW.complete AND NOT EXISTS (
        SELECT FROM plait.repo_clock c WHERE c.repo_id = ANY(NEW.repo_ids) AND c.at > NEW.at);
    RETURN NEW;
END $$;
CREATE TRIGGER recall_is_kept BEFORE INSERT ON recall FOR EACH ROW EXECUTE FUNCTION recall_is_kept();
CREATE INDEX forgotten_at ON forgotten (repo_id, at);

-- Reports of what became of a recall, each answered once: a repeat gets the first answer.
CREATE TABLE feedback (
    tenant     text COLLATE "C" NOT NULL,
    request_id text NOT NULL,
    id         uuid NOT NULL,                   -- of the call that wrote it
    repo_id    integer NOT NULL,
    recall_id  uuid NOT NULL,
    body_hash  bytea NOT NULL DEFAULT '',       -- empty: forgotten
    outcome    text NOT NULL DEFAULT '',        -- success, failure, partial, unknown
    proof      text[] NOT NULL DEFAULT '{}',
    accepted   integer NOT NULL DEFAULT 0,
    unknown    uuid[] NOT NULL DEFAULT '{}',
    attributed integer NOT NULL DEFAULT 0,
    links      integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, request_id)
);
CREATE INDEX feedback_recall ON feedback (recall_id);
CREATE INDEX feedback_created ON feedback (created_at);
ALTER TABLE feedback ALTER COLUMN proof SET STATISTICS 0, ALTER COLUMN unknown SET STATISTICS 0;

-- What a recall's feedback attributes to one of its items: at most one living row for both, so that no
-- recall counts twice. Closed by a later report, never changed, so that an earlier time reads the same.
CREATE TABLE feedback_item (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant        text COLLATE "C" NOT NULL,
    repo_id       integer NOT NULL,
    recall_id     uuid NOT NULL,
    item_id       uuid NOT NULL,
    agent_id      text COLLATE "C" NOT NULL DEFAULT '',
    session_key   text COLLATE "C" NOT NULL DEFAULT '',
    named         boolean NOT NULL DEFAULT false,  -- by a verdict; else attributed from the outcome
    helped        real NOT NULL DEFAULT 0,
    harmed        real NOT NULL DEFAULT 0,
    comment       text NOT NULL DEFAULT '',
    recorded_at   timestamptz NOT NULL,
    superseded_at timestamptz
);
CREATE UNIQUE INDEX feedback_item_once ON feedback_item (item_id, recall_id)
    WHERE superseded_at IS NULL;
CREATE INDEX feedback_item_of ON feedback_item (item_id);
CREATE INDEX feedback_item_recorded ON feedback_item (recorded_at);
ALTER TABLE feedback_item ALTER COLUMN comment SET STATISTICS 0, ALTER COLUMN item_id SET STATISTICS 0;

DO $$
DECLARE
    name text;
    owned text := 'tenant = current_setting(''plait.tenant'', true)'
               || ' AND EXISTS (SELECT FROM plait.repository r WHERE r.id = repo_id'
               || ' AND r.tenant = current_setting(''plait.tenant'', true))';
BEGIN
    FOREACH name IN ARRAY ARRAY['recall', 'feedback', 'feedback_item'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant ON %I USING (%s) WITH CHECK (%s)', name, owned, owned);
    END LOOP;
END $$;
GRANT SELECT, INSERT ON recall, feedback TO plait_app;
GRANT SELECT, INSERT, UPDATE ON feedback_item TO plait_app;
