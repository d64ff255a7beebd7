-- Where a change came from.
ALTER TABLE audit_log ADD COLUMN address inet, ADD COLUMN request_id text;
