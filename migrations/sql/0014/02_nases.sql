ALTER TABLE nases
    -- Nothing that is sent to it arrives.
    ADD COLUMN behind_nat boolean NOT NULL DEFAULT false,
    -- Its answers to requests about sessions count with a Message-Authenticator alone.
    ADD COLUMN signs_coa_answers boolean NOT NULL DEFAULT false;
-- Session-Timeout at such NASes; 0 for none.
ALTER TABLE tenants ADD COLUMN nat_session_seconds int NOT NULL DEFAULT 0
    CONSTRAINT ck_tenants_nat_session_seconds CHECK (nat_session_seconds = 0 OR nat_session_seconds BETWEEN 60 AND 86400);
