-- The worker forgets what is long over.
CREATE INDEX ix_sign_ins_last_seen_at ON sign_ins (last_seen_at);
CREATE POLICY pruning ON sign_in_attempts TO admit_worker USING (scope_is_platform());
CREATE POLICY pruning ON spent_challenges TO admit_worker USING (scope_is_platform());
GRANT SELECT, DELETE ON sign_in_attempts, spent_challenges TO admit_worker;
