CREATE TABLE feeds (
    id uuid CONSTRAINT pk_feeds PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_feeds_tenant_id REFERENCES tenants ON DELETE CASCADE,
    slug text NOT NULL CONSTRAINT ck_feeds_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    kind text NOT NULL CONSTRAINT ck_feeds_kind CHECK (kind IN ('syslog', 'webhook')),
    settings jsonb NOT NULL,
    -- Of the tables that are followed for it.
    sources text[] NOT NULL,
    -- The secret of a webhook, or the private key of a syslog client's certificate.
    secret_sealed bytea,
    -- After a change of the secret, both sign until then.
    former_secret_sealed bytea,
    former_secret_until timestamptz,
    status text NOT NULL DEFAULT 'active' CONSTRAINT ck_feeds_status CHECK (status IN ('active', 'paused')),
    paused_because text NOT NULL DEFAULT '',
    -- Everything that is visible in `done` was delivered. Of what else is visible in `until`, in the order of the marks'
    -- ids, everything up to `mark`; where `mark_at` is set, that mark up to its row of `mark_at` and `mark_row`.
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
    told_failing_at timestamptz,
    delivered_at timestamptz,
    delivered bigint NOT NULL DEFAULT 0,
    -- Events that were not delivered in time and are not tried any more.
    lost bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_feeds_tenant_id_slug UNIQUE (tenant_id, slug),
    CONSTRAINT uq_feeds_tenant_id_id UNIQUE (tenant_id, id)
) WITH (fillfactor = 50); -- a few rows, updated with every batch

