CREATE TABLE msps (
    id uuid CONSTRAINT pk_msps PRIMARY KEY DEFAULT gen_random_uuid(),
    slug text NOT NULL
        CONSTRAINT uq_msps_slug UNIQUE
        CONSTRAINT ck_msps_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- How long a deleted tenant can be restored.
    deletion_days int NOT NULL DEFAULT 30
        CONSTRAINT ck_msps_deletion_days CHECK (deletion_days BETWEEN 1 AND 365),
    -- While an MSP is suspended, its grants to people and programs have no effect.
    status text NOT NULL DEFAULT 'active' CONSTRAINT ck_msps_status CHECK (status IN ('active', 'suspended'))
);
GRANT SELECT, INSERT, UPDATE, DELETE ON msps TO admit_app, admit_worker;
