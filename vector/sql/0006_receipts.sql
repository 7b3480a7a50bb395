-- A recall that read while `forget` or the removal of a repository was not committed yet has a later time
-- than what they record, so times alone don't tell that it holds some of what went: whether all of its
-- items are still there does.
CREATE OR REPLACE FUNCTION recall_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
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
