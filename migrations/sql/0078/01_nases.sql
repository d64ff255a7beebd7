-- What a NAS sends as the password of a MAC address: the address itself, a fixed text, its shared secret, or none.
ALTER TABLE nases
    ADD COLUMN mab_password text NOT NULL DEFAULT 'mac'
        CONSTRAINT ck_nases_mab_password CHECK (mab_password IN ('mac', 'fixed', 'secret', 'empty')),
    -- The fixed text. A file of a tenant without secrets brings none: nothing is admitted by it then.
    ADD COLUMN mab_password_sealed bytea
        CONSTRAINT ck_nases_mab_password_sealed CHECK (mab_password_sealed IS NULL OR mab_password = 'fixed'),
    -- A request without Calling-Station-Id and Service-Type is of the device whose MAC address is its name.
    ADD COLUMN mab_by_name boolean NOT NULL DEFAULT false;
