-- What has befallen a thing that has no log of its own, in the words of that moment: a row may say something else when it
-- is read. Written by triggers in the transaction that does it, so it is told if and only if it was done. Without a
-- reference to the tenant: a shipper must never be refused.
CREATE TABLE event_notes (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL,
    -- Of the transaction, whose notes lie side by side; when it happened is another matter.
    at timestamptz NOT NULL DEFAULT now(),
    kind text NOT NULL CONSTRAINT ck_event_notes_kind CHECK (kind IN ('session', 'alarm', 'endpoint', 'certificate')),
    what text NOT NULL,
    happened_at timestamptz NOT NULL,
    said jsonb NOT NULL,
    CONSTRAINT pk_event_notes PRIMARY KEY (tenant_id, at, id)
);
-- For those that are old, of whichever tenant.
CREATE INDEX ix_event_notes_at ON event_notes USING brin (at);
-- What is told live: sessions lie between by the thousand.
CREATE INDEX ix_event_notes_live ON event_notes (tenant_id, at) WHERE kind <> 'session';
GRANT SELECT ON event_notes TO admit_app, admit_worker;
GRANT DELETE ON event_notes TO admit_worker;
-- What the cell's own tenants are told live.
CREATE POLICY cell_scope ON event_notes FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
GRANT SELECT ON event_notes TO admit_cell;

CREATE FUNCTION mark_notes_for_feeds() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO feed_marks (tenant_id, source, first_at, last_at, first_row, last_row, events)
    SELECT a.tenant_id, a.kind, min(a.at), max(a.at), min(a.id), max(a.id), count(*)
    FROM added a
    WHERE EXISTS (SELECT FROM feeds f WHERE f.tenant_id = a.tenant_id AND a.kind = ANY (f.sources))
    GROUP BY a.tenant_id, a.kind;
    RETURN NULL;
END
$$;
CREATE TRIGGER mark_for_feeds AFTER INSERT ON event_notes REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION mark_notes_for_feeds();

-- A batch at a time, so that nobody waits for it; returns how many.
CREATE FUNCTION prune_event_notes(keep interval, most int) RETURNS int
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    gone int;
BEGIN
    DELETE FROM event_notes WHERE ctid = ANY (ARRAY(SELECT ctid FROM event_notes WHERE at < now() - keep LIMIT most));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END
$$;
REVOKE EXECUTE ON FUNCTION mark_notes_for_feeds(), prune_event_notes(interval, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION prune_event_notes(interval, int) TO admit_worker;