-- Which rows a transaction has written, for the tenants that have a feed: some ranges, however many rows. Followed by
-- transaction id, as replica_changes are. Without a reference to the tenant: a shipper must never be refused.
CREATE TABLE feed_marks (
    id bigint CONSTRAINT pk_feed_marks PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL,
    -- Of a replay: for this one alone.
    feed_id uuid,
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT now(),
    source text NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    first_row bigint NOT NULL,
    last_row bigint NOT NULL,
    -- Unknown of a replay.
    events int,
    CONSTRAINT fk_feed_marks_tenant_id_feed_id FOREIGN KEY (tenant_id, feed_id) REFERENCES feeds (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_feed_marks_tenant_id_xact ON feed_marks (tenant_id, xact);
CREATE INDEX ix_feed_marks_tenant_id_id ON feed_marks (tenant_id, id);

GRANT SELECT, INSERT, DELETE ON feeds TO admit_app;
GRANT UPDATE (
    settings, sources, secret_sealed, former_secret_sealed, former_secret_until, status, paused_because, attempts, next_attempt_at, updated_at
) ON feeds TO admit_app;
GRANT SELECT, INSERT ON feed_marks TO admit_app;
GRANT SELECT ON feeds, feed_marks TO admit_worker;
GRANT UPDATE (
    status, paused_because, done, until, mark, mark_at, mark_row, attempts, attempted_at, next_attempt_at, failing_since, failure,
    told_failing_at, delivered_at, delivered, lost
) ON feeds TO admit_worker;

-- Whether a feed has delivered a mark.
CREATE FUNCTION feed_has(f feeds, m feed_marks) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT pg_visible_in_snapshot(m.xact, f.done::pg_snapshot) OR coalesce(
        pg_visible_in_snapshot(m.xact, f.until::pg_snapshot) AND (m.id < f.mark OR (m.id = f.mark AND f.mark_at IS NULL)), false
    )
$$;
-- Whether it is to deliver it at all.
CREATE FUNCTION feed_wants(f feeds, m feed_marks) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT m.tenant_id = f.tenant_id AND m.source = ANY (f.sources) AND (m.feed_id IS NULL OR m.feed_id = f.id)
$$;

-- By the hour, so that one record of long ago does not make a range of days.
CREATE FUNCTION mark_for_feeds() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM feeds) THEN
        RETURN NULL;
    END IF;
    INSERT INTO feed_marks (tenant_id, source, first_at, last_at, first_row, last_row, events)
    SELECT a.tenant_id, TG_TABLE_NAME, min(a.at), max(a.at), min(a.id), max(a.id), count(*)
    FROM added a
    WHERE a.tenant_id IN (SELECT f.tenant_id FROM feeds f WHERE TG_TABLE_NAME = ANY (f.sources))
    GROUP BY a.tenant_id, date_trunc('hour', a.at, 'UTC')
    ORDER BY min(a.at);
    RETURN NULL;
END
$$;
CREATE TRIGGER mark_for_feeds AFTER INSERT ON auth_log REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION mark_for_feeds();
CREATE TRIGGER mark_for_feeds AFTER INSERT ON accounting_log REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION mark_for_feeds();
CREATE TRIGGER mark_for_feeds AFTER INSERT ON audit_log REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION mark_for_feeds();

-- A request to a NAS is told of once, when it has ended.
CREATE FUNCTION mark_request_for_feeds() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO feed_marks (tenant_id, source, first_at, last_at, first_row, last_row, events)
    SELECT NEW.tenant_id, TG_TABLE_NAME, NEW.created_at, NEW.created_at, NEW.id, NEW.id, 1
    WHERE EXISTS (SELECT FROM feeds f WHERE f.tenant_id = NEW.tenant_id AND TG_TABLE_NAME = ANY (f.sources));
    RETURN NULL;
END
$$;
CREATE TRIGGER mark_for_feeds AFTER UPDATE ON coa_requests FOR EACH ROW
    WHEN (OLD.state IN ('queued', 'sending') AND NEW.state NOT IN ('queued', 'sending'))
    EXECUTE FUNCTION mark_request_for_feeds();

-- Which feeds have something to send: the worker acts in the scope of one tenant at a time.
CREATE FUNCTION feeds_due() RETURNS TABLE (id uuid, tenant_id uuid, failing boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT f.id, f.tenant_id, f.failing_since IS NOT NULL
    FROM feeds f LEFT JOIN LATERAL (
        SELECT m.id FROM feed_marks m
        WHERE m.tenant_id = f.tenant_id AND m.xact >= pg_snapshot_xmin(f.done::pg_snapshot)
            AND NOT pg_visible_in_snapshot(m.xact, f.done::pg_snapshot) AND feed_wants(f, m)
        -- By the index, whatever is kept for others that are behind.
        ORDER BY m.tenant_id, m.xact LIMIT 1
    ) waiting ON true
    WHERE f.status = 'active' AND f.next_attempt_at <= clock_timestamp() AND (f.until IS NOT NULL OR waiting.id IS NOT NULL)
    ORDER BY f.attempted_at NULLS FIRST
$$;

-- A database that was restored from a dump counts transactions anew: what positions and marks of before say of them is wrong.
-- Such feeds send everything again that has a mark.
CREATE FUNCTION restart_restored_feeds() RETURNS SETOF uuid
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM feeds WHERE pg_snapshot_xmax(done::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot())) THEN
        RETURN;
    END IF;
    UPDATE feed_marks SET xact = pg_current_xact_id() WHERE xact > pg_current_xact_id();
    RETURN QUERY UPDATE feeds SET done = '1:1:', until = NULL, mark = 0, mark_at = NULL, mark_row = 0
    WHERE pg_snapshot_xmax(done::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot()) RETURNING id;
END
$$;

-- Marks that nobody needs go; those older than `keep` go in any case, and what was not delivered of them is counted.
CREATE FUNCTION prune_feed_marks(keep interval) RETURNS TABLE (tenant_id uuid, slug text, dropped bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM feed_marks m WHERE NOT EXISTS (
        SELECT FROM feeds f WHERE f.tenant_id = m.tenant_id AND feed_wants(f, m) AND NOT feed_has(f, m)
    );
    RETURN QUERY
    WITH gone AS (
        DELETE FROM feed_marks m WHERE m.at < now() - keep RETURNING m.*
    ), missed AS (
        SELECT f.id, sum(coalesce(g.events, 0))::bigint AS events FROM gone g JOIN feeds f ON f.tenant_id = g.tenant_id
        WHERE feed_wants(f, g) AND NOT feed_has(f, g) GROUP BY f.id
    )
    UPDATE feeds f SET lost = f.lost + x.events FROM missed x WHERE f.id = x.id RETURNING f.tenant_id, f.slug, x.events;
END
$$;
REVOKE EXECUTE ON FUNCTION mark_for_feeds(), mark_request_for_feeds(), feeds_due(), prune_feed_marks(interval), restart_restored_feeds(),
    feed_has(feeds, feed_marks), feed_wants(feeds, feed_marks) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION feed_has(feeds, feed_marks), feed_wants(feeds, feed_marks) TO admit_app, admit_worker;
GRANT EXECUTE ON FUNCTION feeds_due(), prune_feed_marks(interval), restart_restored_feeds() TO admit_worker;
