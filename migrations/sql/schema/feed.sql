-- Few rows with an update for each batch, hence the fillfactor.
CREATE TABLE feeds (
    id uuid CONSTRAINT pk_feeds PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_feeds_tenant_id REFERENCES tenants ON DELETE CASCADE,
    slug text NOT NULL CONSTRAINT ck_feeds_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    kind text NOT NULL CONSTRAINT ck_feeds_kind CHECK (kind IN ('syslog', 'webhook')),
    settings jsonb NOT NULL,
    -- The tables that the feed follows.
    sources text[] NOT NULL,
    -- The secret of a webhook, or the private key of a syslog client's certificate.
    secret_sealed bytea,
    -- The previous secret. Both sign until `former_until`.
    former_secret_sealed bytea,
    former_secret_until timestamptz,
    status text NOT NULL DEFAULT 'active' CONSTRAINT ck_feeds_status CHECK (status IN ('active', 'paused')),
    paused_because text NOT NULL DEFAULT '',
    -- The snapshot of complete delivery. Beyond it, marks visible in `until` are delivered
    -- in id order up to `mark`. If `mark_at` is set, that mark is delivered up to its row
    -- (`mark_at`, `mark_row`).
    done text NOT NULL DEFAULT pg_current_snapshot()::text
        CONSTRAINT ck_feeds_done CHECK (done::pg_snapshot IS NOT NULL),
    until text CONSTRAINT ck_feeds_until CHECK (until IS NULL OR until::pg_snapshot IS NOT NULL),
    mark bigint NOT NULL DEFAULT 0,
    mark_at timestamptz,
    mark_row bigint NOT NULL DEFAULT 0,
    attempts int NOT NULL DEFAULT 0,
    attempted_at timestamptz,
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    failing_since timestamptz,
    failure text NOT NULL DEFAULT '',
    failure_reported_at timestamptz,
    delivered_at timestamptz,
    delivered bigint NOT NULL DEFAULT 0,
    -- Events that were not delivered in time and are not retried.
    lost bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- Number of delivered rows of the partly delivered mark.
    mark_rows bigint NOT NULL DEFAULT 0,
    -- Address and headers of a webhook.
    private_sealed bytea,
    -- Batch size of a slow receiver. It grows with each accepted batch.
    at_once int CONSTRAINT ck_feeds_at_once CHECK (at_once > 0),
    CONSTRAINT uq_feeds_tenant_id_slug UNIQUE (tenant_id, slug),
    CONSTRAINT uq_feeds_tenant_id_id UNIQUE (tenant_id, id),
    CONSTRAINT ck_feeds_settings CHECK (jsonb_typeof(settings) = 'object')
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, DELETE ON feeds TO admit_app;
GRANT SELECT ON feeds TO admit_worker;
GRANT UPDATE (
    slug, settings, sources, secret_sealed, former_secret_sealed, former_secret_until, status,
    paused_because, attempts, next_attempt_at, updated_at, private_sealed
) ON feeds TO admit_app;
GRANT UPDATE (
    status, paused_because, done, until, mark, mark_at, mark_row, attempts, attempted_at,
    next_attempt_at, failing_since, failure, failure_reported_at, delivered_at, delivered, lost, mark_rows,
    at_once
) ON feeds TO admit_worker;

-- Ranges of rows that a transaction wrote, for tenants with a feed. A range covers any number of
-- rows. Feeds follow the marks by transaction id, like replica_changes. No reference to the
-- tenant, because shippers must never be rejected.
CREATE TABLE feed_marks (
    id bigint CONSTRAINT pk_feed_marks PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL,
    -- Of a replay: for this feed only.
    feed_id uuid,
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT now(),
    source text NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    first_row bigint NOT NULL,
    last_row bigint NOT NULL,
    -- Unknown for a replay.
    events int,
    CONSTRAINT fk_feed_marks_tenant_id_feed_id FOREIGN KEY (tenant_id, feed_id)
        REFERENCES feeds (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_feed_marks_tenant_id_id ON feed_marks (tenant_id, id);
-- A feed does not read marks of tables that it does not follow.
CREATE INDEX ix_feed_marks_tenant_id_source_xact ON feed_marks (tenant_id, source, xact);
-- No statistics, as for endpoints (docs/adr/0014).
ALTER TABLE feed_marks ALTER tenant_id SET STATISTICS 0;
GRANT SELECT, INSERT ON feed_marks TO admit_app;
GRANT SELECT ON feed_marks TO admit_worker;

-- Events of objects that have no log, with the object's state at that time. Triggers insert them
-- in the transaction of the change. No reference to the tenant, because shippers must never be
-- rejected.
CREATE TABLE event_notes (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL,
    -- Start of the transaction, so that its notes are adjacent. `happened_at` is the time of
    -- the event.
    at timestamptz NOT NULL DEFAULT now(),
    kind text NOT NULL
        CONSTRAINT ck_event_notes_kind CHECK (kind IN ('session', 'alarm', 'endpoint', 'certificate')),
    what text NOT NULL,
    happened_at timestamptz NOT NULL,
    said jsonb NOT NULL,
    CONSTRAINT pk_event_notes PRIMARY KEY (tenant_id, at, id)
);
-- Deletion of old notes of all tenants.
CREATE INDEX ix_event_notes_at ON event_notes USING brin (at);
-- In delivery order. Otherwise the planner may sort the rest of a mark for each batch.
CREATE INDEX ix_event_notes_live ON event_notes (tenant_id, at, id) WHERE kind <> 'session';
-- No statistics, as for endpoints (docs/adr/0014).
ALTER TABLE event_notes ALTER tenant_id SET STATISTICS 0;
GRANT SELECT ON event_notes TO admit_app, admit_cell;
GRANT SELECT, DELETE ON event_notes TO admit_worker;

-- Approvals that end. No transaction ends them, so the worker notes each at its time.
CREATE TABLE endpoint_expiries (
    tenant_id uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    valid_until timestamptz NOT NULL,
    CONSTRAINT pk_endpoint_expiries PRIMARY KEY (tenant_id, endpoint_id),
    CONSTRAINT fk_endpoint_expiries_tenant_id_endpoint_id FOREIGN KEY (tenant_id, endpoint_id)
        REFERENCES endpoints (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_endpoint_expiries_valid_until ON endpoint_expiries (valid_until);
GRANT SELECT ON endpoint_expiries TO admit_app, admit_worker;
