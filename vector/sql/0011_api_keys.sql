-- API keys and the digests of their secrets. Of all tenants, and asked before a caller's tenant is known:
-- the owner of the tables alone reaches them, the role that serves calls does not.
CREATE TABLE api_key (
    id text PRIMARY KEY,
    name text NOT NULL,
    tenant text NOT NULL,                 -- '': any, as the call says
    repositories text[] NOT NULL,         -- empty: all of the tenant
    verbs text[] NOT NULL CHECK (verbs <@ ARRAY['read', 'write', 'admin'] AND cardinality(verbs) > 0),
    calls_per_minute integer NOT NULL CHECK (calls_per_minute >= 0),      -- 0: no limit of its own
    max_request_bytes integer NOT NULL CHECK (max_request_bytes >= 0),
    max_concurrent integer NOT NULL CHECK (max_concurrent >= 0),
    made_by text NOT NULL,
    created_at timestamptz NOT NULL,
    rotated_at timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz
);

-- SHA-256 of each secret. `valid_until`: another one replaced it.
CREATE TABLE api_key_secret (
    digest bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
    key_id text NOT NULL REFERENCES api_key ON DELETE CASCADE,
    valid_until timestamptz
);
CREATE INDEX api_key_secret_key ON api_key_secret (key_id);
