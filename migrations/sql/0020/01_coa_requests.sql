ALTER TABLE coa_requests
    -- The lower, the sooner: which one about its NAS it was of those that were asked together, and what follows from
    -- re-decisions behind all else.
    ADD COLUMN priority int NOT NULL DEFAULT 0,
    -- How often nobody answered and it was put off.
    ADD COLUMN retries int NOT NULL DEFAULT 0;
GRANT UPDATE (retries) ON coa_requests TO admit_cell;

-- Of each reason a request of its own: what takes back one reason leaves the others. Changes add up, in their order.
DROP INDEX uq_coa_requests_queued;
CREATE UNIQUE INDEX uq_coa_requests_queued ON coa_requests (tenant_id, session_row, kind, reason)
    WHERE state = 'queued' AND kind <> 'change';
DROP INDEX ix_coa_requests_waiting;
CREATE INDEX ix_coa_requests_waiting ON coa_requests (tenant_id, priority, id) WHERE state IN ('queued', 'sending');
-- Of one session one at a time: looked up for each that may be taken, however many wait and nobody has analysed yet.
CREATE INDEX ix_coa_requests_session_row ON coa_requests (session_row) WHERE state IN ('queued', 'sending');
