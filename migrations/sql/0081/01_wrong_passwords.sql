-- Wrong passwords per user name within the window after which that user's logins are rejected unheard.
ALTER TABLE tenants
    ADD COLUMN password_failure_limit int NOT NULL DEFAULT 20
        CONSTRAINT ck_tenants_password_failure_limit CHECK (password_failure_limit > 0),
    ADD COLUMN password_failure_window_seconds int NOT NULL DEFAULT 900
        CONSTRAINT ck_tenants_password_failure_window CHECK (password_failure_window_seconds BETWEEN 1 AND 3600);
