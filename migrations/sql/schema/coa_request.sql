-- Requests to NASes about live sessions (RFC 5176). Agents take the rows in order of priority
-- and id, and store their progress.
CREATE TABLE coa_requests (
    id bigint CONSTRAINT pk_coa_requests PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL CONSTRAINT fk_coa_requests_tenant_id REFERENCES tenants ON DELETE CASCADE,
    session_row bigint NOT NULL,
    session_id text NOT NULL,
    nas_id uuid,
    nas_address inet,
    mac macaddr,
    reason text NOT NULL,
    certificate_serial text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'queued'
        CONSTRAINT ck_coa_requests_state CHECK (
            state IN ('queued', 'sending', 'acknowledged', 'refused', 'unanswered', 'unreachable', 'withdrawn',
                'expired')
        ),
    created_at timestamptz NOT NULL DEFAULT now(),
    kind text NOT NULL DEFAULT 'disconnect'
        CONSTRAINT ck_coa_requests_kind CHECK (kind IN ('disconnect', 'reauthenticate', 'bounce', 'change')),
    -- Of a change: [{"attribute": ..., "value": ..., "tag": ...}].
    attributes jsonb NOT NULL DEFAULT '[]',
    requested_by text NOT NULL DEFAULT '',
    -- The NAS's own name for itself, as in sessions.
    nas_key text NOT NULL DEFAULT '',
    nas_port text NOT NULL DEFAULT '',
    identity text NOT NULL DEFAULT '',
    framed_ip inet,
    -- The cell must have this transaction's changes before it sends. Otherwise the device
    -- would return with the old decision.
    after_xact xid8,
    expires_at timestamptz NOT NULL DEFAULT now() + interval '15 minutes',
    -- When an agent can take the row: immediately, or after the lease of an agent that died.
    due_at timestamptz NOT NULL DEFAULT now(),
    -- Number of times that agents took the row. An agent with an older number has lost it.
    takings int NOT NULL DEFAULT 0,
    -- Step of the vendor's recipe.
    step int NOT NULL DEFAULT 0,
    -- Packets. The agent increments it before it sends.
    attempts int NOT NULL DEFAULT 0,
    sent_at timestamptz,
    ended_at timestamptz,
    answer_code int,
    error_cause int,
    detail text NOT NULL DEFAULT '',
    -- The re-decision that caused the request.
    redecision_id bigint,
    -- Lowest first: the position among requests to the same NAS. Re-decisions come after all
    -- others.
    priority int NOT NULL DEFAULT 0,
    -- Number of postponements after no response.
    retries int NOT NULL DEFAULT 0
);
CREATE INDEX ix_coa_requests_tenant_id_id ON coa_requests (tenant_id, id);
CREATE INDEX ix_coa_requests_expires_at ON coa_requests (expires_at) WHERE state IN ('queued', 'sending');
CREATE INDEX ix_coa_requests_sending ON coa_requests (due_at) WHERE state = 'sending';
CREATE INDEX ix_coa_requests_redecision_id ON coa_requests (redecision_id) WHERE redecision_id IS NOT NULL;
CREATE INDEX ix_coa_requests_tenant_id_session_row ON coa_requests (tenant_id, session_row);
-- One request per reason, so that the withdrawal of one reason keeps the others. Changes add up
-- in their order.
CREATE UNIQUE INDEX uq_coa_requests_queued ON coa_requests (tenant_id, session_row, kind, reason)
    WHERE state = 'queued' AND kind <> 'change';
CREATE INDEX ix_coa_requests_waiting ON coa_requests (tenant_id, priority, id)
    WHERE state IN ('queued', 'sending');
-- Agents send one request per session at a time, and check each candidate. The index keeps this
-- fast for long queues without statistics.
CREATE INDEX ix_coa_requests_session_row ON coa_requests (session_row) WHERE state IN ('queued', 'sending');
-- Replays of feeds read in this order.
CREATE INDEX ix_coa_requests_tenant_id_created_at_id ON coa_requests (tenant_id, created_at, id);
-- The requests to one NAS, newest first.
CREATE INDEX ix_coa_requests_tenant_id_nas_id ON coa_requests (tenant_id, nas_id, id);
-- No statistics, as for endpoints (docs/adr/0014).
ALTER TABLE coa_requests ALTER tenant_id SET STATISTICS 0;
GRANT SELECT, INSERT, UPDATE, DELETE ON coa_requests TO admit_app, admit_worker;
GRANT SELECT ON coa_requests TO admit_cell;
GRANT UPDATE (
    state, due_at, takings, step, attempts, sent_at, ended_at, answer_code, error_cause, detail, retries
) ON coa_requests TO admit_cell;
