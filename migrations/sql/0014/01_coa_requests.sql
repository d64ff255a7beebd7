ALTER TABLE coa_requests DROP CONSTRAINT ck_coa_requests_state;
UPDATE coa_requests SET state = CASE state WHEN 'done' THEN 'acknowledged' WHEN 'failed' THEN 'refused' ELSE state END;
ALTER TABLE coa_requests
    ADD COLUMN kind text NOT NULL DEFAULT 'disconnect'
        CONSTRAINT ck_coa_requests_kind CHECK (kind IN ('disconnect', 'reauthenticate', 'bounce', 'change')),
    -- Of a change: [{"attribute": ..., "value": ..., "tag": ...}].
    ADD COLUMN attributes jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN asked_by text NOT NULL DEFAULT '',
    -- What the NAS said of itself and of the session, beside what is there already.
    ADD COLUMN nas_key text NOT NULL DEFAULT '',
    ADD COLUMN nas_port text NOT NULL DEFAULT '',
    ADD COLUMN identity text NOT NULL DEFAULT '',
    ADD COLUMN framed_ip inet,
    -- The cell must know what this transaction has changed before it sends: else the device comes back as before.
    ADD COLUMN after_xact xid8,
    ADD COLUMN expires_at timestamptz NOT NULL DEFAULT now() + interval '15 minutes',
    -- When it may be taken: at once and, by whoever comes after an agent that has died, once that one's time is over.
    ADD COLUMN due_at timestamptz NOT NULL DEFAULT now(),
    -- How often an agent has taken it; a number of theirs that is not the last one counts no more.
    ADD COLUMN takings int NOT NULL DEFAULT 0,
    -- Of the vendor's recipe.
    ADD COLUMN step int NOT NULL DEFAULT 0,
    -- Packets that were about to be sent when this was written.
    ADD COLUMN attempts int NOT NULL DEFAULT 0,
    ADD COLUMN sent_at timestamptz,
    ADD COLUMN ended_at timestamptz,
    ADD COLUMN answer_code int,
    ADD COLUMN error_cause int,
    ADD COLUMN detail text NOT NULL DEFAULT '',
    ADD CONSTRAINT ck_coa_requests_state CHECK (
        state IN ('queued', 'sending', 'acknowledged', 'refused', 'unanswered', 'unreachable', 'withdrawn', 'expired')
    );
DROP INDEX uq_coa_requests_queued;
CREATE UNIQUE INDEX uq_coa_requests_queued ON coa_requests (tenant_id, session_row, kind) WHERE state = 'queued';
CREATE INDEX ix_coa_requests_waiting ON coa_requests (tenant_id, id) WHERE state IN ('queued', 'sending');
CREATE INDEX ix_coa_requests_expires_at ON coa_requests (expires_at) WHERE state IN ('queued', 'sending');
CREATE INDEX ix_coa_requests_sending ON coa_requests (due_at) WHERE state = 'sending';

CREATE POLICY cell_update ON coa_requests FOR UPDATE TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
GRANT UPDATE (state, due_at, takings, step, attempts, sent_at, ended_at, answer_code, error_cause, detail)
    ON coa_requests TO admit_cell;

CREATE FUNCTION tell_coa_requests() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('coa_requests', '');
    RETURN NULL;
END
$$;
REVOKE EXECUTE ON FUNCTION tell_coa_requests() FROM PUBLIC;
CREATE TRIGGER tell AFTER INSERT ON coa_requests FOR EACH STATEMENT EXECUTE FUNCTION tell_coa_requests();
